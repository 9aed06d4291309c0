"""Trees merge by node: symmetric, complete, and never by lines across a node file."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgd.codec import documents, paths
from kgd.git.objects import ObjectId
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.node import Node
from kgd.workspace.merging.files import merge_file, record_files
from kgd.workspace.merging.trees import MergedTree, merge_trees
from tests.builders import new_layout, uri

NODE = "nodes/concept/a.yaml"
NONE: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return new_layout(tmp_path_factory.mktemp("trees")).open()


def tree(store: ObjectStore, files: dict[str, bytes]) -> ObjectId:
    staging = Staging(store, None)
    for path, data in files.items():
        staging.put(path, data)
    made = staging.write_tree()
    if staging.objects:
        store.release(store.write(staging.objects))
    return made


def merged_tree(store: ObjectStore, ours: ObjectId, merged: MergedTree) -> ObjectId:
    staging = Staging(store, ours)
    for path, data in merged.files.items():
        if data is None:
            staging.remove(path)
        else:
            staging.put(path, data)
    return staging.write_tree()


def node(**fields: object) -> bytes:
    return documents.encode(Node(uri("a"), **fields))  # type: ignore[arg-type]


def test_different_fields_of_one_node_merge_without_a_conflict(store: ObjectStore) -> None:
    base = tree(store, {NODE: node(name="A", summary="s")})
    ours = tree(store, {NODE: node(name="B", summary="s")})
    theirs = tree(store, {NODE: node(name="A", summary="t")})
    merged = merge_trees(store, base, ours, theirs, NONE)
    assert merged.conflicts == ()
    assert merged.files == {NODE: node(name="B", summary="t")}


def test_two_names_for_one_node_become_a_record_beside_a_readable_file(store: ObjectStore) -> None:
    base, ours, theirs = (tree(store, {NODE: node(name=name)}) for name in ("A", "B", "C"))
    merged = merge_trees(store, base, ours, theirs, NONE)
    (conflict,) = merged.conflicts
    record = paths.conflict_path(uri("a"), conflict.digest)
    assert set(merged.files) == {NODE, record}
    assert documents.decode_conflict(merged.files[record] or b"") == conflict
    assert documents.decode(merged.files[NODE] or b"").name in ("B", "C")


def test_a_settled_conflict_stays_settled_when_the_other_side_still_has_its_record(store: ObjectStore) -> None:
    record = "conflicts/concept/a/0123456789abcdef.yaml"
    base = tree(store, {NODE: node(name="A"), record: b"x: 1\n"})
    settled = tree(store, {NODE: node(name="B")})
    merged = merge_trees(store, base, base, settled, NONE)
    assert merged.files == {NODE: node(name="B"), record: None}


def test_an_open_conflict_of_the_settings_merges_when_both_sides_edit_the_key_alone(
    store: ObjectStore,
) -> None:
    old, one, two, three, four = (f"workspace: ws\nformat: 1\nmerge_rules: 1\nowner: {n}\n".encode() for n in range(5))
    first = merge_file("kgd.yaml", old, one, two)
    record = record_files(first.conflicts, NONE)
    base, a, b = (tree(store, {"kgd.yaml": data, **record}) for data in (first.data or b"", three, four))
    merged = merge_trees(store, base, a, b, NONE)
    records = [documents.decode_conflict(data) for path, data in merged.files.items() if data and "conflicts/" in path]
    assert [each.fields["owner"].sides for each in records] == [(1, 3, 4)]
    assert all(merged.files[path] is None for path in record)


def test_a_comment_by_hand_survives_a_merge_from_either_side() -> None:
    base = node(name="A", summary="s")
    commented = b"# ask Ann before changing this\n" + node(name="B", summary="s")
    other = node(name="A", summary="t")
    one, two = merge_file(NODE, base, commented, other), merge_file(NODE, base, other, commented)
    assert one == two
    assert b"# ask Ann" in (one.data or b"")


def test_an_unreadable_side_is_kept_in_the_conflict_and_the_readable_one_is_served() -> None:
    broken = b"uri: concept://ws/a\nname: [unclosed\n"
    merged = merge_file(NODE, node(name="A"), node(name="B"), broken)
    assert merged.data == node(name="B")
    assert merged.conflict is not None
    assert "unclosed" in str(merged.conflict.fields["node"].sides)


def test_files_that_are_no_nodes_are_merged_by_line_or_kept_side_by_side() -> None:
    assert merge_file("notes.md", b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n").data == b"A\nb\nC\n"
    one, two = merge_file("notes.md", b"a\n", b"b\n", b"c\n"), merge_file("notes.md", b"a\n", b"c\n", b"b\n")
    assert one == two
    assert {one.data, *one.beside.values()} == {b"b\n", b"c\n"}
    binary = merge_file("x.bin", b"\0", b"\xff1", b"\xff2")
    assert {binary.data, *binary.beside.values()} == {b"\xff1", b"\xff2"}


texts = st.sampled_from(["", "one", "two", "three\n"])
versions = st.none() | st.builds(
    Node,
    uri=st.just(uri("a")),
    name=st.sampled_from(["", "x", "y"]),
    content=texts,
    tags=st.lists(st.sampled_from(["p", "q"]), max_size=2).map(tuple),
)
sides = st.fixed_dictionaries(
    {NODE: versions.map(lambda n: documents.encode(n) if n else None)},
    optional={
        "README.md": st.sampled_from([b"a\n", b"b\n", b"a\nb\n"]),
        "nodes/concept/a/deep.yaml": st.sampled_from([b"broken: [\n", b"{"]),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sides, sides, sides)
def test_merging_two_trees_gives_the_same_tree_from_either_side(
    store: ObjectStore, base: dict[str, bytes | None], a: dict[str, bytes | None], b: dict[str, bytes | None]
) -> None:
    was, ours, theirs = (
        tree(store, {path: data for path, data in side.items() if data is not None}) for side in (base, a, b)
    )
    one = merged_tree(store, ours, merge_trees(store, was, ours, theirs, NONE))
    two = merged_tree(store, theirs, merge_trees(store, was, theirs, ours, NONE))
    assert one == two


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sides, sides)
def test_merging_with_an_unchanged_tree_is_the_other_tree(
    store: ObjectStore, base: dict[str, bytes | None], changed: dict[str, bytes | None]
) -> None:
    old, new = (tree(store, {p: d for p, d in side.items() if d is not None}) for side in (base, changed))
    assert merged_tree(store, old, merge_trees(store, old, old, new, NONE)) == new
    assert merged_tree(store, new, merge_trees(store, old, new, old, NONE)) == new
