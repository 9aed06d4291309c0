"""Type-ahead in the header and in the palette, and single-key shortcuts."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.ui.conftest import Desk, Watched, account, at, axe
from tests.waiting import at_rest, until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

AUTH = "concept://shop/services/auth"


@pytest.fixture(scope="module", autouse=True)
def nodes(desk: Desk) -> None:
    desk.put(AUTH, name="Auth", summary="Issues session keys")
    desk.put("gotcha://shop/keyring", summary="The keyring locks at night")
    desk.call("search", query="keyring")  # waits for the index


def palette(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    found = page.get_by_role("dialog", name="Search and actions")
    expect(found).to_be_visible()
    return found


def test_the_palette_opens_a_node_by_the_beginning_of_its_name(page: Page) -> None:
    shown = palette(page)
    page.keyboard.type("keyr")
    expect(shown.get_by_role("option", name="keyring")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?uri=gotcha*keyring")


def test_enter_opens_a_row_for_all_words_that_were_typed(page: Page) -> None:
    palette(page)
    page.keyboard.type("conflicts")
    page.keyboard.press("Enter")  # before the rows have arrived
    page.wait_for_url("**/conflicts")


def test_arrow_keys_choose_a_row(page: Page) -> None:
    shown = palette(page)
    expect(shown.get_by_role("option", name="Overview")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    chosen = shown.get_by_role("option", name="Review", exact=True)
    expect(chosen).to_have_attribute("aria-selected", "true")
    field = shown.get_by_role("combobox")
    expect(field).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    page.keyboard.press("Enter")
    page.wait_for_url("**/review")


def test_a_palette_without_words_begins_with_the_last_nodes_and_searches_until_the_user_signs_out(
    page: Page, watched: Watched
) -> None:
    for place in ("node?uri=concept://shop/gone", "search?q=keyring", f"node?uri={AUTH}"):
        at(page, place)
    at(page, "node?uri=gotcha://shop/keyring")
    recent = palette(page).get_by_role("group", name="Recent").get_by_role("option")
    expect(recent).to_have_count(2)  # not the node of the page itself, nor one that does not exist
    expect(recent.first).to_contain_text("Issues session keys")
    expect(recent.first).to_contain_text("Ann Person, just now")
    assert axe(page) == []
    expect(recent.last).to_have_text("Search “keyring”")
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?uri=concept*auth")
    account(page).get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("main")).to_contain_text("Sign in")
    watched.troubles.clear()  # the browser notes each answer of 401
    assert "kgd-last" not in page.evaluate("Object.keys(localStorage).join()")


@pytest.mark.parametrize("place", ["", "manual", "glossary"])
def test_signing_out_on_any_page_forgets_the_last_nodes(page: Page, watched: Watched, place: str) -> None:
    at(page, f"node?uri={AUTH}")
    assert "concept" in page.evaluate("Object.values(localStorage).join()")
    page.goto(page.url.partition("/ui/")[0] + f"/ui/{place}")
    account(page).get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("main")).to_contain_text("Sign in")
    watched.troubles.clear()
    assert "concept" not in page.evaluate("Object.values(localStorage).join()")


def test_only_pages_of_existing_nodes_are_remembered(page: Page, watched: Watched) -> None:
    for place in (
        "node?uri=concept://shop/gone",
        "node?uri=nonsense",
        "file?path=src/gone.py",
        "area?uri=atom://shop/no",
    ):
        at(page, place)
    watched.troubles.clear()
    assert page.evaluate("Object.keys(localStorage).length") == 0


def test_a_deleted_file_is_not_among_the_last_nodes(desk: Desk, page: Page) -> None:
    short_lived = desk.code / "src/auth/short_lived.py"
    short_lived.write_text("X = 1\n")
    until(lambda: desk.call("get", uris=["file://shop/src/auth/short_lived.py"])["nodes"])
    for place in ("file?path=src/auth/short_lived.py", "file?path=src/auth/session.py"):
        at(page, place)
    at(page, "overview")
    recent = palette(page).get_by_role("group", name="Recent").get_by_role("option")
    expect(recent).to_have_count(2)
    page.keyboard.press("Escape")
    short_lived.unlink()
    until(lambda: not desk.call("get", uris=["file://shop/src/auth/short_lived.py"])["nodes"])
    expect(palette(page).get_by_role("group", name="Recent").get_by_role("option")).to_have_count(1)


def test_shift_enter_searches_for_the_words(page: Page) -> None:
    palette(page)
    page.keyboard.type("auth keys")
    page.keyboard.press("Shift+Enter")
    page.wait_for_url("**/search?q=auth+keys")


def test_the_palette_finds_files_by_their_path(page: Page) -> None:
    shown = palette(page)
    page.keyboard.type("src/auth")
    row = shown.get_by_role("group", name="Code").get_by_role("option").first
    expect(row).to_contain_text("src/auth")


@pytest.mark.parametrize("typed", ["src/auth/session.py", "session.py", "./SRC/auth/session.py"])
def test_enter_opens_the_file_of_a_path_or_a_name_before_nodes_about_it(page: Page, desk: Desk, typed: str) -> None:
    desk.put("task://shop/renew", name="Renew src/auth/session.py", summary="About session.py")
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    shown = palette(page)
    page.keyboard.type(typed)
    expect(shown.get_by_role("option", name="Renew src/auth")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/file?uri=file*session.py")


def test_the_palette_carries_out_an_action_with_a_form(page: Page) -> None:
    at(page, "graph")
    palette(page)
    page.keyboard.type("mark everything")
    page.keyboard.press("Enter")
    page.wait_for_url("**/review")
    expect(page.get_by_role("status").first).to_contain_text("Reviewed up to")


def test_the_palette_copies_the_address_of_the_page(page: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    at(page, f"node?uri={AUTH}")
    palette(page)
    page.keyboard.type("copy")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Link copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_the_palette_offers_actions_on_the_node_of_the_page(page: Page) -> None:
    at(page, f"node?uri={AUTH}")
    expect(palette(page).get_by_role("option", name="Edit this fact")).to_be_visible()


def test_a_half_typed_query_is_not_an_error(page: Page) -> None:
    shown = palette(page)
    page.keyboard.type('"')
    expect(shown.get_by_role("option", name="Search for")).to_be_visible()


def test_a_key_right_after_the_palette_was_closed_counts(page: Page) -> None:
    shown = palette(page)
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    page.locator("#palette-q").dispatch_event("keydown", {"key": "?"})  # its field still has the focus
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_the_palette_and_the_list_of_keys_are_accessible(page: Page) -> None:
    shown = palette(page)
    page.keyboard.type("auth")
    expect(shown.get_by_role("group", name="Knowledge")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert axe(page) == []


def test_the_search_field_suggests_nodes_and_enter_still_searches(page: Page) -> None:
    field = page.get_by_role("search").get_by_role("combobox")
    field.press_sequentially("aut")
    row = page.get_by_role("search").get_by_role("option", name="Auth Issues")
    expect(row).to_be_visible()
    assert axe(page) == []
    field.press("Escape")
    expect(row).to_be_hidden()
    field.press("Enter")
    page.wait_for_url("**/search?q=aut")


def test_a_suggestion_of_the_search_field_opens_by_the_mouse(page: Page) -> None:
    page.get_by_role("search").get_by_role("combobox").press_sequentially("aut")
    page.get_by_role("search").get_by_role("option", name="Auth Issues").click()
    page.wait_for_url("**/node?uri=concept*auth")


def test_single_keys_move_in_a_list_and_go_to_pages(page: Page) -> None:
    at(page, "search?q=keys")
    rows = page.locator("[data-row]")
    expect(rows.first).to_be_visible()
    page.keyboard.press("j")
    expect(rows.first.locator("a").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?*")
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/conflicts")


def test_single_keys_can_be_turned_off(page: Page) -> None:
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    keys.get_by_role("switch").click()
    keys.get_by_role("button", name="Close").click()
    page.reload()
    page.keyboard.press("?")
    page.keyboard.press("/")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_have_count(0)
    account(page).get_by_role("button", name="Keyboard shortcuts").click()  # turns them on again
    keys.get_by_role("switch").click()
    keys.get_by_role("button", name="Close").click()
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Search and actions")).to_be_visible()


def test_single_keys_do_nothing_in_a_text_field(page: Page) -> None:
    field = page.get_by_role("search").get_by_role("combobox")
    field.press_sequentially("g?/jx")
    expect(field).to_have_value("g?/jx")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_x_selects_a_row(page: Page) -> None:
    at(page, "overview")
    page.evaluate(
        "document.querySelector('main').innerHTML = '<ul><li data-row><input type=checkbox aria-label=One>"
        "<a href=#>One</a></li><li data-row><input type=checkbox aria-label=Two><a href=#>Two</a></li></ul>'"
    )
    for key in "jjx":
        page.keyboard.press(key)
    expect(page.get_by_role("checkbox", name="Two")).to_be_checked()
    expect(page.get_by_role("checkbox", name="One")).not_to_be_checked()


def test_a_page_has_keys_of_its_own(page: Page) -> None:
    at(page, "overview")
    page.evaluate("document.querySelector('main').innerHTML = '<a data-key=a href=/ui/glossary>Use A</a>'")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys.get_by_text("On this page")).to_be_visible()
    expect(keys.locator("[data-own]")).to_have_text("aUse A")
    keys.get_by_role("button", name="Close").click()
    page.keyboard.press("a")
    page.wait_for_url("**/ui/glossary")


def test_a_row_of_code_names_its_file_line_and_kind(page: Page) -> None:
    shown = palette(page)
    page.keyboard.type("sign")
    row = shown.get_by_role("group", name="Code").get_by_role("option").first
    expect(row).to_contain_text("src/auth/session.py:1, function")
