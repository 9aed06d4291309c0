"""Eight common jobs in the realistic workspace, with the clicks, keys and words that each takes.

Each job begins on a page that a user has open already. Typed words are not keys; Enter is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.conftest import Desk, at
from tests.ui.realistic import PAYMENTS, RETRY, Realistic, realistic_desk

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

CHARGED_TWICE = "gotcha://shop/the-provider-answers-503-after-it-has-charged"
GAPS = "insight://shop/order-numbers-have-gaps"
REFUNDS = "insight://shop/refunds-take-five-days"
SANDBOX = "insight://shop/the-sandbox-forgets-charges"


@dataclass
class Hand:
    """A user's hand: uses a page and counts."""

    page: Page
    clicks: int = 0
    keys: int = 0
    words: int = 0

    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    def press(self, key: str) -> None:
        self.keys += 1
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.words += len(text.split())
        self.page.keyboard.insert_text(text)

    @property
    def effort(self) -> int:
        return self.clicks + self.keys


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realistic]:
    yield from realistic_desk(tmp_path_factory.mktemp("realistic"))


@pytest.fixture
def hand(page: Page) -> Hand:
    return Hand(page)


def test_a_fact_is_found_with_one_query_of_one_word(page: Page, hand: Hand) -> None:
    hand.press("/")
    expect(page.get_by_role("dialog", name="Search and actions")).to_be_visible()
    hand.type("503")
    hand.press("Shift+Enter")
    page.wait_for_url("**/search?q=503")
    expect(page.locator("[data-row]").first).to_contain_text("The provider answers 503 after it has charged")
    assert (hand.clicks, hand.keys, hand.words) == (0, 2, 1)


def test_who_wrote_a_line_and_why_take_one_click(page: Page, hand: Hand) -> None:
    at(page, "file?path=shop/payments/provider.py")
    line = page.locator("table.code tr", has_text="def charge")
    line.hover()
    hand.click(line.get_by_role("button", name="Why?"))
    answer = page.locator("tr.why")
    expect(answer).to_contain_text(re.compile(r"Ann Person|Bob Builder|Carla Moreno|Dmitri Volkov"))
    expect(answer.locator("p").first).to_contain_text("commit")
    expect(answer.get_by_role("link", name="The provider answers 503 after it has charged")).to_be_visible()
    assert hand.effort == 1


def test_a_wrong_fact_is_corrected_with_three_clicks_at_most(desk: Desk, page: Page, hand: Hand) -> None:
    at(page, f"node?uri={REFUNDS}")
    hand.click(page.get_by_role("link", name="Edit", exact=True))
    expect(page.get_by_label("Summary", exact=True)).to_be_focused()
    hand.press("Control+a")
    hand.type("Banks book them in batches; tell the customer seven days")
    hand.click(page.get_by_role("button", name="Save"))
    expect(page.locator("h1 + p")).to_contain_text("seven days")
    assert desk.node(REFUNDS)["summary"].endswith("seven days")
    assert hand.effort <= 3


def test_a_conflict_is_read_and_resolved_with_three_clicks(desk: Desk, page: Page, hand: Hand) -> None:
    hand.click(page.get_by_role("main").get_by_role("link", name="One retry, with an idempotency key").first)
    expect(page.get_by_role("region", name="Version A")).to_contain_text("Bob Builder")
    hand.click(page.get_by_label("Choose A"))
    hand.click(page.get_by_role("button", name="Resolve"))
    expect(page.get_by_role("status").first).to_contain_text("Resolved")
    assert desk.node(RETRY)["summary"] == "One retry after a second, always with the order's key"
    assert hand.effort <= 3


def test_one_fact_of_a_proposal_is_accepted_with_three_clicks(desk: Desk, page: Page, hand: Hand) -> None:
    before = desk.node(GAPS)["summary"]
    hand.click(page.get_by_role("main").get_by_role("link", name="Describe the audit log").first)
    expect(page.get_by_role("main")).to_contain_text("1 fact created, 1 fact and 1 area changed")
    expect(page.locator(".row h3")).to_contain_text(["Payments", "Audit log", "Order numbers have gaps"])
    hand.click(page.get_by_role("checkbox", name="Select Payments"))
    hand.click(page.get_by_role("button", name="Accept 1 selected"))
    expect(page.get_by_role("status").first).to_contain_text("Accepted")
    assert desk.node(PAYMENTS)["summary"].endswith("every message may come twice")
    assert desk.node(GAPS)["summary"] == before
    assert hand.effort <= 3


def test_what_no_area_covers_takes_one_click(page: Page, hand: Hand) -> None:
    hand.click(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Areas"))
    gaps = page.get_by_role("region", name="Coverage").get_by_role("listitem")
    expect(gaps).to_have_text(
        [
            re.compile("docs/ 3 files"),
            re.compile("README.md"),
            re.compile("pyproject.toml"),
            re.compile("shop/ 4 of 47 files"),
        ]
    )
    assert hand.effort == 1


def test_the_path_between_two_nodes_takes_their_two_names(page: Page, hand: Hand) -> None:
    at(page, "graph")
    hand.click(page.get_by_text("Find a path"))
    expect(page.get_by_label("From", exact=True)).to_be_focused()
    hand.type("The provider answers 503 after it has charged")
    hand.press("Tab")
    hand.type("One retry, with an idempotency key")
    hand.press("Enter")
    expect(page.get_by_role("list", name="Path")).to_contain_text("provider.py")
    assert (hand.clicks, hand.keys) == (1, 2)


def test_a_change_is_undone_with_one_click(desk: Desk, page: Page, hand: Hand) -> None:
    before = desk.node(SANDBOX)
    at(page, f"node/edit?uri={SANDBOX}")
    page.get_by_label("Summary", exact=True).fill("The sandbox keeps charges")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1 + p")).to_contain_text("keeps charges")
    hand.click(page.get_by_role("button", name="Undo"))
    expect(page.locator("h1 + p")).to_contain_text("deletes charges")
    assert desk.node(SANDBOX)["summary"] == before["summary"]
    assert hand.effort == 1
