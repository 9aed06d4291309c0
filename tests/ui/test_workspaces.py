"""Workspaces, their sharing, tokens, and signed-in browsers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, Watched, account, at, axe

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def shared(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bare repository that shares the workspace, synced by hand."""
    there = tmp_path_factory.mktemp("there") / "shared.git"
    subprocess.run(["git", "init", "-q", "--bare", there], check=True)
    desk.call("remote", action="add", name="origin", url=str(there), sync=0)
    yield there
    desk.call("remote", action="remove", name="origin")


def tip_of(there: Path) -> str:
    done = subprocess.run(
        ["git", "-C", there, "rev-parse", "refs/heads/kgd"], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_unpushed_commits_are_counted_and_pushed_with_a_click(desk: Desk, page: Page, shared: Path) -> None:
    account(page).get_by_role("link", name="Settings of shop").click()
    expect(page.locator("h1")).to_have_text("Settings of shop")
    expect(page.get_by_role("row", name="shop")).to_contain_text("Your team")
    row = page.get_by_role("row", name="origin")
    expect(row).to_contain_text("0 commits")
    desk.put("insight://shop/leaves", summary="It goes out with the next round")
    expect(row).to_contain_text("1 commit")  # by itself
    row.get_by_role("button", name="Sync now").click()
    expect(page.locator(".said")).to_have_text("origin: fetched 0 commits, pushed 1.")
    assert tip_of(shared) == desk.call("status")["workspace"]["tip"]


def test_each_permission_of_a_token_has_its_meaning(desk: Desk, page: Page) -> None:
    at(page, "workspaces/tokens/mint")
    expect(page.get_by_label("Name"), "kgd is no hub").to_be_hidden()
    page.get_by_text("Create a token for later").click()
    expect(page.get_by_label("write: commits without review")).to_be_hidden()
    page.get_by_label("Custom").check()
    expect(page.get_by_label("write: commits without review")).to_be_visible()
    expect(page.locator(".verbs .aside")).to_have_count(5)
    expect(page.locator(".verbs .take").last).to_contain_text("admin: the workspace's settings and policy")
    assert axe(page) == []
    page.get_by_label("Name").fill("keeper")
    page.get_by_label("admin: ").check()
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_label("Token")).to_be_visible()
    found = next(one for one in desk.call("token_list")["tokens"] if one["name"] == "keeper")
    assert found["scopes"][0]["verbs"] == ["read", "admin"]


def test_a_token_is_created_shown_once_and_revoked_by_keyboard(desk: Desk, page: Page) -> None:
    at(page, "workspaces/tokens/mint").get_by_text("Create a token for later").click()
    page.get_by_label("Name").focus()
    page.keyboard.type("billing-agent")
    page.keyboard.press("Tab")  # the kind
    page.keyboard.press("Tab")  # the permissions
    page.keyboard.press("ArrowDown")  # from read to propose
    page.keyboard.press("Enter")
    token = page.get_by_label("Token").input_value()
    assert token.startswith("kgd_agent_")
    found = next(one for one in desk.call("token_list")["tokens"] if one["name"] == "billing-agent")
    assert found["scopes"][0]["verbs"] == ["read", "propose"]
    at(page, "workspaces")
    expect(page.get_by_role("row", name="billing-agent")).to_contain_text("never")
    assert token not in page.content()
    page.get_by_role("link", name="Revoke… the token of billing-agent").press("Enter")
    page.get_by_role("button", name="Revoke").press("Enter")
    expect(page.locator(".said")).to_contain_text("are revoked")
    expect(page.get_by_role("row", name="billing-agent")).to_have_count(0)
    page.get_by_role("link", name="expired or revoked").click()
    expect(page.get_by_role("row", name="billing-agent")).to_contain_text("revoked")


