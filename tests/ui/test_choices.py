"""The choices for a conflict produce the values that the page showed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import Invalid
from kgd.ui.changes import is_cut, rows, titled, written
from kgd.ui.choices import Choice, Dispute, assembled, disputes, parts_of, resolution, value_of
from kgd.ui.pages.attention import versions_of

texts = st.lists(st.sampled_from(["one\n", "two\n", "three\n", "\n", "four"]), max_size=12).map("".join)
ID = "concept://shop/a#0123456789abcdef"


def dispute(name: str, *sides: Any, base: Any = None, **more: Any) -> Dispute:
    uri = more.pop("uri", "concept://shop/a")
    lettered = [{"side": letter, "value": side} for letter, side in zip("abcdefgh", sides, strict=False)]
    field = {"base": base, "sides": lettered, "shown": lettered[-1]["side"], **more}
    (found,) = disputes({"id": ID, "uri": uri, "fields": {name: field}})
    return found


@given(texts, texts)
def test_all_parts_of_a_version_are_that_version(a: str, b: str) -> None:
    parts = parts_of(a, b)
    for letter, text in (("a", a), ("b", b)):
        assert assembled(parts, dict.fromkeys(range(len(parts)), letter)) == text
    assert all(one.is_same != other.is_same for one, other in itertools.pairwise(parts) if not one.is_same)


@given(texts, texts, st.data())
def test_equal_parts_stay_for_every_choice(a: str, b: str, data: st.DataObject) -> None:
    parts = parts_of(a, b)
    chosen = {number: data.draw(st.sampled_from(["a", "b", "both", "none"])) for number in range(len(parts))}
    text = assembled(parts, chosen)
    for number, part in enumerate(parts):
        if part.is_same:
            assert part.a in text
        elif chosen[number] == "both":
            assert text.count(part.a.rstrip("\n")) >= 1
            assert part.b in text


def test_a_part_without_a_choice_is_refused() -> None:
    with pytest.raises(Invalid, match="no version is chosen"):
        assembled(parts_of("one\n", "two\n"), {})


def test_a_version_is_chosen_by_letter_and_another_text_is_kept_as_typed() -> None:
    one = dispute("summary", "A", "B", base="was")
    assert resolution([one], [Choice("a")]) == {"id": ID, "take": "a"}
    assert resolution([one], [Choice("base")]) == {"id": ID, "take": "base"}
    assert resolution([one], [Choice("own", "first\r\nsecond\r\n")]) == {
        "id": ID,
        "fields": {"summary": "first\nsecond\n"},
    }
    assert value_of(one, Choice("own", "")) is None
    for nothing in (Choice(), Choice("c"), Choice("parts"), Choice("now")):
        with pytest.raises(Invalid, match="nothing was chosen for the summary"):
            resolution([one], [nothing])


def test_a_third_version_and_the_current_value_can_be_chosen() -> None:
    one = dispute("summary", "A", "B", "C", base="was", now="since")
    assert resolution([one], [Choice("c")])["fields"] == {"summary": "C"}
    assert (one.now, resolution([one], [Choice("now")])["fields"]) == ("since", {"summary": "since"})
    assert dispute("summary", "A", "B", now="B").now is None


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("true", True), ('["x", null]', ["x", None]), ("null", None)])
def test_a_value_other_than_text_is_entered_as_json(text: str, value: Any) -> None:
    one = dispute("data/limit", 1, 2, base=0)
    assert (one.own, value_of(one, Choice("own", text))) == ("2", value)
    with pytest.raises(Invalid, match="not JSON"):
        value_of(one, Choice("own", "three"))


def test_a_node_can_be_deleted_kept_or_combined() -> None:
    a = {"uri": "concept://shop/a", "name": "A", "summary": "same", "tags": ["x"]}
    b = {"uri": "concept://shop/a", "name": "B", "summary": "same", "content": "text"}
    gone = dispute("node", None, b, base={"uri": "concept://shop/a"})
    assert [side.label for side in gone.sides] == ["Delete the node", "Choose B"]
    assert gone.own is None
    both = dispute("node", a, b)
    assert [part.title for part in both.parts if not part.is_same] == ["name", "tags", "content"]
    made = value_of(both, Choice("parts", parts={0: "b", 1: "a", 2: "b"}))
    assert made == {"uri": "concept://shop/a", "name": "B", "summary": "same", "tags": ["x"], "content": "text"}
    assert "content" not in value_of(both, Choice("parts", parts={0: "b", 1: "a", 2: "a"}))


def test_renames_and_twins_are_resolved_by_name() -> None:
    names = ("concept://shop/b", "concept://shop/c")
    place = dispute("uri", *names, base="concept://shop/a")
    assert [side.label for side in place.sides] == [f"Name it {name}" for name in names]
    assert value_of(place, Choice("own", "concept://shop/d")) == "concept://shop/d"
    twin = dispute("twin", *names)
    assert (twin.base_label, value_of(twin, Choice("base")), twin.own) == ("Keep both facts", None, None)


def test_without_a_merge_base_each_version_is_marked_against_the_other() -> None:
    one = dispute("summary", "the red door", "the blue door")
    assert [[(mark.kind, mark.text) for mark in side.marks if mark.kind != "same"] for side in one.sides] == [
        [("ins", "red")],
        [("ins", "blue")],
    ]


def test_each_version_is_readable_whole_without_the_words_that_it_deletes() -> None:
    long = "It stays as it was. " * 40
    one = dispute("content", f"{long}Two attempts in all.", f"{long}Attempts.", base=f"{long}Three attempts.")
    for side in one.sides:
        assert "".join(mark.text for mark in side.reading) == side.text
        assert side.drops
    assert ("ins", "Two attempts in all") in [(mark.kind, mark.text) for mark in one.sides[0].reading]


def test_lists_are_compared_by_item() -> None:
    fields = {"tags": {"before": ["two words", "old"], "after": ["two words", "two more", "reviewed"]}}
    (row,) = rows([{"uri": "concept://shop/a", "change": "changed", "fields": fields}])
    shown = [(mark.kind, mark.text) for mark in row.fields[0].marks if mark.text.strip()]
    assert shown == [("same", "two words\n"), ("del", "old"), ("ins", "two more"), ("ins", "reviewed")]
    both = dispute("tags", ["blue", "green"], ["blue", "dark green"], base=["blue"])
    assert [[mark.text for mark in side.reading if mark.kind == "ins"] for side in both.sides] == [
        ["green"],
        ["dark green"],
    ]
    gone = {"tags": {"before": ["old"], "after": []}}
    (row,) = rows([{"uri": "concept://shop/a", "change": "changed", "fields": gone}])
    assert [(mark.kind, mark.text) for mark in row.fields[0].marks] == [("del", "old")]


def test_a_large_version_is_named_by_its_file_and_cannot_be_edited() -> None:
    one = dispute("content", {"kept": "kept/concept/a-1.txt"}, "short")
    assert "kept/concept/a-1.txt" in one.sides[0].text
    assert (one.own, one.parts) == (None, ())


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ("summary", "summary"),
        ("data/owner/name", "owner / name (data)"),
        ("relations/depends_on/concept:~1~1shop~1x/weight", "relation “depends on” to concept://shop/x, its weight"),
        ("memories/a.md/prose", "text of memories/a.md"),
        ("twin", "two facts of one name"),
    ],
)
def test_fields_have_readable_labels(field: str, title: str) -> None:
    assert titled(field) == title


@pytest.mark.parametrize(
    ("change", "fields", "gist"),
    [
        ("changed", {"data/paths": (["src/**", "a.py"], ["src/**", "b.py"])}, "files: added b.py, removed a.py"),
        ("changed", {"data/paths": (["src/**"], ["src/**", "b.py", "c.py"])}, "files: added b.py, c.py"),
        ("changed", {"data/paths": (None, ["b.py", "c.py"])}, "files: added b.py, c.py"),
        ("changed", {"data/status": ("open", "done")}, "status: open → done"),
        ("changed", {"name": ("Old keys", "New keys")}, "name: Old keys → New keys"),
        ("changed", {"content": ("one", "two")}, "content"),
        ("changed", {"relations/depends_on/concept:~1~1shop~1audit": (None, {"weight": 1.0})}, "depends on audit"),
        (
            "changed",
            {"relations/depends_on/concept:~1~1shop~1audit": ({"weight": 1.0}, {"weight": 3.0})},
            "depends on audit: cost 3",
        ),
        ("changed", {"relations/uses/concept:~1~1shop~1x": ({"weight": 1.0}, None)}, "no longer uses x"),
        ("changed", {"data/verified": ({}, {"a": True})}, "verified"),
        ("created", {"name": (None, "Keys"), "content": (None, "All keys.\n\nMore.")}, "All keys."),
        ("created", {"name": (None, "Keys"), "data/paths": (None, ["a.py", "b.py"])}, "files: a.py, b.py"),
    ],
)
def test_a_row_without_a_summary_tells_what_changed(change: str, fields: dict[str, Any], gist: str) -> None:
    told = {name: {"before": before, "after": after} for name, (before, after) in fields.items()}
    (row,) = rows([{"uri": "atom://shop/keys", "change": change, "fields": told}])
    assert row.gist == gist


@pytest.mark.parametrize(
    ("change", "name", "before", "is_empty"),
    [
        ("changed", "summary", None, True),
        ("changed", "summary", "Old", False),
        ("created", "summary", None, False),
        ("changed", "data/status", None, False),
    ],
)
def test_a_difference_reports_a_text_that_was_empty(change: str, name: str, before: str | None, is_empty: bool) -> None:
    field = {name: {"before": before, "after": "New"}}
    (row,) = rows([{"uri": "concept://shop/a", "change": change, "fields": field}])
    assert row.fields[0].was_empty is is_empty


def test_a_cost_has_no_needless_digits() -> None:
    assert (written({"weight": 1.0}), written({"weight": 0.25})) == ("cost 1", "cost 0.25")


def test_a_shortened_text_is_recognised() -> None:
    cut = {
        "uri": "concept://shop/a",
        "change": "changed",
        "fields": {"content": {"before": None, "after": "x… (5000 characters)"}},
    }
    assert rows([cut])[0].is_cut
    assert not is_cut(["x…", {"k": 1}])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"summary": "ab"}, "Two versions of the summary."),
        ({"summary": "ab", "tags": "abc"}, "3 versions of the summary and tags."),
    ],
)
def test_a_card_counts_the_versions_of_a_conflict(fields: dict[str, str], said: str) -> None:
    assert versions_of({name: {"sides": list(sides)} for name, sides in fields.items()}) == said


def test_a_change_shows_name_summary_content_and_tags_first_and_verified_last() -> None:
    names = ["content", "data/cites", "data/verified", "name", "relations/about/atom://shop/pay", "summary", "tags"]
    fields = {name: {"before": None, "after": "x"} for name in names}
    (row,) = rows([{"uri": "concept://shop/a", "change": "created", "fields": fields}])
    shown = [field.name for field in row.fields]
    assert shown[:4] == ["name", "summary", "content", "tags"]
    assert shown[4:] == ["data/cites", "relations/about/atom://shop/pay", "data/verified"]
