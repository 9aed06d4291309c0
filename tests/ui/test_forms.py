"""A form submits only the changed fields, and merges concurrent changes by field."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import Invalid
from kgd.tools.nodes import UNSEEN_MESSAGE
from kgd.ui.changes import (
    Mark,
    Pair,
    as_text,
    description_of,
    mapping_of,
    mapping_text,
    marked,
    newer,
    reason_of,
    rewritten,
    shortened,
    side_by_side,
)
from kgd.ui.pages.node_form import FIELDS, changes, meet, texts_of, typed_of
from kgd.ui.words import place
from tests.conftest import ROOT

NODE = {
    "type": "concept",
    "name": "Pay",
    "summary": "Money",
    "content": "one\ntwo\n",
    "tags": ["a", "b"],
    "data": {"owner": "ann", "deep": {"x": 1, "y": [True, None]}},
}
PUT = {"uri": "concept://shop/pay", "expect_version": 3}
TEXTS = st.fixed_dictionaries({name: st.sampled_from(("", "one", "two", "x: 1")) for name in FIELDS})


def sent(**changed: str) -> dict[str, str]:
    """Return the fields of a form as a browser sends them, some changed."""
    return typed_of({name: text.replace("\n", "\r\n") for name, text in (texts_of(NODE) | changed).items()})


def test_an_unchanged_form_makes_no_change() -> None:
    assert changes(texts_of(NODE), sent(), PUT) == []
    assert changes(texts_of(NODE), sent(tags="b\n a \n\n", data="deep: {y: [true, null], x: 1}\nowner: ann"), PUT) == []


def test_only_changed_fields_are_written() -> None:
    made = changes(texts_of(NODE), sent(summary="All  money ", tags="b\nc", data="deep:\n  x: 1\nnew: 0\n"), PUT)
    assert made == [
        {
            "op": "upsert",
            **PUT,
            "summary": "All money",
            "tags": ["c"],
            "data": {"deep": {"x": 1}, "new": 0},
            "unset": ["data.owner", "data.deep"],
        },
        {"op": "untag", "uri": PUT["uri"], "tags": ["a"]},
    ]


def test_one_is_not_true_and_an_emptied_field_is_cleared() -> None:
    (made,) = changes(texts_of({"data": {"a": 1}, "name": "x"}), {"data": "a: true\n", "name": " "}, PUT)
    assert made["data"] == {"a": True}
    assert made["unset"] == ["name", "data.a"]


def test_shortened_data_is_not_a_field() -> None:
    assert "data" not in texts_of({"data": {"a": "xyz… (90000 characters)"}})


@pytest.mark.parametrize("text", ["- a", "a: [", "a: &x 1\nb: *x", "just words", "a: 1\na: 2"])
def test_malformed_data_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        mapping_of(text)
    assert refused.value.at.startswith("line ")
    assert refused.value.next


@pytest.mark.slow
@given(TEXTS, TEXTS, TEXTS)
def test_a_merge_keeps_typed_text_and_overwrites_no_unseen_change(
    base: dict[str, str], typed: dict[str, str], theirs: dict[str, str]
) -> None:
    met = meet(base, typed, theirs)
    for name in FIELDS:
        if typed[name] != base[name]:
            assert met.texts[name] == typed[name]
        else:
            assert met.texts[name] == theirs[name]
        if typed[name] != base[name] != theirs[name] != typed[name]:
            assert name in met.both
    assert set(met.both) <= set(met.theirs)


@given(st.text(max_size=80), st.text(max_size=80))
def test_marks_hold_both_texts(old: str, new: str) -> None:
    found = marked(old, new, around=10_000)
    assert "".join(mark.text for mark in found if mark.kind != "ins") == old
    assert "".join(mark.text for mark in found if mark.kind != "del") == new
    assert all(one.kind != two.kind for one, two in pairwise(found))


@given(st.text("ab\n ", max_size=60), st.text("ab\n ", max_size=60))
def test_both_columns_hold_their_text_and_rows_end_with_lines_of_both(old: str, new: str) -> None:
    pairs = side_by_side(marked(old, new, around=10_000))
    assert "".join(mark.text for pair in pairs for mark in pair.before) == old
    assert "".join(mark.text for pair in pairs for mark in pair.after) == new
    for pair in pairs[:-1]:
        assert all(column[-1].text.endswith("\n") for column in (pair.before, pair.after) if column)


def test_a_line_that_stays_is_a_row_of_its_own_below_lines_that_only_one_version_has() -> None:
    stays = (Mark("same", "Only totals.\n"),)
    assert side_by_side(marked("Only totals.\n", "No cents.\nOnly totals.\n")) == [
        Pair((), (Mark("ins", "No cents.\n"),)),
        Pair(stays, stays),
    ]
    assert side_by_side(marked("No cents.\nOnly totals.\n", "Only totals.\n")) == [
        Pair((Mark("del", "No cents.\n"),), ()),
        Pair(stays, stays),
    ]


def test_a_changed_word_is_marked_in_its_line() -> None:
    assert [(mark.kind, mark.text) for mark in marked("first\nthe old one\n", "first\nthe new one\n")] == [
        ("same", "first\nthe "),
        ("del", "old"),
        ("ins", "new"),
        ("same", " one\n"),
    ]


@given(
    st.dictionaries(
        st.text("abc :#", min_size=1, max_size=6).filter(lambda key: key == key.strip()),
        st.recursive(
            st.booleans() | st.integers(-5, 5) | st.text("ab:#\n- ", max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        ),
        max_size=4,
    )
)
def test_data_survives_a_round_trip(data: dict[str, object]) -> None:
    assert mapping_of(mapping_text(data)) == data


def test_values_are_shown_as_editable_text() -> None:
    assert as_text({"a": [1, {"b": None}]}) == "a:\n- 1\n- b: null\n"
    values: list[object] = ["x", ["a", "b"], [], {}, 3, True, None]
    assert list(map(as_text, values)) == ["x", "a\nb", "[]", "{}", "3", "true", ""]


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("relate concept://shop/a", "related"),
        ("concept://shop/a uses concept://shop/b", "related"),
        ("unlink concept://shop/a uses concept://shop/b", "removed a relation"),
        ("concept://shop/a is a limit", ""),
        ("append to concept://shop/a", "added text"),
        ("put concept://shop/a", "changed"),
        ("put concept://shop/a: A limit", "changed"),
        ("relate concept://shop/ab", ""),
        ("we deliver now", ""),
        ("why we relate concept://shop/a", ""),
    ],
)
def test_a_generated_subject_is_described_by_its_change(subject: str, said: str) -> None:
    assert description_of(subject, "concept://shop/a") == said


@pytest.mark.parametrize(
    ("operation", "message", "reason"),
    [
        ("put", "put the limit into the settings", "put the limit into the settings"),
        ("put", "Cards since May: see concept://shop/a", "Cards since May: see concept://shop/a"),
        ("commit", "Seen in the logs\n\nOf May.", "Seen in the logs\n\nOf May."),
        ("put", "put concept://shop/a and 3 more", ""),
        ("put", "put concept://shop/a: A limit", ""),
        ("put", "change concept://shop/a and 1 more", ""),
        ("put", "concept://shop/a uses concept://shop/b", ""),
        ("put", f"concept://shop/a uses concept://shop/{'b' * 200}"[:149] + "…", ""),
        ("resolve", "resolve concept://shop/a", ""),
        ("import", "3 threads of mail", ""),
        ("revert", "Two weeks are the rule\n\nReverts commit 0123456789", "Two weeks are the rule"),
        ("revert", "revert: put concept://shop/a\n\nReverts commit 0123456789", ""),
        ("revert", "restore: put concept://shop/a\n\nReverts commit 0123456789", ""),
        ("put", UNSEEN_MESSAGE, ""),
    ],
)
def test_a_commit_has_the_reason_that_its_author_wrote(operation: str, message: str, reason: str) -> None:
    commit = {"operation": operation, "message": message, "nodes": ["concept://shop/a", "concept://shop/b"]}
    assert reason_of(commit) == reason


def test_a_shortened_difference_shows_the_old_and_the_new_text() -> None:
    old, new = "One worker drains the queue by batches. " * 9, "Many processes take jobs from a table. " * 9
    assert shortened(marked(old, new), 240, 30) == (Mark("del", f"{old[:80]}…"), Mark("ins", f"{new[:80]}…"))


def test_a_text_with_few_words_in_common_is_rewritten() -> None:
    old, new = "One worker drains the queue.", "Many processes take the jobs from tables."
    assert rewritten(marked(f"{old}\n", f"{new}\n")) == (old, new)
    assert rewritten(marked(old, "One worker drains the whole queue by batches.")) is None
    assert rewritten(marked("14 days", "two weeks")) is None, "short values are compared at a glance"
    assert newer(marked(old, new)) == [[Mark("same", new)]]


def test_no_version_is_marked_if_one_is_rewritten() -> None:
    old = "Three attempts without a key charged cards twice in April"
    new, near = (
        "One retry after a second, always with the order's key",
        "Two attempts in all; a third charged cards twice",
    )
    assert len(newer(marked(old, near))[0]) > 1
    assert newer(marked(old, new), marked(old, near)) == [[Mark("same", new)], [Mark("same", near)]]


def test_a_shortened_difference_never_ends_between_a_deleted_text_and_its_replacement() -> None:
    found = [Mark("ins", "a" * 80), Mark("same", "b" * 80), Mark("del", "c" * 80), Mark("ins", "d" * 80)]
    assert [one.kind for one in shortened(found, 120, 20)] == ["ins", "same", "del", "ins"]


@pytest.mark.parametrize("field", ["to", "target", "text"])
def test_an_error_has_the_label_of_its_field(field: str) -> None:
    form = (ROOT / "kgd/ui/templates/node_do.html").read_text()
    assert f'<label for="{field}">{place(field)}' in form
