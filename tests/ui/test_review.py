"""A person reviews what agents learned: narrows it, takes a part of it back by a commit seen first, notes the rest."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from kgd.client.connection import Connection
from tests.ui.conftest import Desk, Watched, at, axe
from tests.ui.pictures import picture

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def agent_writes(desk: Desk, *changes: dict[str, Any]) -> None:
    with Connection(desk.home, "claude-code") as connection:
        connection.call("put", {"workspace": "shop", "changes": list(changes)})


def upsert(uri: str, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "uri": uri, **fields}


@pytest.mark.requirement("E14")
@pytest.mark.picture
def test_what_an_agent_wrote_is_taken_back_in_part_by_keyboard(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/auth", name="Auth", summary="Signs tokens with a key")
    agent_writes(
        desk,
        upsert("concept://shop/auth", summary="Signs tokens with no key"),
        upsert("concept://shop/good", name="Good"),
    )
    at(page, "review")
    page.get_by_label("by", exact=True).select_option("agents")
    page.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**by=agent*")
    expect(page.locator(".learned")).to_have_count(2)
    changed = page.locator(".learned", has_text="Auth").first
    expect(changed.locator("del")).to_have_text("a")
    expect(changed.locator("ins")).to_have_text("no")
    assert axe(page) == []
    picture(page, "review")
    page.get_by_role("checkbox", name="Tick Auth to take it back").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Take back what is ticked").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".commit")).to_contain_text("review: take back concept://shop/auth")
    assert axe(page) == []
    assert desk.node("concept://shop/auth")["summary"] == "Signs tokens with no key", (
        "nothing is done before it was seen"
    )
    page.get_by_label("Why").fill("there is a key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("1 node taken back, in commit")
    assert desk.node("concept://shop/auth")["summary"] == "Signs tokens with a key"
    assert desk.node("concept://shop/good")["name"] == "Good"
    assert desk.git("log", "-1", "--format=%s", "refs/kgd/head").strip() == "there is a key"


def test_what_was_chosen_and_not_sent_yet_outlasts_what_others_do(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/chosen", name="Chosen")
    at(page, "review")
    by = page.get_by_label("by", exact=True)
    by.select_option("agents")
    desk.put("concept://shop/meanwhile", name="Meanwhile")
    expect(page.get_by_role("status")).to_contain_text("Something changed meanwhile")
    expect(by.locator("option:checked")).to_have_text("agents")


def test_what_was_seen_is_noted_and_what_came_meanwhile_is_not(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/first", name="First")
    at(page, "review")
    seen = desk.git("rev-parse", "refs/kgd/head").strip()
    page.evaluate("document.getElementById('live').remove()")  # as for somebody without scripts
    desk.put("concept://shop/later", name="Later")
    page.get_by_role("button", name="I have seen all of it").click()
    expect(page.get_by_role("status").first).to_contain_text(f"reviewed everything up to {seen[:10]}")
    expect(page.locator(".learned h3")).to_have_count(1)
    expect(page.locator(".learned h3")).to_contain_text("Later")
    page.get_by_role("button", name="I have seen all of it").click()
    expect(page.locator("main")).to_contain_text("Nothing was learned since your last review")


def test_an_address_has_the_view_and_what_makes_no_sense_is_said(desk: Desk, page: Page, watched: Watched) -> None:
    desk.put("concept://shop/deep/one", name="One")
    at(page, "review?since=yesterday&by=person&path=/deep/**")
    expect(page.locator(".learned")).to_have_count(1)
    expect(page.get_by_role("button", name="I have seen all of it")).to_have_count(0)
    at(page, "review?since=2099-01-01")
    expect(page.locator("main")).to_contain_text("Nothing was learned that fits")
    page.goto(page.url.replace("2099-01-01", "soon"))
    expect(page.get_by_role("alert")).to_contain_text("not a date")
    watched.troubles.clear()  # the browser notes each answer of 422


def test_a_long_review_is_read_page_by_page(desk: Desk, page: Page) -> None:
    desk.call("put", changes=[upsert(f"concept://shop/many/n{n:03}", name=f"Many {n:03}") for n in range(60)])
    at(page, "review?since=yesterday&path=/many/**")
    expect(page.locator(".learned")).to_have_count(25)
    page.get_by_role("link", name="The next ones").click()
    expect(page.locator(".learned").first).to_contain_text("Many 025")
    page.get_by_role("link", name="The next ones").click()
    expect(page.locator(".learned")).to_have_count(10)
    page.get_by_role("link", name="The first ones").click()
    expect(page.locator(".learned").first).to_contain_text("Many 000")


def test_what_was_begun_while_an_answer_was_on_its_way_is_not_written_over(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/before", name="Before")
    at(page, "review")
    held: list[Route] = []
    page.route("**/review", lambda route: held.append(route))
    with page.expect_request("**/review"):
        desk.put("concept://shop/behind", name="Behind")
    where = page.get_by_label("of nodes at")
    where.fill("/src/**")
    held[0].continue_()
    expect(page.get_by_role("status")).to_contain_text("Something changed meanwhile")
    expect(where).to_have_value("/src/**")
