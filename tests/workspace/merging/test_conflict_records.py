"""A conflict record counts for the node of its folder only; elsewhere it is an ordinary file."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.codec import bulk, documents, front_matter, paths
from kgd.errors import Invalid, NotFound
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.model.change import Move, Settle
from kgd.model.conflict import Conflict, FieldConflict
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.check import check as check_workspace
from kgd.workspace.memory_files import Home
from kgd.workspace.merging.files import record_files
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.merging.trees import merge_trees
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.admission import check
from kgd.workspace.writing.writer import Staged
from tests.builders import change, upsert, uri

NONE = frozenset[str]()
HOME = Home("ws", NONE, lambda path: None)
OTHER = Conflict(uri("app/checkout"), {"summary": FieldConflict("x", ("evil", "x"))}, {"summary": 1})
AUTH = uri("services/auth")
HERE = paths.conflict_path(AUTH, OTHER.digest)
PLANTED = documents.encode_conflict(OTHER)
STRANGER = Signature("Mallory", "mallory@example.org", 1_700_000_100)


def brought(ws: Workspace, files: dict[str, bytes]) -> ObjectId:
    """A commit from elsewhere that was never vetted."""
    made: list[ObjectId] = []

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        for path, data in files.items():
            staging.put(path, data)
        made.append(staging.commit(staging.write_tree(), [tip], STRANGER, "from elsewhere"))
        return Staged(None, made[0], None)

    ws.run(job)
    return made[0]


@pytest.fixture
def planted(ws: Workspace) -> Workspace:
    """Two nodes, with a record about one in the folder of the other."""
    ws.submit(change(upsert("app/checkout", summary="x"), upsert(AUTH, summary="Issues tokens")))
    brought(ws, {HERE: PLANTED})
    return ws


@pytest.mark.parametrize(
    "path",
    [HERE, paths.conflict_path(OTHER.uri, "0123456789abcdef"), "conflicts/concept/app/checkout.yaml"],
)
def test_a_misplaced_record_is_not_admitted(path: str) -> None:
    with pytest.raises(Invalid, match="belongs at another path"):
        check(path, PLANTED, None, HOME)
    check(paths.conflict_path(OTHER.uri, OTHER.digest), PLANTED, None, HOME)


def test_a_record_about_another_workspace_is_not_admitted() -> None:
    foreign = Conflict(Uri("concept://elsewhere/services/auth"), dict(OTHER.fields), dict(OTHER.shown))
    with pytest.raises(Invalid, match="another workspace"):
        check(paths.conflict_path(foreign.uri, foreign.digest), documents.encode_conflict(foreign), None, HOME)


def test_a_misplaced_record_in_the_tip_is_reported_and_is_no_conflict(planted: Workspace) -> None:
    assert planted.conflicts.find() == ()
    assert planted.conflict_count == 0
    assert [file.path for file in planted.invalid_files()] == [HERE]
    assert HERE in [finding.where for finding in check_workspace(planted)]
    for id in (OTHER.id, f"{AUTH}#{OTHER.digest}"):
        with pytest.raises((NotFound, Invalid)):
            planted.submit(change(Settle(id, {"summary": "evil"})))
    node = planted.node(OTHER.uri)
    assert node is not None
    assert node.summary == "x"


def test_a_merge_does_not_move_a_misplaced_record(planted: Workspace) -> None:
    base = bytes.fromhex(planted.tip)
    mine = planted.submit(change(upsert(AUTH, summary="mine"))).commit or ""
    store, sharded = planted.store, planted.sharded
    staging = Staging(store, store.tree_of(base))
    staging.put(paths.path_of(AUTH), documents.encode(Node(AUTH, summary="theirs")))
    tree = staging.write_tree()
    staging.commit(tree, [base], STRANGER, "at the same time")
    store.write(staging.objects)
    theirs = staging.commit(tree, [base], STRANGER, "at the same time")
    merged = merge_commits(store, bytes.fromhex(mine), theirs, sharded)
    assert {one.uri for one in merged.conflicts} == {AUTH}
    assert not [path for path in merged.files if "app/checkout" in path]
    assert HERE not in merged.files, "it stays unchanged"


def test_moving_a_node_leaves_a_misplaced_record_behind(planted: Workspace) -> None:
    planted.submit(change(Move(AUTH, uri("services/login"))))
    assert planted.conflicts.find() == ()
    assert planted.invalid_files() == ()


@pytest.mark.slow
def test_a_shortened_record_is_named_after_its_content() -> None:
    large = "x" * 1_200_000
    for sides in ((large, large[1:]), ("a", "b")):
        conflict = Conflict(AUTH, {"content": FieldConflict(large, tuple(sorted(sides)))}, {"content": 0})
        files = record_files([conflict], NONE)
        ((path, data),) = [(path, data) for path, data in files.items() if path.startswith("conflicts/")]
        assert documents.read_record(data, path, NONE, "ws").uri == AUTH


def test_a_record_under_another_node_does_not_decide_the_content_of_a_memory(ws: Workspace) -> None:
    path = "memories/a.md"
    prose = front_matter.encode({"id": OTHER.uri}, "true\n")
    field = f"{path}/prose"
    lie = Conflict(AUTH, {field: FieldConflict("", ("evil\n", "true\n"))}, {field: 0})

    def tree(files: dict[str, bytes]) -> ObjectId:
        staging = Staging(ws.store, None)
        for name, data in files.items():
            staging.put(name, data)
        made = staging.write_tree()
        ws.store.write(staging.objects)
        return made

    base = tree({path: prose})
    planted = tree({path: prose, **record_files([lie], NONE)})
    edited = tree({path: front_matter.encode({"id": OTHER.uri}, "true\nand more\n")})
    for ours, theirs, has in ((planted, edited, b"true\nand more\n"), (edited, planted, None)):
        merged = merge_trees(ws.store, base, ours, theirs, NONE)
        assert (merged.files.get(path) or b"and more\n").endswith(has or b"and more\n")
        assert not merged.conflicts


def test_a_part_of_a_thread_creates_no_conflict_about_another_node(ws: Workspace) -> None:
    path = f"bulk/message/{paths.shard(b't')}/t/0.yaml"

    def tree(summary: str) -> ObjectId:
        staging = Staging(ws.store, None)
        staging.put(path, bulk.encode(bulk.Part((Node(OTHER.uri, summary=summary),))))
        made = staging.write_tree()
        ws.store.write(staging.objects)
        return made

    merged = merge_trees(ws.store, tree("a"), tree("b"), tree("c"), NONE)
    assert merged.conflicts == ()
    assert not [name for name in merged.files if name.startswith("conflicts/")]


@pytest.mark.slow
def test_conflicts_are_counted_by_the_nodes_they_mention_and_many_without_reading_them(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = [uri(f"{'seen' if number % 2 else 'hidden'}/{number}") for number in range(100)]
    ws.submit(change(*(upsert(one, summary="b") for one in uris)))
    field = FieldConflict("a", ("b", "c"))
    brought(ws, record_files([Conflict(one, {"summary": field}, {"summary": 0}) for one in uris], NONE))
    met = Conflict(uri("seen/1"), {"uri": FieldConflict(None, (uri("hidden/0"), uri("seen/1")))}, {"uri": 1})
    brought(ws, record_files([met], NONE))
    read: list[str] = []
    decode = documents.read_record

    def counted(data: bytes, path: str, *args: Any) -> Conflict:
        read.append(path)
        return decode(data, path, *args)

    monkeypatch.setattr(documents, "read_record", counted)
    assert ws.conflicts.count(about=lambda one: "/seen/" in one) == 51, (
        "including the record that mentions another node"
    )
    assert len(read) <= 21
    assert ws.conflicts.count(about=lambda one: one == uri("seen/1")) == 1, "the other record mentions a hidden node"
    assert ws.conflicts.count(uri("seen/1"), about=lambda one: one in (uri("seen/1"), uri("hidden/0"))) == 2
    assert ws.conflicts.count(about=lambda one: "/nowhere/" in one) == 0
