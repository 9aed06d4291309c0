"""A person reads a node, changes it with forms, and finds in its past who wrote what."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at, axe

pytestmark = pytest.mark.needs("chromium")


def test_a_node_is_edited_with_the_keyboard_and_the_commit_is_by_the_person(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/pay", name="Payments", summary="How money comes in", content="# Cards\n\nFirst *line*.\n")
    at(page, "node?uri=concept://shop/pay")
    expect(page.locator("main .content em")).to_have_text("line")
    page.get_by_role("link", name="Edit").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Summary").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("How money comes in, and goes out")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Saved with commit")
    expect(page.locator(".summary")).to_have_text("How money comes in, and goes out")
    node = desk.node("concept://shop/pay")
    assert node["content"] == "# Cards\n\nFirst *line*.\n"
    assert "kgd ui" in desk.git("log", "-1", "--format=%an %s", "refs/kgd/head")
    assert axe(page) == []
