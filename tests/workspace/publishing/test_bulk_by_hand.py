"""Parts by hand: a person edits, deletes, breaks and mends them, and they merge by node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.codec import bulk, paths
from kgd.codec.settings import Settings
from kgd.errors import Forbidden, Invalid
from kgd.git.objects import Signature
from kgd.git.refs import RefUpdate
from kgd.git.staging import Staging
from kgd.hooks.push_check import Pushed, check_push
from kgd.model.access import Policy, Principal, Scope, Verb
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import parts
from kgd.workspace.check import check
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.hand_edits import HandEdit
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Touched, authorize_all
from tests.builders import ANN, WS, change, upsert, uri
from tests.workspace.people import Desk, code_layout, eventually, hurry

ONE, TWO, THREE = (Uri(f"message://ws/talk/{n}") for n in (1, 2, 3))
PART = f"bulk/message/{paths.shard(b'talk')}/talk/0001.yaml"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    hurry(monkeypatch)
    ws = Workspace.open(code_layout(tmp_path / "code"))
    ws.submit(change(upsert(ONE, content="first\n"), upsert(TWO, content="second\n")))
    yield Desk(ws)
    ws.close()


def content(ws: Workspace, uri: Uri) -> str | None:
    node = ws.node(uri)
    return node.content if node else None


@pytest.mark.slow
def test_a_part_is_published_edited_by_hand_broken_mended_and_deleted(desk: Desk) -> None:
    ws = desk.ws
    desk.published()
    file = ws.layout.work_tree / PART
    good = file.read_text()
    file.write_text(good.replace("second", "by hand"))
    ws.hint([str(file)])
    eventually(lambda: content(ws, TWO) == "by hand\n")
    desk.published()
    assert desk.subjects("-1") == [f"Ann Person: edit {TWO} by hand"]
    assert (ws.version(ws.path(ONE)), ws.version(ws.path(TWO))) == (1, 2)
    file.write_text(good.replace("talk/2", "other/2"))
    ws.hint([str(file)])
    eventually(lambda: [found.path for found in ws.invalid_files()] == [PART])
    assert content(ws, TWO) == "by hand\n"
    file.write_text(good.replace("second", "mended"))
    ws.hint([str(file)])
    eventually(lambda: content(ws, TWO) == "mended\n" and not ws.invalid_files())
    desk.published()
    file.unlink()
    ws.hint([str(file)])
    eventually(lambda: content(ws, ONE) is content(ws, TWO) is None)
    desk.published()
    assert check(ws) == []


def test_a_person_and_an_agent_can_write_into_one_part(desk: Desk) -> None:
    ws = desk.ws
    tree = ws.store.tree_of(bytes.fromhex(ws.tip))
    base = ws.store.read(ws.store.entry(tree, PART) or b"")
    ws.submit(change(upsert(ONE, name="By agent"), upsert(THREE)))
    mine = bulk.encode(bulk.Part((Node(ONE, content="first\n"), Node(TWO, content="mine\n"), Node(Uri(f"{ONE}0")))))
    ws.run(adoption.commit_edits(ws, [HandEdit(PART, mine, base)], ANN, 1))
    assert sorted(ws.graph.uris()) == [ONE, Uri(f"{ONE}0"), TWO, THREE]
    one, two = ws.node(ONE), ws.node(TWO)
    assert one
    assert two
    assert (one.name, two.content) == ("By agent", "mine\n")
    assert check(ws) == []


def may_write(path: str) -> Principal:
    return Principal("tok00001", "agent", "agent", (Scope.of(WS, ["write"], [path]),))


def test_each_message_needs_its_own_scope_even_when_a_write_splits_the_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws, bob = desk.ws, may_write("/talk/2")

    def permit(touched: Touched, policy: Policy) -> None:
        authorize_all(bob, policy, Verb.WRITE, touched)

    monkeypatch.setattr(parts, "WRITTEN", parts.Capacity(300, 400))
    ws.submit(change(upsert(TWO, name="n", data={"long": "x" * 400})), permit=permit)
    assert ws.part_of(ONE) != ws.part_of(TWO)
    with pytest.raises(Forbidden, match="talk/1"):
        ws.submit(change(upsert(TWO, name="m"), upsert(ONE, name="m")), permit=permit)
    assert (ws.version(ws.path(ONE)), ws.version(ws.path(TWO))) == (1, 2)


def test_a_push_needs_the_scope_of_its_changed_messages_and_a_broken_part_is_refused(desk: Desk) -> None:
    ws, bob = desk.ws, may_write("/talk/2")
    tip = bytes.fromhex(ws.tip)

    def push(*nodes: Node, path: str = PART) -> None:
        staging = Staging(ws.store, ws.store.tree_of(tip))
        staging.put(path, bulk.encode(bulk.Part(nodes)))
        commit = staging.commit(staging.write_tree(), [tip], Signature("Bob", "bob@example.org", 2), "x")
        ws.store.release(ws.store.write(staging.objects))
        pushed = Pushed(ws.store, bob, Settings(WS), "refs/heads/server")
        check_push(pushed, [RefUpdate(pushed.branch, tip, commit)])

    one, two = Node(ONE, content="first\n"), Node(TWO, content="second\n")
    push(one, Node(TWO, content="theirs\n"))
    with pytest.raises(Forbidden):
        push(Node(ONE, content="theirs\n"), two)
    with pytest.raises(Forbidden):
        push(two)
    with pytest.raises(Forbidden):
        push(Node(ONE, content="theirs\n"), path=PART.replace("0001", "0000"))
    for wrong in (Node(Uri("message://ws/else/2")), Node(Uri("message://other/talk/2")), Node(uri("talk/2"))):
        with pytest.raises((Forbidden, Invalid)):
            push(one, two, wrong)
