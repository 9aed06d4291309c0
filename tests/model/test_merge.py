"""The laws of the node merge, and one case for each rule of its table."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import documents
from kgd.errors import KgdError
from kgd.model.conflict import WHOLE, canonical_json
from kgd.model.fields import field_of, from_plain, join, plain, plain_relation, split, with_field
from kgd.model.merge import FIELD_RULES, RELATION_KEY, RELATION_RULES, Merged, merge
from kgd.model.node import FIELDS, PLAIN, RELATION_FIELDS, SETS, Node, Relation, Source
from kgd.model.text_merge import merge_text
from kgd.model.uri import Uri

URI = Uri("concept://ws/a")
words = st.sampled_from(["red", "green", "blue", "one", "two"])
lines = st.lists(words, max_size=6).map(lambda parts: "".join(f"{part}\n" for part in parts))
values = st.recursive(
    st.none() | st.integers(0, 3) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
others: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
    st.sampled_from(["license", "a/b", "~"]), values.filter(lambda v: v is not None), max_size=2
)
relations = st.lists(
    st.builds(
        Relation,
        type=st.sampled_from(["uses", "owns"]),
        target=st.sampled_from([Uri("concept://ws/b"), Uri("concept://ws/c")]),
        weight=st.sampled_from([0.0, 0.5, 1.0]),
        data=st.dictionaries(words, st.integers(0, 2), max_size=1),
        others=others,
    ),
    max_size=3,
    unique_by=lambda r: r.key,
).map(tuple)
nodes = st.builds(
    Node,
    uri=st.just(URI),
    type=st.sampled_from(["concept", "idea"]),
    name=words | st.just(""),
    summary=words | st.just(""),
    content=lines,
    tags=st.lists(words, max_size=3).map(tuple),
    data=st.dictionaries(
        words | st.sampled_from(["paths", "observations"]), values.filter(lambda v: v is not None), max_size=3
    ),
    source=st.none() | st.builds(Source, type=words, id=words, others=others),
    relations=relations,
    others=others,
)
versions = st.none() | nodes


def test_only_one_side_changed_gives_that_side() -> None:
    base, changed = Node(URI, name="a"), Node(URI, name="b", tags=("x",))
    assert merge(base, changed, base) == Merged(changed)
    assert merge(base, base, changed) == Merged(changed)


@given(versions, versions)
def test_merging_with_an_unchanged_side_is_the_other_side(base: Node | None, x: Node | None) -> None:
    assert merge(base, x, base).node == x
    assert merge(base, base, x).node == x


@given(versions, versions, versions)
def test_the_result_does_not_depend_on_the_order_of_the_sides(
    base: Node | None, a: Node | None, b: Node | None
) -> None:
    one, two = merge(base, a, b), merge(base, b, a)
    assert one == two
    assert (one.conflict and one.conflict.digest) == (two.conflict and two.conflict.digest)


@given(versions, versions, versions)
def test_every_edit_of_either_side_is_in_the_result_or_in_the_conflict(
    base: Node | None, a: Node | None, b: Node | None
) -> None:
    merged = merge(base, a, b)
    conflict = merged.conflict
    recorded = canonical_json({k: [f.base, *f.sides] for k, f in conflict.fields.items()}) if conflict else ""
    for side in (a, b):
        if side == base:
            continue
        if side is None:
            assert merged.node is None or (conflict and None in conflict.fields[WHOLE].sides)
            continue
        if conflict and WHOLE in conflict.fields:
            assert canonical_json(plain(side)) in recorded
            continue
        assert merged.node is not None
        old = plain(base) if base else {}
        for name in ("type", "name", "summary", "source", *side.others):
            new = plain(side).get(name)
            if new != old.get(name):
                assert plain(merged.node).get(name) == new or (conflict and new in conflict.fields[join(name)].sides)
        assert set(side.tags) - set(base.tags if base else ()) <= set(merged.node.tags)
        assert not (set(base.tags if base else ()) - set(side.tags)) & set(merged.node.tags)


@given(versions, versions, versions)
def test_each_shown_value_is_one_of_the_recorded_sides(base: Node | None, a: Node | None, b: Node | None) -> None:
    conflict = merge(base, a, b).conflict
    for name, field in (conflict.fields if conflict else {}).items():
        assert conflict is not None
        assert field.sides[conflict.shown[name]] is not None


@given(nodes)
def test_plain_values_describe_a_node_completely(node: Node) -> None:
    assert from_plain(plain(node)) == node


@given(versions, versions, versions)
def test_settling_each_conflict_by_a_side_puts_that_side_into_the_node(
    base: Node | None, a: Node | None, b: Node | None
) -> None:
    merged = merge(base, a, b)
    if merged.conflict is None or WHOLE in merged.conflict.fields:
        return
    assert merged.node is not None
    node = merged.node
    for name, field in merged.conflict.fields.items():
        node = with_field(node, name, field.sides[0])
    for name, field in merged.conflict.fields.items():
        if split(name)[0] == "name":
            assert node.name == (field.sides[0] or "")
        if split(name)[0] in node.others or split(name)[0] == "license":
            assert field_of(node, name) == field.sides[0]


def test_two_people_editing_different_fields_do_not_conflict() -> None:
    base = Node(URI, name="a", summary="s", data={"x": 1})
    merged = merge(base, replace(base, name="b", data={"x": 1, "y": 2}), replace(base, summary="t", data={}))
    assert merged == Merged(Node(URI, name="b", summary="t", data={"y": 2}))


def test_one_relation_reweighted_by_both_is_a_conflict_about_its_weight_alone() -> None:
    base = Node(URI, relations=(Relation("uses", Uri("concept://ws/b"), 1.0),))
    a = replace(base, relations=(Relation("uses", Uri("concept://ws/b"), 0.5),))
    b = replace(base, relations=(Relation("uses", Uri("concept://ws/b"), 0.0),))
    conflict = merge(base, a, b).conflict
    assert conflict is not None
    assert list(conflict.fields) == ["relations/uses/concept:~1~1ws~1b/weight"]


def test_an_unknown_key_is_one_value_under_its_own_name() -> None:
    base = Node(URI, others={"license": {"name": "MIT"}, "kept": 1, "gone": 1})
    a = replace(base, others={"license": {"name": "MIT", "by": "a"}, "kept": 1, "mine": []})
    b = replace(base, others={"license": {"name": "BSD"}, "kept": 1, "gone": 1, "a/b": None})
    merged = merge(base, a, b)
    assert merged.node is not None
    assert merged.node.others == {"license": {"name": "BSD"}, "kept": 1, "mine": []}
    assert merged.conflict is not None
    assert list(merged.conflict.fields) == ["license"]
    assert merged.conflict.fields["license"].base == {"name": "MIT"}


def test_an_unknown_key_of_a_relation_conflicts_below_the_relation() -> None:
    def related(**others: Any) -> Node:
        return Node(URI, relations=(Relation("uses", Uri("concept://ws/b"), others=others),))

    conflict = merge(related(since=1), related(since=2), related(since=True)).conflict
    assert conflict is not None
    assert list(conflict.fields) == ["relations/uses/concept:~1~1ws~1b/since"]
    removed = merge(related(since=1), Node(URI), related(since=2)).conflict
    assert removed is not None
    assert removed.fields["relations/uses/concept:~1~1ws~1b"].sides == (None, {"since": 2})


def test_values_of_unknown_keys_that_only_python_takes_for_equal_are_two_values() -> None:
    one, two = Node(URI, others={"x": 1}), Node(URI, others={"x": True})
    conflict = merge(Node(URI), one, two).conflict
    assert conflict is not None
    assert conflict.fields["x"].sides == (1, True)


def test_a_delete_against_an_edit_keeps_the_edit_and_records_the_delete() -> None:
    base, edited = Node(URI, name="a"), Node(URI, name="b")
    merged = merge(base, None, edited)
    assert merged.node == edited
    assert merged.conflict is not None
    assert None in merged.conflict.fields[WHOLE].sides


def test_paths_and_observations_merge_as_sets_that_keep_their_order() -> None:
    base = Node(URI, data={"observations": ["z", "a"]})
    a = Node(URI, data={"observations": ["z", "a", "mine"]})
    b = Node(URI, data={"observations": ["z", "theirs"]})
    merged = merge(base, a, b)
    assert merged.conflict is None
    assert merged.node is not None
    assert merged.node.data["observations"] == ["z", "mine", "theirs"]


def test_more_tags_together_than_a_node_may_have_is_a_conflict_and_no_error() -> None:
    a = Node(URI, tags=tuple(f"a{n}" for n in range(200)))
    b = Node(URI, tags=tuple(f"b{n}" for n in range(200)))
    merged = merge(None, a, b)
    assert merged.node in (a, b)
    assert merged.conflict is not None
    with pytest.raises(KgdError):
        replace(a, tags=a.tags + b.tags)


def test_prose_edited_in_different_places_merges() -> None:
    assert merge_text("one\ntwo\nthree\n", "ONE\ntwo\nthree\n", "one\ntwo\nTHREE\n") == "ONE\ntwo\nTHREE\n"


def test_lines_added_by_both_at_the_end_are_both_kept() -> None:
    merged = merge_text("- one\n", "- one\n- two\n", "- one\n- three\n")
    assert merged is not None
    assert sorted(merged.splitlines()) == ["- one", "- three", "- two"]


def test_prose_edited_in_one_place_by_both_does_not_merge() -> None:
    assert merge_text("one\n", "uno\n", "eins\n") is None


def test_blocks_appended_by_both_are_both_kept_in_the_order_of_their_timestamps() -> None:
    late = "x\n\n---[2026-02-01T00:00:00Z task:t2]---\nlate\n"
    early = "x\n\n---[2026-01-01T00:00:00Z task:t1]---\nearly\n"
    merged = merge_text("x\n", late, early)
    assert merged == "x\n\n---[2026-01-01T00:00:00Z task:t1]---\nearly\n\n---[2026-02-01T00:00:00Z task:t2]---\nlate\n"


def test_dated_blocks_are_joined_where_there_was_nothing_before_however_they_stand() -> None:
    one, two = "---[2026-01-01T00:00:00Z task:t1]---\nfirst", "---[2026-02-01T00:00:00Z task:t2]---\nsecond"
    both = f"{one}\n\n{two}"
    assert merge_text("", two, one) == both
    assert merge_text("", both, two) == both
    assert merge_text("", f"{two}\n", f"{one}\n") == f"{both}\n"
    assert merge_text("", one, "written at the same time, and undated") is None


DATED = "---[2026-01-01T00:00:00Z task:t1]---\nsame"
LATER = "---[2026-02-01T00:00:00Z task:t2]---\nother"


@pytest.mark.parametrize("start", ["", "x", "x\n"])
def test_a_dated_block_that_one_side_appended_twice_stays_twice(start: str) -> None:
    end = "\n" if start.endswith("\n") else ""
    above = f"{start.rstrip()}\n\n" if start else ""
    merged = merge_text(start, f"{above}{DATED}\n\n{DATED}{end}", f"{above}{LATER}{end}")
    assert merged == f"{above}{DATED}\n\n{DATED}\n\n{LATER}{end}"


def test_a_dated_block_that_both_sides_appended_is_one_edit() -> None:
    assert merge_text("x", f"x\n\n{DATED}", f"x\n\n{DATED}\n\n{LATER}") == f"x\n\n{DATED}\n\n{LATER}"


@pytest.mark.parametrize("cleared", ["", "\n", "  \n\n"])
@pytest.mark.parametrize("edited", ["- one\n\n- item", "- one\n\n- item\n", "- one\n- item\n", "\n- one\n"])
def test_a_text_that_one_side_cleared_and_the_other_edited_is_a_conflict(cleared: str, edited: str) -> None:
    base = Node(URI, content="- one\n")
    merged = merge(base, replace(base, content=cleared), replace(base, content=edited))
    assert merged.conflict is not None
    assert set(merged.conflict.fields["content"].sides) == {cleared or None, edited}


def test_the_last_writer_and_a_position_never_conflict() -> None:
    base = Node(URI, data={"lastTaskId": "t0"}, relations=(Relation("related_to", URI, data={"position": 0}),))
    a = replace(base, data={"lastTaskId": "t1"}, relations=(Relation("related_to", URI, data={"position": 1}),))
    b = replace(base, data={"lastTaskId": "t2"}, relations=(Relation("related_to", URI, data={"position": 2}),))
    assert merge(base, a, b) == merge(base, b, a) == Merged(b)
    assert merge(base, a, base) == Merged(a)


@given(lines, lines, lines)
def test_merged_prose_is_the_same_from_both_sides(base: str, a: str, b: str) -> None:
    assert merge_text(base, a, b) == merge_text(base, b, a)


def test_prose_of_equal_lines_is_merged_in_linear_time() -> None:
    base = "x\n" * 60_000
    assert merge_text(base, "a\n" + base, base + "b\n") == "a\n" + base + "b\n"


def test_one_and_true_are_two_values() -> None:
    base = Node(URI, data={"x": 1})
    merged = merge(base, replace(base, data={"x": True}), replace(base, name="b"))
    assert merged.node is not None
    assert merged.node.data["x"] is True
    assert merged.node.name == "b"


@pytest.mark.parametrize(("old", "new"), [(0, False), (0.0, 0), (0.0, -0.0), (False, 0.0)])
def test_zero_and_false_are_different_values_on_either_side(old: Any, new: Any) -> None:
    base, changed = Node(URI, data={"x": old}), Node(URI, data={"x": new})
    renamed = replace(base, name="b")
    for merged in (merge(base, changed, renamed), merge(base, renamed, changed)):
        assert merged.node is not None
        assert canonical_json(merged.node.data) == canonical_json(changed.data)


def test_a_third_value_of_a_disputed_field_joins_the_other_two_in_any_order() -> None:
    base, (x, y, z) = Node(URI, name="a"), (Node(URI, name=name) for name in "xyz")
    first, second = merge(base, x, y), merge(base, y, z)
    assert first.node is not None
    assert second.node is not None
    one = merge(base, first.node, z, ({}, first.records, {}))
    two = merge(base, x, second.node, ({}, {}, second.records))
    assert one == two
    assert one.records["name"].fields["name"].sides == ("x", "y", "z")


def test_a_settlement_counts_for_replicas_that_saw_part_of_the_dispute() -> None:
    base, (x, y, z) = Node(URI, name="a"), (Node(URI, name=name) for name in "xyz")
    common = merge(base, x, y)
    assert common.node is not None
    wider = merge(base, common.node, z, ({}, common.records, {}))
    settled = merge(common.node, x, wider.node, (common.records, {}, wider.records))
    assert settled.records["name"].fields["name"].sides == ("x", "z")


def test_two_edits_of_a_disputed_text_in_different_lines_are_one_edit_of_it() -> None:
    base = Node(URI, content="a\n")
    disputed = merge(base, Node(URI, content="1\n2\n3\n"), Node(URI, content="b\n"))
    shown, records = disputed.node, disputed.records
    assert shown is not None
    assert shown.content == "b\n"
    longer = replace(shown, content="0\nb\n"), replace(shown, content="b\n9\n")
    merged = merge(shown, *longer, (records, records, records))
    assert merged.records["content"].fields["content"].sides == ("0\nb\n9\n", "1\n2\n3\n")


def test_typing_the_other_sides_value_settles_the_dispute() -> None:
    base = Node(URI, name="a")
    disputed = merge(base, Node(URI, name="x"), Node(URI, name="y"))
    shown, records = disputed.node, disputed.records
    assert shown is not None
    merged = merge(shown, replace(shown, name="x"), replace(shown, tags=("t",)), (records, records, records))
    assert merged == Merged(Node(URI, name="x", tags=("t",)))


def test_a_decision_for_the_shown_value_counts_like_a_new_value() -> None:
    disputed = merge(Node(URI, name="a"), Node(URI, name="x"), Node(URI, name="y"))
    shown = disputed.node
    assert shown is not None
    merged = merge(shown, shown, replace(shown, name="new"), (disputed.records, {}, {}))
    assert merged.records["name"].fields["name"].sides == ("new", "y")
    assert merged.records["name"].fields["name"].round == 1


FULL_RELATION = Relation("uses", Uri("concept://ws/b"), 0.5, {"why": "speed"}, {"since": 2020})
FULL = Node(
    URI,
    type="idea",
    name="A",
    summary="s",
    content="text\n",
    tags=("t",),
    data={"x": 1},
    source=Source("doc", "1"),
    relations=(FULL_RELATION,),
    aliases=(Uri("concept://ws/old"),),
    others={"license": "MIT"},
)
for row in PLAIN:
    FULL = FULL if getattr(FULL, row.name) else with_field(FULL, row.name, ["l"] if row.name in SETS else "l")
"""A node with every field set, so that a field which gets lost is missed."""


def test_each_field_of_a_node_and_of_a_relation_has_a_rule_by_which_it_is_merged() -> None:
    assert FIELD_RULES.keys() == {each.name for each in fields(Node)} == {*FIELDS, "others"}
    assert {*RELATION_KEY, *RELATION_RULES} == {each.name for each in fields(Relation)}
    assert plain(FULL).keys() == {*FIELDS, *FULL.others}
    assert plain_relation(FULL_RELATION).keys() == {*RELATION_FIELDS, *FULL_RELATION.others}
    assert {*RELATION_FIELDS, "others"} == {each.name for each in fields(Relation)}


@pytest.mark.parametrize("name", [each.name for each in fields(Node) if each.name != "uri"])
def test_a_field_that_one_side_sets_is_there_after_both_sides_changed_other_fields(name: str) -> None:
    base = Node(URI)
    change: dict[str, Any] = {name: getattr(FULL, name)}
    theirs = replace(base, name="theirs") if name == "summary" else replace(base, summary="theirs")
    merged = merge(base, replace(base, **change), theirs)
    assert merged.node is not None
    assert getattr(merged.node, name) == getattr(FULL, name) != getattr(base, name)
    assert getattr(documents.decode(documents.encode(merged.node)), name) == getattr(FULL, name)
