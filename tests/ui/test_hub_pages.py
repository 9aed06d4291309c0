"""A hub serves the same pages to holders of tokens, within scope and lifetime of each token."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from kgd.config import Home
from kgd.ui.live_updates import CUE, Live
from tests import forked
from tests.certificates import self_signed
from tests.event_loops import apart
from tests.hub.conftest import Hub, new_hub
from tests.ui.conftest import WAIT, account, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that serves `infra`, and does not serve `private`."""
    folder = tmp_path_factory.mktemp("hub")
    made = new_hub(folder, "--listen", "127.0.0.1:0", "--workspace", "infra", workspaces=("infra", "private"))
    made.start()
    made.put("concept://infra/services/auth", name="Auth", summary="Issues tokens")
    made.put("concept://infra/secret/plan", name="The plan", summary="Hidden from most")
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context()
    made.set_default_timeout(WAIT)
    yield made
    made.close()


def signed_in(browser: BrowserContext, hub: Hub, token: str, place: str = "w/infra/overview") -> Page:
    page = browser.new_page()
    page.goto(f"{hub.url}/ui/{place}")
    page.get_by_label("enter your token").fill(token)
    page.get_by_role("button", name="Sign in").press("Enter")
    page.wait_for_url(f"**/ui/{place}")
    return page


def test_comments_on_a_proposal_are_on_the_overview_of_its_author(browser: BrowserContext, hub: Hub) -> None:
    token = hub.mint("read,propose", "/services/**", name="asker")
    change = {"op": "upsert", "uri": "concept://infra/services/ask", "summary": "proposed"}
    sent = hub.post(token, "infra/submit_subgraph", {"changes": [change], "message": "a question"}).json
    hub.call("comment", workspace="infra", name=sent["proposal"], text="Which `one`?")
    page = signed_in(browser, hub, token)
    expect(page.locator("h3").first).to_contain_text("Answer 1 proposal with comments")
    card = page.locator(".work > li", has_text="a question")
    expect(card).to_contain_text("Which one?")
    assert axe(page) == []
    page.get_by_role("link", name="Answer 1 proposal with comments").click()
    expect(page.locator("article")).to_contain_text("Which `one`?")
    page.get_by_role("link", name="a question", exact=True).click()
    page.get_by_role("textbox", name="Comment").fill("This one.")
    page.get_by_role("button", name="Comment").click()
    page.goto(f"{hub.url}/ui/w/infra/overview")
    expect(page.locator(".glance")).to_have_text("Nothing needs your attention.")
    hub.call("reject", workspace="infra", name=sent["proposal"].partition("@")[0])


def test_reading_a_proposal_costs_no_quota_and_is_not_in_the_audit_log(browser: BrowserContext, hub: Hub) -> None:
    author = hub.mint("read,propose", "/**", name="author")
    ids = []
    for uri in ("concept://infra/services/quota", "concept://infra/elsewhere/quota"):
        change = {"op": "upsert", "uri": uri, "summary": "proposed"}
        ids.append(hub.post(author, "infra/submit_subgraph", {"changes": [change]}).json["proposal"])
    token = hub.mint("read", "/**", name="reviewer", also=["write:/services/**"], nodes_per_day=1)
    page = signed_in(browser, hub, token, "w/infra/overview")
    for _ in range(3):
        page.goto(f"{hub.url}/ui/w/infra/proposal?id={ids[0]}")
        expect(page.locator("main")).to_contain_text("✓ You can accept it without a conflict.")
    page.goto(f"{hub.url}/ui/w/infra/proposal?id={ids[1]}")
    expect(page.locator(".warning")).to_contain_text("You cannot accept it as a whole")
    expect(page.locator("main")).not_to_contain_text("without a conflict")
    log = hub.call("token_log", id=id_of(token))["entries"]
    assert [one for one in log if "accept" in str(one)] == []
    assert hub.post(token, "infra/accept", {"name": ids[0]}).json["commit"], "the quota of one node is unused"
    hub.call("reject", workspace="infra", name=ids[1])


