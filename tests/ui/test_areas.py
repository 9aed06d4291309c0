"""The areas of the code: coverage, new areas, and changelogs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Desk, Watched, at, axe
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]
TASK = "https://tracker.example/1"


def area(desk: Desk, name: str, *paths: str, knowledge: str = "") -> str:
    made = desk.call(
        "manage_graph",
        operation="create",
        entityType="atom",
        name=name,
        paths=list(paths),
        createdByTaskId=TASK,
        knowledge=knowledge,
    )
    return str(made["data"]["atom"]["id"])


def test_a_user_creates_an_area_for_an_uncovered_folder(desk: Desk, page: Page, watched: Watched) -> None:
    at(page, "areas")
    expect(page.locator("main")).to_contain_text("6 have none")
    page.get_by_role("link", name="docs/", exact=True).click()
    page.get_by_role("link", name="New area for this folder").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("File patterns, one per line")).to_have_value("docs/**")
    page.get_by_label("Knowledge").fill("Written for *newcomers*.")
    page.get_by_label("Task").fill("no address")
    page.get_by_role("button", name="Create area").click()
    expect(page.get_by_role("alert")).to_be_visible()
    watched.troubles.clear()  # the browser notes each answer of 422
    expect(page.get_by_label("Knowledge")).to_have_value("Written for *newcomers*.")
    assert axe(page) == []
    page.get_by_label("Task").fill(TASK)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Area created")
    expect(page.locator("h1")).to_have_text("Docs")
    expect(page.locator(".files")).to_contain_text("docs/My File.md")
    assert "create atom Docs" in desk.git("log", "-1", "--format=%s", "refs/kgd/head")
    at(page, "areas")
    expect(page.locator("main")).to_contain_text("5 have none")


def test_the_page_opens_folders_and_lists_overlaps(desk: Desk, page: Page) -> None:
    area(desk, "Auth", "src/auth/**", knowledge="Signs tokens")
    area(desk, "Python", "**/*.py")
    at(page, "areas/folders")
    expect(page.locator("main")).to_contain_text("Auth Python have 2 files in common")
    assert axe(page) == []
    expect(page.get_by_role("link", name="Uncovered first", exact=True)).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("row", name="src/").get_by_role("link", name="Python")).to_have_class("badge")
    expect(page.locator(".tree tbody tr").first).to_contain_text("no area")
    expect(page.locator(".tree td:empty")).to_have_count(0)
    page.get_by_role("link", name="Covered first", exact=True).click()
    page.get_by_role("link", name="src/", exact=True).click()
    page.get_by_role("link", name="auth/", exact=True).click()
    expect(page.get_by_role("row", name="session.py")).to_contain_text("Auth Python")
    page.get_by_role("link", name="src", exact=True).click()
    expect(page.get_by_role("row", name="checkout.py")).to_contain_text("Python")


def test_folders_open_in_their_table_and_stay_open_at_the_address(desk: Desk, page: Page) -> None:
    at(page, "areas/folders?order=name")
    rows = page.locator(".tree tbody tr")
    closed = rows.count()
    page.get_by_role("link", name="Contents of src/", exact=True).press("Enter")
    page.get_by_role("link", name="Contents of src/auth/", exact=True).click()
    row = page.get_by_role("row", name="session.py")
    expect(row).to_be_visible()
    page.reload()
    expect(row).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="Covered first", exact=True).click()
    expect(row).to_be_visible()
    page.get_by_role("link", name="Contents of src/", exact=True).click()
    expect(rows).to_have_count(closed)


def test_a_new_uncovered_file_appears_without_a_reload(desk: Desk, page: Page) -> None:
    at(page, "areas/folders")
    (desk.code / "bare.txt").write_text("without an area\n")
    expect(page.get_by_role("row", name="bare.txt")).to_contain_text("no area")


def test_a_changelog_entry_is_added_by_keyboard(desk: Desk, page: Page) -> None:
    uri = area(desk, "Keys", "src/auth/keys.py")
    at(page, f"area?uri={uri}")
    expect(page.locator("main")).to_contain_text("No entries yet.")
    page.locator("summary", has_text="Add an entry").focus()
    page.keyboard.press("Enter")
    assert axe(page) == []
    page.get_by_label("Change and reason").focus()
    page.keyboard.type("Keys rotate daily: an audit asked for it")
    page.keyboard.press("Tab")
    page.keyboard.type(TASK)
    page.keyboard.press("Enter")
    expect(page.locator(".entry")).to_have_text("Keys rotate daily: an audit asked for it")
    found = desk.call("manage_changelog", operation="search", parentType="atom", parentId=uri)["data"]
    assert found["total"] == 1
    assert "log atom Keys" in desk.git("log", "-1", "--format=%s", "refs/kgd/head")


def test_an_area_shows_its_rules_its_facts_their_authors_and_its_files(desk: Desk, page: Page) -> None:
    uri = area(desk, "Money", "src/*.py", "docs/**", knowledge="Amounts are *cents*.")
    desk.put("gotcha://shop/cents", summary="Never divide a price", data={"cites": ["src/checkout.py"]})
    desk.put("insight://shop/money", summary="Prices are net", relations=[{"type": "about", "target": uri}])
    until(lambda: desk.call("area_facts", area=uri)["total"] == 2)
    (desk.code / "src/checkout.py").write_text("from src.auth import session  # by hand\n")
    until(lambda: desk.call("area_facts", area=uri)["stale"] == 1)
    at(page, f"area?uri={uri}")
    expect(page.locator(".title")).to_contain_text("2 facts 1 stale")
    expect(page.locator(".content em")).to_have_text("cents")
    facts = page.get_by_role("list", name="Facts").get_by_role("listitem")
    expect(facts.nth(0)).to_contain_text("Never divide a price")
    expect(facts.nth(0)).to_contain_text("src/checkout.py changed, not committed yet")
    expect(facts.nth(0).get_by_role("link", name="See the change")).to_be_visible()
    expect(facts.nth(1)).to_contain_text("Prices are net")
    expect(page.locator("aside")).to_contain_text("Ann Person 2 facts")
    expect(page.locator(".files li", has_text="src/checkout.py")).to_contain_text("1 fact")
    assert axe(page) == []
    facts.nth(0).get_by_role("link", name="src/checkout.py").click()
    expect(page.locator(".note", has_text="Never divide a price")).to_contain_text("stale")
    expect(page.locator(".note", has_text="Money").first).to_contain_text("owns this file")


def test_an_area_names_its_group_and_its_facts(desk: Desk, page: Page) -> None:
    create = {"operation": "create", "createdByTaskId": TASK}
    group = desk.call("manage_graph", entityType="molecule", name="Cash", **create)["data"]["molecule"]["id"]
    made = desk.call("manage_graph", entityType="atom", name="Coins", paths=["coins/**"], moleculeId=group, **create)
    uri = made["data"]["atom"]["id"]
    desk.put(
        "insight://shop/bags", name="Bags", summary="Fifty coins each", relations=[{"type": "about", "target": uri}]
    )
    until(lambda: desk.call("area_facts", area=uri)["total"] == 1)
    at(page, f"area?uri={uri}")
    expect(page.locator("aside").get_by_role("link", name="Cash")).to_be_visible()
    fact = page.get_by_role("list", name="Facts").get_by_role("listitem")
    expect(fact.get_by_role("heading")).to_have_text("Bags")
    expect(fact.locator("p")).to_have_text(["Fifty coins each", re.compile("insight · Ann Person, just now")])


def test_the_list_shows_rules_files_facts_marks_and_who_knows_each_area(desk: Desk, page: Page) -> None:
    create = {"operation": "create", "createdByTaskId": TASK}
    group = desk.call("manage_graph", entityType="molecule", name="Vault", **create)["data"]["molecule"]["id"]
    rules = "# Safes\n\nEvery *safe* has `two` keys.\nLock both.\n\nMore.\n"
    paths = ["src/auth/session.py"]
    desk.call("manage_graph", entityType="atom", name="Safes", paths=paths, knowledge=rules, moleculeId=group, **create)
    desk.put("gotcha://shop/lock", summary="Locks jam", data={"cites": paths})
    until(lambda: desk.call("area_facts", area="atom://shop/Safes")["total"] == 1)
    (desk.code / paths[0]).write_text("def sign(token):\n    return 2\n")
    until(lambda: desk.call("area_facts", area="atom://shop/Safes")["stale"] == 1)
    at(page, "areas")
    row = page.get_by_role("row", name="Safes")
    expect(row.get_by_role("rowheader")).to_contain_text("Every safe has two keys. Lock both.")
    expect(row.get_by_role("cell")).to_have_text(["Vault", "1", "1", " 1 stale", re.compile("Ann Person just now")])
    row.get_by_role("link", name="1 stale").click()
    expect(page.get_by_role("list", name="Facts")).to_contain_text("Locks jam")
    at(page, "areas")
    page.get_by_role("link", name="Groups", exact=True).click()
    row = page.get_by_role("row", name="Vault")
    expect(row).to_contain_text("No rules yet")
    expect(row.get_by_role("cell").first).to_have_text("Safes")
    assert axe(page) == []


def test_a_long_list_of_areas_has_pages_and_names_a_few_gaps(desk: Desk, page: Page) -> None:
    for number in range(55):
        area(desk, f"Zone {number:02}", f"zones/{number}/**")
    at(page, "areas")
    rows = page.locator(".areas tbody tr")
    expect(rows).to_have_count(50)
    expect(page.locator(".areas thead")).to_contain_text(re.compile(r"\d+ areas, 1 to 50"))
    page.get_by_role("link", name="Next page").click()
    expect(rows.last).to_contain_text("Zone 54")
    for number in range(9):
        (desk.code / f"bare{number}").mkdir()
        (desk.code / f"bare{number}/a.txt").write_text("a\n")
    page.get_by_role("link", name="First page").click()
    gaps = page.get_by_role("region", name="Coverage").get_by_role("listitem")
    expect(gaps.last).to_contain_text("more files")
    gaps.last.get_by_role("link").click()
    expect(page.get_by_role("row", name="bare8/")).to_contain_text("no area")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("areas/all?kind=molecule&words=a", "areas?kind=molecule&words=a"),
        ("areas?path=src&order=name", "areas/folders?path=src&order=name"),
    ],
)
def test_older_addresses_lead_to_the_same_lists(desk: Desk, page: Page, old: str, new: str) -> None:
    assert at(page, old).url.endswith(f"/w/shop/{new}")


def test_the_filter_finds_areas_by_their_words(desk: Desk, page: Page, watched: Watched) -> None:
    area(desk, "Checkout", "src/checkout.py", knowledge="Baskets expire after a day")
    at(page, "areas")
    page.get_by_label("Filter by name or text").fill("baskets")
    page.keyboard.press("Enter")
    expect(page.locator(".areas tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Checkout").click()
    expect(page.locator("h1")).to_have_text("Checkout")
    at(page, "areas")
    assert axe(page) == []
    at(page, "area?uri=concept://shop/none")
    expect(page.get_by_role("alert")).to_contain_text("not an area")
    watched.troubles.clear()  # the browser notes each answer of 404
