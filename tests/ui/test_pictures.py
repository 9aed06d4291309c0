"""Tests take the pictures of the documents."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.cli.conftest import on_terminal
from tests.conftest import ROOT
from tests.ui.conftest import Desk, Watched
from tests.ui.pictures import (
    CELL,
    FOLDER,
    GONE,
    LOOKS,
    PAGES,
    SIZE_LIMIT,
    TOTAL_LIMIT,
    VERSIONS,
    picture,
    pictures_of,
    rows,
    size,
    terminal_picture,
    with_few_colours,
)
from tests.ui.realistic import Realistic, realistic_desk

TAKEN = re.compile(r'\bpicture\(\s*\w+,\s*"([\w-]+)"')
BY_MARK = re.compile(r"^@pytest\.mark\.picture\ndef .*?(?=^\S(?!.*->)|\Z)", re.M | re.S)
OF_PAGES = {f"{one.name}-{look[0]}" for one in PAGES for look in LOOKS}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realistic]:
    """The realistic workspace, instead of a small one."""
    yield from realistic_desk(tmp_path_factory.mktemp("realistic"))


@pytest.mark.slow
@pytest.mark.needs("chromium")
@pytest.mark.picture
@pytest.mark.timeout(300)
def test_every_page_of_a_realistic_workspace_has_pictures(
    desk: Desk, page: Page, chromium: Browser, watched: Watched
) -> None:
    ids = {
        "commit": next(one["commit"] for one in desk.call("history", uri=VERSIONS)["commits"]),
        "conflict": quote(desk.call("conflicts")["conflicts"][0]["id"], safe=""),
        "proposal": quote(
            next(one["id"] for one in desk.call("proposals")["proposals"] if "audit" in one["message"]), safe=""
        ),
    }
    parts = urlsplit(page.url)
    stranger = chromium.new_page()
    registry = Path(desk.home.registry)
    good = registry.read_text()
    for one in PAGES:
        if one.workspace == GONE:
            registry.write_text(f"{good.rstrip()}\n  {GONE}:\n    path: {desk.code.parent / GONE}\n")
        shown = page if one.signed_in else stranger
        place = one.place if one.place.startswith("/") else f"/ui/w/{one.workspace}/{one.place}"
        shown.goto(f"{parts.scheme}://{parts.netloc}{place.format_map(ids)}")
        if one.keys:
            shown.keyboard.press(one.keys)
            shown.keyboard.type(one.typed)
        expect(shown.locator(one.within).filter(has_text=one.shows, visible=True).first).to_be_visible()
        assert list(pictures_of(one, shown, desk.code.parent))
    stranger.close()
    registry.write_text(good)
    watched.troubles.clear()  # the browser notes the answer of 503


@pytest.mark.slow
@pytest.mark.picture
def test_the_reasons_for_a_line_have_a_picture_of_a_terminal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-P", "-m", "kgd.cli", "why", "shop/payments/provider.py:14", "--budget", "700"]
    printed = on_terminal(command, desk.code, columns=90)
    taken = terminal_picture(printed, "terminal-why", 90)
    assert "The&#160;provider&#160;answers&#160;503" in taken
    assert "\033" not in taken


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


@pytest.mark.slow
def test_the_realistic_workspace_has_something_of_everything(desk: Realistic) -> None:
    status = desk.settled()
    assert status["counts"]["nodes"] >= 150
    assert (status["conflicts"], status["proposals"]) == (3, 2)
    assert (status["counts"]["unverified"], status["counts"]["broken_links"]) == (5, 3)
    assert status["counts"]["invalid_files"] == 1
    assert len(status["findings"]) == 3
    by = {(one["author"], one.get("client", "")) for one in desk.call("history", limit=100)["commits"]}
    assert len({name for name, _ in by}) >= 4
    assert {"claude-code", "cursor"} <= {client for _, client in by}


def test_a_picture_keeps_its_main_colours_and_those_of_a_small_badge() -> None:
    paper, orange = (247, 247, 244), (240, 150, 30)
    page = Image.new("RGB", (300, 200), paper)
    for number in range(3_000):  # shades of grey and green that are all more frequent than the badge
        page.putpixel((number % 100, number // 100), (number % 250, 100 + number % 97, 90))
    page.paste(orange, (200, 100, 202, 101))
    data = io.BytesIO()
    page.save(data, "PNG")
    with Image.open(io.BytesIO(with_few_colours(data.getvalue()))) as reduced:
        shown = reduced.convert("RGB")
    assert shown.getpixel((250, 20)) == paper
    assert shown.getpixel((200, 100)) == orange
    pairs = zip(page.tobytes(), shown.tobytes(), strict=True)
    assert max(abs(one - other) for one, other in pairs) <= CELL


def test_every_picture_is_in_a_document_and_is_taken_by_a_test() -> None:
    tests = [test.read_text() for test in (ROOT / "tests/ui").glob("*.py")]
    taken = {name for test in tests for marked in BY_MARK.findall(test) for name in TAKEN.findall(marked)} | OF_PAGES
    shown = set()
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        shown |= set(re.findall(r"\]\((?:\.\./)*(?:docs/)?pictures/([\w-]+)\.png\)", document.read_text()))
    kept = {place.stem for place in FOLDER.glob("*.png")}
    assert shown == kept
    assert kept <= taken, "a test must take each picture, or it is never renewed"
    assert shown >= OF_PAGES, "docs/ui.md lists the pictures of all pages"


def test_pictures_are_small_and_not_empty() -> None:
    for place in FOLDER.glob("*.png"):
        data = place.read_bytes()
        assert len(data) <= SIZE_LIMIT, place.name
        assert rows(data) > 20, place.name
        assert min(size(data)) >= 200, place.name
    assert sum(place.stat().st_size for place in FOLDER.glob("*.png")) <= TOTAL_LIMIT
