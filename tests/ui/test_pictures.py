"""Tests take the pictures of the documents."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.conftest import ROOT
from tests.ui.conftest import Desk
from tests.ui.pictures import FOLDER, SIZE_LIMIT, picture, rows, size

TAKEN = re.compile(r'\bpicture\(\s*\w+,\s*"([\w-]+)"')
BY_MARK = re.compile(r"^@pytest\.mark\.picture\ndef .*?(?=^\S(?!.*->)|\Z)", re.M | re.S)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_picture_shows_the_page_and_is_written_only_on_request(
    desk: Desk, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.ui.pictures.WANTED", False)
    before = sorted(FOLDER.iterdir()) if FOLDER.exists() else []
    assert not picture(page, "never-written", 800, 400).exists()
    assert (sorted(FOLDER.iterdir()) if FOLDER.exists() else []) == before
    page.evaluate("document.body.replaceChildren()")
    with pytest.raises(AssertionError, match="shows nothing"):
        picture(page, "never-written", 800, 400)


def test_every_picture_of_a_document_exists_and_is_taken_by_a_test() -> None:
    tests = [test.read_text() for test in (ROOT / "tests/ui").glob("*.py")]
    taken = {name for test in tests for marked in BY_MARK.findall(test) for name in TAKEN.findall(marked)}
    shown = set()
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        shown |= set(re.findall(r"!\[[^\]]+\]\((?:\.\./)*(?:docs/)?pictures/([\w-]+)\.png\)", document.read_text()))
    kept = {place.stem for place in FOLDER.glob("*.png")}
    assert shown <= kept
    assert kept <= taken, "a test must take each picture, or it is never renewed"


def test_pictures_are_small_and_not_empty() -> None:
    for place in FOLDER.glob("*.png"):
        data = place.read_bytes()
        assert len(data) <= SIZE_LIMIT, place.name
        assert rows(data) > 20, place.name
        assert min(size(data)) >= 200, place.name