def test_a_refused_form_keeps_its_text(desk: Desk, page: Page, watched: Watched) -> None:
    at(page, "workspaces/tokens/mint").get_by_text("Create a token for later").click()
    page.get_by_label("Name").fill("auditor")
    page.get_by_text("More: expires in 30 days, all paths").click()
    page.get_by_label("Paths, one per line").fill("/services/**\nno path")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("alert")).to_contain_text("path")
    expect(page.get_by_label("Name")).to_have_value("auditor")
    assert not [one for one in desk.call("token_list")["tokens"] if one["name"] == "auditor"]
    watched.troubles.clear()  # the browser notes each answer of 422


def test_an_error_in_the_registry_is_shown_with_its_line(desk: Desk, page: Page) -> None:
    registry = Path(desk.home.registry)
    good = registry.read_text()
    registry.write_text(good + "settings:\n  no_such: 1\n")
    try:
        at(page, "workspaces")
        line = good.count("\n") + 2
        expect(page.get_by_role("alert")).to_contain_text(f"workspaces.yaml:{line}")
    finally:
        registry.write_text(good)


def test_a_workspace_that_is_gone_has_its_problem_in_each_list_and_a_way_back(
    desk: Desk, page: Page, watched: Watched
) -> None:
    registry = Path(desk.home.registry)
    good = registry.read_text()
    registry.write_text(f"{good.rstrip()}\n  gone:\n    path: {desk.code.parent / 'gone'}\n")
    try:
        told = at(page, "workspaces").get_by_role("row", name="gone")
        expect(told).to_contain_text("cannot be opened")
        page.goto(page.url.rpartition("/w/")[0] + "/")
        card = page.locator("li", has_text="gone").first
        expect(card).to_contain_text("is not at its registered path")
        expect(card).to_contain_text("run kgd up in its new folder")
        expect(card).not_to_contain_text("Not open now")
        assert axe(page) == []
        page.goto(page.url + "w/gone/overview")
        expect(page.locator("h1")).to_have_text("gone cannot be opened")
        expect(page.get_by_role("main")).to_contain_text("If you moved it, run kgd up")
        expect(page.get_by_role("main")).not_to_contain_text("UNAVAILABLE")
        for command in ("kgd up", desk.home.registry):
            expect(page.get_by_role("button", name=f"Copy {command}")).to_be_visible()
        links = page.get_by_role("link", name=re.compile("Overview|Review|Conflicts|Search|Write"))
        expect(links, "they would lead to the same error").to_have_count(0)
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert axe(page) == []
        page.get_by_role("link", name="Try again").click()
        expect(page.locator("h1")).to_have_text("gone cannot be opened")
        watched.troubles.clear()  # the browser notes each answer of 503
        account(page).get_by_role("link", name="Settings of gone").click()
        expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
        page.get_by_role("main").get_by_role("link", name="shop").first.click()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        page.goto(page.url.replace("/shop/", "/gone/"))
        watched.troubles.clear()
        page.get_by_role("main").get_by_role("link", name="All workspaces").click()
        expect(page.locator("h1")).to_have_text("Workspaces")
    finally:
        registry.write_text(good)


def test_browsers_are_listed_and_signed_out(desk: Desk, page: Page, watched: Watched) -> None:
    other = page.context.browser.new_context()  # type: ignore[union-attr]
    second = other.new_page()
    second.goto(desk.link())
    second.wait_for_url("**/overview")
    at(page, "workspaces")
    rows = page.get_by_role("region", name="Browsers").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("Chrome")
    expect(rows.nth(1)).to_contain_text("This browser")
    expect(page.get_by_text("This browser", exact=True)).to_have_count(1)
    page.get_by_role("button", name="Sign out all others").click()
    expect(page.locator(".said")).to_contain_text("Signed out")
    expect(second.locator("h1")).to_have_text("Sign in")  # an open page follows
    assert len(desk.call("browsers")["browsers"]) == 1
    expect(page.get_by_role("button", name="Sign out all others")).to_have_count(0)
    page.get_by_role("button", name="Sign out this browser").click()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert desk.call("browsers")["browsers"] == []
    other.close()
    watched.troubles.clear()  # the browser notes each answer of 401


def test_axe_finds_nothing(page: Page, shared: Path) -> None:
    assert axe(at(page, "workspaces")) == []
    assert axe(at(page, "workspaces/tokens/mint")) == []
