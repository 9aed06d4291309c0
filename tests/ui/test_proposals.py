"""Proposals are accepted whole or in part, or rejected, with a preview of the commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kgd.errors import NotFound
from kgd.ui.pages.proposals import TRIED
from tests.sync.people import Person, bare
from tests.ui.conftest import Desk, Watched, at, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


def propose(desk: Desk, place: str, *names: str, text: str = "proposed") -> str:
    """Return the id of an open proposal whose first node has changed since the proposal's base."""
    uris = [f"concept://shop/{place}/{name}" for name in names]
    base = desk.put(uris[0], summary="was")["commit"]
    desk.put(uris[0], summary="is")
    changes = [
        {"op": "upsert", "uri": uri, "name": f"{uri.rpartition('/')[2]} by a team", "summary": text} for uri in uris
    ]
    answer = desk.call("submit_subgraph", changes=changes, base=base, message=f"what we found out about {place}")
    return str(answer["proposal"])


def message(desk: Desk) -> str:
    return desk.git("log", "-1", "--format=%B", "refs/kgd/head")


def waiting(desk: Desk) -> list[str]:
    return [one["id"] for one in desk.call("proposals")["proposals"]]


@pytest.mark.requirement("E16")
def test_a_part_of_a_proposal_is_accepted_by_keyboard_and_the_rest_stays_open(desk: Desk, page: Page) -> None:
    id = propose(desk, "payments", "card", "invoice", "voucher")
    at(page, "proposals")
    assert axe(page) == []
    page.get_by_role("link", name="what we found out about payments", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".warning")).to_contain_text("Changed here since: card")
    assert axe(page) == []
    page.get_by_role("checkbox", name="Select invoice by a team").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Accept 1 selected")).to_be_visible()
    page.get_by_role("button", name="Preview").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".change")).to_have_count(1)
    expect(page.locator(".change")).to_contain_text("invoice by a team")
    shown = page.locator(".commit pre").inner_text()
    assert axe(page) == []
    page.get_by_role("button", name="Commit").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("The rest is still open")
    assert message(desk).strip() == shown.strip()
    assert desk.node("concept://shop/payments/invoice")["summary"] == "proposed"
    assert desk.node("concept://shop/payments/card")["summary"] == "is"
    assert id in waiting(desk)

    page.get_by_label("Reason (optional)").fill("the rest as well")
    page.get_by_role("button", name="Accept all 2").click()
    expect(page.locator(".said")).to_contain_text("both versions are kept as a conflict")
    expect(page.locator("main")).to_contain_text("No proposals")
    assert message(desk).startswith("the rest as well\n")
    (conflict,) = desk.call("conflicts", uri="concept://shop/payments/card")["conflicts"]
    assert {side["value"] for side in conflict["fields"]["summary"]["sides"]} == {"is", "proposed"}


def test_one_field_is_accepted_in_three_clicks_and_a_comment_reaches_the_author(desk: Desk, page: Page) -> None:
    uri, other = "concept://shop/fields/tax", "concept://shop/fields/other"
    base = desk.call(
        "put", changes=[{"op": "upsert", "uri": one, "name": "Tax", "summary": "19"} for one in (uri, other)]
    )
    desk.put(other, summary="changed since, so that the proposal waits")
    changes = [{"op": "upsert", "uri": one, "name": "VAT", "summary": "20 percent"} for one in (uri, other)]
    answer = desk.call("submit_subgraph", changes=changes, base=base["commit"], message="new rates")
    id = answer["proposal"]
    at(page, "proposals")
    page.get_by_role("link", name="new rates", exact=True).click()
    page.locator(".change", has_not_text="also changed here").get_by_label("Summary").check()
    assert axe(page) == []
    page.get_by_role("button", name="Accept 1 selected").click()
    expect(page.locator(".said")).to_contain_text("The rest is still open")
    node = desk.node(uri)
    assert (node["name"], node["summary"]) == ("Tax", "20 percent")
    page.get_by_role("textbox", name="Comment").fill("Why is it called VAT?")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_role("region", name="Comments")).to_contain_text("Ann Person, just now")
    (one,) = desk.call("proposals", name=id)["proposals"]
    assert [said["text"] for said in one["discussion"]] == ["Why is it called VAT?"]
    assert "Why is it called VAT?" in desk("proposals", id)
    at(page, "proposals")
    expect(page.locator("article", has_text="new rates")).to_contain_text("1 comment")
    desk.call("reject", name=id)


