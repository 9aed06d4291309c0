"""The manual and the glossary, linked from every page, and the manual as a folder of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from kgd.ui import site
from kgd.ui.pages import manual as pages
from tests.ui.conftest import account, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

QUESTIONS = (
    "how do I share a workspace?",
    "stale facts",
    "kgd why",
    "restore a backup",
    "what is an atom",
    "CI",
    "xyzzy",
)


def manual(page: Page, place: str) -> None:
    page.goto(f"{page.url.partition('/ui/')[0]}/ui/manual{place}")


def test_the_manual_is_read_from_page_to_page_by_keyboard(page: Page) -> None:
    account(page).get_by_role("link", name="Manual").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("The manual")
    page.get_by_role("article").get_by_role("link", name="Why kgd", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Why kgd")
    expect(page).to_have_title("Why kgd · manual")
    page.get_by_role("link", name="context").first.click()
    expect(page).to_have_url(page.url.partition("/ui/")[0] + "/ui/manual/context")
    expect(page.get_by_role("navigation", name="Pages of the manual").get_by_role("link")).to_have_count(2)
    assert axe(page) == []


def test_a_block_of_commands_is_copied_and_printed_output_has_no_button(page: Page, context: BrowserContext) -> None:
    manual(page, "/ui")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator("pre[data-language=sh]").first
    block.hover()
    block.get_by_role("button", name="Copy this block").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("kgd ui --print")
    expect(block).to_contain_text("Copied")
    manual(page, "/memories")
    expect(page.locator("pre[data-language=text] button")).to_have_count(0)
    assert axe(page) == []


def test_the_manual_and_the_glossary_lead_back_to_the_workspace(page: Page) -> None:
    for name in ("Manual", "Glossary"):
        account(page).get_by_role("link", name=name).click()
        page.get_by_role("banner").get_by_role("link", name="Back to shop").click()
        expect(page.locator("h1")).to_have_text("shop")


def test_the_contents_show_the_group_of_the_page_and_open_the_others(page: Page) -> None:
    manual(page, "/hub")
    contents = page.get_by_role("navigation", name="All pages")
    expect(contents.get_by_role("link", name="Hubs", exact=True)).to_have_attribute("aria-current", "page")
    expect(contents.get_by_role("link", name="Search", exact=True)).to_be_hidden()
    contents.get_by_text("Ingest and search").click()
    contents.get_by_role("link", name="Search", exact=True).click()
    expect(page.locator("h1")).to_have_text("Search")
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Ingest and search").click()
    expect(page.get_by_role("heading", name="Ingest and search")).to_be_in_viewport()


def test_the_headings_of_a_page_are_beside_it_or_above_it(page: Page) -> None:
    manual(page, "/hub")
    beside, above = page.get_by_role("navigation", name="On this page"), page.locator(".own-contents")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(beside).to_be_visible()
    expect(above).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(beside).to_be_hidden()
    expect(above).to_be_visible()
    assert above.evaluate("fold => fold.previousElementSibling.tagName") == "H1"
    expect(above.get_by_role("link").first).to_be_hidden()
    above.locator("summary").click()
    expect(above.get_by_role("link").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("place", ["/hub", "?q=sync", "/../glossary"])
def test_on_a_phone_the_list_of_all_pages_opens_at_the_top(page: Page, place: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    manual(page, place)
    contents = page.get_by_role("navigation", name="All pages")
    expect(contents).to_be_hidden()
    page.get_by_role("button", name="All pages").click()
    expect(contents).to_be_in_viewport(ratio=1)
    expect(contents.locator("[aria-current]")).to_have_text(["Hubs"] if place == "/hub" else [])
    assert axe(page) == []
    page.set_viewport_size({"width": 1000, "height": 800})
    expect(page.get_by_role("button", name="All pages")).to_be_hidden()
    expect(contents).to_be_visible()


def test_a_wide_table_scrolls_on_a_phone_and_keeps_its_figures_on_one_line(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    manual(page, "/comparison")
    cell = page.get_by_role("cell", name="0.985 ms").bounding_box()
    assert cell
    assert cell["height"] < 60
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_question_leads_to_the_section_that_answers_it(page: Page) -> None:
    manual(page, "")
    page.get_by_role("searchbox", name="Search the manual").fill("share a workspace")
    page.keyboard.press("Enter")
    expect(page).to_have_title("share a workspace · manual")
    hits = page.locator(".hits")
    expect(hits.locator("mark").first).to_be_visible()
    assert axe(page) == []
    hits.get_by_role("link", name="Share a workspace", exact=True).click()
    expect(page.get_by_role("heading", name="Share a workspace")).to_be_in_viewport()
    manual(page, "?q=%3Cb%3Exyzzy")
    expect(page.get_by_role("article")).to_contain_text("No results for “<b>xyzzy”")
    page.get_by_role("article").get_by_role("link", name="contents").click()
    expect(page.locator("h1")).to_have_text("The manual")


def test_the_folder_of_files_finds_the_same_sections(chromium: Browser, tmp_path: Path) -> None:
    site.write(tmp_path)
    page = chromium.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    try:
        page.goto((tmp_path / "guides/agents.html").as_uri())
        page.get_by_role("searchbox", name="Search the manual").fill("sync")
        page.keyboard.press("Enter")
        expect(page.locator("#count")).to_have_text("20 results for “sync”")
        for question in QUESTIONS:
            page.get_by_role("searchbox", name="Search the manual").fill(question)
            found = pages.find(question)
            expect(page.locator("#hits h2")).to_have_text([hit.section.heading.title for hit in found])
            shown = [hit.snippet.striptags() for hit in found]
            assert page.locator("#hits li > p:last-child").all_inner_texts() == shown
        assert axe(page) == []
        page.get_by_role("searchbox", name="Search the manual").fill("token rotate")
        page.locator("#hits a").first.click()
        expect(page.locator("article h1")).to_be_visible()
        assert not troubles
    finally:
        page.close()


def test_the_glossary_explains_the_words_and_leads_to_the_manual(page: Page) -> None:
    account(page).get_by_role("link", name="Glossary").click()
    expect(page.locator("dt#proposal + dd")).to_have_text("a change that waits to be accepted or rejected")
    assert axe(page) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("dt#atom + dd a").click()
    expect(page.locator("h1")).to_contain_text("Areas:")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