def test_a_node_that_the_viewer_may_not_read_does_not_empty_the_last_nodes(browser: BrowserContext, hub: Hub) -> None:
    token = hub.mint("read", "/services/**", name="walker")
    page = signed_in(browser, hub, token)
    seen = "seen=concept://infra/secret/plan&seen=concept://infra/services/auth"
    page.goto(f"{hub.url}/ui/w/infra/palette?{seen}")
    expect(page.get_by_role("group", name="Recent").get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("group", name="Recent")).to_contain_text("Auth")
    log = hub.call("token_log", id=id_of(token))["entries"]
    assert not [one["action"] for one in log if "refused" in one["action"]]


def test_the_last_nodes_of_one_viewer_are_not_shown_to_the_next(browser: BrowserContext, hub: Hub) -> None:
    token = hub.mint("read", "/services/**", name="first")
    page = signed_in(browser, hub, token, "w/infra/node?uri=concept://infra/services/auth")
    assert "concept" in page.evaluate("Object.values(localStorage).join()")
    remembered = page.evaluate("JSON.stringify(localStorage)")
    hub.call("token_revoke", id=id_of(token))
    page.goto(f"{hub.url}/ui/")
    assert "concept" not in page.evaluate("Object.values(localStorage).join()"), "the sign-in page forgets them"
    page.evaluate(
        "kept => Object.entries(JSON.parse(kept)).forEach(([key, value]) => localStorage.setItem(key, value))",
        remembered,
    )
    other = browser.new_page()
    other.route("**/kgd.js*", lambda route: route.abort())
    other.goto(f"{hub.url}/ui/")
    other.get_by_label("enter your token").fill(hub.mint("read", "/services/**", name="second"))
    other.get_by_role("button", name="Sign in").click()
    other.wait_for_url("**/overview")
    other.unroute_all()
    other.reload()
    assert "concept" not in other.evaluate("Object.values(localStorage).join()"), "another viewer's page forgets them"


def id_of(token: str) -> str:
    return token.split("_")[2]


