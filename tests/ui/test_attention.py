"""Pending work on the overview: cards with the item itself, and one click for its action."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from kgd.ui.pages.areas import _shows_moved
from kgd.ui.pages.attention import OPEN
from tests.ui.conftest import Watched, at, axe
from tests.ui.pictures import NODE, VERSIONS
from tests.ui.realistic import DISPUTED, PAYMENTS, RETRY, Realistic, realistic_desk

KEPT_FOR_A_WEEK = "insight://shop/messages-of-the-provider-are-kept-for-a-week"

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realistic]:
    yield from realistic_desk(tmp_path_factory.mktemp("realistic"))


def test_code_without_a_word_of_the_search_has_a_tab_as_similar_code(page: Page) -> None:
    at(page, "search?q=emailing")
    similar = page.get_by_role("list", name="Results").get_by_role("link", name="Similar code")
    expect(similar).not_to_have_attribute("aria-current", "true")


def card(page: Page, title: str) -> Locator:
    return page.locator(".work > li", has_text=title).first


def lefts(page: Page, tabs: str) -> list[float]:
    """Return the left edges of tabs."""
    places: list[float] = page.locator(tabs).evaluate_all("all => all.map(one => one.getBoundingClientRect().x)")
    return places


def test_all_pages_count_the_same_facts(desk: Realistic, page: Page) -> None:
    groups = {one["id"]: one["count"] for one in desk.call("graph_view", group="area")["groups"]}
    in_areas = {id: count for id, count in groups.items() if id.startswith("atom:")}
    at(page, "areas")
    rows = page.locator("table.areas tbody tr")
    shown = rows.locator("[data-label=facts]").all_inner_texts()
    listed = [str(one.get_attribute("href")).partition("uri=")[2] for one in rows.locator("h2 a:first-child").all()]
    counted = {unquote(uri): int(count) for uri, count in zip(listed, shown, strict=True)}
    in_two = {"atom://shop/pricing", "atom://shop/orders"}
    assert {uri: count - in_areas[uri] for uri, count in counted.items()} == {
        uri: int(uri in in_two) for uri in counted
    }
    at(page, f"area?uri={PAYMENTS}")
    expect(page.locator("h2", has_text="Facts")).to_have_text(f"Facts {in_areas[PAYMENTS]}")
    expect(page.locator(".title")).to_contain_text(f"{in_areas[PAYMENTS]} facts")
    at(page, "workspaces")
    expect(page.get_by_role("main")).to_contain_text(f"{sum(in_areas.values()) + groups['~outside']} facts")


def test_a_conflict_is_listed_with_the_reasons_of_its_versions(page: Page) -> None:
    at(page, "conflicts")
    disputed = page.locator(".dispute", has_text="A hold lasts ten minutes")
    expect(disputed.get_by_label("Reason")).to_have_text("Agreed with the warehouse for the sale in December.")


def test_the_margin_names_the_authors_of_all_facts_that_begin_at_a_line(page: Page) -> None:
    at(page, "file?path=shop/payments/provider.py")
    margin = page.locator(".about", has=page.get_by_role("link", name="Note 2"))
    expect(margin.locator(".stamp")).to_have_text("DV+2")
    facts = r"^Facts by Dmitri Volkov \(claude-code\), Bob Builder and Ann Person, the newest .* ago$"
    expect(margin.locator(".stamp")).to_have_attribute("title", re.compile(facts))


def test_a_fact_in_conflict_is_listed_with_the_version_shown_now_and_the_other_one(page: Page) -> None:
    at(page, f"area?uri={PAYMENTS}")
    row = page.locator(".node-row", has_text="One retry, with an idempotency key")
    versions = ["A Bob Builder One retry after a second", "B Ann Person shown now Two attempts in all"]
    expect(row.locator("> p:has(.letter)")).to_contain_text(versions)
    newest = row.locator("> .aside time").get_attribute("datetime")
    at(page, f"graph?from={RETRY}&node={RETRY}")
    expect(page.locator("#card .aside time").first).to_have_attribute("datetime", str(newest))
    at(page, "conflicts")
    shown = page.locator(".dispute", has_text="One retry, with an idempotency key").locator("time")
    assert newest == max(str(one.get_attribute("datetime")) for one in shown.all())
    at(page, "file?path=shop/payments/provider.py")
    expect(page.locator(".note", has_text="One retry").locator("> p:has(.letter)")).to_contain_text(versions)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".mark.bad").first.click()
    for text in versions:
        expect(page.locator(".knows:target")).to_contain_text(text)
    at(page, "overview")
    expect(card(page, "One retry").locator("p:has(.letter)")).to_contain_text(versions)
    at(page, f"conflict?uri={RETRY}")
    expect(page.locator(".version h3")).to_have_text(["A Bob Builder", "B Ann Person shown now", "Result"])


def test_the_pages_of_pending_work_have_one_order_and_their_sum_on_a_phone_has_a_label(page: Page) -> None:
    order = ["conflicts", "proposals", "stale"]
    menu = page.locator("#page-links a").evaluate_all("found => found.map(one => one.href.split('/').pop())")
    assert [one for one in menu if one in order] == order
    cards = page.get_by_role("region", name="Needs attention").locator("h3 a")
    pages = cards.evaluate_all("found => found.map(one => one.href.split('/').pop())")
    assert [one for one in pages if one in order] == order
    page.set_viewport_size({"width": 390, "height": 844})
    menu_button = page.get_by_role("button", name="Menu")
    counts = page.locator(", ".join(f"#page-links a[href$={one}] .count" for one in order))
    sum_of_all = sum(map(int, counts.all_text_contents()))
    expect(menu_button).to_contain_text(f"{sum_of_all} to do")


def test_the_page_of_a_conflict_has_a_black_title_and_the_reason_before_its_buttons(page: Page) -> None:
    at(page, f"conflict?uri={RETRY}")
    expect(page.locator("h1 a")).to_have_count(0)
    about = page.locator("h1 + p")
    expect(about).to_have_text("decision · Payments · Open the fact")
    bar = page.locator(".confirm")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        expect(bar.get_by_text("Choose a version first.")).to_be_visible()
    order = bar.locator("input, button").evaluate_all("found => found.map(one => one.value || one.name)")
    assert order == ["message", "show", "make"]
    reason = page.get_by_label("Reason (optional)").bounding_box()
    box = bar.get_by_role("button", name="Resolve").bounding_box()
    assert box
    assert reason
    assert box["y"] + box["height"] <= 844 <= reason["y"], "one row is in view on a phone"
    about.get_by_role("link", name="Open the fact").click()
    expect(page.locator("h1")).to_contain_text("One retry, with an idempotency key")


def test_all_rows_in_conflict_of_an_author_are_selected_at_once(page: Page) -> None:
    at(page, "review?since=2026-11-01")
    page.get_by_text("changed facts in conflict").click()
    bob = page.locator('.in-conflict h2:has-text("Bob Builder") + div')
    bob.get_by_role("button", name="Select all facts in conflict by Bob Builder").click()
    expect(bob.get_by_role("checkbox", checked=True)).to_have_count(3)


def test_a_proposal_links_its_facts_and_wraps_their_code(page: Page) -> None:
    page.get_by_role("main").get_by_role("link", name="Describe the audit log").first.click()
    facts = page.locator(".row > div > h3")
    expect(facts.get_by_role("link")).to_have_text(["Payments", "Order numbers have gaps"])
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        code = page.locator(".with-code pre").first
        assert code.evaluate("one => one.scrollWidth <= one.clientWidth"), width
    facts.get_by_role("link", name="Payments").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Payments")


def test_the_label_of_a_permission_wraps_beside_its_box(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, "workspaces/tokens/mint").get_by_text("Create a token for later").click()
    label = page.locator("label", has_text="Propose (for agents)")
    box, text = (label.locator(one).bounding_box() for one in ("input", "> span"))
    assert box
    assert text
    assert text["height"] > 1.5 * box["height"]
    assert text["x"] > box["x"] + box["width"]


def test_the_button_for_selected_facts_of_a_proposal_looks_disabled_until_one_is_selected(page: Page) -> None:
    page.get_by_role("main").get_by_role("link", name="Describe the audit log").first.click()
    accept = page.locator("[value=make-part]")
    expect(accept).to_be_disabled()
    disabled = page.evaluate("getComputedStyle(document.querySelector('[value=make-part]')).color")
    expect(page.get_by_role("checkbox", name="Summary")).to_have_count(0)  # the fact has no other change
    page.get_by_role("checkbox", name="Select Payments").check()
    expect(accept).to_be_enabled()
    assert page.evaluate("getComputedStyle(document.querySelector('[value=make-part]')).color") != disabled
    order = page.locator(".confirm > * > input, .confirm > button").evaluate_all(
        "all => all.map(one => one.value || one.name)"
    )
    assert order == ["message", "show", "make-part", "make-all"]


def test_a_history_shows_the_two_sides_of_a_conflict_and_the_version_that_both_changed(page: Page) -> None:
    at(page, f"node/history?uri={RETRY}")
    expect(page.locator(".history .letter")).to_have_text(["A", "B"])
    fork = page.locator(".history > .fork")
    expect(fork).to_contain_text("Bob Builder and Ann Person both changed version 1.")
    expect(page.locator(".history").get_by_text("version 1, before both changes", exact=True)).to_be_visible()
    added = page.locator(".of-conflict .rewritten ins")
    assert added.evaluate("one => getComputedStyle(one).backgroundColor") != "rgba(0, 0, 0, 0)"
    expect(page.locator(".history > li").first.locator("h2")).to_have_text("Read with Dmitri before the sale version 4")
    expect(page.locator("h2:has(.letter) > .badge")).to_have_text(["conflict", "conflict", "shown now"])
    expect(page.get_by_text("current", exact=True)).to_have_count(0)
    rail = page.locator(".history").evaluate("one => one.getBoundingClientRect().left + 1")
    dots = page.locator(".history > li").evaluate_all(
        """rows => rows.map(one => {
            const dot = getComputedStyle(one, "::before"), edge = parseFloat(getComputedStyle(one).borderLeftWidth);
            return one.getBoundingClientRect().left + edge + parseFloat(dot.left) + parseFloat(dot.width) / 2 + 2;
        })"""
    )
    assert dots == [pytest.approx(rail, abs=0.1)] * 5
    assert axe(page) == []
    fork.get_by_role("link", name="Resolve the conflict").click()
    expect(page.get_by_label("Choose A")).to_be_visible()


def test_the_tabs_of_areas_stay_in_place_and_the_filter_is_below_them_on_a_phone(page: Page) -> None:
    places = []
    for place in ("areas", "areas/folders"):
        box = at(page, place).locator(".tabs").bounding_box()
        assert box
        places.append((box["y"] + box["height"], lefts(page, ".tabs a")))
    assert places[0] == places[1]
    page.set_viewport_size({"width": 390, "height": 844})
    tabs, form = (at(page, "areas").locator(one).bounding_box() for one in (".tabbed .tabs", ".tabbed form"))
    assert tabs
    assert form
    assert tabs["width"] == form["width"], "the line below the tabs has their whole width"
    assert tabs["y"] + tabs["height"] < form["y"]
    rule = "one => getComputedStyle(one).borderBottomWidth"
    assert [page.locator(one).evaluate(rule) for one in (".tabbed .tabs", ".tabbed")] == ["1px", "0px"]


@pytest.mark.parametrize(
    ("tabs", "places"),
    [
        ("#page-links a", ("overview", "graph", "stale")),
        (".kinds a", ("review", "review?by=agent", "review?by=person")),
    ],
)
def test_the_current_tab_moves_no_other(page: Page, tabs: str, places: tuple[str, ...]) -> None:
    found = [lefts(at(page, place), tabs) for place in places]
    assert len(found[0]) > 2
    for one in found:  # browsers round the width of bold letters to 1/64 pixel
        assert one == pytest.approx(found[0], abs=0.1)
    expect(page.locator(f"{tabs}[aria-current] .tab")).to_have_css("font-weight", "600")


@pytest.mark.parametrize(("percent", "shown"), [(2, False), (3, True)])
def test_the_areas_whose_code_changed_are_listed_if_more_than_two_percent_changed(percent: int, shown: bool) -> None:
    small = {"changed": 1, "lines": 100}
    assert _shows_moved({"moved": [{"changed": percent, "lines": 100}, small]}) is shown
    assert _shows_moved({"moved": []})
    assert not _shows_moved({})


def test_the_folders_of_areas_lead_to_all_areas_and_to_the_files_without_one(page: Page) -> None:
    at(page, "areas/folders")
    expect(page.get_by_role("heading", name="Areas most changed")).to_have_count(0)
    expect(page.get_by_role("row", name="shop/")).to_contain_text("91 % of 47 files, 4 without")
    page.get_by_role("link", name="and 9 more areas of shop").click()
    expect(page.locator(".crumbs b")).to_have_text("shop")
    at(page, "areas/folders")
    page.get_by_role("link", name="4 without an area in shop").click()
    expect(page.locator(".crumbs b")).to_have_text("shop")
    expect(page.locator("tbody tr.bare").first).to_be_visible()


def test_blame_names_the_field_of_each_block_and_the_reason_of_its_commit(page: Page) -> None:
    at(page, f"node/lines?uri={VERSIONS}")
    expect(page.locator("th.of")).to_have_text(["Summary", "Content"])
    stamps = page.locator(".stamp").filter(visible=True)
    expect(stamps).to_have_text(
        [
            re.compile("Ann Person, .* ago.*Version 1: commit [0-9a-f]{10}"),
            re.compile("Ann Person, .* ago.*Version 1: commit [0-9a-f]{10}"),
            re.compile("Carla Moreno, .* ago.*Version 3: Name the currencies without cents"),
            re.compile("Bob Builder, .* ago.*Version 2: Say where the rule applies"),
        ]
    )
    edges = page.locator("tr.start .about").evaluate_all("found => found.map(one => getComputedStyle(one).boxShadow)")
    assert (edges[0] == edges[1], len(set(edges))) == (True, 3), "one shade for each commit"
    assert axe(page) == []
    page.get_by_role("link", name="Say where the rule applies").filter(visible=True).click()
    page.wait_for_url("**/change?*")


def test_a_commit_is_approved_on_its_page_which_leads_to_the_unreviewed_ones(desk: Realistic, page: Page) -> None:
    commit = desk.call("history", uri=VERSIONS)["commits"][0]["commit"]
    at(page, f"change?commit={commit}")
    expect(page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link")).to_have_text(["shop", "Review"])
    expect(page.locator("#page-links [aria-current]")).to_contain_text("Review")
    expect(page.locator("h1")).to_have_text("Name the currencies without cents")
    expect(page.locator(".of-node").first).to_have_text("decision · Pricing")
    expect(page.locator(".of-node").nth(1)).to_contain_text("The tax office's example does")
    page.get_by_role("link", name="Previous").click()
    expect(page.locator("h1")).to_have_text("Say where the rule applies")
    assert axe(page) == []
    expect(page.locator(".beside-commits")).to_contain_text(re.compile(r"Previous \d+ of \d+ unreviewed"))
    page.get_by_role("button", name="Mark as reviewed").click()
    expect(page.locator("h1"), "the next commit follows").to_have_text("Name the currencies without cents")
    expect(page.locator(".said")).to_contain_text("Marked as reviewed.")
    page.get_by_role("link", name="Previous").click()
    expect(page.locator("h1"), "an approved commit is left out").not_to_have_text("Say where the rule applies")


def test_a_commit_of_a_fact_in_conflict_shows_both_versions_and_cannot_be_approved(desk: Realistic, page: Page) -> None:
    commit = desk.call("history", uri=RETRY)["commits"][0]["commit"]
    at(page, f"change?commit={commit}")
    expect(page.locator("main")).to_contain_text("A Bob Builder One retry after a second")
    expect(page.locator("main")).to_contain_text("B Ann Person shown now Two attempts in all")
    expect(page.get_by_role("button", name="Mark as reviewed")).to_have_count(0)


def test_the_first_stale_facts_show_the_change_of_their_code_and_the_others_are_folded(page: Page) -> None:
    at(page, "stale")
    rows = page.locator(".stale > li")
    batches = rows.filter(has_text="Batches of 200 at night")
    expect(batches.locator("ins")).to_have_text("+BATCH = 80")
    expect(batches.locator("ins .n")).to_have_text("80")
    expect(batches.locator("mark")).to_have_text("200")
    expect(rows.nth(1).locator("mark")).to_have_count(0)
    expect(page.locator(".stale .diff")).to_have_count(OPEN)
    lefts = [batches.locator(one).evaluate("one => one.getBoundingClientRect().left") for one in ("h2", ".cited")]
    assert abs(lefts[0] - lefts[1]) < 1, "the card begins below the title"
    folded = rows.nth(OPEN)
    folded.locator("summary").click()
    expect(folded.locator("ins").first).to_be_visible()
    for row in rows.all()[: OPEN + 1]:
        path = row.locator(".cited h3 code").inner_text().partition("#")[0]
        assert row.inner_text().count(path) == 1, "an open difference names its file once"
    expect(page.locator(".stale .badge.warn").filter(visible=True)).to_have_count(0)
    assert "@@" not in page.locator(".stale").inner_text()
    assert axe(page) == []
    rows.first.get_by_role("link", name="No longer true…").click()
    expect(page.locator("h1")).to_have_text(re.compile("^Delete .*\\?$"))


def test_selected_stale_facts_are_counted_and_enter_verifies_them(page: Page) -> None:
    at(page, "stale")
    expect(page.get_by_role("button", name="Mark as still true")).to_be_hidden()
    boxes = page.locator(".stale input[type=checkbox]")
    before = boxes.count()
    boxes.first.check()
    boxes.nth(1).check()
    expect(page.get_by_role("button", name="Mark 2 facts as still true")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Verified 2 facts with commit")
    expect(boxes).to_have_count(before - 2)
    page.get_by_role("button", name="Undo").click()
    expect(boxes).to_have_count(before)


def test_each_kind_of_pending_work_shows_its_first_items(page: Page) -> None:
    urgent, others = (page.get_by_role("region", name=name) for name in ("Needs attention", "Can wait"))
    expect(urgent.locator("h3 a")).to_have_text(
        ["Resolve 3 conflicts", "Decide on 2 proposals", "Check 5 stale facts", "Repair 1 unreadable file"]
    )
    expect(others.locator("h3 a")).to_have_text(["3 broken links"])
    disputed = card(page, "One retry, with an idempotency key")
    box = disputed.bounding_box()
    assert box
    assert box["height"] < 100, "a name, and a line for each version"
    expect(card(page, "Describe the audit log")).to_contain_text("release-agent")
    expect(card(page, "A voucher has at most 100 uses")).to_contain_text(
        re.compile(r"shop/pricing/vouchers.py changed \d+ \w+ ago")
    )
    expect(card(page, "unreadable.yaml, line 3")).to_contain_text("This is not YAML")
    expect(page.get_by_role("link", name="2 more stale facts")).to_be_visible()
    expect(urgent.get_by_role("link", name="Resolve", exact=False)).to_have_count(4)  # with the link of the heading
    assert axe(page) == []


def test_on_a_phone_each_command_has_its_button_beside_it(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, "../bookshop/overview")
    commands = page.locator(".steps .command")
    expect(commands).to_have_count(4)
    for one in commands.all():
        text, button = one.locator("code").bounding_box(), one.get_by_role("button").bounding_box()
        assert text
        assert button
        assert text["x"] + text["width"] <= button["x"]
        assert button["x"] + button["width"] <= 390


def test_on_a_phone_the_titles_of_pages_have_one_size(desk: Realistic, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    commit = desk.call("history", uri=VERSIONS)["commits"][0]["commit"]
    places = ("overview", "search?q=refund", f"node?uri={NODE}", f"change?commit={commit}", "conflicts", "stale")
    sizes = {at(page, place).locator("h1").evaluate("one => getComputedStyle(one).fontSize") for place in places}
    assert len(sizes) == 1


def test_on_a_phone_the_previous_and_the_next_commit_are_in_one_line(desk: Realistic, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, f"change?commit={desk.call('history', uri=VERSIONS)['commits'][0]['commit']}")
    ends = [page.get_by_role("link", name=name, exact=True).bounding_box() for name in ("Previous", "Next")]
    assert all(ends)
    assert len({round(end["y"]) for end in ends if end}) == 1


def test_the_reason_of_a_finding_is_written_in_a_form_that_cites_its_files(
    desk: Realistic, page: Page, watched: Watched
) -> None:
    at(page, "../bookshop/overview")
    expect(page.get_by_role("link", name="Write why")).to_have_count(3)
    page.get_by_role("link", name=re.compile("Write why.*change together")).click()
    expect(page.get_by_label("Summary")).to_have_value("models.py and rounding.py change together because ")
    expect(page.get_by_role("radio", name="insight")).to_be_checked()
    about = "./shop/orders/models.py\n./shop/pricing/rounding.py"
    expect(page.get_by_label("About, one per line")).to_have_value(about)
    expect(page.get_by_label("Content")).to_have_value(re.compile("^6 of 6 commits of shop/orders/models.py also"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("The summary ends before the reason")
    watched.troubles.clear()
    page.get_by_label("Summary").focus()
    page.keyboard.press("End")
    page.keyboard.type(" totals are rounded once")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text(re.compile("change together because totals are rounded once$"))
    expect(page.locator(".cited h3")).to_have_text([re.compile("^shop/orders/models.py"), re.compile("^shop/pricing")])
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone")


def test_changes_are_grouped_by_author_and_hour_with_their_summaries(page: Page) -> None:
    group = page.locator(".hour", has_text="Capture is idempotent")
    expect(group.locator(".who")).to_contain_text("Dmitri Volkov (claude-code), ")
    expect(group.locator("summary")).to_have_text("Created “Capture is idempotent” and 2 more")
    expect(group.locator("li").first).to_be_hidden()
    group.locator("summary").click()
    expect(group.locator("li")).to_have_count(3)
    expect(group.locator("li").first).to_be_visible()
    expect(page.locator(".hour")).to_have_count(5)
    expect(group).to_contain_text("Banks book them in batches")
    expect(page.locator(".hour", has_text="Read with Dmitri before the sale").locator("li")).to_have_count(1)


def test_a_conflict_is_resolved_from_its_card_and_the_resolution_is_undone(desk: Realistic, page: Page) -> None:
    disputed = card(page, "One retry, with an idempotency key")
    disputed.get_by_role("link", name="Resolve").click()
    page.get_by_label("Choose A").check()
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    expect(page.get_by_text(re.compile(r"Conflict \d of 2"))).to_be_visible()
    assert desk.node(RETRY)["summary"] == "One retry after a second, always with the order's key"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone")
    expect(page.get_by_text(re.compile(r"Conflict \d of 3"))).to_be_visible()


def test_a_node_in_conflict_names_the_authors_of_its_versions(page: Page) -> None:
    uri = DISPUTED[2][0]
    at(page, f"node?uri={uri}")
    expect(page.locator(".title")).to_contain_text(re.compile(r"versions by Bob Builder \(.+\) and Ann Person \("))
    expect(page.locator(".title")).not_to_contain_text("written by")
    at(page, "file?path=shop/payments/provider.py")
    expect(page.locator(".note", has_text="One retry")).to_contain_text("versions by ")
    at(page, f"graph?from={uri}&node={uri}")
    expect(page.locator("#card")).to_contain_text("conflict between Bob Builder and Ann Person, ")


def test_the_versions_of_a_conflict_begin_in_the_same_rows_beside_the_result(page: Page) -> None:
    uri, *_ = DISPUTED[2]
    at(page, f"conflict?uri={uri}")
    sides = page.get_by_role("region", name=re.compile("^Version [AB]$"))
    for part in (".words", ".take"):
        one, two = sides.locator(part).evaluate_all("found => found.map(one => one.getBoundingClientRect().top)")
        assert one == two
    result = page.get_by_role("region", name="Result of the")
    expect(result.get_by_role("heading")).to_have_text("Result")
    expect(result.get_by_role("textbox")).to_have_value("")
    page.get_by_label("Choose A").check()
    expect(result.get_by_role("textbox")).not_to_have_value("")


def test_the_manual_leads_back_to_the_workspace_of_the_tab(page: Page) -> None:
    at(page, "stale")
    page.goto(page.url.partition("/ui/")[0] + "/ui/manual")
    page.get_by_role("link", name="Back to shop").click()
    page.wait_for_url("**/w/shop/overview")


def test_a_task_in_the_results_of_a_search_names_its_files(page: Page) -> None:
    at(page, "search?q=refund")
    task = page.locator("li.hit", has_text="Refund a single line")
    expect(task.locator(".aside a.mono").first).to_have_text(re.compile(r"shop/.*[.]py"))


def test_the_page_of_a_fact_leads_to_the_graph_its_history_and_other_facts_about_its_code(page: Page) -> None:
    at(page, f"node?uri={NODE}")
    expect(page.locator("h1 .sample")).to_be_visible()
    expect(page.locator(".title").get_by_role("link", name="Graph")).to_be_visible()
    expect(page.locator(".title").get_by_role("link", name="History")).to_be_visible()
    expect(page.locator(".trust")).to_contain_text("verified by Dmitri Volkov (claude-code)")
    others = page.get_by_role("region", name="Also about this code")
    expect(others.locator("li.node-row > .sample")).to_have_count(3)
    expect(page.locator(".relations dd .sample")).to_have_count(page.locator(".relations dd").count())
    expect(others).not_to_contain_text("The provider answers 503")
    others.get_by_role("link", name="Signatures cover the raw body").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Signatures cover the raw body")


def test_a_fact_is_verified_by_one_key_and_a_proposal_is_accepted_beside_its_differences(
    desk: Realistic, page: Page
) -> None:
    card(page, "A voucher has at most 100 uses").get_by_role("button", name="Still true").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Verified 1 fact with commit")
    expect(page.get_by_role("link", name="Check 4 stale facts")).to_be_visible()
    proposed = card(page, "Name the carriers' limit")
    expect(proposed.get_by_role("button")).to_have_count(0)
    proposed.get_by_role("link", name="Open").click()
    expect(page.locator(".words ins", has_text="The post up to 2 kg")).to_be_visible()
    page.get_by_role("button", name="Accept the proposal").click()
    expect(page.locator(".said")).to_contain_text("Accepted with commit")
    expect(page.locator("main")).to_contain_text("1 open proposal")
    assert desk.node("decision://shop/two-carriers-chosen-by-weight")["summary"] == "The post up to 2 kg"


def test_missing_facts_are_listed_by_their_source_and_lead_to_the_proposal_that_creates_one(page: Page) -> None:
    expect(card(page, "audit-log").get_by_role("link", name="Open the proposal")).to_be_visible()
    at(page, "broken")
    expect(page.locator("main h2")).to_have_text(["Payments depends on 3 missing facts"])
    expect(page.locator("main li .sample .missing")).to_have_count(3)
    expect(page.locator("main li").get_by_text("missing", exact=True)).to_have_count(0)
    proposed = page.locator("main li", has_text="audit-log")
    expect(proposed).to_contain_text("The proposal “Describe the audit log, and what payments rely on” creates it.")
    expect(proposed.get_by_role("link", name="Write it")).to_have_count(0)
    assert axe(page) == []
    proposed.get_by_role("link", name="audit-log", exact=True).click()
    main = page.get_by_role("main")
    expect(main).to_contain_text("Payments depends on it.")
    expect(main).to_contain_text("The proposal “Describe the audit log, and what payments rely on” creates it.")
    main.get_by_role("link", name="Open the proposal").click()
    expect(page.locator("h1")).to_have_text("Describe the audit log, and what payments rely on")


def test_a_relation_to_a_missing_fact_is_removed(desk: Realistic, page: Page) -> None:
    at(page, "broken")
    page.get_by_role("button", name="Remove the relation to concept://shop/returns").click()
    expect(page.locator(".said")).to_contain_text("Relation removed with commit")
    expect(page.locator("main h2")).to_have_text(["Payments depends on 2 missing facts"])
    desk.call(
        "put", changes=[{"op": "relate", "source": PAYMENTS, "type": "depends_on", "target": "concept://shop/returns"}]
    )


def test_a_missing_node_is_written_from_its_card(page: Page) -> None:
    card(page, "tax-rates").get_by_role("link", name="Write it").click()
    page.wait_for_url("**/node/new?uri=concept%3A%2F%2Fshop%2Ftax-rates")


def test_an_action_that_is_too_late_reports_why(desk: Realistic, page: Page) -> None:
    resolve = card(page, "Labels expire").get_by_role("link", name="Resolve")
    expect(resolve).to_be_visible()
    (found,) = desk.call("conflicts", uri="gotcha://shop/labels-expire")["conflicts"]
    page.evaluate("document.querySelector('#live').remove()")
    desk.call("resolve", resolutions=[{"id": found["id"], "take": "a"}])
    resolve.click()
    expect(page.locator("h1")).to_have_text("Already resolved")
    at(page, "overview")
    confirm = card(page, "Longer than it repeats them").get_by_role("button", name="Still true")
    expect(confirm).to_be_visible()
    page.evaluate("document.querySelector('#live').remove()")
    desk.call("put", changes=[{"op": "delete", "uri": KEPT_FOR_A_WEEK}])
    confirm.click()
    expect(page.locator(".said")).to_contain_text("no such fact")


def test_a_short_conflict_is_resolved_in_the_list_and_the_choice_is_undone(desk: Realistic, page: Page) -> None:
    at(page, "conflicts")
    page.get_by_role("button", name="Choose A of A hold lasts ten minutes").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    assert desk.node("insight://shop/a-hold-lasts-ten-minutes")["summary"] == "A hold lasts twenty minutes"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".said")).to_contain_text("Undone")
    expect(page.get_by_role("button", name="Choose A of A hold lasts ten minutes")).to_be_visible()


def test_a_version_of_a_listed_conflict_is_chosen_beside_its_result(desk: Realistic, page: Page) -> None:
    at(page, "conflicts")
    disputed = page.locator(".dispute", has_text="A hold lasts ten minutes")
    expect(disputed).to_contain_text("Summary was “Long enough")
    assert axe(page) == []
    disputed.get_by_role("link", name="Compare and edit A hold lasts ten minutes").click()
    page.get_by_label("Choose B").check()
    expect(page.get_by_label("Result, summary")).to_have_value("Seven minutes during a sale, else ten")
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".said")).to_contain_text("Resolved with commit")
    expect(disputed).to_have_count(0)
    assert desk.node("insight://shop/a-hold-lasts-ten-minutes")["summary"] == "Seven minutes during a sale, else ten"


def test_the_list_of_proposals_names_the_nodes_and_leads_to_their_differences(desk: Realistic, page: Page) -> None:
    at(page, "proposals")
    proposed = page.locator(".dispute", has_text="Describe the audit log")
    for text in ("changed Payments", "created Audit log", "changed Order numbers have gaps"):
        expect(proposed).to_contain_text(text)
    expect(proposed.locator(".changes .sample")).to_have_count(3)
    expect(proposed).to_contain_text("+ added")
    proposed.get_by_role("link", name="Open").click()
    expect(page.locator(".row h3 .sample")).to_have_count(3)
    page.get_by_role("button", name="Accept all 3").click()
    expect(page.locator(".said")).to_contain_text("Accepted with commit")
    assert desk.node("concept://shop/audit-log")["summary"] == "Every movement of money"


def test_a_history_names_the_programs_of_agents_alone(page: Page) -> None:
    at(page, f"node/history?uri={RETRY}")
    expect(page.locator("main")).to_contain_text("Ann Person, ")
    expect(page.locator("main")).not_to_contain_text("kgd ui")
    expect(page.get_by_label("From")).to_be_hidden()
    way = ["shop", "Areas", "Payments", "One retry, with an idempotency key"]
    expect(page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link")).to_have_text(way)
    tagged = page.locator(".history > li", has_text="Read with Dmitri")
    expect(tagged.locator(".changed-tags")).to_have_text("Tags + reviewed")
    entry = page.locator(".history > li").filter(has=page.get_by_role("link", name="conflict", exact=True)).first
    entry.get_by_role("link", name="conflict", exact=True).click()
    expect(page.get_by_label("Choose A")).to_be_visible()
    at(page, "node/history?uri=insight://shop/capture-is-idempotent")
    expect(page.locator("main")).to_contain_text(" (claude-code), ")


def test_results_that_only_a_relation_leads_to_are_links_below_the_others(page: Page) -> None:
    at(page, "search?q=refund")
    expect(page.locator(".hit", has_text="Refund a single line")).to_have_count(1)
    expect(page.get_by_role("group", name="Type").get_by_role("link", name="task")).to_be_visible()
    expect(page.get_by_text("Related: ")).to_contain_text("Reports")
    expect(page.locator(".hit .aside", has_text="Reports")).to_have_count(0)


def test_a_remote_without_a_sync_yet_is_not_called_ok(page: Page) -> None:
    at(page, "workspaces")
    remote = page.locator(".unsynced")
    expect(remote).to_contain_text(re.compile(r"not synced since kgd started origin \(.*server.git.*\)"))
    expect(remote, "the badge says it").not_to_contain_text("no sync")
    expect(remote.get_by_role("button", name="Sync now with origin")).to_be_visible()


def test_the_list_of_workspaces_counts_facts_without_areas(desk: Realistic, page: Page) -> None:
    (one,) = (one for one in desk.call("workspaces")["workspaces"] if one["id"] == "shop")
    assert one["facts"] < one["nodes"]
    at(page, "workspaces")
    expect(page.get_by_role("main")).to_contain_text(f"{one['facts']} facts")


def test_the_bar_of_the_coverage_has_the_colour_of_the_links(page: Page) -> None:
    bar = at(page, "areas").locator("meter").first
    link = page.get_by_role("link", name="New area", exact=True)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        with Image.open(io.BytesIO(bar.screenshot())) as taken:
            shown = taken.convert("RGB").getpixel((taken.width // 4, taken.height // 2))
        assert link.evaluate("link => getComputedStyle(link).color") == f"rgb{shown}"


@pytest.mark.parametrize("width", [700, 1000, 1100, 1119, 1121, 1200, 1280])
def test_the_header_cuts_neither_the_workspace_nor_its_search(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    at(page, "overview")
    expect(page.get_by_role("button", name="Menu")).to_be_visible(visible=width < 1120)
    name, search = page.locator("header .workspace"), page.locator("#q")
    assert name.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert search.evaluate("""one => {
        const text = document.createElement("canvas").getContext("2d"), style = getComputedStyle(one);
        text.font = style.font;
        const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return text.measureText(one.placeholder).width <= room;
    }""")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_start_page_shows_the_work_and_the_last_change_of_each_workspace(desk: Realistic, page: Page) -> None:
    page.goto(page.url.partition("/ui/")[0] + "/ui/")
    shop = page.locator(".work > li", has=page.get_by_role("link", name="shop", exact=True))
    expect(shop).to_contain_text(re.compile(r"Changed .+ by [A-Z]\w+ \w+"))
    expect(shop).to_contain_text("written by your team")
    expect(page.locator(".work > li").first).to_contain_text("conflict")
    status = desk.call("status")
    counts = {
        "Check {} stale facts?": status["counts"]["unverified"],
        "Resolve {} conflicts?": status["conflicts"],
        "Decide on {} proposals?": status["proposals"],
    }
    for work, count in counts.items():
        links = shop.get_by_role("link", name=re.compile(work.format(count)))
        expect(links).to_have_count(1 if count else 0)
    shop.click(position={"x": 250, "y": 50})  # beside the number of facts
    page.wait_for_url("**/w/shop/overview")
    page.go_back()
    expect(page.locator(".adding")).to_contain_text("kgd up")
    expect(page.locator(".adding").get_by_role("button", name="Copy kgd join URL")).to_be_visible()
    assert axe(page) == []
