"""Keys that this version does not know survive every write and merge; likely mistakes are reported, not refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import documents, paths
from kgd.errors import Invalid, KgdError, Limit
from kgd.model.change import Append, Delete, Edit, Log, LogEntry, Move, Relate, Revert, Settle, Untag, Upsert
from kgd.model.conflict import Conflict, FieldConflict, conflict_of
from kgd.model.fields import misspelt
from kgd.model.node import RESERVED, Node, Relation, Source
from kgd.model.uri import Uri
from kgd.workspace.check import check
from kgd.workspace.merging.files import record_files
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import HoldsSecret
from tests.builders import change, commit_file, to, upsert, uri
from tests.codec.made import nodes
from tests.format.vectors import Merger
from tests.workspace.people import Desk, code_layout, eventually, hurry, node_text

A = uri("a")
PATH = "nodes/concept/a.yaml"
TEXT = """\
uri: concept://ws/a
name: A
tags:
- old
source:
  type: url
  id: x
  fetched: "2026-01-01"
relations:
- type: uses
  target: "concept://ws/b"
  weight: 0.5
  data:
    why: speed
  since: 2020
- type: uses
  target: "concept://ws/c"
data:
  owner: ann
license:
  holder: Ann
  name: MIT
open_since: 0
"""
TOKEN = "ghp_" + "a1" * 20


def stored(ws: Workspace, at: Uri = A) -> Node:
    node = ws.node(at)
    assert node is not None
    return node


def keeps_unknown_keys(node: Node) -> bool:
    relation = node.relation("uses", uri("b"))
    assert node.source
    assert relation
    return (node.others, node.source.others, relation.others) == (
        {"license": {"holder": "Ann", "name": "MIT"}, "open_since": 0},
        {"fetched": "2026-01-01"},
        {"since": 2020},
    )


@pytest.fixture
def file(ws: Workspace) -> Workspace:
    commit_file(ws, PATH, TEXT)
    return ws


@pytest.mark.slow
@given(nodes())
def test_a_canonical_file_is_written_back_byte_for_byte(node: Node) -> None:
    try:
        data = documents.encode(node)
    except KgdError:
        return  # a value that no file holds
    assert documents.decode(data) == node
    assert documents.encode(documents.decode(data)) == data


@pytest.mark.slow
@given(nodes(), st.sampled_from([b"# by hand\n", b""]))
def test_a_file_with_comments_keeps_unknown_keys_when_it_is_written_again(node: Node, comment: bytes) -> None:
    try:
        before = comment + documents.encode(node)
        after = documents.decode(documents.rewrite(before, replace(node, name="new")))
    except KgdError:
        return
    assert (after.others, after.relations, after.source) == (node.others, node.relations, node.source)


EDITS: dict[str, tuple[Edit, ...]] = {
    "a field": (upsert("a", name="B"),),
    "a tag and data": (upsert("a", data={"owner": None, "more": 1}, tags=("new",)),),
    "the same source": (upsert("a", source=Source("url", "x"), summary="s"),),
    "a text": (Append(A, "more"),),
    "a relation with another weight": (upsert("a", to("b", "uses", 0.25)),),
    "a relation again": (Relate(A, Relation("uses", uri("b"), 0.75)),),
    "another relation": (Relate(A, Relation("owns", uri("b"))),),
    "a tag less": (Untag(A, ("old",)),),
    "fields cleared": (upsert("a", unset=("name", "data", "tags")),),
    "several at once": (upsert("a", name="B"), Untag(A, ("old",)), Append(A, "more")),
}


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS.keys())
def test_a_write_keeps_them(file: Workspace, edits: tuple[Edit, ...]) -> None:
    assert file.submit(change(*edits)).commit
    assert keeps_unknown_keys(stored(file))


def test_a_move_and_a_restart_keep_them(file: Workspace, reopen: Callable[[], Workspace]) -> None:
    file.submit(change(Move(A, uri("there/a"))))
    assert keeps_unknown_keys(stored(reopen(), uri("there/a")))


def test_a_revert_brings_them_back_beside_later_changes(file: Workspace) -> None:
    gone = file.submit(change(upsert("a", unset=("license", "open_since", "source", "relations"))))
    file.submit(change(upsert("a", summary="later")))
    assert not stored(file).others
    file.submit(change(Revert(str(gone.commit))))
    assert keeps_unknown_keys(stored(file))
    assert stored(file).summary == "later"


def test_a_message_in_a_part_keeps_them(ws: Workspace) -> None:
    one = Uri("message://ws/talk/1")
    ws.submit(change(Upsert(one, content="one\n", others={"edited": True})))
    ws.submit(change(Upsert(Uri("message://ws/talk/2"), content="two\n"), Upsert(one, tags=("t",))))
    assert ws.path(one).startswith("nodes/")  # the name of its versions; the file is a part
    assert (stored(ws, one).others, stored(ws, one).tags) == ({"edited": True}, ("t",))


def test_both_sides_changing_one_differently_is_an_ordinary_conflict(file: Workspace) -> None:
    first = file.submit(change(upsert("a", others={"license": "Apache"})))
    file.submit(change(upsert("a", others={"license": "BSD"})))
    outcome = file.submit(change(Revert(str(first.commit))))
    assert outcome.warnings
    (found,) = file.conflicts.find(A)
    assert set(found.conflict.fields) == {"license"}
    assert {str(side) for side in found.conflict.fields["license"].sides} == {
        "BSD",
        "{'holder': 'Ann', 'name': 'MIT'}",
    }
    file.submit(change(Settle(found.id, {"license": "GPL"})))
    assert stored(file).others == {"license": "GPL", "open_since": 0}
    assert not file.conflicts.find(A)


def test_only_a_change_that_names_one_changes_or_removes_it(file: Workspace) -> None:
    relation = Relation("uses", uri("b"), 0.5, {}, {"since": None, "until": 2030})
    edit = upsert("a", relation, others={"license": None, "new": [1]}, source=Source("url", "y", {"by": "me"}))
    file.submit(change(edit))
    node = stored(file)
    assert node.others == {"new": [1], "open_since": 0}
    assert node.source == Source("url", "y", {"by": "me"})  # another source: nothing of the former one remains
    assert node.relations[0].others == {"until": 2030}


def test_a_difference_shows_them(file: Workspace) -> None:
    commit = file.submit(change(upsert("a", others={"license": "BSD"}))).commit
    (changed,) = file.history.changes_between(f"{commit}^", str(commit))
    assert changed.before
    assert changed.after
    assert changed.before.others["license"] != changed.after.others["license"]


# ---- refusals


@pytest.mark.parametrize("key", [*sorted(RESERVED), "kgd", "kgd_verified_by"])
def test_a_reserved_name_is_refused_with_its_line(ws: Workspace, key: str) -> None:
    with pytest.raises(Invalid) as caught:
        documents.decode(f"uri: {A}\n{key}: x\n".encode(), at=PATH)
    assert (caught.value.at, f"'{key}' is reserved" in caught.value.message) == (f"{PATH}:2", True)
    with pytest.raises(Invalid):
        ws.submit(change(upsert("a", others={key: "x"})))


@pytest.mark.parametrize(
    "others", [{"note": TOKEN}, {"deep": {"er": [TOKEN]}}, {"password": "8fJ2kQ9zLm4Xw7Rt1Vb6Yc3Np5Hd0Gs"}]
)
def test_a_secret_in_one_is_refused(ws: Workspace, others: dict[str, object]) -> None:
    for edit in (
        upsert("a", others=others),
        upsert("a", Relation("uses", uri("b"), others=others)),
        upsert("a", source=Source("url", "x", others)),
    ):
        with pytest.raises(HoldsSecret):
            ws.submit(change(edit))


def test_a_secret_in_an_unknown_key_of_a_changelog_entry_is_refused(file: Workspace) -> None:
    id = "01JD3Q8Z7K5W9V2M4N6P8R0T1X"
    entry = LogEntry(id, A, "task:t", "s", "2026-11-21T10:00:00.000Z", {"by": TOKEN})
    with pytest.raises(HoldsSecret):
        file.submit(change(Log(entry)))


def test_the_limits_of_a_file_hold_for_them(ws: Workspace) -> None:
    deep: object = 1
    for _ in range(20):
        deep = [deep]
    for others in ({"big": "x" * 300_000}, {"k" * 300: 1}, {"deep": deep}, {"many": [0] * 25_000}):
        with pytest.raises(Limit):
            ws.submit(change(upsert("a", others=others)))


# ---- likely mistakes


def test_a_likely_mistake_is_named_with_the_likely_field() -> None:
    text = (
        f"uri: {A}\nsumary: x\nTags: [a]\nnmae: x\nlicense: MIT\ndate: 1\nowner: ann\n"
        "source: {type: a, id: b, typ: c}\n"
        "relations: [{type: a, target: 'concept://ws/b', wieght: 1}]\n"
    )
    assert sorted(misspelt(documents.decode(text.encode()))) == [
        "the key 'Tags' has no meaning; did you mean 'tags'?",
        "the key 'nmae' has no meaning; did you mean 'name'?",
        "the key 'sumary' has no meaning; did you mean 'summary'?",
        "the key 'typ' has no meaning; did you mean 'type'?",
        "the key 'wieght' has no meaning; did you mean 'weight'?",
    ]


def test_a_likely_mistake_is_reported_by_a_check_by_the_status_and_by_each_change(
    ws: Workspace, reopen: Callable[[], Workspace]
) -> None:
    commit_file(ws, PATH, f"uri: {A}\nsumary: x\n")
    said = "the key 'sumary' has no meaning; did you mean 'summary'?"
    assert [(one.level, one.where, one.message) for one in check(ws)] == [("warning", PATH, said)]
    assert ws.misspelt_keys() == [f"{PATH}: {said}"]
    assert reopen().misspelt_keys() == [f"{PATH}: {said}"]
    again = reopen()
    assert again.submit(change(upsert("a", name="A"))).warnings == (f"{A}: {said}",)
    assert again.submit(change(upsert("a", summary="x", unset=("sumary",)))).warnings == ()
    assert stored(again).others == {}
    assert again.misspelt_keys() == []


def test_a_likely_mistake_in_a_part_is_reported_with_its_node(ws: Workspace, reopen: Callable[[], Workspace]) -> None:
    path = f"bulk/message/{paths.shard(b'talk')}/talk/1.yaml"
    one, two = Uri("message://ws/talk/1"), Uri("message://ws/talk/2")
    part = "nodes:\n- uri: message://ws/talk/1\n  sumary: x\n- uri: message://ws/talk/2\n"
    commit_file(ws, path, part)
    said = "the key 'sumary' has no meaning; did you mean 'summary'?"
    assert ws.misspelt_keys() == [f"{path}: {one}: {said}"]
    assert [(found.where, found.message) for found in check(ws)] == [(path, f"{one}: {said}")]
    again = reopen()
    assert again.misspelt_keys() == [f"{path}: {one}: {said}"]
    own = again.path(one)
    commit_file(again, own, f"uri: {one}\nsumary: mine\ntgas: []\n")  # the part counts
    assert again.misspelt_keys() == [f"{path}: {one}: {said}"]
    assert reopen().misspelt_keys() == [f"{path}: {one}: {said}"]
    last = reopen()
    commit_file(last, path, f"nodes:\n- uri: {two}\n")
    assert last.misspelt_keys() == [f"{own}: {said}", f"{own}: the key 'tgas' has no meaning; did you mean 'tags'?"]
    last.submit(change(Delete(one)))
    assert last.misspelt_keys() == []


def test_a_misspelt_setting_is_reported_by_a_check(ws: Workspace) -> None:
    commit_file(ws, "kgd.yaml", "workspace: ws\nformat: 1\nmerge_rules: 1\npolcy: []\nlater: 1\n")
    assert [one.message for one in check(ws)] == ["the key 'polcy' has no meaning; did you mean 'policy'?"]


# ---- conflict records


def record_of(name: str, *sides: str, **others: object) -> dict[str, str]:
    made = conflict_of(A, {name: FieldConflict("o", tuple(sides))})
    record = Conflict(made.uri, made.fields, made.shown, others)
    return {path: data.decode() for path, data in record_files([record], frozenset()).items()}


def test_a_conflict_record_keeps_them_while_a_merge_keeps_the_record(tmp_path: Path) -> None:
    node = {PATH: f"uri: {A}\nname: x\nsummary: s\n"}
    base = node | record_of("name", "x", "w", seen=1)
    a = base | record_of("name", "x", "w", seen=2, by="ann") | {PATH: f"uri: {A}\nname: x\nsummary: t\n"}
    b = base | record_of("name", "x", "w", seen=1) | {PATH: f"uri: {A}\nname: x\nsummary: s\ntags:\n- t\n"}
    merger = Merger(tmp_path)
    merged = merger.merged(base, a, b)
    assert merged == merger.merged(base, b, a)
    assert merged == {PATH: f"uri: {A}\nname: x\nsummary: t\ntags:\n- t\n"} | record_of(
        "name", "x", "w", seen=2, by="ann"
    )


def test_a_key_that_one_side_removed_from_a_record_does_not_come_back(tmp_path: Path) -> None:
    node = {PATH: f"uri: {A}\nname: x\n"}
    base = node | record_of("name", "x", "w", seen=1, by="ann")
    a = node | record_of("name", "x", "w", by="ann")
    b = base | {PATH: f"uri: {A}\nname: x\nsummary: s\n"}
    merger = Merger(tmp_path)
    assert merger.merged(base, a, b) == merger.merged(base, b, a) == b | a | {PATH: b[PATH]}


def test_a_conflict_record_keeps_them_when_its_node_moves(ws: Workspace) -> None:
    commit_file(ws, PATH, f"uri: {A}\nname: x\n")
    for path, text in record_of("name", "w", "x", by="ann").items():
        commit_file(ws, path, text)
    ws.submit(change(Move(A, uri("b"))))
    (found,) = ws.conflicts.find(uri("b"))
    assert found.conflict.others == {"by": "ann"}
    assert found.path == paths.conflict_path(uri("b"), found.conflict.digest, frozenset())


# ---- a person's files


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    hurry(monkeypatch)
    ws = Workspace.open(code_layout(tmp_path / "code"))
    yield Desk(ws)
    ws.close()


@pytest.mark.requirement("B11")
def test_a_saved_file_keeps_them_through_later_writes_and_its_comments(desk: Desk) -> None:
    desk.ws.submit(change(upsert("a", name="A")))
    desk.published()
    desk.save("a", f"# mine\n{TEXT}sumary: x\n")
    eventually(lambda: desk.ws.misspelt_keys())
    desk.ws.submit(change(upsert("a", summary="s", unset=("sumary",))))
    desk.published()
    assert keeps_unknown_keys(stored(desk.ws))
    assert desk.file("a").read_text() == f"# mine\n{TEXT.replace('name: A', 'name: A' + chr(10) + 'summary: s')}"
    desk.save("b", node_text("b", kgd_trust="high"))
    eventually(lambda: [found.uri for found in desk.ws.invalid_files()] == [uri("b")])


def test_a_commit_of_a_person_and_a_change_meanwhile_are_merged(desk: Desk) -> None:
    desk.ws.submit(change(upsert("a", name="A")))
    desk.published()
    desk.git("switch", "-qc", "away")
    desk.blocked("away")
    desk.ws.submit(change(upsert("a", others={"license": "MIT", "mine": 1})))
    desk.file("a").write_text(node_text("a", name="A", license="BSD", yours="2"))
    desk.git("commit", "-qam", "by hand")
    desk.git("switch", "-q", "kgd")
    desk.git("merge", "-q", "--ff-only", "away")
    eventually(lambda: desk.ws.conflicts.find(A), lambda: desk.ws.health())
    assert stored(desk.ws).others == {"license": "MIT", "mine": 1, "yours": 2}
    (found,) = desk.ws.conflicts.find(A)
    assert found.conflict.fields["license"] == FieldConflict(None, ("BSD", "MIT"))
