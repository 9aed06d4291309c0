"""A person sees which workspaces there are, with whom each is shared and who may come in, and changes it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at

pytestmark = pytest.mark.needs("chromium")


def test_the_workspaces_of_the_home_are_one_click_away(desk: Desk, page: Page) -> None:
    page.get_by_role("link", name="Workspaces", exact=True).click()
    expect(at(page, "workspaces").locator("main")).to_contain_text(str(desk.code))
