"""Every page is accessible, fits a narrow screen, and prints."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from kgd.ui.pages import ENTRIES, PAGES
from tests.ingest.test_conversations import CLAUDE
from tests.ui.colleague import Colleague
from tests.ui.conftest import Desk, Watched, at, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

AUTH = "concept://shop/services/auth"
LONG = "concept://shop/services/" + "-".join(["averylongname"] * 9)

WITHOUT = {
    "",
    "node/suggest",
    "node/raw",
    "palette",
    "manual/{page:path}",
    "manual/pictures/{name}",
    "graph.svg",
    "graph/card",
}
"""Addresses without a page of their own: redirects, parts of pages, and files."""

SMALL = """[...document.querySelectorAll("main :is(button, .button, summary, [type=checkbox], [type=radio])")]
    .filter((one) => one.checkVisibility() && !one.closest(".listing"))
    .filter((one) => one.getBoundingClientRect().height < (one.matches("input") ? 20 : 40))
    .map((one) => one.outerHTML.slice(0, 120))"""
"""The controls of a page that are too small, except the buttons in lines of code."""

Places = Mapping[str, str]


@pytest.fixture(scope="module")
def places(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """An address for each page, in a workspace with content for all of them."""
    folder = tmp_path_factory.mktemp("every")
    desk.put(LONG, summary="x" * 90, content="```\n" + "wide " * 60 + "\n```\n")
    relations = [
        {"type": "depends_on", "target": LONG, "weight": 0.5},
        {"type": "calls", "target": "file://shop/no.py"},
    ]
    commit = desk.put(AUTH, name="Auth", content="# Keys\n\nThey rotate.\n", relations=relations)["commit"]
    bob = Colleague(desk, folder)
    id = bob.disagree(AUTH, "summary", "Issues tokens for an hour", "Issues session tokens", was="Issues tokens")
    bob.close()
    base = desk.put(LONG, summary="is")["commit"]
    desk.put(LONG, summary="is now")
    changes = [
        {"op": "upsert", "uri": LONG, "summary": "proposed"},
        {"op": "upsert", "uri": f"{LONG}/new", "name": "N"},
    ]
    proposal = desk.call("submit_subgraph", changes=changes, base=base, message="what we found out")["proposal"]
    made = desk.call(
        "manage_graph",
        operation="create",
        entityType="atom",
        name="Payments",
        paths=["src/**"],
        createdByTaskId="https://tracker.example/1",
    )
    area = made["data"]["atom"]["id"]
    token = desk.call("token_mint", name="reader", verbs=["read"])["id"]
    talk = folder / "conversations.json"
    talk.write_text(CLAUDE)
    thread = desk.call("ingest", source=str(talk))["nodes"][0]
    (desk.code / ".kgd" / "nodes" / "concept" / "bad.yaml").write_text("uri: [\n")
    return {
        "overview": "",
        "stale": "",
        "broken": "",
        "unreadable": "",
        "graph": f"from={AUTH}",
        "node": f"uri={AUTH}",
        "node/edit": f"uri={AUTH}",
        "node/new": "",
        "node/delete": f"uri={AUTH}",
        "node/history": f"uri={AUTH}",
        "node/lines": f"uri={AUTH}",
        "node/messages": f"uri={thread}",
        "change": f"commit={commit}&uri={AUTH}",
        "search": "q=keys",
        "review": "since=yesterday",
        "conflicts": "",
        "conflict": f"id={quote(id, safe='')}",
        "proposals": "",
        "proposal": f"id={quote(proposal, safe='')}",
        "author": "name=Ann Person",
        "areas": "",
        "areas/all": "",
        "areas/folders": "",
        "areas/new": "",
        "area": f"uri={area}",
        "file": "path=src/auth/session.py&why=1",
        "workspaces": "",
        "workspaces/tokens/mint": "",
        "workspaces/tokens/revoke": f"id={token}",
        "manual": "",
        "glossary": "",
    }


@pytest.fixture
def every(page: Page, places: Places) -> list[str]:
    """Return the addresses below the workspace."""
    pages = {entry.place for entry in PAGES}
    return [f"{'../../' if place in pages else ''}{place}?{query}" for place, query in places.items()]


def test_every_page_has_an_address_here(places: Places) -> None:
    assert {entry.place for entry in (*ENTRIES, *PAGES) if "GET" in entry.methods} - WITHOUT == set(places)


def test_every_page_is_accessible_in_light_and_dark_mode(page: Page, every: list[str], watched: Watched) -> None:
    found = {place: axe(at(page, place)) for place in every}
    assert {place: told for place, told in found.items() if told} == {}
    assert watched.troubles == []


def test_no_page_is_wider_than_a_narrow_screen(page: Page, every: list[str]) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    assert [place for place in every if at(page, place).evaluate("document.documentElement.scrollWidth") > 320] == []


def test_controls_on_a_phone_are_large_enough_for_a_thumb(page: Page, every: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    found = {place: at(page, place).evaluate(SMALL) for place in every}
    assert {place: small for place, small in found.items() if small} == {}


def test_printed_pages_have_no_controls(page: Page, every: list[str]) -> None:
    page.set_viewport_size({"width": 720, "height": 1000})  # A4, less its margins
    page.emulate_media(media="print")
    for place in every:
        at(page, place)
        assert page.locator("h1").is_visible(), place
        assert not page.locator("body > header").locator("visible=true").count(), place
        assert not page.locator("button, input, textarea, select").locator("visible=true").count(), place
        assert page.evaluate("document.documentElement.scrollWidth") <= 720, place
