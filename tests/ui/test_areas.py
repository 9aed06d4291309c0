"""A person looks at which areas the code has, and where nobody has written anything."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at

pytestmark = pytest.mark.needs("chromium")


def test_areas_are_one_click_away(desk: Desk, page: Page) -> None:
    desk.call(
        "manage_graph", operation="create", entityType="atom", name="Auth", paths='["src/auth/**"]',
        createdByTaskId="https://tracker.example/1",
    )  # fmt: skip
    page.get_by_role("link", name="Areas").click()
    expect(page.locator("main")).to_contain_text("Auth")
    at(page, "review")
    expect(page.locator("main")).to_contain_text("atom://shop/Auth")
