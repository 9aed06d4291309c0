"""A text is cut into pieces of one thought each, under their headings, and the same text always the same way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.ingest.chunks import MOST, STRETCH, UNBROKEN, chunks, headings

WORDS = "The quick fox reads the handbook before it travels. "


def paths(text: str, kind: str = "markdown") -> list[tuple[str, ...]]:
    return [one.heading_path for one in chunks(text, kind, "T")]


def test_each_chunk_says_which_headings_it_stands_under() -> None:
    headings = ("# T", "## A", "### Deep `x`", "B\n---", "## C ##")
    text = "\n\n".join(f"{heading}\n\n{WORDS * 10}" for heading in headings)
    assert paths(text) == [("T",), ("T", "A"), ("T", "A", "Deep x"), ("T", "B"), ("T", "C")]


def test_a_number_sign_in_code_is_no_heading() -> None:
    text = f"## Use\n\n```sh\n# not a heading\n{WORDS * 20}\n```\n\n{WORDS * 10}"
    assert set(paths(text)) == {("T", "Use")}


def test_small_sections_share_a_chunk_and_a_heading_alone_makes_none() -> None:
    small = "".join(f"### {n}\n\nOne line.\n\n" for n in range(4))
    assert paths(f"# T\n\n## A\n\n## B\n\n{small}\n## C\n\n{WORDS * 15}") == [("T",), ("T", "C")]


def test_code_is_cut_at_definitions() -> None:
    body = "".join(f"    value_{n} = compute({n})\n" for n in range(25))
    code = f"import os\n\n\ndef first():\n{body}\n\nclass Second:\n    def inner(self):\n{body}"
    found = chunks(code, "code", "m.py")
    assert {one.heading_path[-1] for one in found} >= {"first", "Second"}
    assert next(one for one in found if one.heading_path[-1] == "Second").text.startswith("class Second")


def test_an_edit_under_one_heading_leaves_the_chunks_under_the_others_as_they_were() -> None:
    sections = [f"## S{n}\n\n{(WORDS.replace('fox', f'fox {n}')) * 30}\n\n" for n in range(6)]
    before = {one.text for one in chunks("".join(sections), "markdown", "T")}
    sections[2] = sections[2].replace("reads", "has read carefully and with joy", 1)
    after = {one.text for one in chunks("".join(sections), "markdown", "T")}
    assert all("fox 2" in text for text in before ^ after)
    assert len(before - after) < 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "> " * 20_000,
        "#" * 50_000,
        "# " + " " * 50_000 + "x",
        "a" * 50_000,
        "```\n" * 9_999,
        "- " * 20_000,
        "# x\n" * 9_999,
        "\n".join("#" * (n % 7) + f" h{n}\ntext {n}" for n in range(4_000)),
        "a\n-\n" * 9_000,
        "",
    ],
    ids=range(11),
)
@pytest.mark.parametrize("kind", ["markdown", "code", "text"])
def test_any_text_is_cut_in_time_and_nothing_of_it_is_lost(text: str, kind: str) -> None:
    check(text, kind)


@pytest.mark.parametrize("kind", ["markdown", "code", "text"])
def test_a_text_without_blanks_or_without_lines_is_cut_a_piece_at_a_time(kind: str) -> None:
    """The splitter scans the rest of its input for each chunk, so the input has to be limited."""
    unbroken = {one.start for one in chunks("中" * 3 * UNBROKEN, kind, "T")}
    assert unbroken >= {UNBROKEN, 2 * UNBROKEN}
    text = "ab " * STRETCH
    found = chunks(text, kind, "T")
    assert STRETCH - 2 < next(one.start for one in found if one.start > STRETCH - 3) <= STRETCH
    assert " ".join(one.text for one in found).split() == text.split()


@given(
    st.text(st.sampled_from("ab #\n-=`*>|.\t\u00e9\U0001f600"), max_size=3_000),
    st.sampled_from(["markdown", "code", "text"]),
)
def test_chunks_are_ordered_do_not_overlap_and_match_the_text(text: str, kind: str) -> None:
    check(text, kind)


def check(text: str, kind: str) -> None:
    found = chunks(text, kind, "T")
    assert found == chunks(text, kind, "T")
    assert all(one.text == text[one.start : one.end] and one.text.strip() for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(len(one.text) <= MOST + 2 for one in found if " " in text)
    left = list(text)
    for one in found:
        left[one.start : one.end] = " " * (one.end - one.start)
    for _, _, start, end in headings(text) if kind == "markdown" else ():
        left[start:end] = " " * (end - start)
    assert not "".join(left).strip()
