"""Labels of the graph in a browser: readable at each zoom, many of them, and none over another."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, at, axe
from tests.waiting import at_rest, until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

COUNT = 90
SHOWN = """[...document.querySelectorAll("#drawing .dot > .label")]
  .filter((label) => getComputedStyle(label).display !== "none")
  .map((label) => label.getBoundingClientRect())
  .map(({ left, top, right, bottom }) => [left, top, right, bottom])"""
SIZES = """[...document.querySelectorAll("#drawing text.label")].map((text) =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
Area = tuple[float, float, float, float]


@pytest.fixture(scope="module", autouse=True)
def known(desk: Desk) -> None:
    """A node with many others around it, in three steps."""
    changes = [
        {
            "op": "upsert",
            "uri": f"{('concept', 'insight', 'decision')[number % 3]}://shop/part{number % 4}/n{number}",
            "name": f"Fact {number} about part {number % 4}",
            "relations": [
                {
                    "type": "about",
                    "target": f"{('concept', 'insight', 'decision')[to % 3]}://shop/part{to % 4}/n{to}",
                    "weight": 0.25,
                }
                for to in {(number - 1) // 8, (number - 1) // 3}
                if number
            ],
        }
        for number in range(COUNT)
    ]
    desk.call("put", changes=changes)
    until(lambda: at_rest(desk.call("status")))


def crossing(areas: list[Area]) -> list[tuple[Area, Area]]:
    return [
        (a, b)
        for number, a in enumerate(areas)
        for b in areas[:number]
        if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1
    ]


def shown(page: Page) -> list[Area]:
    """The visible labels inside of the picture."""
    frame = page.locator("#drawing").bounding_box()
    assert frame
    right, bottom = frame["x"] + frame["width"], frame["y"] + frame["height"]
    found: list[Area] = [(a, b, c, d) for a, b, c, d in page.evaluate(SHOWN)]
    return [
        one for one in found if one[0] >= frame["x"] and one[1] >= frame["y"] and one[2] <= right and one[3] <= bottom
    ]


def test_at_least_30_labels_are_visible_on_a_laptop_and_none_overlap(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    at(page, "graph?from=concept://shop/part0/n0&cost=3&nodes=100")
    expect(page.locator("#drawing")).to_have_attribute("data-painted", "yes")
    assert page.locator("#drawing .dot").count() == COUNT
    assert len(shown(page)) >= 30
    assert crossing(shown(page)) == []


def test_labels_keep_their_size_and_do_not_overlap_at_any_zoom(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    at(page, "graph?from=concept://shop/part0/n0&cost=3&nodes=100")
    for key, times in (("-", 2), ("+", 5), ("+", 5)):
        page.locator(".canvas").focus()
        for _ in range(times):
            page.keyboard.press(key)
        assert min(page.evaluate(SIZES)) >= 12
        assert crossing(page.evaluate(SHOWN)) == []


def test_the_picture_fills_the_window_beside_controls_that_collapse(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    at(page, "graph?from=concept://shop/part0/n0")
    picture = page.locator("#drawing")
    before = picture.bounding_box()
    page.locator("#controls > summary").click()
    expect(page.locator("#begin")).to_be_hidden()
    after = picture.bounding_box()
    assert before
    assert after
    assert before["width"] >= 1000
    assert after["width"] == 1280
    assert after["height"] >= 620
    assert after["y"] + after["height"] <= 800


def test_the_controls_collapse_when_the_window_becomes_narrow(page: Page) -> None:
    at(page, "graph?from=concept://shop/part0/n0")
    expect(page.locator("#controls")).to_have_attribute("open", "")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator("#controls")).not_to_have_attribute("open", "")


def test_nodes_without_a_label_are_in_a_list(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    at(page, "graph?from=concept://shop/part0/n0&cost=3&nodes=100")
    rest = page.locator("#rest")
    hidden = COUNT - len(page.evaluate(SHOWN))
    assert hidden > 0
    expect(rest.locator("summary")).to_have_text(f"{hidden} without a label")
    rest.locator("summary").click()
    expect(rest.locator("li")).to_have_count(min(hidden, 60))
    name = rest.locator("a").first.inner_text()
    rest.locator("a").first.click()
    expect(page.locator("#card h2")).to_have_text(name)
    assert axe(page) == []


def test_on_a_phone_the_card_is_a_sheet_at_the_bottom(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    at(page, "graph?from=concept://shop/part0/n0&node=insight://shop/part1/n1")
    card = page.locator("#card").bounding_box()
    assert card
    assert (card["x"], card["width"], card["y"] + card["height"]) == (0, 390, 800)
    selected = page.locator("#drawing [aria-current] .figure").bounding_box()
    assert selected
    assert selected["y"] + selected["height"] < card["y"], "the sheet does not cover its node"
    assert card["height"] <= 400
    assert crossing(page.evaluate(SHOWN)) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
