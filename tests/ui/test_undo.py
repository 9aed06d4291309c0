"""After a change, the next page links to its commit and offers to undo it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from kgd.ui.notices import Notice
from tests.ui.conftest import Desk, at, axe


def test_a_message_splits_around_its_commit() -> None:
    commit = "0123456789abcdef"
    notice = Notice.read(Notice(f"Saved with commit {commit[:10]}. Note: x.", commit, "shop").written())
    assert notice is not None
    assert notice.parts == ("Saved with commit ", commit[:10], ". Note: x.")
    assert Notice("Area created.", commit).parts == ("Area created.", "", "")


@pytest.mark.parametrize("text", ["Saved", "3", "[]", '{"other": 1}'])
def test_a_message_of_an_earlier_version_is_shown_as_text(text: str) -> None:
    assert Notice.read(text) == Notice(text)
    assert Notice.read("") is None


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_a_save_a_rename_and_a_deletion_are_each_undone_with_one_click(desk: Desk, page: Page) -> None:
    uri = "concept://shop/undone"
    desk.put(uri, name="Undone", summary="Before")
    at(page, f"node/edit?uri={uri}")
    page.get_by_label("Summary").fill("After")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("After")
    page.locator(".said a").click()
    expect(page.locator(".side-by-side ins")).to_have_text("After")
    assert axe(page) == []
    page.go_back()
    at(page, f"node/edit?uri={uri}")
    page.get_by_label("Summary").fill("Later")
    page.get_by_role("button", name="Save").click()
    undo(page)
    expect(page.locator("h1")).to_have_text("After")
    at(page, f"node?uri={uri}&do=move")
    page.get_by_label("New address").fill("concept:moved")
    page.get_by_role("button", name="Rename").click()
    undo(page)
    expect(page.locator("main")).to_contain_text(uri)
    at(page, f"node/delete?uri={uri}")
    page.get_by_role("button", name="Delete").click()
    undo(page)
    assert desk.node(uri)["summary"] == "After"


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_undo_keeps_a_later_change_and_shows_one_that_is_in_the_way(desk: Desk, page: Page) -> None:
    uri = "concept://shop/meanwhile"
    desk.put(uri, name="Meanwhile", summary="Before")
    for summary, later in (("Mine", {"tags": ["theirs"]}), ("Mine again", {"summary": "Theirs"})):
        at(page, f"node/edit?uri={uri}")
        page.get_by_label("Summary").fill(summary)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".said")).to_contain_text("Saved")
        desk.put(uri, **later)
        if "tags" in later:
            undo(page)
            assert (desk.node(uri)["summary"], desk.node(uri)["tags"]) == ("Before", ["theirs"])
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Not undone yet")
    expect(page.locator(".said")).to_contain_text("has changed since")
    expect(page.locator(".side-by-side ins")).to_have_text("Mine again")
    assert desk.node(uri)["summary"] == "Theirs"
    assert "conflicts" not in desk.node(uri)
    assert page.get_by_role("button", name="Undo").count() == 0


def undo(page: Page) -> None:
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone with commit")
