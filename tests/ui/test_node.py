"""The page of a node: reading, editing by forms, and history."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import at_rest, until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

HEAD = "refs/kgd/head"


def last_commit(desk: Desk) -> str:
    return desk.git("log", "-1", "--format=%an: %s", HEAD).strip()


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def choose(page: Page, action: str) -> None:
    """Choose an action of the node's menu."""
    page.get_by_label("More actions").click()
    page.get_by_role("link", name=action).click()


def content(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Content")


def test_a_node_is_edited_by_keyboard_and_the_user_is_the_author(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/pay", name="Payments", summary="How money comes in", content="# Cards\n\nFirst *line*.\n")
    at(page, "node?uri=concept://shop/pay")
    expect(page.locator("main .content em")).to_have_text("line")
    page.get_by_role("link", name="Edit").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Summary")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("How money comes in, and goes out")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("Saved with commit")
    expect(page.locator("h1")).to_have_text("Payments")
    expect(page.locator("h1 + p")).to_have_text("How money comes in, and goes out")
    assert desk.node("concept://shop/pay")["content"] == "# Cards\n\nFirst *line*.\n"
    assert "(kgd ui): put concept://shop/pay" in last_commit(desk)
    page.get_by_role("link", name="Edit").click()
    press(page, "Save")
    expect(page.locator(".said")).to_contain_text("Nothing was changed")
    assert axe(page) == []


def test_a_superseded_node_leads_to_its_successor(desk: Desk, page: Page) -> None:
    desk.put("decision://shop/ledger-on-paper", name="Ledger on paper", summary="The ledger is a paper book")
    relations = [{"type": "supersedes", "target": "decision://shop/ledger-on-paper"}]
    desk.put(
        "decision://shop/ledger-on-disk", name="Ledger on disk", summary="The ledger is a file", relations=relations
    )
    at(page, "search?q=ledger+paper+book")
    mark = page.locator(".hit", has_text="Ledger on paper").get_by_role("link", name="superseded by Ledger on disk")
    expect(mark).to_be_visible()
    assert axe(page) == []
    page.locator(".hit").get_by_role("link", name="Ledger on paper", exact=True).click()
    expect(page.get_by_role("note")).to_have_text("Superseded by Ledger on disk.")
    expect(page.locator(".relations dt")).to_have_text("is superseded by")
    page.get_by_role("note").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Ledger on disk")
    expect(page.locator("dd .badge.warn")).to_have_text("superseded by Ledger on disk")


def test_text_between_backticks_is_code_in_summaries_everywhere(desk: Desk, page: Page) -> None:
    desk.put("gotcha://shop/ticks", name="Ticks", summary="Call `flush_all` before the end")
    for place, code in (
        ("node?uri=gotcha://shop/ticks", ".summary code"),
        ("search?q=flush_all+end", ".hit code"),
        ("review?since=yesterday", ".gist code"),
        ("overview", ".lately code"),
        ("author?name=Ann+Person", ".node-row code"),
        ("graph?from=gotcha://shop/ticks&node=gotcha://shop/ticks", "#card code"),
    ):
        at(page, place)
        expect(page.locator(code).filter(has_text="flush_all").first).to_have_text("flush_all")


def test_a_folder_leads_to_its_files_and_areas(desk: Desk, page: Page) -> None:
    at(page, "node?uri=dir://shop/src/auth")
    expect(page.locator(".title .aside").first).to_contain_text("folder")
    expect(page.locator(".title .summary")).to_contain_text("2 files")
    expect(page.get_by_role("main").locator("dt")).to_have_text(["contains", "is in", "Version", "URI"])
    crumbs = page.get_by_role("navigation", name="Breadcrumbs")
    expect(crumbs.get_by_role("link")).to_have_text(["Code", "src"])
    page.get_by_role("link", name="Files and areas of this folder").click()
    expect(page.get_by_role("link", name="session.py", exact=True)).to_be_visible()


def test_the_relations_of_a_file_are_below_its_folders_and_lead_back_to_its_code(desk: Desk, page: Page) -> None:
    at(page, "node?uri=file://shop/src/auth/session.py&view=node")
    crumbs = page.get_by_role("navigation", name="Breadcrumbs")
    expect(crumbs.get_by_role("link")).to_have_text(["Code", "src", "auth"])
    expect(page.locator(".title .aside").first).to_have_text("file")
    expect(page.get_by_role("heading", name="Data", exact=True)).to_have_count(0)
    expect(page.locator("dt", has_text="Modified").locator("+ dd time")).to_be_visible()
    page.get_by_role("link", name="Code and facts of this file").click()
    expect(page.locator(".listing")).to_contain_text("def sign")


def test_a_concurrent_edit_shows_both_versions_and_loses_nothing(desk: Desk, page: Page, watched: Watched) -> None:
    uri = "concept://shop/stale"
    desk.put(uri, name="Prices", summary="Net", content="one\ntwo\nthree\n")
    at(page, f"node/edit?uri={uri}")
    content(page).fill("one\nTWO by me\nthree\n")
    desk.put(uri, name="Net prices", content="one\ntwo by them\nthree\n", expect_version=1)
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("changed this while you were editing")
    expect(page.get_by_role("alert")).to_contain_text("You both changed content")
    expect(content(page)).to_have_value("one\nTWO by me\nthree\n")
    expect(page.get_by_label("Name")).to_have_value("Net prices")
    expect(page.locator(".sides ins").first).to_have_text("Net prices")
    assert axe(page) == []
    content(page).fill("one\nTWO by both\nthree\n")
    press(page, "Save")
    expect(page.locator(".said")).to_contain_text("Saved with commit")
    node = desk.node(uri)
    assert (node["name"], node["content"], node["version"]) == ("Net prices", "one\nTWO by both\nthree\n", 3)
    watched.troubles.clear()  # the browser notes an answer of 409


def test_typed_text_survives_the_deletion_of_the_node(desk: Desk, page: Page, watched: Watched) -> None:
    uri = "concept://shop/gone"
    desk.put(uri, name="Gone", content="old\n")
    at(page, f"node/edit?uri={uri}")
    content(page).fill("mine\n")
    desk.call("put", changes=[{"op": "delete", "uri": uri}])
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("was deleted while you were editing")
    press(page, "Save")
    expect(page.locator(".said")).to_contain_text("Saved with commit")
    assert desk.node(uri)["content"] == "mine\n"
    watched.troubles.clear()  # the browser notes an answer of 409


def test_malformed_data_is_reported_and_the_form_keeps_its_text(desk: Desk, page: Page, watched: Watched) -> None:
    desk.put("concept://shop/data", name="Data", data={"owner": "ann", "old": {"a": 1, "b": 2}})
    at(page, "node/edit?uri=concept://shop/data")
    page.get_by_text("More fields").click()
    page.get_by_label("Data, as YAML").fill("owner: [")
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("line 1 of Data")
    expect(page.get_by_label("Data, as YAML")).to_have_value("owner: [")
    page.get_by_label("Data, as YAML").fill("owner: bob\nold:\n  a: 1\n")
    press(page, "Save")
    expect(page.locator(".said")).to_contain_text("Saved with commit")
    assert desk.node("concept://shop/data")["data"] == {"owner": "bob", "old": {"a": 1}}
    watched.troubles.clear()  # the browser notes an answer of 422


def test_relations_are_added_by_a_short_address_changed_and_removed(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/cart", name="Cart")
    desk.put("concept://shop/auth", name="Authentication", summary="Who you are")
    at(page, "node?uri=concept://shop/cart")
    choose(page, "Add a relation")
    page.get_by_label("Relation type").fill("uses")
    page.get_by_label("Target").press_sequentially("Authen")
    expect(page.locator("#targets option").first).to_have_attribute("value", "concept://shop/auth")
    page.get_by_label("Target").fill("auth")
    page.get_by_label("Cost, from").fill("0.2")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".said")).to_contain_text("Relation saved")
    expect(page.locator(".relations")).to_contain_text("Authentication")
    page.get_by_role("link", name="Edit uses Authentication").click()
    page.get_by_label("Cost, from").fill("0.75")
    press(page, "Change cost")
    expect(page.locator(".relations .weight")).to_contain_text("cost 0.75")
    assert desk.node("concept://shop/cart")["relations"] == [
        {"type": "uses", "target": "concept://shop/auth", "weight": 0.75}
    ]
    at(page, "node?uri=concept://shop/auth")
    expect(page.locator("section[aria-labelledby=into]")).to_contain_text("is used by")
    expect(page.locator("section[aria-labelledby=into]")).to_contain_text("Cart")
    at(page, "node?uri=concept://shop/cart")
    page.get_by_role("link", name="Edit uses Authentication").click()
    press(page, "Remove")
    expect(page.locator(".said")).to_contain_text("Relation removed")
    assert "relations" not in desk.node("concept://shop/cart")


def test_a_relation_of_cost_1_shows_no_cost_and_is_edited_with_the_keyboard(desk: Desk, page: Page) -> None:
    relations = [{"type": "uses", "target": "auth", "weight": 1}]
    desk.put("concept://shop/basket", name="Basket", relations=relations)
    at(page, "node?uri=concept://shop/basket")
    expect(page.locator(".relations .weight")).to_have_text("Edit")
    edit = page.locator(".relations .weight a")
    expect(edit).to_have_css("opacity", "0")
    page.locator(".relations dd a").first.focus()
    page.keyboard.press("Tab")
    expect(edit).to_be_focused()
    expect(edit).to_have_css("opacity", "1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Change this relation")).to_be_visible()


