"""The page of an author: recent nodes, areas, open proposals and stale facts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from kgd.client.connection import Connection
from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def upsert(uri: str, **fields: object) -> dict[str, object]:
    return {"op": "upsert", "uri": uri, **fields}


def edges(of: Locator) -> FloatRect:
    found = of.bounding_box()
    assert found
    return found


def test_the_page_of_an_agent_shows_its_work_and_is_reached_from_a_review(desk: Desk, page: Page) -> None:
    desk.put("atom://shop/auth", name="Authentication", content="Never log a token.", data={"paths": ["src/auth/**"]})
    with Connection(desk.home, "claude-code") as connection:
        cites = {"cites": ["src/auth/keys.py"]}
        fact = upsert("insight://shop/keys", summary="KEYS is empty until the vault answers", data=cites)
        connection.call("put", {"workspace": "shop", "changes": [fact]})
        offer = upsert("insight://shop/offer", summary="Tokens last an hour")
        base = desk.git("rev-parse", "refs/kgd/head").strip()
        desk.put("insight://shop/offer", summary="Tokens last a day")
        submitted = {"workspace": "shop", "changes": [offer], "base": base, "message": "shorter tokens"}
        connection.call("submit_subgraph", submitted)
    at(page, "review?since=yesterday&by=agent")
    page.get_by_role("link", name="Ann Person").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Ann Person")
    expect(page.get_by_role("region", name="Areas")).to_contain_text("Authentication")
    numbers = page.locator(".numbers > div")
    expect(numbers.filter(has_text="Facts")).to_contain_text(re.compile(r"\d \d by hand, \d with claude-code"))
    expect(numbers.filter(has_text="Changes")).to_contain_text(re.compile(r"\d since \d+ \w+ \d{4}"))
    expect(numbers.filter(has_text="Latest change")).to_contain_text("just now")
    assert axe(page) == []
    at(page, "author?name=claude-code")
    expect(page.locator("h1")).to_contain_text("agent")
    expect(numbers.filter(has_text="Facts")).to_have_text(re.compile(r"\s*Facts\s*1\s*"))
    expect(numbers.filter(has_text="Changes")).to_contain_text(re.compile(r"1 since "))
    knowledge = page.get_by_role("region", name="Facts", exact=True)
    expect(knowledge.get_by_role("link", name="KEYS is empty until the vault answers", exact=True)).to_be_visible()
    expect(knowledge).to_contain_text("KEYS is empty until the vault answers")
    expect(page.get_by_role("region", name="Open proposals")).to_contain_text("shorter tokens")
    recent = page.get_by_role("heading", name="Recent changes")
    assert edges(recent)["x"] > edges(knowledge)["x"] + edges(knowledge)["width"]
    page.set_viewport_size({"width": 390, "height": 800})
    assert edges(recent)["y"] > edges(knowledge)["y"], "areas and facts are first on a phone"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("region", name="Recent changes").get_by_role("link", name="Created “KEYS is empty").click()
    page.wait_for_url("**/change?commit=*")
    expect(page.locator(".whole")).to_contain_text("KEYS is empty until the vault answers")


def test_a_namespace_of_an_author_leads_to_their_nodes_in_it(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/ovens/stone", name="Stone", summary="Heats for an hour")
    until(lambda: desk.call("search", query="ovens")["hits"])
    at(page, "author?name=Ann Person")
    page.get_by_role("link", name="ovens/").click()
    expect(page.locator(".hit h2")).to_have_text("Stone")


def test_an_unknown_author_is_reported_and_a_name_with_its_program_is_found(
    desk: Desk, page: Page, watched: Watched
) -> None:
    desk.put("concept://shop/one", name="One")
    at(page, "author?name=Ann Person (codex)")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Ann Person")
    at(page, "author?name=Nobody")
    expect(page.get_by_role("alert")).to_contain_text("No recent change is by this author")
    watched.troubles.clear()  # the browser notes each answer of 4xx
