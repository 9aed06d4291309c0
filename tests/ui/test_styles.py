"""The styles of the pages: each page links the sheets with the rules of its classes, and each rule has a use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import kgd

UI = Path(kgd.__file__).parent / "ui"
TEMPLATES = {file.name: file.read_text() for file in UI.glob("templates/*.html")}
SHEETS = {file.name: file.read_text() for file in UI.glob("static/*.css")}
CODE = [file.read_text() for place in ("ui", "drawing") for file in (UI.parent / place).rglob("*.py")]
SCRIPTS = [file.read_text() for file in UI.glob("static/*.js")]
PAGES = [name for name, text in TEMPLATES.items() if "{% extends" in text]

OF_A_CLASS = re.compile(r'class="((?:\{\{.*?\}\}|\{%.*?%\}|[^"])*)"').findall
BY_NAME = re.compile(r'\{% (?:extends|include|from) "([^"]+)"').findall
LINKED = re.compile(r"asset\('([\w-]+\.css)'\)").findall
WORDS = re.compile(r"[\w-]+").findall


def selected(sheet: str) -> set[str]:
    """The classes in the selectors of a sheet."""
    rules = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    return {
        name for selector in re.findall(r"([^{}]+)\{", rules) for name in re.findall(r"\.([a-zA-Z][\w-]*)", selector)
    }


def words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in WORDS(text)}


def parts(name: str) -> set[str]:
    """A template with those that it extends, includes or imports."""
    return {name}.union(*(parts(one) for one in BY_NAME(TEMPLATES[name])))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_links_the_sheets_that_have_rules_for_its_classes(page: str) -> None:
    linked = {"kgd.css", *(sheet for name in parts(page) for sheet in LINKED(TEMPLATES[name]))}
    plain = words(re.sub(r"\{[{%].*?[%}]\}", " ", value) for value in OF_A_CLASS(TEMPLATES[page]))
    styled = plain & set().union(*map(selected, SHEETS.values()))
    assert styled <= set().union(*(selected(SHEETS[name]) for name in linked))


@pytest.mark.parametrize("sheet", SHEETS)
def test_each_class_of_a_sheet_is_in_a_template_or_made_by_code(sheet: str) -> None:
    in_pages = words(value for text in TEMPLATES.values() for value in OF_A_CLASS(text))
    in_code = words(value for text in CODE for value in OF_A_CLASS(text))
    quoted = words(text for source in (*CODE, *SCRIPTS) for text in re.findall(r'"([^"\n]*)"', source))
    assert selected(SHEETS[sheet]) <= in_pages | in_code | quoted