def test_a_task_shows_its_sections_and_links_its_files(desk: Desk, page: Page) -> None:
    desk("task", "add", "Sign longer", "--objective", "Tokens carry *two* letters", "--accept", "Old tokens work")
    desk("task", "add", "Sign twice", "--accept", "One", "--accept", "Two", "--file", "src/auth/session.py")
    at(page, "node?uri=task://shop/Sign%2520longer")
    expect(page.get_by_role("region", name="Objective").locator("em")).to_have_text("two")
    expect(page.locator(".title .summary")).to_have_count(0)  # it repeats the objective
    expect(page.get_by_text("No relations")).to_be_visible()
    at(page, "node?uri=task://shop/Sign%2520twice")
    expect(page.get_by_role("region", name="Acceptance Criteria").locator("li")).to_have_text(["One", "Two"])
    expect(page.get_by_label("Context Files")).not_to_contain_text("`")
    expect(page.get_by_label("About this fact")).not_to_contain_text("sections")
    expect(page.get_by_text("No relations")).to_have_count(0)
    assert axe(page) == []
    page.get_by_role("link", name="src/auth/session.py").click()
    expect(page.locator("h1")).to_have_text("session.py")


def test_a_task_is_started_and_done_beside_its_title(desk: Desk, page: Page, watched: Watched) -> None:
    desk("task", "add", "Sign often")
    at(page, "node?uri=task://shop/Sign%2520often")
    title = page.locator(".title")
    expect(title.locator(".badge")).to_have_text("pending")
    title.get_by_role("button", name="Start").click()
    expect(page.locator(".said")).to_contain_text("Started with commit")
    expect(title.locator(".badge")).to_have_text("in-progress")
    expect(title.get_by_role("button", name="Start")).to_have_count(0)
    # Simulates a change made after the page was loaded.
    page.evaluate("document.querySelector('[name=version]').value = 1; document.querySelector('[name=to]').click()")
    expect(page.locator(".said")).to_contain_text("Nothing was changed. The task has changed")
    title.get_by_role("button", name="Done").click()
    expect(title.locator(".badge")).to_have_text("completed")
    expect(title.get_by_role("button", name="Done")).to_have_count(0)
    assert axe(page) == []


