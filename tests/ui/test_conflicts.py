"""A person settles what two people wrote differently: sees both versions, the commit, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at, axe

pytestmark = pytest.mark.needs("chromium")


def disagree(desk: Desk, uri: str, field: str = "summary", values: Sequence[str] = ("one", "two", "three")) -> str:
    """The id of an open conflict over one field: a change is reverted after another one went over it."""
    commits = [desk.put(uri, **{field: value})["commit"] for value in values]
    desk.call("revert", commit=commits[1])
    (found,) = desk.call("conflicts", uri=uri)["conflicts"]
    return str(found["id"])


def test_a_side_is_taken_after_the_commit_was_seen(desk: Desk, page: Page) -> None:
    uri = "concept://shop/keys"
    disagree(desk, uri)
    at(page, "conflicts")
    page.get_by_role("link", name="keys").click()
    expect(page.get_by_role("region", name="Version A")).to_contain_text("one")
    assert axe(page) == []
    page.get_by_label("Take version A").check()
    page.get_by_role("button", name="Show the commit").click()
    before = desk.git("rev-parse", "HEAD")
    expect(page.locator(".commit")).to_contain_text(f"settle {uri}")
    page.get_by_role("button", name="Make this commit").click()
    expect(page.get_by_role("status").first).to_contain_text("Settled")
    assert desk.node(uri)["summary"] == "one"
    assert before