def test_the_list_names_new_nodes_and_shows_what_changes(desk: Desk, page: Page) -> None:
    id = propose(desk, "ferry", "pier", "tickets", text="sold on board")
    at(page, "proposals")
    shown = page.locator("article", has_text="what we found out about ferry")
    expect(shown).to_contain_text("created tickets by a team sold on board")
    expect(shown).not_to_contain_text("concept://")
    expect(shown.get_by_role("button")).to_have_count(0)
    shown.get_by_role("link", name="Open what we found out about ferry").click()
    expect(page.locator(".words ins", has_text="sold on board")).to_be_visible()
    desk.call("reject", name=id)


def test_a_short_proposal_shows_its_differences_and_its_decisions_side_by_side(desk: Desk, page: Page) -> None:
    id = propose(desk, "quay", "one", "two", "three", "four", "five")
    at(page, f"proposal?id={id}")
    expect(page.locator("div.change")).to_have_count(5)
    accept, reject = page.get_by_role("button", name="Accept all 5"), page.get_by_text("Reject…")
    places = [one.bounding_box() for one in (accept, reject)]
    assert len({round(place["y"]) for place in places if place}) == 1
    desk.call("reject", name=id)
    id = propose(desk, "quay", "one", "two", "three", "four", "five", "six")
    at(page, f"proposal?id={id}")
    expect(page.locator("details.change")).to_have_count(6)
    expect(page.locator("div.change, details.change[open]")).to_have_count(0)
    desk.call("reject", name=id)


def test_the_list_is_filtered_in_one_line_without_scripts(chromium: Browser, desk: Desk, watched: Watched) -> None:
    ids = [propose(desk, place, "gate") for place in ("lock", "dam")]
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(desk.link())
    page.get_by_role("button").click()
    at(page, "proposals?since=today")
    places = [field.bounding_box() for field in page.locator(".filter-form > *").all()]
    assert len({round(one["y"] + one["height"] / 2) for one in places if one}) == 1
    page.get_by_label("path").fill("/dam/**")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="People", exact=True).click()
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("link", name="what we found out about dam", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="what we found out about lock", exact=True)).to_have_count(0)
    expect(page.locator("main")).to_contain_text("1 matching open proposal")
    page.get_by_label("author or agent").fill("nobody")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main")).to_contain_text("No matches")
    at(page, "proposals?since=soon")
    expect(page.get_by_role("alert")).to_contain_text("not a date")
    page.context.close()
    for id in ids:
        desk.call("reject", name=id)


def test_pages_of_the_list_keep_its_filter(desk: Desk, page: Page) -> None:
    ids = [propose(desk, f"row{n}", "seat", text=f"seat {n}") for n in range(12)]
    at(page, "proposals?who=ann&since=today")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("article")).to_have_count(2)
    expect(page.get_by_label("author or agent")).to_have_value("ann")
    for id in ids:
        desk.call("reject", name=id)


def test_acceptance_of_a_selection_leads_once_something_is_selected(desk: Desk, page: Page) -> None:
    id = propose(desk, "tower", "clock", "bell")
    at(page, f"proposal?id={id}")
    colour = "button => getComputedStyle(button).backgroundColor"
    part, whole, preview = (page.get_by_role("button", name=name) for name in ("Accept selected", "Accept all", "Prev"))
    expect(part).to_be_disabled()
    colours = {button.evaluate(colour) for button in (part, preview, whole)}
    assert len(colours) == 3, "a button that cannot work yet looks disabled"
    page.get_by_role("checkbox", name="Select bell by a team").check()
    part = page.get_by_role("button", name="Accept 1 selected")
    assert part.evaluate(colour) != preview.evaluate(colour) == whole.evaluate(colour)
    desk.call("reject", name=id)


def test_a_proposal_that_another_user_decided_is_reported(desk: Desk, page: Page) -> None:
    id = propose(desk, "ledger", "book")
    at(page, f"proposal?id={id}")
    page.get_by_label("Reason (optional)").fill("no change is overwritten")
    desk.call("reject", name=id, reason="we have that")
    page.get_by_role("button", name="Accept the proposal").click()
    expect(page.locator("h1")).to_have_text("This proposal is not open")
    expect(page.locator("main")).to_contain_text("Ann Person rejected it")
    expect(page.locator("main")).to_contain_text("we have that")
    assert axe(page) == []


def test_an_unknown_proposal_is_not_called_closed(desk: Desk, page: Page) -> None:
    at(page, "proposal?id=nosuch")
    expect(page.locator("h1")).to_have_text("This proposal is not open")
    expect(page.get_by_role("status").last).to_have_text(
        "No open proposal has that name. List the open proposals with the page Proposals."
    )


