"""A link signs in one browser once; its pages follow changes."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.conftest import Desk, Watched, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def test_a_link_signs_in_one_browser_once(desk: Desk, context: BrowserContext, watched: Watched) -> None:
    link = desk.link()
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/overview")
    context.clear_cookies()
    page.goto(link)
    page.wait_for_selector("text=already been used")
    page.goto(link.partition("/in/")[0])
    expect(page.locator("h1")).to_have_text("Sign in")
    watched.troubles.clear()  # the browser notes each answer of 401


def test_a_page_shows_an_agents_change_without_a_reload(desk: Desk, page: Page) -> None:
    page.evaluate("window.sameAsBefore = true")
    desk.put("insight://shop/live", name="A live fact", summary="It shows by itself")
    expect(page.locator("main")).to_contain_text("A live fact")
    assert page.evaluate("window.sameAsBefore")


def test_axe_finds_nothing_on_the_first_pages(page: Page) -> None:
    assert axe(page) == []
