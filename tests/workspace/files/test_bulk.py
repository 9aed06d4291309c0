"""Parts of threads and documents: many nodes in one file, without a difference for readers, writers and history."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kgd.codec import bulk, documents, paths
from kgd.errors import InvariantViolation, Stale
from kgd.model.change import Append, Delete, Edit, Move, Relate, Revert
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import parts
from kgd.workspace.check import check
from kgd.workspace.served import Served
from kgd.workspace.workspace import Workspace
from tests.builders import change, commit_file, to, upsert

Reopen = Callable[[], Workspace]
TALK = f"bulk/message/{paths.shard(b'talk')}/talk"


@pytest.fixture
def ws(reopen: Reopen) -> Workspace:
    return reopen()


def message(number: int, thread: str = "talk") -> Uri:
    return Uri(f"message://ws/{thread}/{number:06d}")


def files(ws: Workspace) -> dict[str, bytes]:
    tree = ws.store.tree_of(bytes.fromhex(ws.tip))
    return {f.path: ws.store.read(f.id) for f in ws.store.files(tree) if f.path.startswith(("nodes/", "bulk/"))}


def part(*nodes: Node, source: str = "") -> str:
    return bulk.encode(bulk.Part(nodes, source)).decode()


def reloaded(ws: Workspace) -> Workspace:
    """The workspace, after checking that a fresh load of the tip agrees."""
    fresh = Served(ws.store, ws.id, ws.sharded, ws.past.last_good)
    fresh.load(ws.store.tree_of(bytes.fromhex(ws.tip)))
    for uri in {*fresh.graph.uris(), *ws.graph.uris()}:
        assert fresh.graph.card(uri) == ws.graph.card(uri), uri
        assert list(fresh.graph.out(uri)) == list(ws.graph.out(uri)), uri
        assert fresh.bytes_of(uri) == ws.stored(uri), uri
    assert [f.path for f in fresh.invalid_files()] == [f.path for f in ws.invalid_files()]
    return ws


def text_of(node: Node | None) -> str | None:
    return node.content if node else None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_random_changes_agree_with_a_plain_model(reopen: Reopen, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "OPEN_BYTES", 3_000)
    monkeypatch.setattr(parts, "WRITTEN", parts.Capacity(6_000, 400))
    rnd, ws = random.Random(seed), reopen()
    model: dict[Uri, str] = {}
    versions: Counter[Uri] = Counter()
    uris = [
        Uri(f"{kind}/{n}") for kind in ("message://ws/talk", "message://ws/a/b", "chunk://ws/book") for n in range(40)
    ]
    for _ in range(60):
        edits: list[Edit] = []
        free = rnd.sample(sorted({*uris, *model}), rnd.choice((1, 2, 12)))
        for uri in free:
            text = "w" * rnd.choice((1, 40, 900)) + f" {rnd.random()}\n"
            match rnd.randrange(6) if uri in model else 0:
                case 0 | 1 | 2:
                    edits.append(Delete(uri)) if uri in model else edits.append(upsert(uri, content=text))
                    before = model.pop(uri, None)
                    model |= {uri: text} if before is None else {}
                case 3:
                    edits.append(Append(uri, text))
                    model[uri] = f"{model[uri].rstrip()}\n\n{text}"
                case 4:
                    edits.append(Relate(uri, to(uris[0], "about", rnd.random())))
                case _:
                    there = Uri(f"{uri.rpartition('/')[0]}/moved{rnd.random()}")
                    edits.append(Move(uri, there))
                    model[there] = model.pop(uri)
                    uris = [other for other in uris if other != uri]  # so that it leads there
                    versions[there] += 1
            versions[uri] += 1
        ws.submit(change(*edits))
        assert {uri: node.content for uri in [*free, *model] if (node := ws.node(uri))} == model
    assert check(reloaded(ws)) == []
    assert not [path for path in files(ws) if path.startswith("nodes/")]
    assert {uri: ws.version(ws.path(uri)) for uri in model} == {uri: versions[uri] for uri in model}
    for uri in rnd.sample(sorted(model), 4):
        history = ws.history.entries(uri=uri, limit=50)
        assert len(history) == versions[uri]
        assert all(uri in {one.uri for one in ws.history.changes(entry.commit)} for entry in history)
    ws = reopen()
    assert {uri: node.content for uri in model if (node := ws.node(uri))} == model
    assert len(ws.graph) == len(model) == ws.text().count()
    assert check(reloaded(ws)) == []
    ws.reindex()
    assert {uri: ws.version(ws.path(uri)) for uri in model} == {uri: versions[uri] for uri in model}


@pytest.mark.slow
def test_a_growing_thread_is_written_part_by_part_and_leaves_older_parts_alone(ws: Workspace) -> None:
    for start in range(0, 1600, 800):
        ws.submit(change(*(upsert(message(n), name=f"ann:{n}", content="x" * 300) for n in range(start, start + 800))))
    before = files(ws)
    assert all(len(data) < bulk.PART_BYTES for data in before.values())
    assert len(before) < 10
    for number in range(1600, 1610):
        ws.submit(change(upsert(message(number), content="y" * 300)))
    after = files(ws)
    (changed,) = [path for path, data in after.items() if before.get(path) != data]
    assert changed == max(after)
    assert len(after[changed]) < parts.OPEN_BYTES
    assert ws.part_of(message(1609)) == changed


def test_versions_and_expectations_belong_to_the_node_and_not_to_its_part(ws: Workspace) -> None:
    one, two = message(1), message(2)
    ws.submit(change(upsert(one, content="a\n"), upsert(two, content="b\n")))
    for _ in range(3):
        ws.submit(change(Append(two, "more")))
    done = ws.submit(change(upsert(one, content="c\n", expect_version=1)))
    assert dict(done.nodes) == {one: 2}
    with pytest.raises(Stale):
        ws.submit(change(upsert(two, content="c\n", expect_version=1)))
    assert [len(ws.history.entries(uri=uri)) for uri in (one, two)] == [2, 4]
    ws.sent.note(two, 4)
    ws.submit(change(Append(two, "once more")))
    assert text_of(ws.history.node_read(two, 4)) == "b\n\nmore\n\nmore\n\nmore\n"
    assert ws.history.node_read(two, 3) is None, "it was never sent"
    first = ws.history.entries(uri=one)[-1].commit
    assert text_of(ws.node(one, as_of=first)) == "a\n"
    assert [entry.nodes for entry in ws.history.entries(limit=2)] == [(two,), (one,)]
    assert [(c.uri, c.before and c.before.content) for c in ws.history.changes(done.commit or "")] == [(one, "a\n")]
    ws.submit(change(Revert(done.commit or "")))
    assert text_of(ws.node(one)) == "a\n"
    assert check(reloaded(ws)) == []


def test_a_node_of_an_older_kgd_is_served_in_place_and_moves_into_a_part_when_written(ws: Workspace) -> None:
    old, new = message(1), message(2)
    commit_file(ws, ws.path(old), documents.encode(Node(old, content="old\n")).decode())
    ws.submit(change(upsert(new, content="new\n")))
    assert set(files(ws)) == {ws.path(old), f"{TALK}/0001.yaml"}
    assert text_of(ws.node(old)) == "old\n"
    ws.submit(change(Append(old, "more")))
    assert set(files(ws)) == {f"{TALK}/0001.yaml"}
    assert ws.version(ws.path(old)) == 2 == len(ws.history.entries(uri=old))
    assert check(reloaded(ws)) == []


def test_a_node_too_large_for_a_part_has_its_own_file(ws: Workspace) -> None:
    large, deep, small = message(1), message(2), message(3)
    nested: dict[str, object] = {}
    for _ in range(14):
        nested = {"a": nested}
    ws.submit(change(upsert(large, content="x" * 70_000), upsert(deep, data=nested), upsert(small)))
    assert set(files(ws)) == {ws.path(large), ws.path(deep), f"{TALK}/0001.yaml"}
    version = ws.version(ws.path(large))
    ws.submit(change(upsert(large, content="short\n", expect_version=version), upsert(small, content="z" * 70_000)))
    assert set(files(ws)) == {ws.path(small), ws.path(deep), f"{TALK}/0001.yaml"}
    assert check(reloaded(ws)) == []


def test_a_part_of_chunks_records_the_version_of_its_document(ws: Workspace) -> None:
    book, chunk = Uri("document://ws/book"), Uri("chunk://ws/book/0001")
    ws.submit(change(upsert(chunk, content="text\n"), upsert(book, data={"hash": "abc"})))
    (path,) = [path for path in files(ws) if path.startswith("bulk/")]
    assert bulk.decode(files(ws)[path]).source == "abc"


@pytest.mark.parametrize("case", ["of another thread", "twice", "of another workspace", "no yaml", "too many"])
def test_a_malformed_part_is_reported_and_its_last_good_version_stays(reopen: Reopen, case: str) -> None:
    ws, path = reopen(), f"{TALK}/0001.yaml"
    ws.submit(change(upsert(message(1), content="good\n"), upsert(message(2))))
    bad = {
        "of another thread": part(Node(message(1)), Node(message(1, "other"))),
        "twice": part(Node(message(1))) + part(Node(message(1))).partition("\n")[2],
        "of another workspace": part(Node(Uri("message://elsewhere/talk/000001"))),
        "no yaml": "nodes: [\n",
        "too many": part()[:-4] + "\n" + "".join(f"- uri: message://ws/talk/{n}\n" for n in range(10_001)),
    }[case]
    commit_file(ws, path, bad)
    for _ in range(2):
        assert [file.path for file in ws.invalid_files()] == [path]
        assert text_of(ws.node(message(1))) == "good\n"
        assert ws.node(message(1, "other")) is None
        assert {finding.where for finding in check(ws) if finding.level == "error"} == {path}
        with pytest.raises(InvariantViolation):
            ws.submit(change(upsert(message(1), name="n")))
        ws = reloaded(reopen())
    ws.submit(change(upsert(message(3))))
    assert ws.part_of(message(3)) == f"{TALK}/0002.yaml"
    commit_file(ws, path, part(Node(message(1), content="mended\n")))
    assert ws.invalid_files() == ()
    assert ws.node(message(2)) is None
    assert check(reloaded(ws)) == []


def test_a_node_in_two_parts_is_served_from_the_first_and_reported(reopen: Reopen) -> None:
    ws = reopen()
    commit_file(ws, f"{TALK}/0002.yaml", part(Node(message(1), content="second\n"), Node(message(2))))
    commit_file(ws, ws.path(message(1)), documents.encode(Node(message(1), content="own\n")).decode())
    commit_file(ws, f"{TALK}/0001.yaml", part(Node(message(1), content="first\n")))
    for _ in range(2):
        assert text_of(ws.node(message(1))) == "first\n"
        doubled = [finding.where for finding in check(ws) if finding.level == "error"]
        assert doubled == [f"{TALK}/0002.yaml", ws.path(message(1))]
        ws = reloaded(reopen())
    commit_file(ws, f"{TALK}/0001.yaml", part(Node(message(3))))
    assert text_of(reloaded(ws).node(message(1))) == "second\n"
    commit_file(ws, f"{TALK}/0002.yaml", part(Node(message(2))))
    assert text_of(reloaded(ws).node(message(1))) == "own\n"
    assert check(reloaded(ws)) == []


def test_splitting_a_part_by_lines_agrees_with_a_parser() -> None:
    odd = (
        "",
        "a\n",
        "- uri: message://ws/talk/9\n",
        "\ttab\n",
        "a\n\n\n",
        " lead\n",
        "x\n\n- b\n    c\n",
        "nodes:\n- a",
        "é\u2028\n",
    )
    data: list[dict[str, Any]] = [
        {},
        {"a": [[1, [2]], {"b": ["x\ny\n"]}]},
        {"- k": "null", "n": None, "e": []},
        {"deep": {"a": {"b": {"c": 1}}}},
    ]
    nodes = [
        Node(Uri(f"message://ws/talk/{n}"), content=odd[n % len(odd)], data=data[n % len(data)], name="yes" * (n % 2))
        for n in range(36)
    ]
    for source in ("", "9f86d081", "abc", "yes", 'q"\\'):
        whole = bulk.encode(bulk.Part(tuple(nodes), source))
        found = bulk.split(whole)
        assert found == bulk.Entries({n.uri: documents.encode(n) for n in sorted(nodes, key=lambda n: n.uri)}, source)
        assert bulk.encode_entries(found) == whole
        for uri, entry in found.nodes.items():
            assert bulk.cut(whole, uri) == entry
            assert len(entry) <= bulk.size_of(entry)
    by_hand = b'{nodes: [{uri: "message://ws/talk/2"}, {uri: "message://ws/talk/1", name: x}]}'
    assert bulk.split(by_hand).nodes == {
        Uri(f"message://ws/talk/{n}"): documents.encode(Node(Uri(f"message://ws/talk/{n}"), name=name))
        for n, name in ((1, "x"), (2, ""))
    }


@pytest.mark.slow
def test_many_writers_of_one_thread_each_add_their_messages_once(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "OPEN_BYTES", 900)
    monkeypatch.setattr(parts, "WRITTEN", parts.Capacity(1_500, 400))
    ws.submit(change(*(upsert(message(n), content="x" * 100) for n in range(8))))

    def write(number: int) -> None:
        ws.submit(change(upsert(message(number), content="y" * 200), Append(message(number % 8), f"<{number}>" * 20)))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(100, 164)))
    assert len(ws.graph) == 72
    said = [text_of(ws.node(message(n))) or "" for n in range(8)]
    assert all(said[number % 8].count(f"<{number}>") == 20 for number in range(100, 164))
    assert [ws.version(ws.path(message(n))) for n in range(8)] == [9] * 8
    assert check(reloaded(ws)) == []


def test_parts_that_arrive_together_are_each_decoded_once(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they are more than the cache holds."""
    fresh = Served(ws.store, ws.id, ws.sharded, ws.past.last_good)
    fresh.load(ws.store.tree_of(bytes.fromhex(ws.tip)))
    talks = [f"bulk/message/{paths.shard(b't%d' % n)}/t{n}/1.yaml" for n in range(8)]
    for number, path in enumerate(talks):
        commit_file(ws, path, part(Node(message(1, f"t{number}"), content="hello\n")))
    decoded, read = Counter[str](), bulk.read

    def counting(data: bytes, path: str, *workspace: str) -> bulk.Entries:
        decoded[path] += threading.current_thread() is threading.main_thread()
        return read(data, path, *workspace)

    monkeypatch.setattr(parts, "KEPT", 3)
    monkeypatch.setattr(bulk, "read", counting)
    parts._kept.clear()
    fresh.load(ws.store.tree_of(bytes.fromhex(ws.tip)))
    assert decoded == Counter(talks)
    assert len(fresh.graph) == len(talks)
