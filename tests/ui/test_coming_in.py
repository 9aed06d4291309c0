"""A browser is let in once by a link, stays in, and sees what changes."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.conftest import Desk, Watched, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def test_a_link_lets_one_browser_in_once(desk: Desk, context: BrowserContext, watched: Watched) -> None:
    link = desk.link()
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/overview")
    context.clear_cookies()
    page.goto(link)
    page.wait_for_selector("text=used already")
    page.goto(link.partition("/in/")[0])
    expect(page.locator("h1")).to_have_text("Who are you?")
    watched.troubles.clear()  # the browser notes each answer of 401


def test_a_page_shows_what_an_agent_writes_without_being_loaded_again(desk: Desk, page: Page) -> None:
    page.evaluate("window.sameAsBefore = true")
    desk.put("insight://shop/live", name="A live fact", summary="It shows by itself")
    expect(page.locator("main")).to_contain_text("A live fact")
    assert page.evaluate("window.sameAsBefore")


def test_axe_finds_nothing_on_the_first_pages(page: Page) -> None:
    assert axe(page) == []
