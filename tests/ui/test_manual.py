"""The manual and the glossary, linked from every page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def test_the_manual_is_read_from_page_to_page_by_keyboard(page: Page) -> None:
    page.locator("footer").get_by_role("link", name="Manual").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("The manual")
    page.get_by_role("link", name="Why kgd").last.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Why kgd")
    expect(page).to_have_title("Why kgd · manual")
    page.get_by_role("link", name="context").first.click()
    expect(page).to_have_url(page.url.partition("/ui/")[0] + "/ui/manual/context")
    expect(page.get_by_role("navigation", name="Pages of the manual").get_by_role("link")).to_have_count(2)
    assert axe(page) == []


def test_the_glossary_explains_the_words_and_leads_to_the_manual(page: Page) -> None:
    page.locator("footer").get_by_role("link", name="Glossary").click()
    expect(page.locator("dt#proposal + dd")).to_have_text("a change that waits to be accepted or rejected")
    assert axe(page) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("dt#atom + dd a").click()
    expect(page.locator("h1")).to_contain_text("Areas:")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
