"""The graph: its start, card, expansion, filters, zoom, paths, groups, and saving."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from math import dist

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from kgd.drawing import MEANINGS
from tests.ui.conftest import Desk, at, axe
from tests.waiting import at_rest, until

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


def middle(page: Page, uri: str) -> tuple[float, float]:
    """The middle of a node's figure in the window."""
    box = page.locator(dot(page, uri)).locator(".figure").bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def distance(page: Page, one: str, other: str) -> float:
    return dist(middle(page, one), middle(page, other))


def names(page: Page) -> list[str]:
    return page.locator("main tbody tr > :first-child").all_inner_texts()


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


def test_a_click_shows_the_card_of_a_node(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator(dot(page, TOKENS)).click()
    card = page.locator("#card")
    expect(card.locator("h2")).to_have_text("Tokens")
    expect(card).to_contain_text("Ann Person")
    expect(card.locator("li", has_text="Signing keys")).to_contain_text("signed with")
    expect(page.locator(dot(page, TOKENS))).to_have_attribute("aria-current", "true")
    assert "node=" in page.url
    assert axe(page) == []
    page.reload()
    expect(card.locator("h2")).to_have_text("Tokens")
    page.keyboard.press("Tab")
    card.locator("[data-close]").click()
    expect(card).to_be_hidden()
    assert "node=" not in page.url


def test_expanding_keeps_the_page_and_the_history(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.evaluate("window.here = true")
    page.locator(dot(page, TOKENS)).dblclick()
    expect(page.locator("h1")).to_have_text("Around Auth service, Tokens")
    assert "Signing keys" in names(page)
    assert page.evaluate("window.here")
    assert TOKENS.replace(":", "%3A").replace("/", "%2F") in page.url
    page.go_back()
    expect(page.locator("h1")).to_have_text("Around Auth service")


def test_a_double_click_expands_the_node_that_its_first_click_moved(page: Page) -> None:
    """The card of the first click needs room, so the picture may move before the second click."""
    at(page, "graph?from=auth&direction=out")
    area = page.locator(dot(page, TOKENS)).bounding_box()
    assert area
    page.mouse.click(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2)
    expect(page.locator("#card h2")).to_have_text("Tokens")
    page.evaluate("document.querySelector('#drawing').setAttribute('viewBox', '5000 5000 10 10')")
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    expect(page.locator("h1")).to_have_text("Around Auth service, Tokens")


def test_the_keyboard_selects_and_expands_a_node_and_zooms(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator(dot(page, AUTH)).focus()
    page.keyboard.press("Tab")
    expect(page.locator(dot(page, TOKENS))).to_be_focused()
    whole = distance(page, AUTH, TOKENS)
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert distance(page, AUTH, TOKENS) > whole * 2
    page.keyboard.press("0")
    assert abs(distance(page, AUTH, TOKENS) - whole) < 1
    page.keyboard.press("Enter")
    expect(page.locator("#card h2")).to_have_text("Tokens")
    page.keyboard.press("Escape")
    expect(page.locator("#card")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator("h1")).to_have_text("Around Auth service, Tokens")
    expect(page.locator(dot(page, TOKENS))).to_be_focused()


def test_relations_have_arrows_and_names_under_the_pointer(page: Page) -> None:
    at(page, "graph?from=auth&direction=out&node=" + TOKENS)
    named = page.locator("svg .relation")
    expect(named).to_have_count(3)
    assert set(named.all_text_contents()) == {"uses", "implemented in", "see"}
    page.locator(dot(page, AUTH)).hover()
    expect(named).to_have_text(["uses"])
    line = page.locator("svg .lines path", has_text="uses")
    assert line.get_attribute("marker-end") == "url(#arrow-path)"


def test_a_dragged_node_stays_where_it_was_put(desk: Desk, page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    before = middle(page, TOKENS)
    page.mouse.move(*before)
    page.mouse.down()
    page.mouse.move(before[0] + 60, before[1] + 90, steps=4)
    page.mouse.up()
    expect(page.locator("#card")).to_be_hidden()
    desk.put("auth", summary="Lets people and programs in")
    expect(page.locator(dot(page, AUTH)).locator("title")).to_contain_text("programs")
    after = middle(page, TOKENS)
    assert (round(after[0] - before[0]), round(after[1] - before[1])) == (60, 90)


def test_the_mini_map_shows_and_moves_the_visible_part(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    for _ in range(4):
        page.locator("[data-zoom=in]").click()
    seen = page.locator("#map .seen")
    expect(seen).to_be_visible()
    before = middle(page, AUTH)
    box = page.locator("#map").bounding_box()
    assert box
    page.mouse.click(box["x"] + 10, box["y"] + 10)
    after = middle(page, AUTH)
    assert after[0] > before[0]
    assert after[1] > before[1]


def test_the_mini_map_appears_when_a_part_is_outside_and_its_button_shows_it_always(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    small_map, button = page.locator("#map"), page.get_by_role("button", name="Mini-map", exact=True)
    expect(small_map).to_be_hidden()
    expect(button).to_have_attribute("aria-pressed", "false")
    for _ in range(6):
        page.locator("[data-zoom=in]").click()
    expect(small_map).to_be_visible()
    page.locator("[data-zoom=all]").click()
    expect(small_map).to_be_hidden()
    button.click()
    expect(small_map).to_be_visible()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(small_map).to_be_visible()


def test_the_mini_map_has_the_colours_of_types_and_the_outlines_of_groups(page: Page) -> None:
    at(page, "graph?group=type&open=insight")
    spots = page.locator("#map .spots")
    expect(spots).to_have_count(2)
    expect(page.locator("#map .outlines")).to_have_count(1)
    colours = spots.evaluate_all("all => all.map((one) => getComputedStyle(one).stroke)")
    figure = page.locator("#drawing .dot:not(.group) .figure").first.evaluate("one => getComputedStyle(one).fill")
    assert figure in colours


def test_a_type_under_the_pointer_in_the_legend_stands_out(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    faint = page.locator("#drawing .faint")
    page.locator(".legend li", has_text="file").hover()
    expect(faint).to_have_count(2)
    expect(page.locator("#drawing [data-type=file]")).not_to_have_class(re.compile("faint"))
    page.locator("h1").hover()
    expect(faint).to_have_count(0)


def test_the_list_of_keys_includes_the_keys_of_the_picture(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    whole = distance(page, AUTH, TOKENS)
    page.keyboard.press("+")
    assert distance(page, AUTH, TOKENS) > whole * 1.2
    page.keyboard.press("0")
    page.keyboard.press("?")
    here = page.locator("#keys [data-own]")
    expect(here.locator("dt")).to_have_text(["↵", "e", "Esc", "← → ↑ ↓", "+", "-", "0"])
    expect(here).to_contain_text("Expand the fact")
    assert axe(page) == []


def test_two_fingers_zoom_and_the_next_click_is_a_click(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    session = page.context.new_cdp_session(page)
    x, y = middle(page, AUTH)
    before = distance(page, AUTH, TOKENS)
    for kind, apart in (("touchStart", 20), ("touchMove", 60), ("touchMove", 100), ("touchEnd", 0)):
        ends = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": ends})
    until(lambda: distance(page, AUTH, TOKENS) > before * 2)
    page.locator("[data-zoom=all]").click()
    assert abs(distance(page, AUTH, TOKENS) - before) < 1


@pytest.mark.requirement("N5")
def test_two_fields_show_the_cheapest_path_between_two_nodes(page: Page) -> None:
    at(page, "graph")
    page.get_by_text("Find a path").click()
    expect(page.locator("#route-from")).to_be_focused()
    page.locator("#route-from").press_sequentially("auth serv")
    expect(page.locator("#targets option").first).to_have_attribute("value", AUTH)
    page.locator("#route-from").fill(AUTH)
    page.locator("#route-to").fill("signing keys")
    page.locator("#route-to").press("Enter")
    expect(page.locator("h1")).to_have_text("Auth service → Signing keys")
    expect(page.locator(".steps li")).to_have_text(
        [re.compile(one) for one in ("Auth", r"uses \(cost 0.5\).*Tokens", r"signed with \(cost 1\).*keys")]
    )
    expect(page.locator("svg .relation")).to_have_text(["signed with →", "uses →"])
    expect(page.locator(".graph-head")).to_contain_text("2 steps, total cost 1.5")
    assert names(page) == ["Auth service", "Tokens", "Signing keys"]
    assert axe(page) == []


def test_a_path_is_chosen_by_its_two_nodes(page: Page) -> None:
    at(page, "graph?from=auth&direction=out&cost=2")
    page.locator(dot(page, KEYS)).click()
    page.get_by_role("link", name="Path from here").click()
    expect(page.locator("#route-from")).to_have_value("Signing keys")
    expect(page.locator("#route-to")).to_be_focused()
    page.locator(dot(page, AUTH)).click()
    page.get_by_role("link", name="Path to here").click()
    expect(page.locator("h1")).to_have_text("Signing keys → Auth service")


def test_the_fields_of_a_path_show_names_and_keep_the_nodes(desk: Desk, page: Page) -> None:
    """A name that a second node has as well still stands for the chosen node."""
    desk.put("gotcha://shop/other-auth", name="Auth service")
    at(page, f"graph?from={AUTH}&to=keys")
    fields = page.locator("#route-from"), page.locator("#route-to")
    page.locator("#controls > summary").click()
    expect(fields[0]).to_have_value("Auth service")
    expect(fields[1]).to_have_value("Signing keys")
    page.get_by_role("button", name="Find path").click()
    page.locator("#controls > summary").click()
    expect(page).to_have_url(re.compile(rf"from={re.escape(AUTH.replace(':', '%3A').replace('/', '%2F'))}&"))
    expect(page).to_have_url(re.compile("to=concept%3A%2F%2Fshop%2Fkeys$"))
    page.locator("#route-to").fill("tokens")
    page.get_by_role("button", name="Find path").click()
    expect(page.locator("h1")).to_have_text("Auth service → Tokens")


def test_paths_without_detours_are_offered_along_the_wanted_direction(desk: Desk, page: Page) -> None:
    towns: dict[str, dict[str, float]] = {
        "a": {"b": 0.5, "c": 0.25},
        "b": {},
        "c": {"d": 0.25, "b": 0.5},
        "d": {"b": 0.5},
    }
    towns["b"] = {"a": 0.25}
    for town, roads in towns.items():
        links = [{"type": "leads_to", "target": f"towns/{to}", "weight": cost} for to, cost in roads.items()]
        desk.put(f"towns/{town}", name=f"Town {town}", relations=links)
    at(page, "graph?from=towns/a&to=towns/b&direction=out")
    alternatives = page.locator(".alternatives li")
    expect(alternatives).to_have_text(["Directly 1 step, cost 0.5", "Through Town c 2 steps, cost 0.75"])
    alternatives.nth(1).get_by_role("link").click()
    expect(page.locator(".graph-head")).to_contain_text("2 steps, total cost 0.75")
    assert names(page) == ["Town a", "Town c", "Town b"]
    expect(page.locator("#drawing .lines path")).to_have_count(2)
    page.reload()
    assert names(page) == ["Town a", "Town c", "Town b"]
    at(page, "graph?from=towns/a&to=towns/b&direction=in")
    expect(page.locator("main")).to_contain_text("Along incoming relations only.")
    expect(page.locator(".graph-head")).to_contain_text("1 step, total cost 0.25")


def test_two_nodes_without_a_path_are_reported(desk: Desk, page: Page) -> None:
    desk.put("island", name="Island")
    at(page, "graph?from=auth&to=island")
    expect(page.locator("[role=status]", has_text="No path leads from “Auth service” to “Island”.")).to_be_visible()
    expect(page.locator(".message")).to_contain_text("choose other ends")
    at(page, "graph?from=auth")
    expect(page.get_by_role("heading", name="Start", exact=True)).to_be_visible()


def test_the_slider_and_the_filters_change_the_picture_and_the_address(page: Page) -> None:
    at(page, "graph?from=auth&direction=out")
    page.locator("#slider").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    expect(page.locator("tbody tr", has_text="Signing keys")).to_be_visible()
    expect(page.locator("#cost")).to_have_value("2")
    page.locator(".legend").get_by_role("link", name=re.compile("^file.*hide")).click()
    expect(page.locator("tbody tr", has_text="session.py")).to_have_count(0)
    expect(page).to_have_url(re.compile("hide=file"))
    page.locator("#nodes").fill("50")
    page.locator("#nodes").press("Enter")
    expect(page).to_have_url(re.compile("nodes=50"))
    page.reload()
    expect(page.locator(".legend").get_by_role("link", name=re.compile("^file.*show"))).to_be_visible()
    assert "session.py" not in names(page)
    assert "Signing keys" in names(page)
    assert "cost=2" in page.url
    assert "hide=file" in page.url


def test_a_new_node_appears_in_the_current_view(desk: Desk, page: Page) -> None:
    at(page, "graph?from=keys")
    page.locator("#cost").fill("1.5")
    page.locator("#cost").press("Enter")
    expect(page).to_have_url(re.compile("cost=1.5"))
    page.locator("[data-zoom=in]").click()
    closer = distance(page, KEYS, TOKENS)
    desk.put("vault", name="Vault", relations=[{"type": "holds", "target": "keys", "weight": 0.5}])
    expect(page.locator("tbody tr", has_text="Vault")).to_be_visible()
    assert distance(page, KEYS, TOKENS) > closer * 0.8


def test_the_whole_workspace_is_shown_in_groups_that_open(page: Page) -> None:
    at(page, "graph?group=area")
    assert {"Security 1", "Login 1"} <= {re.sub(r"\d+$", "1", one) for one in names(page)}
    assert axe(page) == []
    page.locator("svg .group > .label", has_text="Security").click()
    expect(page.locator("svg .group", has_text="Login")).to_have_count(0)
    expect(page.locator("svg .group:not(.open)", has_text="Security")).to_be_visible()
    page.locator("svg .group > .label", has_text="Security").click()
    expect(page.locator("svg .group", has_text="Login")).to_be_visible()
    page.get_by_role("list", name="Group by").get_by_role("link", name="Type").click()
    expect(page).to_have_url(re.compile("group=type"))
    page.reload()
    group = page.locator("svg[data-painted] .group", has_text="insight 1")  # before it is painted, its groups move
    group.click()
    member = page.locator("svg .dot:not(.group)", has_text="Tokens are renewed")
    expect(member).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="All groups").click()
    expect(member).to_have_count(0)
    group.click()
    page.get_by_role("link", name="close insight").click()
    expect(member).to_have_count(0)
    group.click()
    member.click()
    expect(page.locator("#card h2")).to_have_text("Tokens are renewed at minute 12")
    page.get_by_role("link", name="Expand").click()
    expect(page.locator("h1")).to_have_text("Around Tokens are renewed at minute 12")
    for grouping, said in (("namespace", "The first part of a fact's path"), ("community", "many relations")):
        at(page, f"graph?group={grouping}")
        expect(page.locator("#controls")).to_contain_text(said)
        expect(page.locator("svg .group").first).to_be_visible()


def test_a_name_that_no_node_has_is_reported_with_similar_names(page: Page) -> None:
    at(page, "graph?from=auth&to=zzzz")
    expect(page.locator(".message")).to_have_text(re.compile("No fact has the name “zzzz”"))
    expect(page.locator("#drawing")).to_have_count(0)
    at(page, "graph?q=zzzz")
    expect(page.locator(".message")).to_contain_text("No fact has the name “zzzz”")
    at(page, "graph?from=auth&to=tokenz")
    page.locator(".message").get_by_role("link", name="Tokens", exact=True).click()
    expect(page.locator("h1")).to_have_text("Auth service → Tokens")


def test_the_graph_starts_at_a_name_a_path_or_a_question(page: Page) -> None:
    for words, begun in (("tokens", "Tokens"), ("src/auth/session.py", "session.py"), ("who lets people in", "Auth")):
        at(page, "graph")
        page.locator("#begin").fill(words)
        page.locator("#begin").press("Enter")
        expect(page.locator(".starts")).to_contain_text(begun)


def test_a_name_of_several_nodes_is_a_choice_with_their_paths(desk: Desk, page: Page) -> None:
    desk.put("billing/ledger", name="Ledger")
    desk.put("gotcha://shop/ledger-drifts", name="Ledger")
    until(lambda: at_rest(desk.call("status")))
    at(page, "graph")
    page.locator("#begin").fill("ledger")
    page.locator("#begin").press("Enter")
    expect(page.locator(".message")).to_contain_text("Several facts are named “ledger”. Choose one:")
    rows = page.locator(".message li")
    assert sorted(rows.all_inner_texts()) == ["Ledger concept, billing/ledger", "Ledger gotcha, ledger-drifts"]
    assert axe(page) == []
    rows.filter(has_text="gotcha").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Around Ledger")
    expect(page.locator(dot(page, "gotcha://shop/ledger-drifts"))).to_be_visible()
    at(page, f"graph?from={AUTH}&to=ledger")
    rows.filter(has_text="gotcha").get_by_role("link").click()
    expect(page.locator("[role=status]", has_text="No path leads from “Auth service” to “Ledger”.")).to_be_visible()


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
    assert reader.locator("#card h2").inner_text() == "Tokens"
    reader.get_by_role("link", name="Expand").click()
    assert reader.locator("h1").inner_text() == "Around Auth service, Tokens"
    reader.locator(".legend").get_by_role("link", name=re.compile("^file")).click()
    assert "session.py" not in names(reader)
    at(reader, "graph?group=type")
    reader.locator("svg .group", has_text="insight").click()
    expect(reader.locator("main tbody")).to_contain_text("Tokens are renewed at minute 12")
    plain.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("cost=much", "is not a number"),
        ("direction=up", "Unknown direction"),
        ("nodes=0", "nodes"),
        ("group=colour", "Unknown grouping"),
        ("as_of=zzzz", "zzzz"),
    ],
)
def test_a_malformed_address_reports_the_error(page: Page, watched: object, query: str, said: str) -> None:
    at(page, f"graph?from=auth&{query}")
    expect(page.locator("[role=alert]")).to_contain_text(said)
    watched.troubles.clear()  # type: ignore[attr-defined]  # the browser notes each answer of 4xx
