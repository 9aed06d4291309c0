"""Front matter means the same however it is read, and is found where programs for notes find it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import canonical, front_matter, guard
from kgd.codec.canonical import NotCanonical
from kgd.errors import KgdError
from kgd.model.wiki_links import Link, Names, links, prose, tags

words = st.sampled_from(
    [
        "a",
        "yes",
        "no",
        "null",
        "true",
        "False",
        "~",
        "1",
        "0o7",
        "1e3",
        ".5",
        "2024-12-10",
        "2024-01-01T10:00",
        "x-y",
        "[a,b]",
        "{a}",
        "a:b",
        "'q'",
        '"q"',
        "#",
        "|",
        ">",
        "&",
        "*",
        "!",
        "%",
    ]
)
values = st.one_of(
    words,
    st.lists(words, max_size=4).map(lambda some: f"[{', '.join(some)}]"),
    st.lists(words, min_size=1, max_size=3).map(" ".join),
)
keys = st.sampled_from(["a", "tags", "b-c", "no", "1", "d e", "<<", ""])
lines = st.one_of(
    st.builds("{}: {}".format, keys, values),
    st.builds("{}:".format, keys),
    st.builds("{}- {}".format, st.sampled_from(["", "  ", "    ", "\t"]), values),
    st.builds("  {}: {}".format, keys, values),
)


@given(st.lists(lines, min_size=1, max_size=6))
def test_the_fast_parser_accepts_and_returns_the_same_as_the_guarded_one(given_lines: list[str]) -> None:
    inner = "\n".join(given_lines) + "\n"
    quick = front_matter.as_canonical(inner)
    if quick is None:
        return
    try:
        found = canonical.load(quick)
    except NotCanonical:
        return
    try:
        wanted = dict(guard.read(inner.encode(), ""))
    except KgdError as error:
        raise AssertionError(f"the guard refuses {inner!r}: {error}") from None
    assert found == wanted


def test_usual_front_matter_takes_the_quick_way() -> None:
    inner = (
        "title: A note\ntags: [a, b/c]\ndate: 2024-12-10\naliases:\n  - foo\n  - bar baz\n"
        "empty:\ndone: true\ncount: 3\n"
    )
    quick = front_matter.as_canonical(inner)
    assert quick is not None
    assert canonical.load(quick) == {
        "title": "A note",
        "tags": ["a", "b/c"],
        "date": "2024-12-10",
        "aliases": ["foo", "bar baz"],
        "empty": None,
        "done": True,
        "count": 3,
    }


begins = st.sampled_from(["", "---\n", "---\r\n", "\ufeff---\n"])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), begins)
def test_head_and_body_are_the_text(text: str, begin: str) -> None:
    page = front_matter.read(begin + text)
    assert page.head + page.body == begin + text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("see [[A]] and [[b/C#D|e]]", [("A", False), ("b/C", False)]),
        ("![[Pic]] [x](../up/N.md#part) [y](https://e.example/z.md)", [("Pic", True), ("../up/N.md", False)]),
        ("`[[no]]` ``[[no]]``\n```\n[[no]]\n```\n%% [[no]] %% <!-- [[no]] -->", []),
        ("| [[A\\|b]] |", [("A", False)]),
        ("[[#here]] [[ ]] [[x\ny]]", []),
        ("~~~\n[[never closed", []),
    ],
)
def test_links_are_found_where_they_are_links(text: str, wanted: list[tuple[str, bool]]) -> None:
    assert [(one.target, one.is_embed) for one in links(prose(text))] == wanted


def test_tags_are_words_after_a_blank() -> None:
    assert tags("#one #Two/three x#no #123 #2024-plan ## head (#no) #ünï") == ["one", "Two/three", "2024-plan", "ünï"]


def test_a_link_means_the_nearest_note_of_its_name() -> None:
    names = Names()
    names.add(["deep/down/A", "deep/A", "B", "deep/down/C"])
    names.add_alias("Other", "B")
    asked = ("a", "deep/down/a", "other", "Z", "A")
    found = {text: names.find(Link(text, False, False), "deep/down/C") for text in asked}
    assert found == {"a": "deep/down/A", "deep/down/a": "deep/down/A", "other": "B", "Z": None, "A": "deep/down/A"}
    assert names.find(Link("A", False, False), "B") == "deep/A"
    assert names.find(Link("../A.md", False, True), "deep/down/C") == "deep/A"


@pytest.mark.parametrize(
    "text",
    [
        "[[" * 60_000,
        "`" * 120_000,
        "%%[[a" * 30_000,
        "<!--" * 40_000,
        "#" + "1" * 120_000,
        "![](" * 40_000,
        "~~~\n" * 40_000,
        "---\n" * 40_000,
    ],
)
def test_the_cost_of_a_hostile_text_is_linear(text: str) -> None:
    page = front_matter.read(text)
    cleaned = prose(page.body)
    assert len(list(links(cleaned))) + len(tags(cleaned)) <= 60_000
