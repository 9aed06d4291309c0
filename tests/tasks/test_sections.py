"""Task sections: any node of a task can be read, and no text in it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.memories.tasks import Section, items, parsed, sections_of, status_of, with_sections
from kgd.model.node import Json, Node, Relation
from kgd.model.uri import parse

URI = parse("task://ws/t")


def node(**data: Json) -> Node:
    return Node(URI, name="T", data=data)


def test_sections_with_a_meaning_are_found_by_their_titles_however_they_are_written() -> None:
    task = parsed(
        node(
            status="In Progress",
            sections=[
                {"title": "OBJECTIVE", "content": "Do it."},
                {"title": "Acceptance criteria:", "content": "- one\n- two"},
                {"title": "context_files", "content": "src/a.py"},
                {"title": "Gotchas", "content": ["mind the gap", "and the step"]},
                {"title": "Notes", "content": "of my own"},
            ],
        )
    )
    assert (task.status, task.objective, task.criteria) == ("in-progress", "Do it.", ("one", "two"))
    assert (task.files, task.gotchas, task.patterns) == (("src/a.py",), ("mind the gap", "and the step"), ())


def test_a_task_without_sections_is_about_the_text_of_its_node() -> None:
    task = parsed(
        Node(URI, summary="Short.", content="Long.\n", relations=(Relation("depends_on", parse("task://ws/u")),))
    )
    assert (task.objective, task.status, task.sections) == ("Long.", "pending", ())
    assert task.depends_on == ("task://ws/u",)
    assert parsed(Node(URI, summary="Short.")).objective == "Short."


def test_a_task_that_was_written_as_one_text_has_its_headings_for_sections() -> None:
    content = """The subject of the task.

# Objective
Book each event once.

## Context Files ##
- src/a.py

```sh
# no heading
```
### Gotchas
## Patterns
in the text
"""
    task = parsed(Node(URI, content=content, data={"sections": [{"title": "patterns", "content": "in the list"}]}))
    assert [one.title for one in task.sections] == ["patterns", "Objective", "Context Files"]
    assert (task.objective, task.files, task.patterns) == ("Book each event once.", ("src/a.py",), ("in the list",))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, "pending"),
        ("", "pending"),
        (7, "pending"),
        ("pending", "pending"),
        ("in_progress", "in-progress"),
        ("DONE", "completed"),
        ("canceled", "cancelled"),
        ("waiting for Ann", "waiting for Ann"),
    ],
)
def test_a_status_is_recognised_in_its_usual_spellings(written: Json, read: str) -> None:
    assert status_of(node(status=written)) == read


@pytest.mark.parametrize(
    ("written", "titles"),
    [
        ({"Objective": "a", "Gotchas": "b"}, ["Objective", "Gotchas"]),
        ({"title": "One", "content": "a"}, ["One"]),
        ("only a text", ["Handoff Notes"]),
        ([1, None, {"content": "x"}, {"title": " "}, {"title": "Two"}], ["Two"]),
        (None, []),
        (5, []),
    ],
)
def test_sections_are_read_in_any_shape(written: Json, titles: list[str]) -> None:
    assert [one.title for one in sections_of(node(sections=written))] == titles


def test_a_section_replaces_the_section_of_its_title_and_all_else_stays() -> None:
    old = [{"title": "A", "content": "1"}, "no section", {"title": "B", "content": "2", "by": "ann"}, {"title": "a"}]
    new = with_sections(old, [Section("a", " 3 "), Section("C", "4")])
    assert new == [
        {"title": "a", "content": "3"},
        "no section",
        {"title": "B", "content": "2", "by": "ann"},
        {"title": "C", "content": "4"},
    ]
    assert with_sections(new, [Section("A", ""), Section("D", " ")]) == new[1:]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["title", "content", "Objective", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    status=_json,
    sections=_json,
    given_sections=st.lists(st.tuples(st.text("ABc ", min_size=1), st.text(max_size=5)), max_size=3),
)
def test_any_text_is_read_and_replaced_without_loss(
    status: Any, sections: Any, given_sections: list[tuple[str, str]]
) -> None:
    task = parsed(node(status=status, sections=sections))
    assert task.status
    new = [Section(title, content) for title, content in given_sections if title.strip()]
    after = with_sections(sections, new)
    kept = [one for one in task.sections if one.title.casefold() not in {new.title.strip().casefold() for new in new}]
    stored = sections_of(node(sections=after))
    assert [one for one in stored if one in kept] == kept
    assert with_sections(after, new) == after


def test_an_item_is_a_line_and_continues_below_its_bullet() -> None:
    text = """
    Found on the way:

    - Stripe retries for three days,
      even after a 200
    - Stripe retries for three days,
      even after a 200
    * [x] the header is `Stripe-Signature`
    2) locale comes from the registry
    None
    - n/a
    ---
    ```
    plain line
    """
    assert items(text) == (
        "Found on the way:",
        "Stripe retries for three days, even after a 200",
        "the header is `Stripe-Signature`",
        "locale comes from the registry",
        "plain line",
    )
