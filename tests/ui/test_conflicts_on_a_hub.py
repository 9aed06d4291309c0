"""On a hub, a token limits which conflicts its holder sees and resolves."""

from __future__ import annotations

import subprocess
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.hub.conftest import Hub
from tests.ui.test_hub_pages import browser, hub, signed_in

__all__ = ["browser", "hub"]

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

SEEN, HIDDEN = "concept://infra/services/pay", "concept://infra/secret/pay"


def disagree(hub: Hub, uri: str) -> str:
    """Return the id of an open conflict: a change is reverted after a later change of the same field."""
    commits = []
    for text in ("one", "two", "three"):
        change = {"op": "upsert", "uri": uri, "summary": f"{text} of {uri.split('/')[3]}"}
        commits.append(hub.call("put", workspace="infra", changes=[change])["commit"])
    hub.call("revert", workspace="infra", commit=commits[1])
    (found,) = hub.call("conflicts", workspace="infra", uri=uri)["conflicts"]
    return str(found["id"])


def test_a_token_resolves_the_conflicts_of_its_scope_and_sees_no_others(browser: BrowserContext, hub: Hub) -> None:
    id, hidden = disagree(hub, SEEN), disagree(hub, HIDDEN)
    token = hub.mint("read,resolve", "/services/**", name="Jo Settler", kind="person")
    page = signed_in(browser, hub, token, "w/infra/conflicts")
    expect(page.locator("article")).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("secret")
    expect(page.get_by_role("link", name="Suggestions")).to_have_count(0)
    page.goto(f"{hub.url}/ui/w/infra/conflict?id={quote(hidden, safe='')}")
    expect(page.get_by_role("alert")).to_contain_text("There is no such conflict")
    page.goto(f"{hub.url}/ui/w/infra/conflict?id={quote(id, safe='')}")
    page.get_by_label("Choose A").check()
    page.get_by_role("button", name="Preview commit").click()
    expect(page.locator(".commit")).to_contain_text("By Jo Settler")
    page.get_by_role("button", name="Commit").click()
    expect(page.locator(".said")).to_contain_text("Resolved")
    git = ["git", "-C", str(hub.workspace("infra")), "log", "-1", "--format=%an%n%B", "refs/kgd/head"]
    said = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    assert said.startswith("Jo Settler")
    assert f"Kgd-Resolves: {id.rpartition('#')[2]}" in said


def test_a_reader_sees_both_versions_but_no_form(browser: BrowserContext, hub: Hub) -> None:
    id = disagree(hub, "concept://infra/services/read-only")
    page = signed_in(browser, hub, hub.mint("read", "/services/**", name="reader"), "w/infra/conflicts")
    page.goto(f"{hub.url}/ui/w/infra/conflict?id={quote(id, safe='')}")
    expect(page.get_by_role("region", name="Version A")).to_contain_text("of services")
    expect(page.get_by_role("radio")).to_have_count(0)
    proof = page.locator("form[action='/ui/out'] input[name=proof]").get_attribute("value") or ""
    answer = page.request.post(
        page.url,
        form={"proof": proof, "id": id, "take-0-0": "a", "step": "make"},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert "may not" in answer.text()
    assert hub.call("conflicts", workspace="infra", id=id)["total"] == 1


def test_the_overview_names_who_accepted_a_proposal(browser: BrowserContext, hub: Hub) -> None:
    proposer, keeper = hub.mint("read,propose", name="Carol"), hub.mint("read,write", name="Dave", kind="person")
    change = {"op": "upsert", "uri": "concept://infra/services/asked", "name": "Asked"}
    made = hub.post(proposer, "infra/submit_subgraph", {"changes": [change], "message": "Please"}).json
    assert hub.post(keeper, "infra/accept", {"name": made["proposal"], "only": [change["uri"]]}).status == 200
    page = signed_in(browser, hub, keeper, "w/infra/overview")
    group = page.locator(".hour", has_text="accepted Asked")
    expect(group).to_contain_text("Dave")
    expect(group).not_to_contain_text("Carol")
