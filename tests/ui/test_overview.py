"""One glance says whether anything needs a person; what waits is dealt with one click further."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kgd.client.connection import Connection
from kgd.errors import Advice, Do
from kgd.ui import rendering
from kgd.ui.pages.overview import Waiting, sentence
from tests.ui.conftest import Desk, at, axe
from tests.ui.pictures import picture
from tests.waiting import at_rest, until

browser = pytest.mark.needs("chromium")
AT_ONCE = 6_000
"""Milliseconds in which a page hears of something by itself, also where little time is to be had; it asks every ten."""


def agent_writes(desk: Desk, uri: str, **fields: Any) -> None:
    with Connection(desk.home, "claude-code") as connection:
        connection.call("put", {"workspace": "shop", "changes": [{"op": "upsert", "uri": uri, **fields}]})


def some(count: int, one: str, needs: bool = True) -> Waiting:
    return Waiting(count, one, f"{one}s", "", "", needs)


@pytest.mark.parametrize(
    ("waiting", "stuck", "said"),
    [
        ([], [], "Nothing needs you."),
        ([some(1, "conflict")], [], "1 conflict waits for you."),
        ([some(3, "conflict"), some(2, "proposal")], [], "3 conflicts and 2 proposals wait for you."),
        ([some(1, "conflict"), some(1, "proposal"), some(1200, "file")], [],
         "1 conflict, 1 proposal and 1,200 files wait for you."),
        ([some(9, "suggestion", needs=False)], [], "Nothing needs you."),
        ([], ["Writing down"], "Writing down does not work as it should."),
        ([some(1, "file")], ["A", "B"], "1 file waits for you. A and B do not work as they should."),
    ],
)  # fmt: skip
def test_one_sentence_says_it_all(waiting: list[Waiting], stuck: list[str], said: str) -> None:
    assert sentence(waiting, stuck) == said


@pytest.mark.slow
@browser
def test_a_new_workspace_tells_the_first_three_things_to_do(page: Page) -> None:
    expect(page.locator(".glance")).to_contain_text("Nothing needs you.")
    expect(page.locator(".first-steps li")).to_have_count(3)
    expect(page.locator("main")).to_contain_text("on this machine alone")
    expect(page.get_by_role("banner")).to_contain_text("shop")
    assert axe(page) == []


@pytest.mark.slow
@browser
def test_what_an_agent_learned_shows_by_name_without_a_reload(desk: Desk, page: Page) -> None:
    expect(page.get_by_role("heading", name="Learned lately")).to_be_visible()
    agent_writes(desk, "insight://shop/tokens", name="Tokens expire", summary="After an hour")
    line = page.locator(".lately li", has_text="Tokens expire").first
    expect(line).to_contain_text("agent")
    expect(line).to_contain_text("with claude-code")
    line.get_by_role("link", name="Tokens expire").click()
    expect(page.locator("h1")).to_have_text("Tokens expire")


@pytest.mark.slow
@browser
def test_changes_to_one_node_in_a_row_are_one_line_with_what_was_said_of_them(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/till", name="Till", summary="Takes cash")
    desk.put("concept://shop/till", summary="Takes cash and cards")
    change = {"op": "upsert", "uri": "concept://shop/till", "summary": "Takes cash, and cards since May"}
    desk.call("put", changes=[change], message="cards since May")
    expect(page.locator(".lately li", has_text="cards since May")).to_be_visible()
    expect(page.locator(".lately li", has_text="Till")).to_have_count(2)
    expect(page.locator(".lately li", has_text="concept://")).to_have_count(0)


@pytest.mark.slow
@browser
def test_search_says_where_no_word_was_found_and_tells_what_a_hit_is(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/parcels", name="Parcels", summary="Sent on the same day")
    desk.put("concept://shop/vans", name="Vans", content="They bring the parcels before nine.")
    at(page, "search?q=parcels")
    hit = page.locator(".hit", has_text="Sent on the same day")
    expect(hit).to_contain_text("concept://shop/parcels")
    expect(hit).to_contain_text("Found by name: parcels")
    expect(page.locator(".hit", has_text="Vans")).to_contain_text("bring the parcels before nine")
    expect(page.locator("main")).not_to_contain_text("nearest in meaning")
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    at(page, "search?q=mail+packages")
    expect(page.locator("main")).to_contain_text("nearest in meaning")
    assert axe(page) == []
    at(page, "search?q=zzyzxq")
    expect(page.locator("main")).to_contain_text("Nothing was found")


@pytest.mark.parametrize(
    ("at", "shown"),
    [("changes[0].uri", ""), ("createdByTaskId", ""), ("concept://shop/a", "concept://shop/a"), ("since", "since")],
)
def test_a_place_in_a_call_is_not_told_to_whoever_filled_in_a_form(at: str, shown: str) -> None:
    assert rendering.place(at) == shown


def test_what_to_do_next_is_told_in_the_words_of_the_pages() -> None:
    advice = Advice("Look for it with ", Do("search"), ", or make it with ", Do("put"), ".")
    assert rendering.spoken(advice) == "Look for it with the search, or make it with the editor."


@pytest.mark.parametrize(
    ("text", "said"),
    [("the file is gone", "The file is gone"), ("concept://shop/a is old", "concept://shop/a is old"), ("", "")],
)
def test_a_sentence_begins_with_a_capital_and_an_address_stays_as_it_is(text: str, said: str) -> None:
    assert rendering.sentence(text) == said


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    assert rendering.commands("run `kgd up` <now>") == "run <code>kgd up</code> &lt;now&gt;"
    assert rendering.commands("`<b>`") == "<code>&lt;b&gt;</code>"
    assert rendering.commands("a lone ` stays") == "a lone ` stays"


@pytest.mark.slow
@browser
@pytest.mark.requirement("E9")
def test_a_broken_link_is_counted_listed_and_gone_once_somebody_writes_it(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/a", name="A", relations=[{"type": "needs", "target": "concept://shop/nobody"}])
    page.get_by_role("link", name="1 broken link").click()
    missing = page.get_by_role("link", name="concept://shop/nobody", exact=True)
    expect(missing).to_have_class("broken")
    expect(page.locator("main")).to_contain_text("nobody has written this")
    assert axe(page) == []
    page.get_by_role("link", name="Write it").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/node/new?uri=*")
    desk.put("concept://shop/nobody", name="Somebody")
    at(page, "broken")
    expect(page.locator("main")).to_contain_text("Every relation leads to something.")


@pytest.mark.slow
@browser
@pytest.mark.picture
def test_a_fact_whose_code_changed_waits_and_is_verified_by_keyboard(desk: Desk, page: Page) -> None:
    desk("remember", "Sign adds nothing", "--cites", "src/auth/session.py#sign")
    (desk.code / "src/auth/session.py").write_text("def sign(token):\n    return token + 'x'\n")
    waits = page.get_by_role("link", name="1 fact to verify")
    waits.wait_for()
    expect(page.locator(".glance")).to_have_text("1 fact to verify waits for you.")
    picture(page, "overview")
    waits.focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("sign in src/auth/session.py changed")
    assert axe(page) == []
    page.get_by_role("button", name="It still holds: Sign adds nothing").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Verified: 1 fact, in commit")
    assert "Kgd-Op: verify" in desk.git("log", "-1", "refs/kgd/head")
    at(page, "overview")
    expect(page.locator(".glance")).to_have_text("Nothing needs you.")


@pytest.mark.slow  # nothing is committed, so that the page hears of it when it looks again by itself
@browser
def test_a_file_that_cannot_be_read_is_named_with_its_line(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/hand", name="Hand")
    file = desk.code / ".kgd/nodes/concept/hand.yaml"
    expect(page.locator("main")).to_contain_text("Hand", timeout=AT_ONCE)
    for _ in range(200):  # it is placed a moment after it was written
        if file.exists():
            break
        page.wait_for_timeout(50)
    file.write_text("uri: concept://shop/hand\nname: [unclosed\n")
    unreadable = page.get_by_role("link", name="1 unreadable file")
    expect(unreadable).to_be_visible(timeout=AT_ONCE)
    unreadable.click()
    expect(page.locator("main")).to_contain_text(f"{file}, line")
    assert axe(page) == []
    file.write_text("uri: concept://shop/hand\nname: Mended\n")
    expect(page.locator("main")).to_contain_text("Every file can be read.", timeout=AT_ONCE)
