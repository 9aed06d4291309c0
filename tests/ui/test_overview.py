"""The overview: one sentence about pending work, with links to each kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from kgd.client.connection import Connection
from kgd.errors import Advice, Do
from kgd.ui import rendering, words
from kgd.ui.pages.attention import Waiting
from kgd.ui.pages.overview import unread
from tests.surfaces.conftest import git
from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import at_rest, until

browser = pytest.mark.needs("chromium")
AT_ONCE = 6_000
"""Timeout in milliseconds for a refresh without a commit; pages poll every ten seconds."""


def agent_writes(desk: Desk, uri: str, **fields: Any) -> None:
    with Connection(desk.home, "claude-code") as connection:
        connection.call("put", {"workspace": "shop", "changes": [{"op": "upsert", "uri": uri, **fields}]})


def some(count: int, one: str, remedy: str = "") -> Waiting:
    return Waiting(count, one, f"{one}s", "", "", remedy)


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (some(1, "conflict", "Resolve"), "Resolve 1 conflict"),
        (some(1200, "stale fact", "Check"), "Check 1,200 stale facts"),
        (some(9, "broken link"), ""),
    ],
)
def test_pending_work_is_named_with_its_remedy(waiting: Waiting, said: str) -> None:
    assert waiting.instruction == said


@pytest.mark.slow
@browser
def test_a_new_workspace_shows_what_its_code_tells_and_how_to_connect_an_agent(page: Page) -> None:
    expect(page.locator(".steps li").first).to_contain_text("Connect an agent. It can then read and write facts.")
    expect(page.get_by_text("Status: Everything works")).to_be_visible()
    expect(page.locator(".first .work li")).to_have_count(3)
    expect(page.locator(".first")).to_contain_text("6 files in")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy kgd agents install").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("window.copied") == "kgd agents install"
    expect(page.locator("main")).to_contain_text("only on this machine")
    expect(page.get_by_role("banner")).to_contain_text("shop")
    assert axe(page) == []


@pytest.mark.slow
@browser
def test_finished_first_steps_have_ticks_until_some_facts_are_written(desk: Desk, page: Page, tmp_path: Path) -> None:
    code = desk.make(tmp_path / "kiosk")
    with Connection(desk.home, "claude-code") as connection:
        connection.call("up", {"directory": str(code)})
        done = at(page, "../kiosk/overview").locator(".steps .done")
        expect(page.locator(".steps li")).to_have_count(3)
        expect(done).to_have_count(0)
        for number in range(5):
            change = {"op": "upsert", "uri": f"insight://kiosk/{number}", "summary": f"Fact {number}"}
            connection.call("put", {"workspace": "kiosk", "changes": [change]})
            if number == 0:
                expect(done).to_have_text(["Connect an agent. (done)", "Write the first fact. (done)"])
                assert axe(page) == []
    expect(page.locator(".steps")).to_have_count(0)


@pytest.mark.slow
@browser
def test_a_new_workspace_without_code_shows_what_to_do_next(desk: Desk, page: Page, tmp_path: Path) -> None:
    with Connection(desk.home) as connection:
        connection.call("up", {"directory": str(tmp_path), "standalone": True, "id": "notes"})
    at(page, "../notes/overview")
    expect(page.locator(".first")).to_contain_text("This workspace has no code")
    expect(page.locator(".steps li")).to_have_count(4)
    expect(page.locator(".steps")).to_contain_text("kgd ingest FOLDER")
    assert axe(page) == []


@pytest.mark.slow
@browser
def test_a_new_workspace_offers_to_import_the_rules_that_its_code_has(desk: Desk, page: Page, tmp_path: Path) -> None:
    code = desk.make(tmp_path / "till")
    (code / ".cursor/rules").mkdir(parents=True)
    (code / ".cursor/rules/style.mdc").write_text("---\nalwaysApply: true\n---\nNames are English.\n")
    (code / "AGENTS.md").write_text("# Rules\n\nPrices are net.\n")
    (code / ".claude/rules").mkdir(parents=True)
    (code / "CLAUDE.md").write_text("<!-- kgd: written by kgd -->\nUse kgd.\n<!-- kgd: end -->\n")
    with Connection(desk.home) as connection:
        connection.call("up", {"directory": str(code)})
    at(page, "../till/overview")
    offered = page.locator(".steps code", has_text="kgd import")
    expect(offered).to_have_text(["kgd import AGENTS.md", "kgd import .cursor/rules"])
    assert axe(page) == []
    for command in offered.all_inner_texts():
        desk(*command.split()[1:], "-C", str(code))
    with Connection(desk.home) as connection:
        assert connection.call("status", {"workspace": "till"})["counts"]["nodes"] == 2


@pytest.mark.slow
@browser
def test_an_agents_new_node_appears_without_a_reload(desk: Desk, page: Page) -> None:
    expect(page.locator("h1")).to_contain_text("shop")
    agent_writes(desk, "insight://shop/tokens", name="Tokens expire", summary="After an hour")
    group = page.locator(".hour", has_text="Tokens expire").first
    expect(group.locator(".who")).to_contain_text(" (claude-code), ")
    group.get_by_role("link", name="Tokens expire").click()
    page.wait_for_url("**/node?uri=*")
    expect(page.locator("main")).to_contain_text("Tokens expire")


@pytest.mark.slow
@browser
def test_changes_of_one_author_and_hour_are_one_group_with_the_reasons(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/till", name="Till", summary="Takes cash")
    desk.put("concept://shop/till", summary="Takes cash and cards")
    change = {"op": "upsert", "uri": "concept://shop/till", "summary": "Takes cash, and cards since May"}
    desk.call("put", changes=[change], message="cards since May")
    group = page.locator(".hour", has_text="“cards since May”")
    expect(group).to_be_visible()
    expect(group.locator("li", has_text="Till")).to_have_text("Changed Till")
    expect(page.locator(".lately li", has_text="concept://")).to_have_count(0)


@pytest.mark.slow
@browser
def test_a_change_shows_the_text_that_it_wrote_and_the_name_of_a_deleted_node(desk: Desk, page: Page) -> None:
    agent_writes(desk, "decision://shop/one-till", name="One till per shop", summary="Since May")
    agent_writes(desk, "decision://shop/two-tills", name="Two tills per shop", summary="Since May")
    rows = page.locator(".lately li")
    expect(rows.filter(has_text="Two tills")).to_have_text("Created Two tills per shop Since May")
    desk.put("decision://shop/two-tills", summary="Since June")
    desk.call("put", changes=[{"op": "delete", "uri": "decision://shop/one-till"}])
    ours = page.locator(".hour").filter(has_not_text="(claude-code)")
    expect(ours.locator("li", has_text="Two tills")).to_have_text("Changed Two tills per shop")
    expect(ours.locator("li", has_text="One till")).to_have_text("One till per shop (deleted)")
    expect(ours.locator("summary")).to_contain_text(re.compile(r"Deleted “One till per shop” and \d+ more"))
    expect(ours.get_by_role("link", name="Two tills per shop")).to_be_hidden()
    ours.locator("summary").click()
    expect(ours.get_by_role("link", name="Two tills per shop")).to_be_visible()
    assert axe(page) == []
    expect(page.locator(".hour", has_text="(claude-code)").first).not_to_contain_text("Since")


@pytest.mark.slow
@browser
def test_the_nodes_that_a_change_does_not_name_are_listed_on_its_page(desk: Desk, page: Page) -> None:
    changes = [{"op": "upsert", "uri": f"concept://shop/trays/{n}", "name": f"Tray {n}"} for n in range(5)]
    with Connection(desk.home, "codex") as connection:
        connection.call("put", {"workspace": "shop", "changes": changes})
    group = page.locator(".hour", has_text="(codex)")
    expect(group.locator("summary")).to_have_text("Created “Tray 0” and 4 more")
    group.locator("summary").click()
    group.get_by_role("link", name="2 more facts").click()
    expect(page.locator(".changed-node")).to_have_count(5)


@pytest.mark.slow
@browser
def test_a_file_created_by_hand_is_told_from_an_edited_one(desk: Desk, page: Page) -> None:
    file = desk.code / ".kgd/nodes/concept/bench.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("uri: concept://shop/bench\nname: Bench\n")
    change = page.locator(".lately li", has_text="Bench")
    expect(change).to_have_text("Created by hand Bench")
    file.write_text("uri: concept://shop/bench\nname: Bench\nsummary: For waiting\n")
    expect(change).to_have_text("Edited by hand Bench")


@pytest.mark.slow
@browser
def test_a_question_without_an_answer_invites_to_write_it(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/harbour", name="Harbour", summary="Where ships wait")
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    with Connection(desk.home, "claude-code") as connection:
        connection.call("search", {"workspace": "shop", "query": "zeppelin mooring altitude?"})
        connection.call("search", {"workspace": "shop", "query": "qwxv password=hunter2-Kx9vLq81"})
    at(page, "overview")
    asked = page.locator(".asked li", has_text="zeppelin mooring altitude?")
    expect(asked).to_contain_text("claude-code")
    expect(page.locator(".asked")).not_to_contain_text("hunter2")
    assert axe(page) == []
    asked.get_by_role("link", name="Write it").click()
    expect(page.get_by_label("Summary")).to_have_value("zeppelin mooring altitude?")
    at(page, "overview")
    asked.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".said")).to_contain_text("Dismissed.")
    expect(asked).to_have_count(0)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("changes[0].uri", ""),
        ("createdByTaskId", ""),
        ("uris[0]", ""),
        ("start[0]", "Start at"),
        ("since", "From"),
        ("line 2 of data", "line 2 of Data"),
        ("concept://shop/a", "concept://shop/a"),
        ("src/auth", "src/auth"),
        ("main", "main"),
    ],
)
def test_the_place_of_an_error_is_the_label_of_a_field(at: str, shown: str) -> None:
    assert words.place(at) == shown


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`query` must have at most 2000 characters", "Words must have at most 2000 characters"),
        ("'summary' has 200 characters; the limit is 100", "Summary has 200 characters; the limit is 100"),
        ("an atom without paths has no boundary", "an area without paths has no boundary"),
        ("there is no node 'molecule'; atom://shop/a is one", "there is no fact “molecule”; atom://shop/a is one"),
    ],
)
def test_a_message_names_fields_and_areas_as_the_pages_do(message: str, shown: str) -> None:
    assert words.message(message) == shown


@browser
@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("graph?from=concept://", "(Start at)"),
        ("search?q=a&since=blub", "(From)"),
        ("review?since=blub", "(Since)"),
        ("proposals?since=blub", "(Since)"),
        ("node?uri=::", "This is not a URI."),
        ("stale?cursor=q", "This part of the list does not exist."),
    ],
)
def test_a_wrong_address_names_the_field_of_the_page(page: Page, watched: Watched, address: str, shown: str) -> None:
    at(page, address)
    expect(page.locator(".error")).to_contain_text(shown)
    watched.troubles.clear()  # the browser notes each answer of 422


def test_remedies_use_the_words_of_the_pages() -> None:
    advice = Advice("Find it with ", Do("search"), ", or make it with ", Do("put"), ".")
    assert words.next_step(advice) == "Find it with the search, or make it with the editor."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the file is gone", "The file is gone"),
        ("concept://shop/a is old", "concept://shop/a is old"),
        ("kgd failed", "kgd failed"),
        ("", ""),
    ],
)
def test_a_sentence_is_capitalised_unless_it_starts_with_an_address(text: str, said: str) -> None:
    assert words.sentence(text) == said


def test_only_backticks_become_markup() -> None:
    assert (
        rendering.commands("run `kgd up` <now>") == 'run <code><span class="unbroken">kgd up</span></code> &lt;now&gt;'
    )
    assert rendering.commands("`<b>`") == "<code>&lt;b&gt;</code>"
    assert rendering.commands("a lone ` stays") == "a lone ` stays"


def test_languages_that_the_same_package_reads_share_a_warning() -> None:
    rows = (("go", 1, "the extra"), ("lua", 1, "tree-sitter-lua"), ("java", 2, "the extra"))
    missing = [{"language": language, "files": files, "install": install} for language, files, install in rows]
    assert unread({"code": {"missing": missing}}) == [(3, "go, java", "the extra"), (1, "lua", "tree-sitter-lua")]
    assert unread({}) == []


@pytest.mark.slow
@browser
@pytest.mark.requirement("E9")
def test_a_broken_link_is_listed_until_its_target_is_written(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/a", name="A fact.", relations=[{"type": "needs", "target": "concept://shop/absent"}])
    expect(page.get_by_text("Needed by “A fact”.", exact=True)).to_be_visible()
    expect(page.locator(".glance")).to_have_text("Nothing is urgent.")
    expect(page.get_by_role("heading", name="Can wait")).to_be_visible()
    expect(page.get_by_role("heading", name="Needs attention")).to_have_count(0)
    page.get_by_role("link", name="1 broken link").click()
    missing = page.get_by_role("link", name="absent", exact=True)
    expect(missing).to_have_class("broken")
    expect(page.locator("main")).to_contain_text("missing")
    assert axe(page) == []
    page.get_by_role("link", name="Write it").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/node/new?uri=*")
    desk.put("concept://shop/absent", name="Present")
    at(page, "broken")
    expect(page.locator("main")).to_contain_text("No broken links.")


@pytest.mark.slow
@browser
def test_a_stale_fact_is_listed_and_verified_by_keyboard(desk: Desk, page: Page) -> None:
    desk("remember", "Sign adds nothing", "--cites", "src/auth/session.py#sign")
    (desk.code / "src/auth/session.py").write_text("def sign(token):\n    return token + 'x'\n")
    waits = page.get_by_role("link", name="Check 1 stale fact")
    waits.wait_for()
    waits.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".cited h3")).to_have_text("src/auth/session.py#sign changed")
    expect(page.locator(".cited")).to_contain_text("Changed, not committed yet")
    expect(page.locator(".lead")).to_contain_text("The code that this fact cites has changed.")
    assert axe(page) == []
    page.get_by_role("button", name="Still true: Sign adds nothing").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Verified 1 fact with commit")
    expect(page.locator(".lead")).to_have_count(0)
    assert "Kgd-Op: verify" in desk.git("log", "-1", "refs/kgd/head")
    at(page, "overview")
    expect(page.locator(".glance")).to_have_text("Nothing needs your attention.")


@pytest.mark.slow  # nothing is committed, so the page notices it at its next poll
@browser
def test_an_unreadable_file_is_listed_with_its_line(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/hand", name="Hand")
    file = desk.code / ".kgd/nodes/concept/hand.yaml"
    expect(page.locator("main")).to_contain_text("Hand", timeout=AT_ONCE)
    for _ in range(200):  # publication follows the write after a moment
        if file.exists():
            break
        page.wait_for_timeout(50)
    file.write_text("uri: concept://shop/hand\nname: [unclosed\n")
    unreadable = page.get_by_role("link", name="Repair 1 unreadable file")
    expect(unreadable).to_be_visible(timeout=AT_ONCE)
    expect(page.locator(".state").get_by_role("link", name="1 unreadable file")).to_be_visible()
    unreadable.click()
    expect(page.locator("main")).to_contain_text("hand.yaml, line")
    expect(page.locator("main code")).to_have_text(str(file))
    assert axe(page) == []
    file.write_text("uri: concept://shop/hand\nname: Mended\n")
    expect(page.locator("main")).to_contain_text("No unreadable files.", timeout=AT_ONCE)


@pytest.mark.slow
@browser
def test_recent_changes_are_beside_pending_work_on_a_wide_screen_and_below_it_on_others(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/b", name="B", relations=[{"type": "needs", "target": "concept://shop/nowhere"}])
    work, recent = (page.get_by_role("heading", name=name) for name in ("Can wait", "Recent changes"))
    expect(work).to_be_visible()

    def place(heading: Locator) -> tuple[float, float]:
        box = heading.bounding_box()
        assert box is not None
        return box["x"], box["y"]

    assert place(recent)[0] > place(work)[0]
    assert place(recent)[1] < place(page.locator(".pending").first)[1]
    page.set_viewport_size({"width": 400, "height": 800})
    assert place(recent)[0] == place(work)[0]
    assert place(recent)[1] > place(page.locator(".pending").last)[1]


@pytest.mark.slow
@browser
def test_a_link_to_a_renamed_file_moves_with_one_button(desk: Desk, page: Page) -> None:
    old, new = "src/auth/session.py", "src/auth/login.py"
    desk.put("concept://shop/a", name="A fact.", relations=[{"type": "about", "target": f"file://shop/{old}"}])
    git(desk.code, "mv", old, new)
    git(desk.code, "commit", "-qm", "rename")
    until(lambda: any(one.get("moved") for one in desk.call("broken")["broken"]))
    at(page, "broken")
    expect(page.locator("main")).to_contain_text(f"Renamed to {new}.")
    assert axe(page) == []
    page.get_by_role("button", name="Move facts").click()
    expect(page.locator("main")).not_to_contain_text(f"Renamed to {new}.")
    expect(page.locator("body")).to_contain_text(re.compile(rf"Moved \d facts? to {re.escape(new)} with commit"))
