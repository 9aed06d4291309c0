"""Two browsers and an agent on one workspace see each other's changes at once."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.ui.colleague import Colleague
from tests.ui.conftest import WAIT, Desk, at

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

MOMENT = 1_000
"""Timeout of a change in milliseconds; painting takes longer on a busy machine."""


@pytest.fixture(scope="module")
def bob(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colleague]:
    made = Colleague(desk, tmp_path_factory.mktemp("bob"))
    yield made
    made.close()


@pytest.fixture
def other(chromium: Browser, desk: Desk) -> Iterator[Page]:
    """A page of another browser."""
    context: BrowserContext = chromium.new_context()
    made = context.new_page()
    made.goto(desk.link())
    made.wait_for_url("**/overview")
    yield made
    context.close()


def stay(page: Page) -> None:
    page.evaluate("window.sameAsBefore = true")


def stayed(page: Page) -> bool:
    """Whether the page has not been reloaded."""
    return bool(page.evaluate("window.sameAsBefore === true"))


@pytest.mark.requirement("B6")
def test_a_conflict_resolved_in_one_browser_shows_in_the_other(
    desk: Desk, bob: Colleague, page: Page, other: Page
) -> None:
    uri = "concept://shop/services/auth"
    for one in (page, other):
        at(one, "conflicts")
        expect(one.locator("main")).to_contain_text("No conflicts")
        stay(one)
    id = bob.disagree(uri, "summary", "ours", "theirs", was="before")
    for one in (page, other):
        expect(one.get_by_role("link", name="auth", exact=True)).to_be_visible(timeout=WAIT)
        assert stayed(one), "it shows without being loaded again"

    at(other, f"conflict?id={quote(id, safe='')}")
    stay(other)
    page.get_by_role("link", name="auth", exact=True).click()
    page.get_by_label("Choose B").check()
    page.get_by_role("button", name="Preview commit").click()
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    expect(other.locator("h1")).to_have_text("Already resolved", timeout=WAIT)
    assert stayed(other)
    assert desk.node(uri)["summary"] == "theirs"


def test_changes_of_an_agent_and_each_browser_show_in_the_others(desk: Desk, page: Page, other: Page) -> None:
    at(page, "overview")
    at(other, "proposals")
    stay(page)
    stay(other)
    base = desk.put("concept://shop/pay", summary="was")["commit"]
    desk.put("concept://shop/pay", summary="is")
    change = {"op": "upsert", "uri": "concept://shop/pay", "summary": "would be"}
    name = desk.call("submit_subgraph", changes=[change], base=base, message="an agent's idea")["proposal"]
    expect(other.get_by_role("link", name="an agent's idea", exact=True)).to_be_visible(timeout=WAIT)
    assert stayed(other)
    expect(page.locator("main")).to_contain_text("pay", timeout=WAIT)
    assert stayed(page)

    at(page, f"proposal?id={name}")
    page.get_by_text("Reject…").click()
    page.get_by_label("Reason for rejection").fill("it costs too much")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".said")).to_contain_text("Rejected")
    expect(other.locator("main")).to_contain_text("No proposals", timeout=WAIT)
    assert stayed(other)


def test_a_change_is_seen_within_a_second(desk: Desk, page: Page, other: Page) -> None:
    """Measured in the page, from the writer's answer until painting; the best of a few, on a busy machine."""
    for one in (page, other):
        at(one, "overview")
        one.evaluate(
            "window.seen = {}; new MutationObserver(() => { for (const n of [0,1,2,3,4]) if (!window.seen[n] && "
            "document.getElementById('main').textContent.includes(`told-${n}`)) window.seen[n] = Date.now(); })"
            ".observe(document.body, {subtree: true, childList: true, characterData: true})"
        )
    took = []
    for number in range(5):
        began = page.evaluate("Date.now()")
        desk.put(f"insight://shop/told-{number}", name=f"told-{number}")
        for one in (page, other):
            expect(one.locator("main")).to_contain_text(f"told-{number}", timeout=WAIT)
        took.append(max(one.evaluate(f"window.seen[{number}]") for one in (page, other)) - began)
    assert min(took) <= MOMENT, took