def test_the_parts_of_a_path_lead_to_their_node_or_to_a_search_below_it(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/shelves", name="Shelves")
    desk.put("concept://shop/shelves/left/flour", name="Flour")
    until(lambda: desk.call("search", query="flour")["hits"])
    at(page, "node?uri=concept://shop/shelves/left/flour")
    expect(page.get_by_text("No content").get_by_role("link")).to_have_text("add text")
    crumbs = page.get_by_role("navigation", name="Breadcrumbs")
    expect(crumbs.get_by_role("link")).to_have_text(["shop", "shelves", "left"])
    crumbs.get_by_role("link", name="left").click()
    expect(page.locator(".hit h2")).to_have_text("Flour")
    page.go_back()
    crumbs.get_by_role("link", name="shelves").click()
    expect(page.locator("h1")).to_have_text("Shelves")
    desk.put("atom://shop/bakery", name="Bakery", content="Flour is dear.\n", data={"paths": ["src/**"]})
    at(page, "node?uri=atom://shop/bakery")
    expect(crumbs.get_by_role("link")).to_have_text(["shop", "Areas"])


def test_the_relations_of_a_node_without_text_are_in_the_main_column(desk: Desk, page: Page) -> None:
    relations = [{"type": "uses", "target": "concept://shop/lamp"}]
    back = [{"type": "lights", "target": "concept://shop/desk"}]
    desk.put("concept://shop/lamp", name="Lamp", content="Lights the till.\n", relations=back)
    desk.put("concept://shop/desk", name="Desk", summary="Where the lamp stands", relations=relations)
    at(page, "node?uri=concept://shop/desk")
    beside = page.get_by_label("About this fact")
    expect(page.get_by_role("heading", name="Relations")).to_be_visible()
    expect(beside.get_by_role("heading", name="Relations")).to_have_count(0)
    at(page, "node?uri=concept://shop/lamp")
    expect(beside.get_by_role("heading", name="Relations")).to_be_visible()


def test_a_node_is_appended_to_moved_deleted_and_restored(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/old", name="Old", content="first\n")
    desk.put("concept://shop/user", name="Its user", relations=[{"type": "uses", "target": "concept://shop/old"}])
    at(page, "node?uri=concept://shop/old&do=append")
    page.get_by_label("Markdown").fill("second")
    press(page, "Append")
    expect(page.locator("main .content")).to_contain_text("second")
    choose(page, "Rename")
    page.get_by_label("New URI").fill("concept:new")
    press(page, "Rename")
    expect(page.get_by_label("About this fact")).to_contain_text("concept://shop/new")
    page.get_by_role("link", name="Author of each line").click()
    expect(page.locator("h1")).to_have_text("Author of each line of “Old”")
    expect(page.locator("table.lines .start")).to_have_count(2)
    page.go_back()
    choose(page, "Delete")
    expect(page.locator("main")).to_contain_text("Its user")
    press(page, "Delete")
    expect(page.locator("h1")).to_have_text("This fact does not exist")
    page.locator("main").get_by_role("link", name="history").click()
    page.get_by_role("link", name="Revert…").first.click()
    expect(page.get_by_text("1 fact will change. Later changes are kept.")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Revert", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(page.locator(".said")).to_contain_text("Reverted with commit")
    assert desk.node("concept://shop/new")["content"] == "first\n\nsecond\n"


def test_the_page_of_a_missing_node_names_the_facts_that_need_it(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/asks", name="Asks", relations=[{"type": "needs", "target": "concept://shop/absent"}])
    at(page, "node?uri=concept://shop/absent")
    expect(page.locator("main")).to_contain_text("Asks needs it.")
    expect(page.get_by_role("link", name="Write it")).to_be_visible()


def test_a_broken_link_leads_to_a_form_for_the_missing_node(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/from", name="From", relations=[{"type": "needs", "target": "concept://shop/to-be"}])
    at(page, "node?uri=concept://shop/from")
    expect(page.locator(".relations")).to_contain_text("missing")
    page.get_by_role("link", name="to-be", exact=True).click()
    page.get_by_role("link", name="Write it").click()
    page.get_by_label("Name", exact=True).fill("It is")
    page.get_by_label("About, one per line").fill("./src/checkout.py")
    press(page, "Save")
    expect(page.locator("h1")).to_have_text("It is")
    node = desk.node("concept://shop/to-be")
    assert node["relations"] == [{"type": "about", "target": "file://shop/src/checkout.py", "weight": 0.5}]


def test_a_new_fact_needs_only_a_summary(desk: Desk, page: Page, watched: Watched) -> None:
    at(page, "node/new")
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("The fact has no name. Write a summary")
    page.get_by_label("Summary").fill("Flour comes on Tuesdays")
    page.get_by_label("About, one per line").fill("src/flour.py\nsrc/checkout.py\nflour")
    press(page, "Save")
    expect(page.locator("h1")).to_have_text("Flour comes on Tuesdays")
    node = desk.node("insight://shop/flour-comes-on-tuesdays")
    targets = {one["target"] for one in node["relations"]}
    assert targets == {"file://shop/src/flour.py", "file://shop/src/checkout.py", "concept://shop/flour"}
    assert node["type"] == "insight"
    assert (node["name"], node["summary"]) == ("Flour comes on Tuesdays", "Flour comes on Tuesdays")
    watched.troubles.clear()  # the browser notes an answer of 422


def test_the_form_offers_types_with_their_meanings_and_accepts_others(desk: Desk, page: Page) -> None:
    at(page, "node/new")
    gotcha = page.get_by_role("radio", name="gotcha surprises the next person")
    expect(page.get_by_role("radio", name="insight")).to_be_checked()
    gotcha.check()
    page.get_by_label("Summary").fill("Yeast dies above 40 degrees")
    press(page, "Preview")
    expect(gotcha).to_be_checked()
    press(page, "Save")
    uri = "gotcha://shop/yeast-dies-above-40-degrees"
    assert desk.node(uri)["type"] == "gotcha"
    at(page, f"node/edit?uri={uri}")
    expect(gotcha).to_have_count(0)
    page.get_by_text("Type gotcha Change").click()
    expect(gotcha).to_be_checked()
    assert axe(page) == []
    page.get_by_label("Other type").fill("recipe")
    expect(page.get_by_role("radio", name="other")).to_be_checked()
    press(page, "Save")
    assert desk.node(uri)["type"] == "recipe"
    at(page, f"node/edit?uri={uri}")
    expect(page.locator(".type-line > summary")).to_have_text("Type recipe Change")
    expect(page.get_by_label("Other type")).to_have_value("recipe")
    at(page, "node/new?uri=decision://shop/which-flour")
    expect(page.get_by_role("radio", name="decision")).to_be_checked()


def test_both_forms_have_the_same_fields_in_the_same_order(desk: Desk, page: Page) -> None:
    desk.put(
        "insight://shop/ovens", name="Ovens", relations=[{"type": "about", "target": "file://shop/src/checkout.py"}]
    )
    fields = []
    for place in ("node/new", "node/edit?uri=insight://shop/ovens"):
        at(page, place)
        fields.append(page.locator(".edit > * .over:visible, .edit > fieldset > .over").all_inner_texts())
    assert [name.removesuffix(", one per line") for name in fields[0]] == [
        name.removesuffix(", one per line") for name in fields[1]
    ]
    expect(page.locator(".edit").get_by_role("link", name="checkout.py")).to_be_visible()
    expect(page.locator(".edit").get_by_role("link", name="Add a relation")).to_be_visible()


def test_the_form_counts_the_summary_and_lists_similar_facts(desk: Desk, page: Page, watched: Watched) -> None:
    for name in ("Bread rises for an hour", "Bread is baked at six", "Bread is sold by weight", "Bread is sliced"):
        desk.put(f"insight://shop/{name.lower().replace(' ', '-')}", name=name)
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    at(page, "node/new")
    expect(page.locator(".counter")).to_have_text("0 / 100")
    similar = page.locator("#similar")
    expect(similar).to_be_hidden()
    page.get_by_label("Summary").fill("Bread")
    expect(page.locator(".counter")).to_have_text("5 / 100")
    expect(similar.get_by_role("heading")).to_have_text("Similar facts")
    expect(similar.get_by_role("link")).to_have_count(3)
    assert axe(page) == []
    page.get_by_label("Summary").fill("x" * 101)
    expect(page.locator(".counter.bad")).to_have_text("101 / 100")
    expect(similar).to_be_hidden()
    at(page, "node/new?summary=Bread+is+baked")
    similar.get_by_role("link", name="Bread is baked at six").click()
    expect(page.locator("h1")).to_have_text("Bread is baked at six")


def test_beside_the_form_are_its_cited_code_and_other_facts(desk: Desk, page: Page) -> None:
    uri, file = "gotcha://shop/totals", "file://shop/src/checkout.py"
    desk.put(uri, name="Totals", summary="Totals of a checkout are in cents", data={"cites": ["src/checkout.py"]})
    about = [{"type": "about", "target": target} for target in (uri, file)]
    desk.put("insight://shop/rounding", name="Rounding", summary="Once, at the end", relations=about)
    desk.put("atom://shop/checkouts", name="Totals of a checkout", data={"paths": ["src/checkout.py"]})
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    at(page, f"node/edit?uri={uri}")
    beside = page.get_by_role("complementary", name="Help with this fact")
    expect(beside.locator(".cited pre").first).to_contain_text("from src.auth import session")
    expect(beside.locator("section", has_text="Referenced by 1")).to_contain_text("Rounding Once, at the end")
    page.get_by_label("Summary").fill("Totals of a checkout")
    expect(beside.locator("#similar")).to_be_hidden()  # neither the fact itself nor an area
    at(page, "node/new?about=file://shop/src/checkout.py")
    expect(beside.locator("section", has_text="Known about this code")).to_contain_text("Rounding")
    at(page, "node/new?about=./src/checkout.py")
    expect(beside.locator("section", has_text="Known about this code")).to_contain_text("Rounding")
    assert axe(page) == []


def test_on_a_phone_the_form_shows_the_whole_summary_and_the_chosen_type(desk: Desk, page: Page) -> None:
    desk.put("insight://shop/dough-rests", name="Dough rests", summary="Dough rests for a night in the cold room")
    until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, "node/new?summary=Dough+rests+for+a+night,+since+its+taste+needs+the+cold+and+the+time")
    summary, similar = page.get_by_label("Summary"), page.locator("#similar")
    assert summary.evaluate("one => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth")
    expect(page.get_by_role("radio", name="insight")).to_be_in_viewport()
    expect(similar.get_by_role("link").first).to_have_text("Dough rests")
    below, above, name = (one.bounding_box() for one in (similar, summary, page.get_by_label("Name", exact=True)))
    assert below
    assert above
    assert name
    assert above["y"] + above["height"] <= below["y"] < name["y"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert axe(page) == []


def test_the_form_offers_facts_after_brackets_and_in_lines_of_relations(desk: Desk, page: Page) -> None:
    desk.put("insight://shop/rye-needs-acid", name="Rye needs acid", summary="Otherwise its starch turns to sugar")
    at(page, "node/new?summary=Sourdough+is+for+rye")
    content(page).press_sequentially("See [[rye needs")
    offers = page.get_by_role("option")
    expect(offers.first).to_contain_text("Rye needs acid")
    expect(content(page)).to_have_attribute("aria-activedescendant", "offers-0-0")
    assert axe(page) == []
    page.keyboard.press("Enter")
    expect(content(page)).to_have_value("See [[insight://shop/rye-needs-acid]]")
    expect(offers).to_have_count(0)
    about = page.get_by_label("About, one per line")
    about.press_sequentially("src/checkout.py\nrye needs")
    offers.first.click()
    expect(about).to_have_value("src/checkout.py\ninsight://shop/rye-needs-acid")
    about.press_sequentially("\nrye needs")
    expect(offers.first).to_be_visible()
    page.keyboard.press("Escape")
    expect(offers).to_have_count(0)


def test_a_path_in_the_text_links_to_its_file_and_tags_differ_from_the_type(desk: Desk, page: Page) -> None:
    text = "Seen in `src/checkout.py`, not in `src/absent.py`, and in [`src/checkout.py`](https://example.org).\n"
    desk.put("insight://shop/till", name="The till", content=text, tags=["money"])
    at(page, "node?uri=insight://shop/till")
    links = page.locator(".content").get_by_role("link")
    expect(links).to_have_text(["src/checkout.py", "src/checkout.py"])
    expect(page.locator(".title .badge.tag")).to_have_text("money")
    links.first.click()
    expect(page.locator("h1")).to_have_text("checkout.py")


def test_one_line_below_the_title_says_whether_the_cited_code_has_changed(desk: Desk, page: Page) -> None:
    desk.put("insight://shop/trusted", name="Trusted", data={"cites": ["src/checkout.py"]})
    at(page, "node?uri=insight://shop/trusted")
    expect(page.locator(".trust")).to_have_text(re.compile("^✓ Cited code unchanged.*, verified by Ann Person$"))
    expect(page.get_by_text(re.compile("verified", re.IGNORECASE))).to_have_count(1)
    assert axe(page) == []


def test_a_node_of_the_code_tree_can_be_neither_renamed_nor_unrelated(desk: Desk, page: Page) -> None:
    at(page, "node?uri=dir://shop/src")
    expect(page.locator("h1")).to_have_text("src")
    expect(page.locator(".relations").first).to_contain_text("checkout.py")
    page.get_by_label("More actions").click()
    expect(page.get_by_role("link", name="Add a relation")).to_be_visible()
    for name in ("Rename", "Delete", "Change contains"):
        assert page.get_by_role("link", name=name).count() == 0, name


def test_a_past_change_opens_side_by_side_and_stays_open_when_the_page_refreshes(desk: Desk, page: Page) -> None:
    uri = "decision://shop/aside"
    desk.put(uri, name="Aside", summary="Net prices")
    desk.put(uri, summary="Gross prices")
    at(page, f"node?uri={uri}")
    newest = page.locator(".past-change").first
    expect(page.locator(".past-change summary span:first-child")).to_have_text(["Changed", "Created"])
    newest.locator("summary").click()
    expect(newest.locator("del")).to_have_text("Net")
    expect(newest.locator("ins")).to_have_text("Gross")
    assert axe(page) == []
    desk.put(uri, tags=["new"])
    expect(page.locator(".past-change")).to_have_count(3)
    expect(page.locator(".past-change ins")).to_have_text("Gross")


def test_a_fact_is_renamed_in_its_form_and_its_content_does_not_keep_the_old_summary(desk: Desk, page: Page) -> None:
    uri = "insight://shop/doors"
    desk.put(uri, name="Doors", summary="Doors close at six", content="Doors close at six.\n\nSeen on the door.\n")
    at(page, f"node/edit?uri={uri}")
    expect(page.get_by_label("Content")).to_have_value("Seen on the door.\n")
    page.get_by_label("Name").fill("Door hours")
    page.get_by_label("Summary").fill("Doors close at seven")
    press(page, "Save")
    expect(page.locator("h1")).to_have_text("Door hours")
    node = desk.call("get", uris=[uri], include=["content"])["nodes"][0]
    assert (node["summary"], node["content"]) == ("Doors close at seven", "Seen on the door.\n")


def test_the_history_of_a_node_is_browsed_by_commit(desk: Desk, page: Page) -> None:
    uri = "decision://shop/past"
    for number, text in enumerate(("one\n", "one\ntwo\n", "one\nthree\n")):
        desk.put(uri, name="Past", summary=f"State {number}", content=text, expect_version=number)
    at(page, f"node/history?uri={uri}")
    expect(page.locator(".history > li")).to_have_count(3)
    expect(page.locator(".history > li").first.locator("ins")).to_have_text(["2", "three"])
    expect(page.locator(".history .badge")).to_have_text(["version 3 · current", "version 2", "version 1"])
    assert axe(page) == []
    page.get_by_role("link", name="View version").nth(1).click()
    expect(page.locator(".past")).to_contain_text("Version of")
    expect(page.locator("h1 + p")).to_have_text("State 1")
    assert page.get_by_role("link", name="Edit").count() == 0
    page.get_by_role("link", name="Older").click()
    expect(page.locator("h1 + p")).to_have_text("State 0")
    page.get_by_role("link", name="Newer").click()
    page.get_by_role("link", name="Newer").click()
    expect(page.locator("h1 + p")).to_have_text("State 2")
    assert axe(page) == []


def test_changes_of_relations_name_their_targets(desk: Desk, page: Page) -> None:
    keys, kiln = "concept://shop/related/keys", "concept://shop/related/kiln"
    desk.put(keys, name="Key store")
    missing = {"type": "calls", "target": "concept://shop/related/none"}
    relations = [{"type": "depends_on", "target": keys, "weight": 0.5}, missing]
    created = desk.put(kiln, name="Kiln", summary="Burns clay", relations=relations)["commit"]
    relate = {"op": "relate", "source": kiln, "type": "depends_on", "target": keys, "weight": 0.75}
    changed = desk.call("put", changes=[relate])["commit"]
    at(page, f"node/history?uri={kiln}")
    titles = page.locator(".history .what, .history tbody th")
    expect(titles.filter(has_text="Relation “depends on” to Key store")).to_have_count(2)
    expect(titles.filter(has_text="Relation “calls” to concept://shop/related/none")).to_have_count(1)
    for commit in (created, changed):
        at(page, f"change?commit={commit}")
        expect(page.get_by_role("main")).to_contain_text("elation “depends on” to Key store")
    at(page, "review?since=yesterday&path=/related/**")
    expect(page.locator("[data-row]", has_text="Kiln").first).to_contain_text("elation “depends on” to Key store")


def test_a_node_citing_changed_code_is_marked_and_verified(desk: Desk, page: Page) -> None:
    uri = "insight://shop/sign"
    desk.put(uri, name="Signing", summary="sign returns the token", data={"cites": ["src/auth/session.py#sign"]})
    (desk.code / "src/auth/session.py").write_text("def sign(token):\n    return token + 1\n")
    until(lambda: desk.call("stale")["total"], 60)
    at(page, f"node?uri={uri}")
    expect(page.locator("main")).to_contain_text("ign in src/auth/session.py changed")
    cited = page.locator(".cited")
    expect(cited.locator("del")).to_have_text(["-    return token"])
    expect(cited.locator("ins")).to_have_text(["+    return token + 1"])
    assert axe(page) == []
    press(page, "Still true")
    expect(page.locator(".said")).to_contain_text("Verified")
    expect(page.locator("main")).not_to_contain_text("Stale:")
    expect(cited.locator(".line.is-cited")).to_have_text(["1def sign(token):", "2    return token + 1"])
    expect(cited.locator(".badge")).to_have_count(0)
    expect(page.locator(".title")).to_contain_text("verified by Ann Person")
    press(page, "Undo")
    expect(page.locator("main")).to_contain_text("Stale:")


@pytest.mark.parametrize(("width", "height"), [(1280, 640), (390, 660)])
def test_saving_and_cancelling_stay_in_the_window(desk: Desk, page: Page, width: int, height: int) -> None:
    desk.put("concept://shop/long", name="Long", content="line\n" * 80)
    page.set_viewport_size({"width": width, "height": height})
    at(page, "node/edit?uri=concept://shop/long")
    for where in (0, 10_000):
        page.evaluate(f"scrollTo(0, {where})")
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("link", name="Cancel")).to_be_in_viewport(ratio=1)
    tags = page.get_by_label("Tags")
    tags.focus()
    field, bar = tags.bounding_box(), page.locator(".confirm").bounding_box()
    assert field is not None
    assert bar is not None
    assert field["y"] + field["height"] <= bar["y"], "the bar does not cover the field with the focus"
    assert axe(page) == []


def test_without_scripts_a_node_is_previewed_and_saved(desk: Desk, chromium: Browser) -> None:
    desk.put("concept://shop/plain", name="Plain")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(desk.link())
    page.get_by_role("button", name="Open kgd").click()
    page.wait_for_url("**/overview")
    at(page, "node/edit?uri=concept://shop/plain")
    content(page).fill("\nA **bold** word, and [[concept:auth]]\n")
    press(page, "Preview")
    expect(page.locator(".preview strong")).to_have_text("bold")
    assert "content" not in desk.node("concept://shop/plain")
    press(page, "Save")
    expect(page.locator("main .content strong")).to_have_text("bold")
    assert desk.node("concept://shop/plain")["content"] == "\nA **bold** word, and [[concept:auth]]\n"
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_relations_are_beside_the_content_and_on_a_phone_below_it(desk: Desk, page: Page, width: int) -> None:
    desk.put("concept://shop/till", name="Till", relations=[{"type": "uses", "target": "concept://shop/coins"}])
    desk.put("concept://shop/coins", name="Coins", summary="All of them", content="Counted at night.\n")
    page.set_viewport_size({"width": width, "height": 800})
    at(page, "node?uri=concept://shop/coins")
    into = page.locator("section[aria-labelledby=into]")
    expect(into.locator("dt")).to_have_text("is used by")
    expect(into.get_by_role("link", name="Till")).to_be_visible()
    expect(into).not_to_contain_text("://")
    content, relations, history = (
        page.locator(one).bounding_box() for one in ("main .content", "main aside", "section[aria-labelledby=changes]")
    )
    assert content
    assert relations
    assert history
    if width == 1280:
        assert relations["x"] > content["x"] + content["width"]
        assert history["x"] == content["x"]
    else:
        assert content["y"] + content["height"] < relations["y"] < history["y"]
    assert axe(page) == []


def test_blame_on_a_phone_opens_the_author_of_lines_by_a_small_mark(desk: Desk, page: Page) -> None:
    uri = "concept://shop/blamed"
    desk.put(uri, name="Blamed", content="First of all.\n")
    desk.put(uri, content=f"First of all.\n{'A long line. ' * 9}\n", expect_version=1)
    page.set_viewport_size({"width": 390, "height": 844})
    at(page, f"node/lines?uri={uri}")
    expect(page.get_by_role("main")).to_contain_text("The stronger the edge, the newer the line.")
    text = page.locator("#L2 td").last.bounding_box()
    assert text
    assert text["width"] > 250
    assert text["x"] + text["width"] <= 370, "all of the text is in the window"
    expect(page.locator("#knows-2")).to_be_hidden()
    page.get_by_role("link", name="AP: Ann Person").last.click()
    expect(page.locator("#knows-2")).to_contain_text("Ann Person")
    expect(page.locator("#knows-1")).to_be_hidden()
    assert axe(page) == []


def test_content_that_begins_with_the_summary_does_not_repeat_it(desk: Desk, page: Page) -> None:
    uri = "insight://shop/oven"
    desk.put(
        uri, name="Oven", summary="The oven heats slowly", content="The oven heats\nslowly.\n\nStart it at four.\n"
    )
    at(page, f"node?uri={uri}")
    expect(page.locator("h1 + p")).to_have_text("The oven heats slowly")
    expect(page.locator("main .content")).to_have_text("Start it at four.")
    desk.put(uri, content="The oven heats slowly.\n", expect_version=1)
    page.reload()
    expect(page.locator("main .content")).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text("No content")


def test_a_fact_is_fixed_with_three_clicks_or_keys_from_the_hit(desk: Desk, page: Page) -> None:
    desk.put("insight://shop/closing", name="Closing time", summary="The bakery closes at six", content="Always.\n")
    until(lambda: desk.call("search", query="bakery closes")["hits"])
    at(page, "search?q=bakery+closes")
    page.get_by_role("link", name="Closing time").click()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Summary")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" thirty")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Closing time")
    expect(page.locator("h1 + p")).to_have_text("The bakery closes at six thirty")


def test_the_menu_works_by_keyboard_and_gives_the_node_as_a_file(desk: Desk, page: Page) -> None:
    uri, other = "concept://shop/bread", "concept://shop/oven"
    desk.put(uri, name="Bread", content="Baked at *night*.\n", relations=[{"type": "uses", "target": other}])
    at(page, f"node?uri={uri}")
    menu = page.get_by_label("More actions")
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Raw YAML")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Raw YAML")).to_be_hidden()
    expect(menu).to_be_focused()
    place = page.url.replace("/node?", "/node/raw?")
    stored = desk.git("ls-tree", "-r", "--name-only", HEAD, "nodes").split()
    (path,) = [one for one in stored if one.endswith("/bread.yaml")]
    assert page.request.get(place).text() == desk.git("show", f"{HEAD}:{path}")
    markdown = page.request.get(f"{place}&format=markdown")
    assert "Baked at *night*." in markdown.text()
    assert markdown.headers["content-disposition"] == 'attachment; filename="bread.md"'
    assert page.request.get(place.replace("bread", "no-bread")).status == 404


def test_mentions_are_folded_and_list_written_nodes(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/sourdough", name="Sourdough starter")
    desk.put("concept://shop/morning", name="Morning", content="Feed the Sourdough starter first.\n")
    until(
        lambda: desk.call("get", uris=["concept://shop/morning"], include=["mentions"])["nodes"][0]["mentions"]["out"]
    )
    at(page, "node?uri=concept://shop/sourdough")
    link = page.get_by_role("link", name="Morning")
    expect(link).not_to_be_visible()
    page.get_by_text("Mentions").click()
    expect(link).to_be_visible()


@pytest.mark.large
def test_a_node_with_ten_thousand_relations_and_a_quarter_of_a_megabyte_opens(desk: Desk, page: Page) -> None:
    hub, line = "concept://shop/hub", "Some *words* that stand in a long text.\n\n"
    relations = [{"type": "has", "target": f"concept://shop/spoke/{n}", "weight": 0.5} for n in range(2_000)]
    desk.put(hub, name="Hub", content=line * 1_500)
    desk.put("concept://shop/wide", name="Wide", relations=relations)
    for start in range(0, 10_000, 1_000):
        spokes = [
            {
                "op": "upsert",
                "uri": f"concept://shop/spoke/{n}",
                "name": f"Spoke {n}",
                "relations": [{"type": "of", "target": hub, "weight": 0.3}],
            }
            for n in range(start, start + 1_000)
        ]
        desk.call("put", changes=spokes)
    at(page, f"node?uri={hub}")
    expect(page.locator("#into .aside")).to_have_text("10,000")
    expect(page.locator("main .content p")).to_have_count(1_500)
    first = page.locator("section[aria-labelledby=into] dd a").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("section[aria-labelledby=into] dd a").first).not_to_have_text(first)
    assert page.locator("dd").count() < 200
    at(page, "node?uri=concept://shop/wide")
    expect(page.locator("section[aria-labelledby=out] dd a").first).to_contain_text("Spoke")


def test_a_narrow_window_shows_the_whole_node(desk: Desk, page: Page) -> None:
    desk.put(
        "concept://shop/shown",
        name="Checkout",
        summary="From the cart to the receipt",
        tags=["core", "money"],
        content="The **cart** is priced, then paid.\n\n1. See [[decision:net-prices]].\n2. A receipt.\n",
        data={"owner": "ann"},
        relations=[
            {"type": "about", "target": "file://shop/src/checkout.py", "weight": 0.1},
            {"type": "uses", "target": "concept://shop/payments-to-be", "weight": 0.4},
        ],
    )
    at(page, "node?uri=concept://shop/shown")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert axe(page) == []


def test_the_details_copy_the_address_and_the_menu_closes_with_escape(desk: Desk, page: Page) -> None:
    desk.put("concept://shop/copied", name="Copied")
    at(page, "node?uri=concept://shop/copied")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    press(page, "Copy the URI")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("window.copied") == "concept://shop/copied"
    expect(page.get_by_role("button", name="Copy the URI")).to_be_visible()
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error(); }; }")
    press(page, "Copy the URI")
    expect(page.get_by_role("button", name="Press Ctrl+C")).to_be_visible()
    assert page.evaluate("getSelection().toString()") == "concept://shop/copied"
    page.get_by_label("More actions").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Raw YAML")).to_be_hidden()
    expect(page.get_by_label("More actions")).to_be_focused()


def test_the_page_of_a_missing_node_finds_its_relations_among_many_broken_links(desk: Desk, page: Page) -> None:
    missing = [f"concept://shop/absent/{number:03}" for number in range(201)] + ["concept://shop/zz/last"]
    source = "concept://shop/many-links"
    relations = [{"type": "needs", "target": target} for target in missing]
    desk.put(source, name="A fact with many links", relations=relations)
    (found,) = desk.call("broken", uri=missing[-1])["broken"]
    assert [one["source"] for one in found["links"]] == [source]
    assert found["uri"] == missing[-1]
    at(page, f"node?uri={missing[-1]}")
    expect(page.get_by_role("link", name="A fact with many links")).to_be_visible()
    desk.call("put", changes=[{"op": "delete", "uri": source}])