def test_acceptance_of_nothing_is_disabled_and_without_scripts_refused(
    desk: Desk, page: Page, chromium: Browser
) -> None:
    id = propose(desk, "nothing", "one")
    at(page, f"proposal?id={id}")
    expect(page.get_by_role("button", name="Accept selected")).to_be_disabled()
    expect(page.get_by_text("To accept a part, select facts or fields.")).to_be_visible()
    plain = chromium.new_context(java_script_enabled=False).new_page()
    plain.goto(desk.link())
    plain.get_by_role("button").click()
    at(plain, f"proposal?id={id}")
    plain.get_by_role("button", name="Accept selected").click()
    expect(plain.get_by_role("alert")).to_contain_text("Select at least one fact or field, or accept all.")
    plain.context.close()
    desk.call("reject", name=id)


def test_a_proposal_shows_its_description_and_branch_the_cited_code_and_whether_it_can_be_accepted(
    desk: Desk, page: Page
) -> None:
    uri = "insight://shop/signing"
    base = desk.put(uri, name="Signing", summary="Signed", data={"cites": ["src/auth/session.py#sign"]})["commit"]
    desk.put(uri, summary="Signed twice")
    change = {"op": "upsert", "uri": uri, "summary": "Signed and checked"}
    message = "check tokens\n\nA forged token was accepted in May.\n\nNow none is."
    id = desk.call("submit_subgraph", changes=[change], base=base, message=message)["proposal"]
    at(page, f"proposal?id={id}")
    expect(page.locator(".warning")).to_have_text(
        "Changed here since: Signing. If you accept, kgd keeps both versions as a conflict."
    )
    desk.put(uri, summary="Signed")
    at(page, f"proposal?id={id}")
    expect(page.get_by_label("Description")).to_have_text("A forged token was accepted in May.\n\nNow none is.")
    expect(page.locator("main")).to_contain_text(f"branch proposals/{id.partition('@')[0]}")
    expect(page.locator("main")).to_contain_text("✓ You can accept it without a conflict.")
    expect(page.locator(".change .cited")).to_contain_text("def sign(token):")
    assert axe(page) == []
    assert "A forged token was accepted in May." in desk("proposals", id)
    at(page, "proposals")
    expect(page.locator("article", has_text="check tokens")).to_contain_text("A forged token was accepted in May.")
    desk.call("reject", name=id)


def test_a_proposal_that_is_too_large_to_be_tried_is_not_called_ready(desk: Desk, page: Page) -> None:
    id = propose(desk, "large", *(f"n{n}" for n in range(TRIED + 1)))
    desk.put("concept://shop/large/n0", summary="was")
    (one,) = desk.call("proposals", name=id)["proposals"]
    assert one["state"] == "open"
    at(page, f"proposal?id={id}")
    expect(page.get_by_role("button", name=f"Accept all {TRIED + 1}")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("without a conflict")
    desk.call("reject", name=id)


def test_a_proposal_is_rejected_with_a_stored_reason(desk: Desk, page: Page) -> None:
    id = propose(desk, "stock", "shelf")
    at(page, f"proposal?id={id}")
    page.get_by_text("Reject…").click()
    page.get_by_label("Reason for rejection").fill("shelves are gone")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".said")).to_contain_text("Rejected")
    assert id not in waiting(desk)
    with pytest.raises(NotFound, match="shelves are gone"):
        desk.call("proposals", name=id)
    assert desk.node("concept://shop/stock/shelf")["summary"] == "is"