@pytest.mark.requirement("B5")
def test_a_token_signs_in_a_browser_within_its_scope_and_lifetime(browser: BrowserContext, hub: Hub) -> None:
    door = browser.new_page()
    door.goto(f"{hub.url}/ui/")
    assert axe(door) == []
    token = hub.mint("read", "/services/**", name="looker")
    page = signed_in(browser, hub, token, "w/infra/workspaces")
    expect(page.locator("main")).to_contain_text("looker")
    expect(page.locator("main")).to_contain_text("/services/**")
    assert page.locator("main form").count() == 0
    assert token not in page.content()
    assert axe(page) == []
    page.goto(f"{hub.url}/ui/w/infra/search?q=plan")
    expect(page.locator("h1")).to_contain_text("plan")
    assert "Hidden from most" not in page.content()
    page.goto(f"{hub.url}/ui/w/private/overview")
    expect(page.locator("h1")).to_have_text("Not found")
    page.goto(f"{hub.url}/ui/w/infra/overview")
    # Revoked, the page that is open hears of it with the next change at the latest.
    hub.call("token_revoke", id=id_of(token))
    hub.put("concept://infra/services/billing", name="Billing")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("enter your token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("revoked")
    assert hub.call("browsers")["browsers"][0]["holder"] == "looker"


@pytest.mark.requirement("B5")
def test_a_token_sees_the_knowledge_about_a_file_but_no_code(browser: BrowserContext, hub: Hub) -> None:
    about = [{"type": "about", "target": "file://infra/src/keys.py"}]
    hub.put("gotcha://infra/slow", summary="Signing is slow", relations=about)
    page = signed_in(browser, hub, hub.mint("read", "/**", name="curious"))
    page.goto(f"{hub.url}/ui/w/infra/file?path=src/keys.py")
    expect(page.locator(".note")).to_contain_text(["Signing is slow"])
    expect(page.locator("main")).to_contain_text("Your token does not include the code.")
    expect(page.locator(".listing")).to_have_count(0)
    assert axe(page) == []


def test_a_page_is_notified_only_of_readable_changes() -> None:
    async def listen() -> list[bytes]:
        live = Live()
        stream = live.stream("infra", "looker", lambda: None, lambda uri: "/secret/" not in uri)
        assert (await anext(stream)).startswith(b"retry")
        live.announce("infra", {"concept://infra/secret/plan"})
        live.announce("other", {"concept://other/services/auth"})
        live.look()  # wakes every stream without a cue
        hidden = await anext(stream)
        live.announce("infra", {"concept://infra/secret/plan", "concept://infra/services/auth"})
        return [hidden, await anext(stream)]

    assert apart(listen) == [b": still here\n\n", CUE]


def test_a_page_learns_of_changes_before_it_listened() -> None:
    async def listen(visible: bool) -> bytes:
        live = Live()
        live.announce("infra", {"concept://infra/a"})
        await asyncio.sleep(0)
        mark = live.mark("infra", sees)
        live.announce("infra", {"concept://infra/b" if visible else "concept://infra/secret/plan"})
        live.announce("other")
        await asyncio.sleep(0)
        assert (live.mark("infra", sees) == mark) is not visible
        stream = live.stream("infra", "looker", lambda: None, sees, mark)
        assert (await anext(stream)).startswith(b"retry")
        live.look()
        return await anext(stream)

    def sees(uri: str) -> bool:
        return "/secret/" not in uri

    assert [apart(partial(listen, visible)) for visible in (True, False)] == [CUE, b": still here\n\n"]


def test_a_writer_commits_under_their_own_name(browser: BrowserContext, hub: Hub) -> None:
    page = signed_in(browser, hub, hub.mint("read,write", name="Jo Writer", kind="person"), "w/infra/overview")
    page.goto(f"{hub.url}/ui/w/infra/node/edit?uri=concept://infra/services/auth")
    page.get_by_label("Summary").fill("Issues tokens, and takes them back")
    page.get_by_role("button", name="Save").first.click()
    expect(page.locator(".said")).to_be_visible()
    said = subprocess.run(
        ["git", "-C", hub.workspace("infra"), "log", "-1", "--format=%an %ae", "refs/kgd/head"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("Jo Writer ")
    assert said.stdout.strip().endswith("@token.invalid")


def test_the_tool_refuses_a_readers_forged_form(browser: BrowserContext, hub: Hub) -> None:
    page = signed_in(browser, hub, hub.mint("read", name="reader"), "w/infra/workspaces")
    form = page.locator("form[action='/ui/out'] input[name=proof]").get_attribute("value") or ""
    for place in ("workspaces/sync", "workspaces/browsers", "workspaces/tokens/mint"):
        answer = page.request.post(
            f"{hub.url}/ui/w/infra/{place}",
            form={"proof": form, "name": "x", "verbs": "admin"},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status in (403, 404), place
    assert not [one for one in hub.call("token_list")["tokens"] if one["name"] == "x"]


def test_a_reader_sees_no_form(browser: BrowserContext, hub: Hub) -> None:
    node = "concept://infra/services/auth"
    token = hub.mint("read", name="reader")
    page = signed_in(browser, hub, token, "w/infra/overview")
    for place in (
        "overview",
        "areas",
        "areas/all",
        "areas/folders",
        "graph",
        "conflicts",
        "proposals",
        "review",
        "node",
        "node/history",
    ):
        told = page.request.get(f"{hub.url}/ui/w/infra/{place}?uri={node}")
        assert told.status == 200, place
        assert told.text().count('method="post"') == 2, f"{place}: beside the theme and that to go out"
        assert not re.search(r'href="[^"]*(?:/new|/edit|do=)', told.text()), place
    for place in ("areas/new", "node/new", "node/edit", "node/delete"):
        told = page.request.get(f"{hub.url}/ui/w/infra/{place}?uri={node}&commit=HEAD")
        assert (told.status, told.text().count('method="post"')) == (403, 2), place


def test_the_last_date_of_the_calendar_is_accepted(browser: BrowserContext, hub: Hub) -> None:
    page = signed_in(browser, hub, hub.mint("read", name="reader"), "w/infra/review")
    for day in ("9999-12-31T23:59:59-23:59", "0001-01-01"):
        assert page.request.get(f"{hub.url}/ui/w/infra/review?since={day}").status == 200


def test_requests_of_a_browser_count_for_its_token(browser: BrowserContext, hub: Hub) -> None:
    page = signed_in(browser, hub, hub.mint(name="greedy", requests_per_minute=12), "w/infra/workspaces")
    statuses = [page.request.get(f"{hub.url}/ui/w/infra/workspaces").status for _ in range(20)]
    assert set(statuses) == {200, 429}
    assert page.request.get(f"{hub.url}/ui/w/infra/workspaces").headers["retry-after"]


@pytest.mark.requirement("B5")
def test_the_administrator_gets_a_link_and_sees_who_signed_in(browser: BrowserContext, hub: Hub) -> None:
    page = browser.new_page()
    page.goto(hub.call("ui", workspace="infra")["url"])
    page.wait_for_url("**/w/infra/overview")
    account(page).get_by_role("link", name="Settings of infra").click()
    expect(page.locator("main")).to_contain_text(f"This is a hub at {hub.url}")
    assert hub.call("status")["daemon"]["pages"]["url"] == f"{hub.url}/ui/"
    assert page.goto(f"{hub.url}/")
    expect(page.locator("h1")).to_contain_text("Workspaces")


@pytest.mark.requirement("B5")
def test_the_stored_token_opens_a_workspace_on_a_hub_by_a_link(
    browser: BrowserContext, hub: Hub, tmp_path: Path
) -> None:
    home = Home.at(str(tmp_path / "home"))
    environment = {**hub.environment, "KGD_HOME": home.config}

    def kgd(*words: str, given: str = "") -> str:
        done = forked.run(words, tmp_path, environment, given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    token = hub.mint("read", "/services/**", name="colleague")
    kgd("join", hub.url, given=token)
    try:
        answer = json.loads(kgd("-w", "infra", "ui", "--json"))
        assert answer["hub"].rstrip("/") == hub.url
        page = browser.new_page()
        page.goto(answer["url"])
        page.wait_for_url(f"{hub.url}/ui/w/infra/overview")
        page.goto(f"{hub.url}/ui/w/infra/workspaces")
        expect(page.locator("main")).to_contain_text("colleague")
        assert hub.ask("POST", "/v1/links", "", b"{}").status == 401
        assert hub.post(token, "links", {"workspace": "private"}).status == 404
        assert hub.post(token, "links", {"to": "https://evil.example"}).status == 422
    finally:
        kgd("down")


def test_over_tls_the_cookie_is_limited_to_this_host(chromium: Browser, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    (tmp_path / "hub").mkdir()
    tls = new_hub(
        tmp_path / "hub",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
    )
    tls.start()
    context = chromium.new_context(ignore_https_errors=True)
    try:
        page = signed_in(context, tls, tls.mint("read", name="looker"), "w/infra/workspaces")
        expect(page.locator("main")).to_contain_text("looker")
        (cookie,) = context.cookies()
        assert (cookie["name"], cookie["path"], cookie["secure"]) == ("__Host-kgd", "/", True)
        assert cookie["httpOnly"]
        account(page).get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")
        assert context.cookies() == []
    finally:
        context.close()
        tls.stop()


def test_pages_delay_a_stopping_hub_no_longer_than_its_other_streams(browser: BrowserContext, hub: Hub) -> None:
    signed_in(browser, hub, hub.mint("read", name="last"), "w/infra/workspaces")
    assert hub.stop() < 10
    hub.arguments = (*hub.arguments[:1], hub.url.removeprefix("http://"), *hub.arguments[2:])
    hub.start()
    page = browser.pages[0]
    page.reload()
    expect(page.locator("main")).to_contain_text("last")
