"""Highlighted code: every character stays, and no text becomes markup."""

from __future__ import annotations

import html
import re

import pytest

from kgd.ui.highlighting import LONGEST_LINE, highlighted
from tests.conftest import ROOT

SAMPLES = ("kgd/ui/highlighting.py", "kgd/ui/static/kgd.css", "kgd/ui/static/kgd.js", "docs/ui.md", "pyproject.toml")


def plain(lines: tuple[str, ...]) -> str:
    return html.unescape(re.sub(r"<span class=\"\w\">|</span>", "", "\n".join(lines)))


@pytest.mark.parametrize("path", SAMPLES)
def test_every_character_of_a_text_stays_in_its_line(path: str) -> None:
    text = (ROOT / path).read_text()
    lines = highlighted(text, path)
    assert plain(lines) == text
    assert len(lines) == text.count("\n") + 1


def test_keywords_names_and_texts_have_classes_on_each_of_their_lines() -> None:
    lines = highlighted('def sign(token):\n    """First\n    second."""\n    return "a" + 1\n', "src/keys.py")
    assert lines[0] == '<span class="k">def </span><span class="f">sign</span>(token):'
    assert lines[2] == '<span class="c">    second.&#34;&#34;&#34;</span>'
    assert '<span class="s">&#34;a&#34; </span>' in lines[3]
    assert '<span class="n">1</span>' in lines[3]


@pytest.mark.parametrize("name", ["x.py", "x.html", "x.md", "x.unknown", "Makefile"])
def test_markup_in_code_is_shown_as_text(name: str) -> None:
    (line,) = highlighted("<script>alert('x')</script>", name)
    assert "<script" not in line
    assert plain((line,)) == "<script>alert('x')</script>"


def test_invisible_characters_are_spelled_out() -> None:
    assert "⟨U+202E⟩" in highlighted('x = "\u202e"', "x.py")[0]


def test_a_text_with_a_very_long_line_or_without_a_known_language_has_no_classes() -> None:
    assert "<span" not in "".join(highlighted("x = 1\n" + "y" * (LONGEST_LINE + 1), "x.py"))
    assert highlighted("def x", "notes.unknown") == ("def x",)


def test_a_carriage_return_alone_begins_no_line() -> None:
    """git, and so each citation and origin of a line, counts line feeds."""
    assert [str(line) for line in highlighted("a\rb\r\nc", "x.unknown")] == ["a⟨U+000D⟩b", "c"]
