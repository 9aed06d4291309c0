"""A node in a list: type, name, marks, path, author and age, the same on all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import at, axe
from tests.ui.realistic import Realistic, realistic_desk

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realistic]:
    yield from realistic_desk(tmp_path_factory.mktemp("realistic"))


def test_marks_of_a_node_are_the_same_in_every_list(page: Page) -> None:
    marks = {
        "Labels expire": ("conflict", "labels", "author?name=Carla+Moreno"),
        "Messages of the provider are kept for a week": ("stale", "messages", "area?uri=atom://shop/payments"),
        "Two carriers, chosen by weight": ("1 proposal", "carriers", "area?uri=atom://shop/shipping"),
    }
    for name, (mark, word, list_) in marks.items():
        for place in (f"search?q={word}", list_):
            at(page, place)
            row = page.locator(".node-row").filter(has=page.get_by_role("link", name=name, exact=True))
            expect(row.get_by_role("heading").locator(".badge")).to_have_text([mark])
        page.keyboard.press("Control+k")
        page.keyboard.type(name)
        expect(page.locator("#palette-list [role=option]", has_text=name).first.locator(".badge")).to_have_text([mark])
        assert axe(page) == []
    at(page, "search?q=carriers")
    page.get_by_role("link", name="1 proposal").click()
    expect(page.locator("h1")).to_contain_text("Name the carriers' limit")


def test_a_row_in_conflict_names_the_authors_of_both_versions(page: Page) -> None:
    at(page, "search?q=labels+expire")
    row = page.locator(".hit").filter(has=page.get_by_role("link", name="Labels expire", exact=True))
    expect(row.locator(".aside")).to_have_text(re.compile(r"^gotcha · [\w ]+ and [\w ]+, \d+ days ago$"))


def test_a_row_names_the_program_of_an_agent(page: Page) -> None:
    at(page, "search?q=capture+is+idempotent")
    row = page.locator(".hit").filter(has=page.get_by_role("link", name="Capture is idempotent", exact=True))
    row.get_by_role("link", name=re.compile(r"^[\w ]+ \(claude-code\)$")).click()
    page.wait_for_url("**/search?*author=*")
    expect(page.locator(".hit").first).to_contain_text("(claude-code), ")


def test_a_row_shows_the_files_or_the_area_that_the_node_is_about(page: Page) -> None:
    at(page, "search?q=refund")
    line = page.locator(".hit", has_text="refunds_due looks back").locator(".aside")
    expect(line).to_have_text(
        re.compile(r"^insight · shop/admin/service\.py · Dmitri Volkov \(cursor\), \d+ weeks ago$")
    )
    expect(page.locator(".hit", has_text="Refunds take five days").locator(".aside")).to_contain_text(" · Payments · ")
    line.get_by_role("link", name="shop/admin/service.py").click()
    page.wait_for_url("**/file?uri=file*service.py")


def test_the_nearest_nodes_of_a_search_without_results_are_rows(page: Page) -> None:
    at(page, "search?q=qwertyfoobar")
    nearest = page.get_by_role("list", name="Nearest in knowledge").get_by_role("listitem")
    expect(nearest.first.get_by_role("link", name="Bob Builder")).to_be_visible()
    page.keyboard.press("j")
    expect(nearest.first.get_by_role("heading").get_by_role("link")).to_be_focused()


def test_an_excerpt_tells_more_than_the_summary_and_the_path_of_its_row(page: Page) -> None:
    at(page, "search?q=search")
    row = page.locator(".hit", has_text="Hyphens split words")
    expect(row.locator("p")).to_have_count(2)  # the summary, and the line with the path
    expect(row.locator("mark")).to_have_text(["search"])
    expect(row.locator("a:has(mark)")).to_have_text("shop/search/service.py")
    at(page, "search?q=seen")
    excerpts = page.locator(".hit p:not(.aside)", has_text="Seen while working")
    expect(excerpts.first).to_have_text(re.compile("^…Seen"))
    told = excerpts.all_inner_texts()
    assert len(set(told)) == len(told)


def test_an_area_is_searched_from_its_page(page: Page) -> None:
    at(page, "area?uri=atom://shop/payments")
    expect(page.locator(".title")).to_contain_text("Dmitri Volkov, ")
    expect(page.locator(".title")).to_contain_text(re.compile(r"\d+ facts \d+ conflicts? \d+ stale ·"))
    page.get_by_label("Search this area").fill("refunds")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Area: Payments (remove)")).to_be_visible()
    expect(page.locator(".hit", has_text="Refunds take five days")).to_have_count(1)
    expect(page.locator(".hit", has_text="Labels expire")).to_have_count(0)


def test_the_numbers_of_the_header_have_the_colours_of_their_marks(page: Page) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    for name, mark in (("Stale", "warn"), ("Conflicts", "bad"), ("Proposals", "open")):
        expect(pages.get_by_role("link", name=name).locator(".count")).to_have_class(f"count {mark}")
    expect(pages.get_by_role("link", name="Review").locator(".count")).to_have_class("count")


BROKEN_NAMES = """pre => {
    const texts = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), range = document.createRange(), found = [];
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/\\w+/g)) {
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map((one) => one.top));
            if (lines.size > 1) found.push(word[0]);
        }
    }
    return found;
}"""
"""The names in a box of code that begin in one line and end in another."""


@pytest.mark.parametrize("place", ["node", "node/edit"])
def test_code_in_a_narrow_panel_breaks_between_names(page: Page, place: str) -> None:
    at(page, f"{place}?uri=gotcha://shop/the-provider-answers-503-after-it-has-charged")
    code = page.locator(".cited pre.near")
    expect(code).to_contain_text("hashlib.sha256(order.encode()).hexdigest()")
    for width in (1200, 390, 340):
        page.set_viewport_size({"width": width, "height": 800})
        assert code.evaluate(BROKEN_NAMES) == [], width
        assert code.evaluate("one => one.scrollWidth <= one.clientWidth"), width
    page.set_viewport_size({"width": 1200, "height": 800})


def test_the_numbers_beside_the_knowledge_of_a_file_say_what_they_count(page: Page) -> None:
    at(page, "file?path=shop/payments/provider.py")
    known = page.get_by_role("region", name="What the team knows")
    expect(known.locator("h2")).to_contain_text("4 facts about this file, 2 rules of its areas, 9 related facts")
    expect(known.locator(".note")).to_have_count(4 + 2)
    known.get_by_role("link", name="9 related facts").click()
    expect(page.locator("#related > li").filter(visible=True)).to_have_count(9)


@pytest.mark.parametrize("place", ["areas", "area?uri=atom://shop/payments", "author?name=Carla+Moreno", "workspaces"])
def test_a_count_of_pending_work_is_a_link_that_looks_like_its_mark(page: Page, place: str) -> None:
    at(page, place)
    counts = page.get_by_role("main").get_by_text(re.compile(r"^\d+ (stale( facts?)?|conflicts?|proposals?)$"))
    expect(counts.first).to_be_visible()
    assert counts.evaluate_all("found => found.every(one => one.matches('a.badge:is(.warn, .bad, .open)'))")


def test_a_review_begins_with_changes_that_can_be_approved(page: Page) -> None:
    at(page, "review?since=2026-11-01")
    expect(page.locator(".author h2 a").first).to_have_text("Carla Moreno")
    expect(page.locator(".author", has_text="Bob Builder"), "nothing of him can be approved").to_have_count(0)
    folded = page.locator(".in-conflict")
    expect(folded).to_contain_text("7 of the 11 commits changed facts in conflict")
    expect(folded.locator(".row").first).to_be_hidden()


def test_a_phone_searches_in_the_palette(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("banner").get_by_role("link", name="Search").click()
    page.keyboard.type("refunds take")
    expect(page.get_by_role("option", name="Refunds take five days")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.set_viewport_size({"width": 1200, "height": 800})


def test_the_page_of_an_author_names_the_other_authors_of_a_conflict(page: Page) -> None:
    at(page, "author?name=Carla+Moreno")
    line = page.locator(".author-page .node-row", has_text="Labels expire").first.locator("> .aside")
    expect(line).to_have_text(
        re.compile(r"^gotcha · \d+ weeks ago.* · since changed by Bob Builder, Ann Person$", re.S)
    )


def test_the_numbers_of_an_author_lead_to_the_conflicts_and_the_stale_facts(page: Page) -> None:
    at(page, "author?name=Carla+Moreno")
    attention = page.locator(".numbers > div", has_text="Needs attention")
    attention.get_by_role("link", name="2 stale").click()
    expect(page).to_have_url(re.compile("#stale$"))
    expect(page.get_by_role("region", name="Stale facts").locator("li")).to_have_count(2)
    attention.get_by_role("link", name="2 conflicts").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conflicts")
