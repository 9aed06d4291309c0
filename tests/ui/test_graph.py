"""The graph: its start, expansion, filters, zoom, and saving."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from kgd.drawing.scene import MEANINGS
from tests.ui.conftest import Desk, at, axe
from tests.ui.graphs import furnish
from tests.ui.pictures import picture

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

AUTH, TOKENS, KEYS = (f"concept://shop/{name}" for name in ("auth", "tokens", "keys"))


@pytest.fixture(scope="module", autouse=True)
def known(desk: Desk) -> None:
    """auth leads to tokens; tokens lead to keys, to code, and to a missing concept."""
    changes = [
        {
            "op": "upsert",
            "uri": "auth",
            "name": "Auth service",
            "summary": "Lets people in",
            "relations": [{"type": "uses", "target": "tokens", "weight": 0.5}],
        },
        {
            "op": "upsert",
            "uri": "tokens",
            "name": "Tokens",
            "relations": [
                {"type": "signed_with", "target": "keys", "weight": 1},
                {"type": "see", "target": "rotation", "weight": 0.25},
                {"type": "implemented_in", "target": "./src/auth/session.py", "weight": 0.5},
            ],
        },
        {"op": "upsert", "uri": "keys", "name": "Signing keys"},
        {
            "op": "upsert",
            "uri": "insight://shop/renewed",
            "name": "Tokens are renewed at minute 12",
            "relations": [{"type": "about", "target": "tokens", "weight": 0.25}],
        },
    ]
    desk.call("put", changes=changes)
    area = {"operation": "create", "knowledge": "-", "createdByTaskId": "https://example.org/1"}
    made = desk.call("manage_graph", entityType="molecule", name="Security", **area)
    desk.call(
        "manage_graph",
        entityType="atom",
        name="Login",
        paths=["src/auth/**"],
        moleculeId=made["data"]["molecule"]["id"],
        **area,
    )


def dot(page: Page, uri: str) -> str:
    return f'svg .dot[data-uri="{uri}"]'


def names(page: Page) -> list[str]:
    return page.locator("main tbody tr td:first-child").all_inner_texts()


def test_the_surroundings_of_a_node_are_drawn_and_listed(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    assert names(page) == ["Auth service", "Tokens", "rotation", "session.py"]
    expect(page.locator("svg .dot")).to_have_count(4)
    missing = page.locator("svg .dot", has_text="rotation")
    expect(missing).to_have_attribute("aria-label", re.compile(f"at cost 0.75; {MEANINGS['missing']}"))
    assert missing.locator("path.missing").evaluate("one => getComputedStyle(one).stroke") == "rgb(163, 35, 27)"
    expect(page.locator(".legend")).to_contain_text(MEANINGS["missing"])
    expect(page.locator(".cut").first).to_have_text("Beyond cost 1: 2 more relations.")
    assert axe(page) == []


def test_a_click_expands_a_node_and_a_second_click_opens_it(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator(dot(page, TOKENS)).click()
    expect(page.locator("h1")).to_have_text("Around Auth service, Tokens")
    assert "Signing keys" in names(page)
    page.locator(dot(page, TOKENS)).click()
    expect(page.locator("h1")).to_contain_text("Tokens")
    assert "/node?uri=concept" in page.url


def test_expanding_keeps_the_page_the_focus_and_the_history(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    before = page.url
    page.evaluate("window.here = true")
    page.locator(dot(page, TOKENS)).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("Around Auth service, Tokens"))
    assert page.evaluate("window.here")
    assert TOKENS.replace(":", "%3A").replace("/", "%2F") in page.url
    expect(page.locator(dot(page, TOKENS))).to_be_focused()
    page.go_back()
    expect(page.locator("h1")).to_have_text("Around Auth service")
    assert page.url == before


def test_the_keyboard_expands_a_node_and_zooms(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator(dot(page, AUTH)).focus()
    page.keyboard.press("Tab")
    expect(page.locator(dot(page, TOKENS))).to_be_focused()
    whole = page.locator("#picture > svg").get_attribute("viewBox")
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    closer = page.locator("#picture > svg").get_attribute("viewBox")
    assert float((closer or "").split()[2]) < float((whole or "").split()[2]) / 2
    page.keyboard.press("0")
    expect(page.locator("#picture > svg")).to_have_attribute("viewBox", whole or "")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Around Auth service, Tokens")


def test_the_slider_and_the_filters_change_the_picture_and_the_address(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator("#slider").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    expect(page.locator("tbody tr", has_text="Signing keys")).to_be_visible()
    expect(page.locator("#cost")).to_have_value("2")
    page.locator("label", has_text="file").locator("input").uncheck()
    expect(page.locator("tbody tr", has_text="session.py")).to_have_count(0)
    expect(page.locator("label", has_text="file").locator("input")).not_to_be_checked()
    page.reload()
    assert "session.py" not in names(page)
    assert "Signing keys" in names(page)
    assert "cost=2" in page.url
    assert "hide=file" in page.url


def test_a_new_node_appears_in_the_current_view(desk: Desk, page: Page) -> None:
    at(page, "graph?from=keys")
    page.locator("#cost").fill("0.5")
    page.locator("#cost").press("Enter")
    expect(page).to_have_url(re.compile("cost=0.5"))
    page.locator("[data-zoom=in]").click()
    closer = page.locator("#picture > svg").get_attribute("viewBox")
    desk.put("vault", name="Vault", relations=[{"type": "holds", "target": "keys", "weight": 0.5}])
    expect(page.locator("tbody tr", has_text="Vault")).to_be_visible()
    seen = (page.locator("#picture > svg").get_attribute("viewBox") or "").split()
    assert float(seen[2]) <= float((closer or "").split()[2]) + 1


def test_the_whole_workspace_is_shown_by_area_and_type(page: Page) -> None:
    at(page, "graph")
    assert {"Security", "Login", "insight 1"} <= set(names(page))
    assert axe(page) == []
    page.locator("svg .dot", has_text="insight 1").click()
    expect(page.locator("h1")).to_contain_text("Around")
    assert "Tokens are renewed at minute 12" in names(page)
    at(page, "graph")
    page.locator("svg .dot", has_text="Security").click()
    expect(page.locator("h1")).to_contain_text("Security")
    assert "Login" in names(page)


def test_the_graph_starts_at_a_name_a_path_or_a_question(page: Page) -> None:
    for words, begun in (("tokens", "Tokens"), ("src/auth/session.py", "session.py"), ("who lets people in", "Auth")):
        at(page, "graph")
        page.locator("#begin").fill(words)
        page.locator("#begin").press("Enter")
        expect(page.locator(".starts")).to_contain_text(begun)


def test_a_picture_is_saved_as_a_self_contained_file(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    with page.expect_download() as download:
        page.get_by_text("Save as SVG").click()
    root = ET.fromstring(download.value.path().read_bytes())
    assert "Auth service" in "".join(root.itertext())
    assert not [one for one in root.iter() if one.get("href") or one.tag.endswith("style")]


def test_the_graph_can_be_read_and_filtered_without_scripts(desk: Desk, context: BrowserContext, page: Page) -> None:
    browser = context.browser
    assert browser
    plain = browser.new_context(java_script_enabled=False, storage_state=context.storage_state())
    reader = plain.new_page()
    reader.goto(page.url)
    at(reader, "graph?from=auth&direction=out")
    reader.locator("#cost").fill("0.5")
    reader.get_by_role("button", name="Show").click()
    assert names(reader) == ["Auth service", "Tokens"]
    reader.locator(dot(reader, TOKENS)).click()
    assert reader.locator("h1").inner_text() == "Around Auth service, Tokens"
    plain.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("cost=much", "is not a number"),
        ("direction=up", "Unknown direction"),
        ("nodes=0", "nodes"),
        ("as_of=zzzz", "zzzz"),
    ],
)
def test_a_malformed_address_reports_the_error(page: Page, watched: object, query: str, said: str) -> None:
    at(page, f"graph?from=auth&{query}")
    expect(page.locator("[role=alert]")).to_contain_text(said)
    watched.troubles.clear()  # type: ignore[attr-defined]  # the browser notes each answer of 4xx


@pytest.mark.picture
def test_a_picture_of_a_small_shop_is_drawn_in_light_and_dark(desk: Desk, page: Page) -> None:
    furnish(desk)
    at(page, "graph?from=front&direction=both&cost=1.25")
    expect(page.locator("svg .dot", has_text="vouchers")).to_be_visible()
    picture(page, "graph", 1200, 900)
    picture(page, "graph-dark", 1200, 900, "dark")
