"""The header: pages with counts of pending work, its menus, the theme, and addresses that lead to the nearest page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from kgd.client.connection import Connection
from kgd.ui.pages.palette import NAVIGATION
from kgd.ui.rendering import short
from kgd.ui.server import nearest
from kgd.ui.visit import LONGEST_PLACE, own
from tests.conftest import ROOT
from tests.surfaces.conftest import make_code
from tests.ui.colleague import Colleague
from tests.ui.conftest import Desk, Watched, account, at, axe

chromium_only = [pytest.mark.needs("chromium"), pytest.mark.slow]

AUTH = "concept://shop/services/auth"


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("", ""),
        ("w", ""),
        ("w/shop", "w/shop/overview"),
        ("w/shop/", "w/shop/overview"),
        ("w/shop/conflicts/", "w/shop/conflicts"),
        ("w/shop/workspaces/tokens", "w/shop/workspaces"),
        ("manual/", "manual"),
        ("w/shop/elsewhere", None),
        ("w/shop/node/elsewhere", None),
        ("elsewhere", None),
    ],
)
def test_the_beginning_of_an_address_has_a_nearest_page(address: str, page: str | None) -> None:
    assert nearest(address) == page


@pytest.mark.parametrize(
    "place",
    [
        "//other.example/ui/",
        "/\\\\other.example",
        "/ui\\..\\other.example",
        "/ui/\\other.example",
        "https://other.example/ui/",
        "javascript:alert(1)",
        " /ui/w/shop/graph",
        "/ui/\n//other.example",
        "/elsewhere",
        "ui/w/shop/graph",
        "",
    ],
)
def test_a_page_to_return_to_is_a_path_of_these_pages(place: str) -> None:
    assert own(place) == "/ui/"


def test_a_long_address_to_return_to_is_shortened_to_its_page() -> None:
    assert own("/ui/w/shop/graph?from=a") == "/ui/w/shop/graph?from=a"
    assert own(f"/ui/w/shop/graph?from={'a' * LONGEST_PLACE}") == "/ui/w/shop/graph"
    assert own(f"//other.example/ui/?{'a' * LONGEST_PLACE}") == "/ui/"


@pytest.mark.parametrize("label", NAVIGATION.values())
def test_the_manual_describes_each_page_of_the_navigation(label: str) -> None:
    assert f"\n**{label}.**" in (ROOT / "docs/ui.md").read_text()


def test_a_count_takes_few_characters() -> None:
    assert [short(number) for number in (7, 999, 1_000, 1_250, 25_400)] == ["7", "999", "1k", "1.2k", "25k"]


def disagree(desk: Desk, folder: Path, uri: str) -> None:
    """Have two people give different summaries to a node."""
    desk.put(uri, summary="Issues tokens")
    bob = Colleague(desk, folder)
    bob.disagree(uri, "summary", "Issues tokens for an hour", "Issues session tokens", was="Issues tokens")
    bob.close()


@pytest.fixture
def without_scripts(chromium: Browser, desk: Desk) -> Iterator[Page]:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(desk.link())
    page.get_by_role("button").click()
    yield page
    context.close()


class TestInABrowser:
    pytestmark = chromium_only

    @pytest.mark.parametrize(
        ("address", "target"),
        [
            ("/ui/w/shop", "/ui/w/shop/overview"),
            ("/ui/w/shop/", "/ui/w/shop/overview"),
            ("/ui/w/shop/stale/", "/ui/w/shop/stale"),
            ("/ui/w/shop/node", "/ui/w/shop/overview"),
            ("/ui/w/shop/conflict", "/ui/w/shop/conflicts"),
            ("/ui/w/shop/proposal", "/ui/w/shop/proposals"),
            ("/ui/w/shop/area", "/ui/w/shop/areas"),
        ],
    )
    def test_every_beginning_of_an_address_opens_a_page(self, page: Page, address: str, target: str) -> None:
        parts = urlsplit(page.url)
        answer = page.goto(f"{parts.scheme}://{parts.netloc}{address}")
        assert answer is not None
        assert answer.ok
        assert urlsplit(page.url).path == target

    def test_the_navigation_counts_pending_work_and_follows_it(self, page: Page, desk: Desk, tmp_path: Path) -> None:
        pages = at(page, "overview").get_by_role("navigation", name="Pages")
        expect(pages.get_by_role("link", name="Conflicts", exact=True)).to_be_visible()
        disagree(desk, tmp_path, AUTH)
        expect(pages.get_by_role("link", name="Conflicts 1")).to_be_visible()

    @pytest.mark.parametrize("width", [1024, 1121])
    def test_the_header_is_one_row_with_seven_pages_in_it_or_in_its_menu(self, page: Page, width: int) -> None:
        page.set_viewport_size({"width": width, "height": 700})
        at(page, "overview")
        tops = page.locator("body > header > *:visible").evaluate_all("all => all.map(one => one.offsetTop)")
        assert max(tops) < 40
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width < 1120:
            page.get_by_role("button", name="Menu").click()
        assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() == 7

    def test_review_counts_commits_of_others_since_the_last_review(self, page: Page, desk: Desk) -> None:
        link = at(page, "graph").get_by_role("navigation", name="Pages").get_by_role("link", name="Review")
        desk.call("review", accept=True)
        desk.put("concept://shop/by-a-person", summary="Written by the person who looks")
        page.reload()
        expect(link).to_have_text("Review")
        with Connection(desk.home, "claude-code") as connection:
            change = {"op": "upsert", "uri": "concept://shop/by-an-agent", "summary": "Written by an agent"}
            connection.call("put", {"workspace": "shop", "changes": [change]})
        expect(link).to_have_text("Review 1")
        desk.call("review", accept=True)
        page.reload()
        expect(link).to_have_text("Review")

    def test_every_page_has_a_button_to_write_a_fact(self, page: Page) -> None:
        at(page, "graph").get_by_role("banner").get_by_role("link", name="Write").click()
        page.wait_for_url("**/node/new")
        at(page, "stale").keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("cWrite a fact")
        expect(page.get_by_role("dialog").get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("Escape")
        page.keyboard.press("c")
        page.wait_for_url("**/node/new")

    def test_the_header_switches_between_several_workspaces(self, page: Page, desk: Desk) -> None:
        switch = page.get_by_role("button", name="Switch workspace")
        expect(at(page, "overview").get_by_role("button", name="Account")).to_be_visible()
        expect(switch).to_have_count(0)
        code = make_code(desk.code.parent / "second")
        with Connection(desk.home) as connection:
            connection.call("up", {"directory": str(code)})
        page.reload()
        switch.click()
        page.get_by_role("navigation", name="Workspaces").get_by_role("link", name="second").click()
        page.wait_for_url("**/w/second/overview")

    def test_a_phone_has_a_menu_without_scripts(self, without_scripts: Page) -> None:
        pages = without_scripts.get_by_role("navigation", name="Pages")
        expect(pages).to_be_hidden()
        without_scripts.get_by_role("button", name="Menu").click()
        pages.get_by_role("link", name="Areas").click()
        without_scripts.wait_for_url("**/areas")


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_theme_is_kept_in_the_browser_and_chosen_without_scripts(desk: Desk, chromium: Browser) -> None:
    dark, light = "rgb(19, 23, 21)", "rgb(247, 247, 244)"
    context = chromium.new_context(java_script_enabled=False, color_scheme="light")
    page = context.new_page()
    page.goto(desk.link())
    page.get_by_role("button", name="Open kgd").click()
    at(page, "graph")
    body, themes = page.locator("body"), account(page)
    expect(themes.get_by_role("button", name="System")).to_have_attribute("aria-pressed", "true")
    expect(body).to_have_css("background-color", light)
    themes.get_by_role("button", name="Dark").click()
    expect(page).to_have_url(re.compile("/graph$"))
    expect(body).to_have_css("background-color", dark)
    at(page, "overview")
    expect(body).to_have_css("background-color", dark)
    expect(account(page).get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    themes.get_by_role("button", name="System").click()
    expect(body).to_have_css("background-color", light)
    page.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", dark)
    account(page).get_by_role("button", name="Light").click()
    expect(body).to_have_css("background-color", light)
    context.close()


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_theme_keeps_the_view_that_a_form_has_changed(desk: Desk, page: Page) -> None:
    desk.put(AUTH, name="Auth")
    at(page, f"graph?from={AUTH}")
    page.get_by_role("spinbutton", name="Largest cost").fill("3")
    page.get_by_role("spinbutton", name="Largest cost").press("Enter")
    page.wait_for_url("**cost=3*")
    view = page.url
    account(page).get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.url == view
    account(page).get_by_role("button", name="System").click()


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_theme_chosen_on_the_answer_to_a_form_leads_to_the_page_above(page: Page, watched: Watched) -> None:
    at(page, "review")
    page.evaluate("""() => {
        const form = document.createElement("form");
        Object.assign(form, { method: "post", action: "/ui/w/shop/review/revert" });
        form.append(document.querySelector("[name=proof]").cloneNode());
        form.append(Object.assign(document.createElement("input"), { name: "uri", value: "concept://shop/nothing" }));
        document.body.append(form);
        form.submit();
    }""")
    page.wait_for_url("**/review/revert")
    account(page).get_by_role("button", name="Dark").click()
    page.wait_for_url("**/w/shop/review")
    expect(page.locator("h1")).not_to_contain_text("failed")
    watched.troubles.clear()  # the browser notes the refused form
    account(page).get_by_role("button", name="System").click()


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_an_unknown_theme_is_refused_and_the_chosen_one_kept(page: Page, watched: Watched) -> None:
    account(page).get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator(".themes button").last.evaluate("button => { button.value = 'sepia'; }")
    account(page).get_by_role("button", name="Dark").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no such theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    watched.troubles.clear()
    account(page).get_by_role("button", name="System").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_an_address_without_a_page_keeps_the_header_of_its_workspace(page: Page, watched: Watched) -> None:
    at(page, "nothing/session-tokens")
    expect(page.locator("h1")).to_have_text("Not found")
    expect(page.get_by_role("alert")).to_have_text(
        "There is no page with this address (/ui/w/shop/nothing/session-tokens)."
    )
    expect(page.get_by_role("main")).not_to_contain_text("NOT_FOUND")
    assert axe(page) == []
    page.get_by_role("main").get_by_role("link", name="Overview of shop").click()
    expect(page.locator("h1")).to_have_text("shop")
    at(page, "nothing/session-tokens")
    page.get_by_role("main").get_by_role("button", name="Search").click()
    page.wait_for_url("**/search?q=session+tokens")
    at(page, "nothing/session-tokens")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Areas").click()
    expect(page.locator("h1")).to_have_text("Areas")
    page.goto(page.url.partition("/w/")[0] + "/w/no-such-workspace/nothing")
    expect(page.locator("h1")).to_have_text("Not found")
    expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
    watched.troubles.clear()  # the browser notes each answer of 404
