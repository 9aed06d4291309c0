"""The page of a file: knowledge first, then its code, with links between both."""

from __future__ import annotations

import re
import subprocess

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.conftest import Desk, at, axe
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

ORDERS = "src/orders.py"
TEXT = '''"""Orders of the shop."""

from src.auth import session


def price(basket):
    """Return the sum in cents."""
    return sum(item.cents for item in basket)


class Order:
    """An order that a customer can still change."""

    def cancel(self, reason):
        session.sign(reason)
        self.reason = reason  # <script>alert(1)</script>
'''


@pytest.fixture(scope="module")
def shop(desk: Desk) -> Desk:
    """A file with an area and five facts, committed by Bob; a file of 5,000 lines; a binary file."""
    (desk.code / ORDERS).write_text(TEXT)
    (desk.code / "src/long.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 5_001)))
    for words in (["add", "-A"], ["commit", "-qm", "Sell by the cent\n\nFloats lost money."]):
        who = ["-c", "user.name=Bob Other", "-c", "user.email=bob@example.org"]
        subprocess.run(["git", *who, *words], cwd=desk.code, check=True)
    desk.call(
        "manage_graph",
        operation="create",
        entityType="atom",
        name="Sales",
        paths=["src/*.py"],
        knowledge="- Amounts are **cents**.",
        createdByTaskId="https://tracker.example/1",
    )
    cites = {"cites": [f"{ORDERS}#price"]}
    desk.put("gotcha://shop/cents", name="Cents", summary="Never divide a price", data=cites, content="Rounding.\n")
    desk.put("decision://shop/cancel", summary="Orders keep their reason", data={"cites": [f"{ORDERS}#Order.cancel"]})
    desk.put("insight://shop/sum", summary="A basket has items", data=cites)
    desk.put("insight://shop/old", summary="Written in a week", data={"cites": [ORDERS]})
    desk.put("insight://shop/long", summary="Counted by hand", data={"cites": ["src/long.py"]})
    until(lambda: len(desk.call("code_file", uri=f"file://shop/{ORDERS}")["notes"]) == 4)
    until(lambda: desk.call("code_file", uri=f"file://shop/{ORDERS}")["symbols"])
    return desk


def test_the_page_of_a_file_shows_its_knowledge_before_its_code(shop: Desk, page: Page) -> None:
    at(page, f"node?uri=file://shop/{ORDERS}")
    expect(page.locator("h1")).to_have_text("orders.py")
    cards = page.locator(".note")
    expect(cards.nth(0)).to_contain_text("Never divide a price")
    expect(cards.nth(0)).to_contain_text("Ann Person")
    area = page.locator(".note", has_text="Sales")
    expect(area.locator("strong")).to_have_text("cents")
    expect(page.get_by_role("heading", name="Code")).to_be_visible()
    expect(page.locator("#L6 .k").first).to_have_text("def ")
    expect(page.locator(".listing script")).to_have_count(0)
    expect(page.locator("#L16")).to_contain_text("<script>alert(1)</script>")
    assert axe(page) == []
    expect(page.locator("#L1")).to_be_in_viewport()  # beside the knowledge


def test_a_fact_names_who_wrote_and_who_verified_it_and_when(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    fact = page.locator(".note", has_text="A basket has items")
    expect(fact.locator(".aside")).to_contain_text(re.compile(r"written by Ann Person, (just now|.* ago)"))
    expect(fact.get_by_role("link", name="Ann Person")).to_have_attribute("href", re.compile("/author[?]name=Ann"))
    shop.put("insight://shop/no-keys", summary="There are no keys", data={"cites": ["src/auth/keys.py"]})
    (shop.code / "src/auth/keys.py").write_text("KEYS = {1: 2}\n")
    until(lambda: shop.call("stale")["total"] == 1)
    shop.call("stale", verify=["insight://shop/no-keys"], limit=1)
    for place in ("file?path=src/auth/keys.py", "node?uri=insight://shop/no-keys"):
        at(page, place)
        stamps = re.compile(r"written by Ann Person[\s\S]*, verified by Ann Person")
        expect(page.locator("main")).to_contain_text(stamps)


def test_the_margin_has_initials_of_authors_and_a_line_is_asked_about_by_one_tap(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    margin = page.locator("#L6 .about")
    expect(margin.locator(".stamp")).to_have_text("AP")
    expect(margin.locator(".stamp")).to_have_attribute("title", re.compile("Ann Person, .*(now|ago)"))
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("link", name="Go to code")).to_be_in_viewport()
    page.locator("#L8").get_by_role("button", name="Why?").click()
    expect(page.locator(".why")).to_contain_text("Sell by the cent")
    assert axe(page) == []


def test_the_header_of_a_file_is_one_row_and_a_second_one_on_a_phone(shop: Desk, page: Page) -> None:
    at(page, "file?path=src/auth/session.py")
    head = page.locator(".file-head")
    expect(head.get_by_role("navigation", name="Breadcrumbs").get_by_role("link")).to_have_text(["Code", "src", "auth"])
    expect(head).to_contain_text("lines")
    for name in ("Write a fact", "Graph", "Relations"):
        expect(head.get_by_role("link", name=name)).to_be_visible()
    for width, most in ((1280, 50), (390, 90)):
        page.set_viewport_size({"width": width, "height": 800})
        box = head.bounding_box()
        assert box
        assert box["height"] < most


def test_the_knowledge_stays_beside_the_code_that_is_scrolled(shop: Desk, page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 700})
    at(page, "file?path=src/long.py#L150")
    expect(page.get_by_role("heading", name="What the team knows")).to_be_in_viewport()
    at(page, f"file?path={ORDERS}")
    margin, number = page.locator("#L1 .about").bounding_box(), page.locator("#L1 th").bounding_box()
    assert margin
    assert number
    assert margin["width"] + number["width"] < 135, "most of the width is for the code"


def test_facts_that_cite_the_same_lines_have_their_numbers_on_the_first_of_them(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    expect(page.locator("#L6 .about").get_by_role("link", name="Note")).to_have_count(2)
    expect(page.locator("#L6 .stamp")).to_have_count(1)
    expect(page.locator("#L7, #L8").get_by_role("link", name="Note")).to_have_count(0)


def test_facts_are_numbered_and_listed_in_the_order_of_their_lines(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    expect(page.locator(".note .number")).to_have_text(["1", "2", "3"])
    expect(page.locator(".listing .number:visible")).to_have_text(["1", "2", "3"])
    expect(page.locator("#note-3")).to_contain_text("Orders keep their reason")
    expect(page.locator("#L14 .number:visible")).to_have_text("3")
    last = page.locator(".note").nth(2)
    expect(last).to_have_id("note-3")


def test_on_a_phone_a_small_mark_opens_the_facts_below_their_line_without_scripts(
    shop: Desk, chromium: Browser
) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(shop.link())
    page.get_by_role("button", name="Open kgd").click()
    page.wait_for_url("**/overview")
    at(page, f"file?path={ORDERS}")
    facts, code = page.locator("#knows-6"), page.locator("#L6 td").last
    expect(facts).to_be_hidden()
    margin, text = page.locator("#L6 .about").bounding_box(), code.bounding_box()
    assert margin
    assert text
    assert margin["width"] < 48
    assert text["x"] < 100, "the code begins beside its line number"
    code_of = page.locator("#L16 td").last
    expect(code_of).to_have_css("white-space", "pre")
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "code scrolls in its box, not the page"
    page.get_by_role("link", name="Notes 1 2").click()
    expect(facts).to_contain_text("Never divide a price")
    expect(facts).to_contain_text("A basket has items")
    below, line = facts.bounding_box(), page.locator("#L6").bounding_box()
    assert below
    assert line
    assert abs(below["y"] - line["y"] - line["height"]) < 2
    facts.get_by_role("link", name="Close").click()
    expect(facts).to_be_hidden()
    context.close()


def test_a_line_offers_why_while_it_is_pointed_at_or_focused(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    why = page.locator("#L8").get_by_role("button", name="Why?")
    expect(why).to_have_css("opacity", "0")
    page.locator("#L8").hover()
    expect(why).to_have_css("opacity", "1")
    page.locator("h1").hover()
    expect(why).to_have_css("opacity", "0")
    why.focus()
    expect(why).to_have_css("opacity", "1")


def test_the_button_of_a_line_covers_no_number_of_a_fact(shop: Desk, page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 900})
    at(page, f"file?path={ORDERS}")
    for line in page.locator("tr:has(.about .number)").all():
        why = line.get_by_role("button", name="Why?")
        why.focus()
        button, number = why.bounding_box(), line.locator(".number").last.bounding_box()
        assert button
        assert number
        assert number["x"] + number["width"] <= button["x"]


def test_cited_lines_and_their_facts_lead_to_each_other(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    card = page.locator(".note", has_text="Never divide a price")
    number = card.locator(".number").inner_text()
    card.get_by_role("link", name="price", exact=True).click()
    expect(page).to_have_url(page.url.partition("#")[0] + "#L6")
    expect(page.locator("tr.cited")).to_have_count(6)
    page.locator("#L6").get_by_role("link", name=f"Note {number}").click()
    assert page.url.endswith(f"#note-{number}")
    page.locator("#L7").get_by_role("link", name="7", exact=True).click()
    assert page.url.endswith("#L7")
    assert axe(page) == []


def test_a_line_tells_why_by_keyboard(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    page.locator("#L8 th a").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#L8 button")).to_be_focused()
    page.keyboard.press("Enter")
    why = page.locator(".why")
    expect(why).to_contain_text("Sell by the cent")
    expect(why).to_contain_text("Floats lost money.")
    expect(why).to_contain_text("Bob Other")
    expect(why.get_by_role("link", name="Cents")).to_be_visible()
    expect(why).to_be_in_viewport()
    assert axe(page) == []
    assert "orders.py%23price" in str(why.get_by_role("link", name="Write a fact").get_attribute("href"))
    why.get_by_role("link", name="Close").click()
    expect(page.locator(".why")).to_have_count(0)


def test_a_fact_about_the_file_is_written_in_a_filled_form(shop: Desk, page: Page) -> None:
    at(page, "file?path=src/checkout.py")
    page.get_by_role("link", name="Write a fact").click()
    page.get_by_label("Summary").fill("Checkout signs twice")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_be_visible()
    at(page, "file?path=src/checkout.py")
    expect(page.locator(".note", has_text="Checkout signs twice")).to_contain_text("this file")
    (fact,) = [one for one in shop.call("code_file", uri="./src/checkout.py")["notes"] if one["type"] == "insight"]
    assert shop.node(fact["uri"])["data"]["cites"] == ["src/checkout.py"]


def test_the_outline_and_imports_are_folded_and_have_full_paths(shop: Desk, page: Page) -> None:
    at(page, f"file?path={ORDERS}")
    page.locator("summary", has_text="Outline").click()
    page.get_by_role("link", name="Order.cancel").last.click()
    assert page.url.endswith("#L14")
    page.locator("summary", has_text="Imports").click()
    page.get_by_role("link", name="src/auth/session.py").click()
    expect(page.locator("h1")).to_have_text("session.py")
    page.locator("summary", has_text="Imported by").click()
    expect(page.locator(".fold").get_by_role("link", name=ORDERS)).to_be_visible()
    at(page, f"node?uri=symbol://shop/{ORDERS}/Order.cancel")
    assert page.url.endswith("#L14")


def test_traps_of_a_folder_above_and_open_tasks_are_in_the_first_list(shop: Desk, page: Page) -> None:
    shop.put(
        "gotcha://shop/lock", summary="Hold no lock", relations=[{"type": "about", "target": "dir://shop/src/auth"}]
    )
    sections = [{"title": "Context Files", "content": "- src/auth/session.py"}]
    shop.put("task://shop/renew", name="Renew earlier", data={"sections": sections})
    at(page, "file?path=src/auth/session.py")
    known = page.get_by_role("region", name="What the team knows")
    expect(known.locator(".note", has_text="Hold no lock")).to_contain_text("about src/auth/")
    expect(known.locator(".note", has_text="Renew earlier")).to_be_visible()
    expect(known.get_by_role("heading", level=2)).to_contain_text(re.compile(r"\d+ facts about this file"))


def test_a_long_file_is_shown_in_parts(shop: Desk, page: Page) -> None:
    at(page, "file?path=src/long.py&line=4990#L4990")
    expect(page.locator("#L4990")).to_be_in_viewport()
    expect(page.locator(".listing tr")).to_have_count(500)
    expect(page.locator("main")).to_contain_text("Lines 4501 to 5000 of 5,000")
    page.get_by_role("link", name="Previous lines").click()
    expect(page.locator("#L4001")).to_contain_text("x4001 = 4001")
    at(page, "file?path=src/long.py&line=6000")
    expect(page.locator("main")).to_contain_text("The file ends before this line.")


def test_the_path_of_a_folder_shows_the_folder(shop: Desk, page: Page) -> None:
    at(page, "file?path=src/auth")
    page.wait_for_url("**/areas/folders?path=dir*")
    expect(page.get_by_role("navigation", name="Folders")).to_contain_text("auth")
    at(page, "file?path=src/nosuch")
    expect(page.locator("main")).to_contain_text("There is no such file in the code.")


@pytest.mark.parametrize(
    ("place", "status", "words"),
    [
        ("file?path=nope.py", 404, "There is no such file in the code."),
        ("file?path=../../etc/passwd", 404, "This is not a file of the code tree"),
        ("file?path=a//b.py", 404, "This is not a file of the code tree"),
        (f"file?path={ORDERS}", 200, "Never divide a price"),
        ("node?uri=nope", 404, "This fact does not exist"),
        ("node/delete?uri=concept://shop/nope", 404, "This fact does not exist"),
        ("proposal?id=nope", 404, "This proposal is not open"),
    ],
)
def test_a_page_about_a_missing_thing_answers_404(shop: Desk, page: Page, place: str, status: int, words: str) -> None:
    answer = page.goto(page.url.rpartition("/ui/")[0] + f"/ui/w/shop/{place}")
    assert answer is not None
    assert answer.status == status
    expect(page.locator("main")).to_contain_text(words)


def test_a_file_without_text_says_why(shop: Desk, page: Page) -> None:
    at(page, "file?path=logo.bin")
    expect(page.locator("main")).to_contain_text("A binary file of 3 Bytes")
    at(page, "file?path=never.py")
    expect(page.locator("main")).to_contain_text("There is no such file in the code.")
    shop.put("insight://shop/gone", summary="Was slow", data={"cites": ["src/gone.py"]})
    (shop.code / "src/gone.py").write_text("x = 1\n")
    subprocess.run(["git", "add", "src/gone.py"], cwd=shop.code, check=True)
    who = ["-c", "user.name=Bob", "-c", "user.email=bob@example.org"]
    subprocess.run(["git", *who, "commit", "-qm", "Try"], cwd=shop.code, check=True)
    (shop.code / "src/gone.py").unlink()
    at(page, "file?path=src/gone.py")
    expect(page.locator("main")).to_contain_text("This file was deleted, but not committed yet.")
    expect(page.locator("#L1")).to_contain_text("x = 1")
    expect(page.locator(".note")).to_contain_text(["Was slow"])


def test_what_is_around_a_file_opens_below_a_row_of_headings(shop: Desk, page: Page) -> None:
    at(page, "file?path=src/auth/session.py")
    headings = page.locator(".folds summary")
    assert headings.count() > 1
    before = [one.bounding_box() for one in headings.all()]
    headings.first.click()
    assert [one.bounding_box() for one in headings.all()] == before
    assert len({one["y"] for one in before if one}) == 1
    assert axe(page) == []
