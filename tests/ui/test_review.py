"""The review of new knowledge: filters, a previewed revert of selected nodes, and marking as reviewed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from kgd.client.connection import Connection
from tests.ui.colleague import Colleague
from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

MARK = "Mark all as reviewed"


@pytest.fixture(scope="module")
def colleague(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colleague]:
    made = Colleague(desk, tmp_path_factory.mktemp("bob"))
    yield made
    made.close()


def agent_writes(desk: Desk, *changes: dict[str, Any]) -> None:
    with Connection(desk.home, "claude-code") as connection:
        connection.call("put", {"workspace": "shop", "changes": list(changes)})


def upsert(uri: str, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "uri": uri, **fields}


@pytest.mark.requirement("E14")
def test_a_part_of_an_agents_changes_is_reverted_by_keyboard(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/auth", name="Auth", summary="Signs tokens with a key")
    agent_writes(
        desk,
        upsert("concept://shop/auth", summary="Signs tokens with no key"),
        upsert("concept://shop/good", name="Good"),
    )
    at(page, "review")
    page.get_by_role("link", name="Agents 1", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**by=agent*")
    expect(page.locator(".learned")).to_have_count(2)
    changed = page.locator(".learned", has_text="Auth").first
    changed.locator("summary").click()
    expect(changed.locator(".field del")).to_have_text("a")
    expect(changed.locator(".field ins")).to_have_text("no")
    assert axe(page) == []
    page.get_by_role("checkbox", name="Select Auth").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Revert 1 fact…").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".commit")).to_contain_text("review: revert concept://shop/auth")
    assert axe(page) == []
    assert desk.node("concept://shop/auth")["summary"] == "Signs tokens with no key", (
        "nothing is done before it was seen"
    )
    page.get_by_label("Reason").fill("there is a key")
    page.get_by_role("button", name="Revert", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Reverted 1 fact with commit")
    assert desk.node("concept://shop/auth")["summary"] == "Signs tokens with a key"
    assert desk.node("concept://shop/good")["name"] == "Good"
    assert desk.git("log", "-1", "--format=%s", "refs/kgd/head").strip() == "there is a key"


def test_rows_are_walked_and_selected_by_single_keys(desk: Desk, page: Page) -> None:
    desk.call("put", changes=[upsert(f"concept://shop/rows/{name}", name=name) for name in "pq"])
    at(page, "review?since=yesterday&path=/rows/**")
    expect(page.get_by_role("button", name="Revert selected…")).to_be_hidden()
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Revert 2 facts…")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.locator(".learned").nth(1).locator(".field").first).to_be_hidden()


def test_all_nodes_of_an_author_are_selected_at_once_and_unselected_again(desk: Desk, page: Page) -> None:
    desk.call("put", changes=[upsert(f"concept://shop/lamps/{n}", name=f"Lamp {n}") for n in range(3)])
    agent_writes(desk, *(upsert(f"concept://shop/lamps/{n}", tags=["light"]) for n in range(2)))
    at(page, "review?since=yesterday&path=/lamps/**")
    group = page.locator(".author", has_text="(claude-code)")
    group.get_by_role("button", name="Select all facts by Ann Person (claude-code)").click()
    expect(group.get_by_role("checkbox", checked=True)).to_have_count(2)
    expect(group.locator("h2 .badge"), "the meaning of the violet edge").to_have_text("agent")
    lefts = page.locator(".learned input").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1, "rows of people and of agents begin at one edge"
    expect(page.get_by_role("button", name="Revert 2 facts…")).to_be_enabled()
    assert axe(page) == []
    group.get_by_role("button", name="Select all facts by Ann Person (claude-code)").click()
    expect(page.get_by_role("button", name="Revert selected…")).to_be_hidden()


def test_rows_are_listed_by_day_and_link_to_their_commits(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/clock", name="Clock", summary="Slow")
    desk.put("concept://shop/clock", summary="Fast")
    at(page, "review?since=yesterday&path=/clock")
    row = page.locator(".learned")
    expect(page.locator(".author h3 time")).to_be_visible()
    row.locator("summary").click()
    commits = row.locator("a", has=page.locator("code"))
    expect(commits).to_have_count(2)
    commits.last.click()
    expect(page.locator(".side-by-side ins")).to_have_text("Fast")


def test_an_unsent_choice_survives_changes_of_others(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/chosen", name="Chosen")
    at(page, "review")
    path = page.get_by_label("path")
    path.fill("/src/**")
    desk.put("concept://shop/meanwhile", name="Meanwhile")
    expect(page.get_by_role("status")).to_contain_text("This page has newer content")
    expect(path).to_have_value("/src/**")


def test_a_group_names_the_program_and_a_fact_shows_its_sentence_once(desk: Desk, page: Page) -> None:
    desk("remember", "Harbours close at dusk.")
    at(page, "review?since=yesterday")
    row = page.locator(".learned", has_text="Harbours close at dusk")
    expect(row.locator("summary")).to_have_text("created Harbours close at dusk.")
    expect(page.locator(".author", has=row).locator("h2")).to_have_text(re.compile(r"Ann Person \d+ commits?"))


def test_a_revert_names_the_nodes_that_it_deletes_and_changes(desk: Desk, page: Page) -> None:
    agent_writes(desk, upsert("decision://shop/one-till", name="One till per shop"))
    agent_writes(desk, upsert("decision://shop/two-tills", name="Two tills per shop"))
    agent_writes(desk, upsert("decision://shop/two-tills", summary="Since May"))
    at(page, "review?since=yesterday&path=/one-till")
    page.get_by_role("checkbox", name="Select One till per shop").check()
    page.get_by_role("button", name="Revert 1 fact…").click()
    expect(page.locator(".commit h3")).to_have_text("deleted One till per shop")
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Reverted 1 fact with commit")
    at(page, "review?since=yesterday&path=/two-tills")
    page.get_by_role("checkbox", name="Select Two tills per shop").check()
    page.get_by_role("button", name="Revert 1 fact…").click()
    expect(page.locator(".commit h3")).to_contain_text("Two tills per shop")


def test_a_tick_in_one_group_leaves_the_changes_of_other_groups(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/tills", name="Tills", summary="By a person")
    agent_writes(desk, upsert("concept://shop/tills", tags=["agent"]))
    with Connection(desk.home, "codex") as connection:
        changes = [upsert("concept://shop/tills", data={"floor": "2"})]
        connection.call("put", {"workspace": "shop", "changes": changes})
    at(page, "review?since=yesterday&path=/tills")
    group = page.locator(".author", has_text="(claude-code)")
    group.get_by_role("checkbox").check()
    page.get_by_role("button", name="Revert 1 fact…").click()
    expect(page.locator("main")).to_contain_text("changes by Ann Person (claude-code) are reverted")
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Reverted 1 fact with commit")
    node = desk.node("concept://shop/tills")
    assert (node["summary"], node["data"], node.get("tags")) == ("By a person", {"floor": "2"}, None)
    row = group.locator(".learned")
    expect(row.locator("summary")).to_contain_text("reverted")
    expect(row.get_by_role("checkbox")).to_be_disabled()
    row.locator("summary").click()
    commit = desk.git("rev-parse", "refs/kgd/head").strip()
    expect(row.get_by_role("link", name=commit[:10])).to_be_visible()
    row.get_by_role("link", name=commit[:10]).click()
    expect(page.get_by_role("heading", name="Reverted")).to_be_visible()


def test_a_stale_node_is_marked_in_its_row(desk: Desk, page: Page) -> None:
    agent_writes(
        desk, upsert("insight://shop/signs", name="Tokens are signed", data={"cites": ["src/auth/session.py#sign"]})
    )
    (desk.code / "src/auth/session.py").write_text("def sign(token):\n    return token + token\n")
    until(lambda: any("shop/signs" in one["uri"] for one in desk.call("stale")["nodes"]))
    at(page, "review?since=yesterday&path=/signs")
    row = page.locator(".learned")
    expect(row.locator("summary .badge").last).to_have_text("stale")
    row.locator("summary").click()
    expect(row).to_contain_text("stale: ")


def test_changes_to_a_node_in_conflict_lead_to_the_conflict_instead_of_an_approval(
    desk: Desk, colleague: Colleague, page: Page
) -> None:
    uri = "concept://shop/closed"
    colleague.disagree(uri, "summary", "Two tries in all", "Three tries, then a person", was="Three tries in all")
    at(page, "review?since=yesterday&path=/closed")
    bob = page.locator('.in-conflict h2:has-text("Bob Builder") + div')
    row = bob.locator(".row")
    expect(row).to_be_hidden()
    expect(page.locator(".in-conflict").get_by_role("link", name="Resolve them")).to_be_visible()
    page.get_by_text("changed facts in conflict").click()
    expect(bob.get_by_role("button", name="Select all"), "one row needs no button for all").to_have_count(0)
    expect(row.locator("summary .badge")).to_have_text("conflict")
    expect(row.locator("summary ins")).to_be_visible()
    expect(row.get_by_role("button", name="Mark as reviewed")).to_have_count(0)
    assert axe(page) == []
    row.locator("summary").click()
    expect(row.locator("summary ins")).to_be_hidden()
    row.get_by_role("link", name="Resolve closed").click()
    expect(page.get_by_role("button", name="Resolve", exact=True)).to_be_visible()


def test_the_filter_is_one_line_on_a_phone_that_names_its_values(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/small", name="Small")
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, "review?since=yesterday&by=person&path=/small")
    line = page.locator(".filter summary")
    expect(line).to_have_text("Since yesterday, by people, /small")
    expect(page.get_by_label("path")).to_be_hidden()
    assert axe(page) == []
    line.click()
    expect(page.get_by_label("path")).to_have_value("/small")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(line).to_be_hidden()


def test_the_buttons_for_selected_facts_appear_with_the_first(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/unselected", name="Unselected")
    at(page, "review?since=yesterday&path=/unselected")
    bar = page.locator(".confirm")
    expect(bar).to_be_hidden()
    page.get_by_role("checkbox", name="Select Unselected").check()
    expect(bar.get_by_role("button")).to_have_text(["Revert 1 fact…", "Mark 1 fact as reviewed"])
    page.get_by_role("checkbox", name="Select Unselected").uncheck()
    expect(bar).to_be_hidden()


def test_only_the_shown_changes_are_marked_as_reviewed(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/first", name="First")
    at(page, "review")
    seen = desk.git("rev-parse", "refs/kgd/head").strip()
    page.evaluate("document.getElementById('live').remove()")  # as without scripts
    desk.put("concept://shop/later", name="Later")
    page.get_by_role("button", name=MARK).click()
    expect(page.get_by_role("status").first).to_contain_text(f"Reviewed up to {seen[:10]}")
    expect(page.locator(".learned strong")).to_have_count(1)
    expect(page.locator(".learned strong")).to_contain_text("Later")
    expect(page.locator(".lead")).to_contain_text("1 commit of your own since your last review")
    page.get_by_role("button", name=MARK).click()
    expect(page.locator("main")).to_contain_text("No new knowledge since your last review")


def test_the_number_of_unreviewed_commits_equals_that_of_the_navigation(desk: Desk, page: Page) -> None:
    agent_writes(desk, upsert("concept://shop/unread", name="Unread"))
    desk.put("concept://shop/own", name="Own")
    at(page, "review")
    lead, badge = page.locator(".lead"), page.locator("#page-links [href$=review] .count")
    number = badge.text_content()
    expect(lead).to_contain_text(re.compile(rf"^{number} unreviewed commits? and \d+ of your own"))
    expect(page.get_by_role("link", name=f"Anyone {number}", exact=True)).to_be_visible()
    own = page.locator("details.own")
    expect(own.locator("summary").first).to_have_text(re.compile(r"^Your own \d+ commits?$"))
    expect(own.locator("strong", has_text="Own")).to_be_hidden()
    expect(page.locator("strong", has_text="Unread")).to_be_visible()
    expect(page.get_by_role("button", name="Show")).to_be_hidden()
    page.get_by_label("Since").fill("yesterday")
    page.get_by_role("button", name="Show").click()
    expect(lead).to_contain_text(re.compile(r"^\d+ commits since \d+ \w+ \d{4}\."))
    lead.get_by_role("link", name=f"Show all {number} unreviewed").click()
    expect(lead).to_contain_text(f"{number} unreviewed")


def test_an_address_holds_the_filter_and_errors_are_reported(desk: Desk, page: Page, watched: Watched) -> None:
    desk.put("concept://shop/deep/one", name="One")
    at(page, "review?since=yesterday&by=person&path=/deep/**")
    expect(page.locator(".learned")).to_have_count(1)
    expect(page.get_by_role("button", name=MARK)).to_have_count(0)
    at(page, "review?since=2099-01-01")
    expect(page.locator("main")).to_contain_text("No matches")
    page.goto(page.url.replace("2099-01-01", "soon"))
    expect(page.get_by_role("alert")).to_contain_text("not a date")
    watched.troubles.clear()  # the browser notes each answer of 422


def test_all_facts_of_a_filtered_review_are_marked_at_once(desk: Desk, page: Page) -> None:
    agent_writes(desk, *(upsert(f"concept://shop/pots/{name}", name=name) for name in ("Clay", "Iron")))
    at(page, "review?since=yesterday&path=/pots/**")
    page.get_by_role("button", name="Mark these 2 facts as reviewed").click()
    expect(page.get_by_text("✓ Reviewed")).to_have_count(2)


def test_a_date_in_the_address_is_in_the_form_and_the_way_to_mark_all_is_shown(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/dated", name="Dated")
    at(page, "review?since=2020-01-31")
    expect(page.get_by_label("Since")).to_have_value("2020-01-31")
    expect(page.get_by_role("button", name=MARK)).to_have_count(0)
    page.get_by_label("Since").fill("Last week")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Since")).to_have_value("Last week")
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("button", name=MARK)).to_be_visible()


def test_the_row_with_the_focus_is_approved_and_reverted_by_single_keys(desk: Desk, page: Page) -> None:
    agent_writes(desk, *(upsert(f"concept://shop/jars/{name}", name=name) for name in ("Glass", "Stone")))
    at(page, "review?since=yesterday&path=/jars/**")
    page.keyboard.press("a")
    expect(page.get_by_text("✓ Reviewed")).to_have_count(0)
    for key in "ja":
        page.keyboard.press(key)
    expect(page.locator(".learned", has_text="Glass")).to_contain_text("✓ Reviewed")
    for key in "jr":
        page.keyboard.press(key)
    expect(page.locator(".commit h3")).to_have_text("deleted Stone")


def test_a_single_row_is_approved_or_reverted(desk: Desk, page: Page) -> None:
    agent_writes(desk, *(upsert(f"concept://shop/pans/{name}", name=name) for name in ("Iron", "Steel")))
    at(page, "review?since=yesterday&path=/pans/**")
    page.get_by_role("button", name="Mark as reviewed: Iron").click()
    iron = page.locator(".learned", has_text="Iron")
    expect(iron).to_contain_text("✓ Reviewed")
    expect(page.get_by_role("button", name="Mark as reviewed: Steel")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("button", name="Revert Steel…").click()
    expect(page.locator(".commit h3")).to_have_text("deleted Steel")
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(page.locator(".by-agent > .learned", has_text="Steel")).to_contain_text("reverted")
    expect(iron).to_contain_text("✓ Reviewed")


def test_selected_rows_are_approved_together_without_scripts(desk: Desk, chromium: Browser) -> None:
    desk.call("put", changes=[upsert(f"concept://shop/cups/{name}", name=name) for name in ("Tin", "Clay")])
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(desk.link())
    page.get_by_role("button").first.click()
    at(page, "review?since=yesterday&path=/cups/**")
    page.get_by_role("button", name="Mark selected as reviewed").click()
    expect(page.locator(".said")).to_contain_text("Select facts first.")
    for name in ("Tin", "Clay"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Mark selected as reviewed").click()
    expect(page.get_by_text("✓ Reviewed")).to_have_count(2)
    context.close()


def test_a_long_review_has_pages(desk: Desk, page: Page) -> None:
    desk.call("put", changes=[upsert(f"concept://shop/many/n{n:03}", name=f"Many {n:03}") for n in range(60)])
    at(page, "review?since=yesterday&path=/many/**")
    expect(page.locator(".learned")).to_have_count(25)
    expect(page.locator(".author h2")).to_have_text(re.compile(r"Ann Person \d+ commits?"))
    expect(page.get_by_role("link", name="More by Ann Person")).to_be_visible()
    page.get_by_role("link", name="Next page (up to 35 more facts)").click()
    expect(page.locator(".author h2")).to_contain_text("(continued)")
    expect(page.locator(".learned").first).to_contain_text("Many 025")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator(".learned")).to_have_count(10)
    page.get_by_role("link", name="First page").click()
    expect(page.locator(".learned").first).to_contain_text("Many 000")


def test_an_answer_on_its_way_does_not_overwrite_a_changed_form(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/before", name="Before")
    at(page, "review")
    held: list[Route] = []
    page.route("**/review", lambda route: held.append(route))
    with page.expect_request("**/review"):
        desk.put("concept://shop/behind", name="Behind")
    where = page.get_by_label("path")
    where.fill("/src/**")
    held[0].continue_()
    expect(page.get_by_role("status")).to_contain_text("This page has newer content")
    expect(where).to_have_value("/src/**")


def test_without_scripts_a_revert_without_a_selection_asks_for_one(desk: Desk, chromium: Browser) -> None:
    desk.put("concept://shop/unticked", name="Unticked")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(desk.link())
    page.get_by_role("button").first.click()
    at(page, "review")
    page.get_by_role("button", name="Revert selected…").click()
    expect(page.locator(".said")).to_contain_text("Select facts to revert.")
    context.close()