@pytest.mark.requirement("U13")
def test_nodes_of_one_change_are_accepted_together(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/keys/auth", name="Auth service", content="Signs tokens.")
    desk.put("concept://shop/keys/old/auth", name="Auth Service", content="Never cache a key.")
    made = desk.call("compress", kinds=["merges"], below="keys")
    assert made["changes"], made
    at(page, "proposals")
    page.get_by_role("heading").get_by_role("link", name="compress").click()
    expect(page.get_by_role("checkbox")).to_have_count(1)
    expect(page.locator(".change")).to_have_count(2)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Accept 1 selected").click()
    expect(page.locator(".said")).to_contain_text("Accepted with commit")
    assert "merge concept://shop/keys/auth concept://shop/keys/old/auth" in message(desk)


def test_a_proposal_that_removes_relations_names_them(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/keys/auth")
    relations = [{"type": type, "target": "concept://shop/keys/auth"} for type in ("related_to", "depends_on")]
    desk.put("concept://shop/keys/vault", relations=relations)
    made = desk.call("compress", kinds=["prunings"], below="keys")
    assert made["changes"], made
    at(page, "proposals")
    page.get_by_role("heading").get_by_role("link", name="compress").click()
    expect(page.locator("main")).to_contain_text("Remove relations: related_to concept://shop/keys/auth")


@pytest.fixture
def team(tmp_path: Path, desk: Desk) -> Iterator[Person]:
    """A colleague who may only propose, at a git server that the desk syncs with."""
    server = bare(tmp_path / "server.git")
    desk.call("remote", action="add", name="origin", url=str(server), sync=0, ref="refs/heads/main")
    made = Person(tmp_path / "team", id="shop")
    made.share(server, sync=0)
    yield made
    made.close()


def test_a_proposal_of_a_remote_is_fetched_decided_and_removed_there(desk: Desk, page: Page, team: Person) -> None:
    change = {"op": "upsert", "uri": "concept://shop/from-afar", "summary": "a team's idea"}
    team.call("submit_subgraph", remote="origin", changes=[change], message="from afar")
    at(page, "proposals")
    desk.call("sync")
    expect(page.get_by_role("link", name="from afar", exact=True)).to_be_visible()
    expect(page.locator("article", has_text="from afar")).to_contain_text("at the remote origin")
    page.get_by_role("link", name="from afar", exact=True).click()
    page.get_by_role("button", name="Accept the proposal").click()
    expect(page.locator(".said")).to_contain_text("Accepted")
    assert desk.node("concept://shop/from-afar")["summary"] == "a team's idea"


def test_a_long_proposal_has_pages_and_a_long_text_has_its_own_page(desk: Desk, page: Page) -> None:
    base = desk.put("concept://shop/long/00", content="was")["commit"]
    desk.put("concept://shop/long/00", summary="is")
    changes = [
        {"op": "upsert", "uri": f"concept://shop/long/{n:02}", "content": f"{n} words " * 400, "summary": "s"}
        for n in range(40)
    ]
    id = desk.call("submit_subgraph", changes=changes, base=base, message="long")["proposal"]
    at(page, f"proposal?id={id}")
    first = page.locator(".change").count()
    assert first < 40
    page.get_by_role("link", name="Next facts").click()
    expect(page.locator(".change").first).not_to_contain_text("/00")
    page.locator(".change summary").first.click()
    page.get_by_role("link", name="Full text of").first.click()
    expect(page.locator(".change")).to_have_count(1)
    assert "characters)" not in page.locator(".change").inner_text()


def test_the_tab_decided_shows_the_decision_the_reason_and_the_comments(desk: Desk, page: Page) -> None:
    id = propose(desk, "decisions", "plan", "later")
    desk.call("comment", name=id, text="Who needs `it`?")
    desk.call("reject", name=id, reason="no longer <needed>")
    accepted = propose(desk, "acceptances", "plan")
    commit = desk.call("accept", name=accepted)["commit"]
    at(page, "proposals")
    page.get_by_role("link", name="Decided").click()
    row = page.locator("article", has_text="what we found out about decisions")
    expect(row.locator(".headline .badge")).to_have_text("rejected")
    expect(row.get_by_label("Reason")).to_have_text("no longer <needed>")
    expect(row).not_to_contain_text("Who needs")
    expect(row.get_by_role("link", name="Ann Person")).to_have_count(2)  # by whom it was decided and proposed
    facts = row.get_by_role("list", name="Facts")
    expect(facts.get_by_role("listitem")).to_have_text([re.compile("created.*later"), re.compile("changed.*plan")])
    expect(facts.get_by_role("link")).to_have_count(1)
    expect(page.locator("article", has_text="about acceptances")).to_contain_text(commit[:10])
    assert axe(page) == []
    kinds = page.get_by_role("list", name="Decision")
    kinds.get_by_role("link", name="Accepted").click()
    expect(page.locator("article", has_text="about acceptances")).to_be_visible()
    expect(row).to_have_count(0)
    kinds.get_by_role("link", name="Rejected").click()
    expect(page.locator("article", has_text="about acceptances")).to_have_count(0)
    row.get_by_role("link", name="1 comment").click()
    expect(page.locator("article")).to_contain_text("Who needs `it`?")
    at(page, f"proposal?id={id}")
    page.get_by_role("link", name="Decision and comments").click()
    expect(page.locator("article")).to_have_count(1)
    expect(page.locator("article")).to_contain_text("no longer <needed>")
