"""The author of a change as the name in a commit."""

from __future__ import annotations

import pytest

from kgd.model.change import Author


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("Ann Person", Author("Ann Person", "")),
        ("Ann Person <ann@example.org>", Author("Ann Person", "ann@example.org")),
        ("Ann Person (codex 1.2) <ann@example.org>", Author("Ann Person", "ann@example.org", "codex 1.2")),
        ("Ann (Berlin) (codex)", Author("Ann (Berlin)", "", "codex")),
        ("", Author("", "")),
    ],
)
def test_the_name_in_a_commit_is_split_into_name_program_and_address(text: str, author: Author) -> None:
    assert Author.of(text) == author
    assert author.signed == text.partition(" <")[0]
