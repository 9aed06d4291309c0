"""The page *Search*: knowledge before code, filters in the address, marked words, and an invitation to write."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from kgd.index.snippets import spans
from kgd.ui.rendering import marked
from tests.ui.conftest import Desk, at, axe
from tests.waiting import at_rest, until

browser = pytest.mark.needs("chromium")


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        ("Tokens expire.", "token", ["Tokens"]),
        ("An expired session", "expires sessions", ["expired", "session"]),
        ("sess and sessions", "sess", ["sess", "sessions"]),  # the last word may be unfinished
        ("Nothing here", "tokens", []),
        ("the key of the house", "the house", ["house"]),
    ],
)
def test_the_words_of_a_question_are_found_in_a_text(text: str, question: str, words: list[str]) -> None:
    assert [text[begin:end] for begin, end in spans(text, question)] == words


def test_marked_words_are_escaped() -> None:
    assert marked("<b>tokens</b>", "tokens") == "&lt;b&gt;<mark>tokens</mark>&lt;/b&gt;"


@pytest.mark.slow
@browser
class TestInABrowser:
    def test_knowledge_comes_first_and_code_has_a_tab(self, desk: Desk, page: Page) -> None:
        desk.put("concept://shop/vans/parcels", name="Parcels", summary="Sent on the same day")
        desk.put("concept://shop/vans", name="Vans", content="They bring the parcels before nine.")
        desk.put("decision://shop/session", name="session.py", summary="One file for sessions")
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
        at(page, "search?q=parcels")
        hit = page.locator(".hit", has_text="Sent on the same day")
        expect(hit).to_contain_text("concept · vans/parcels · Ann Person, just now")
        expect(hit.locator("mark")).to_have_text("Parcels")
        vans = page.locator(".hit", has_text="They bring")
        expect(vans).to_contain_text("bring the parcels before nine")
        expect(page.locator("main")).not_to_contain_text("lex")  # no scores
        at(page, "search?q=session.py")
        file = page.get_by_role("main").get_by_role("link", name="src/auth/session.py").first
        expect(file).to_be_visible()  # above the results, since the question is its name
        tabs = page.get_by_role("list", name="Results")
        expect(tabs.locator("[aria-current]")).to_have_text("Knowledge 1")
        expect(page.locator(".hit")).to_have_count(1)
        tabs.get_by_role("link", name="Code and documents").click()
        expect(tabs.locator("[aria-current]")).to_have_text(re.compile(r"^Code and documents \d+$"))
        expect(page.locator(".hit").first).to_contain_text("src/auth")
        expect(page.locator(".hit", has_text="One file for sessions")).to_have_count(0)
        assert axe(page) == []
        file.click()
        page.wait_for_url("**/file?uri=file*session.py")

    def test_without_knowledge_the_code_is_open(self, desk: Desk, page: Page) -> None:
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
        at(page, "search?q=sign(token)")
        expect(page.locator("details.in-code")).to_have_attribute("open", "")
        expect(page.get_by_role("heading", name="No results in knowledge")).to_be_visible()

    def test_a_search_without_results_invites_to_write_the_answer(self, page: Page) -> None:
        at(page, "search?q=zzyzxq")
        expect(page.get_by_role("heading", name="No results", exact=True)).to_be_visible()
        expect(page.locator(".hit")).to_have_count(0)
        page.get_by_role("link", name="Write it here").click()
        page.wait_for_url("**/node/new?summary=zzyzxq")

    def test_a_live_update_does_not_count_the_question_again(self, desk: Desk, page: Page) -> None:
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
        at(page, "search?q=quxzyz")
        with page.expect_response(lambda answer: "q=quxzyz" in answer.url):
            desk.put("concept://shop/without-text")
        counts = {one["text"]: one["count"] for one in desk.call("questions")["questions"]}
        assert counts["quxzyz"] == 1

    def test_a_search_for_a_path_shows_the_notes_about_it_and_a_wrong_path_is_named(
        self, desk: Desk, page: Page
    ) -> None:
        desk.put("insight://shop/chrome", summary="Chrome shines", relations=[{"type": "about", "target": "src/auth"}])
        at(page, "search?q=src/auth")
        expect(page.locator(".hit").first).to_contain_text("Chrome shines")
        at(page, "search?q=src/auth/sesion.py")
        expect(page.locator("main")).to_contain_text(
            "The code tree has no src/auth/sesion.py; similar: src/auth/session.py."
        )
        desk.call("put", changes=[{"op": "delete", "uri": "insight://shop/chrome"}])

    def test_chips_set_and_remove_filters(self, desk: Desk, page: Page) -> None:
        desk.put("decision://shop/brass-plan", summary="Brass for all signs", tags=["metal"])
        desk.put("gotcha://shop/brass-trap", summary="Brass turns green")
        at(page, "search?q=brass")
        expect(page.locator(".hit")).to_have_count(2)
        page.locator(".facets").get_by_role("link", name="decision").click()
        expect(page.locator(".hit")).to_have_count(1)
        page.get_by_role("link", name="Type: decision (remove)").click()
        expect(page.locator(".hit")).to_have_count(2)
        page.locator("summary", has_text="More filters").click()
        page.get_by_role("textbox", name="Tag").fill("metal")
        page.get_by_role("button", name="Show").click()
        expect(page.locator(".hit")).to_contain_text("Brass for all signs")
        expect(page.get_by_role("link", name="Tag: metal (remove)")).to_be_visible()
        at(page, "search?q=brass&type=decision&author=Ann")
        expect(page.locator(".hit")).to_have_count(1)
        page.get_by_role("group", name="Filters").get_by_role("link", name="Remove all").click()
        expect(page.locator(".hit")).to_have_count(2)
        expect(page.get_by_role("group", name="Filters")).to_have_count(0)
        assert axe(page) == []

    def test_tags_areas_and_periods_of_the_hits_are_offered_as_chips(self, desk: Desk, page: Page) -> None:
        area = "atom://shop/lamps"
        desk.put(area, name="Lamps", content="Bulbs last a year.", data={"paths": ["src/**"]})
        desk.put("insight://shop/zinc", summary="Zinc dulls", tags=["coating"])
        desk.put("insight://shop/zinc-lamp", summary="Zinc holds", relations=[{"type": "about", "target": area}])
        desk.put("insight://shop/zinc-keys", summary="Zinc keys", data={"cites": "src/auth/keys.py:1"})
        at(page, "search?q=zinc")
        page.get_by_role("group", name="Tag").get_by_role("link", name="coating").click()
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator(".hit")).to_contain_text("Zinc dulls")
        at(page, "search?q=zinc")
        chip = page.get_by_role("group", name="Area").get_by_role("link", name="Lamps")
        expect(chip).to_have_text("Lamps 2")  # one is in the area by its cited file
        chip.click()
        expect(page.locator(".hit")).to_have_count(2)
        expect(page.locator(".results")).not_to_contain_text("Zinc dulls")
        expect(page.get_by_role("link", name="Area: Lamps (remove)")).to_be_visible()

    def test_page_and_palette_show_the_node_that_the_words_name_first(self, desk: Desk, page: Page) -> None:
        for number in range(3):
            desk.put(
                f"concept://shop/dock-{number}", name=f"Gates {number}", summary="A dock gate, dock gate, dock gate"
            )
        desk.put("concept://shop/opening", name="Dock gate of the yard")
        desk.put("concept://shop/named", name="Dock gate", summary="Closed at night")
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))
        hits = at(page, "search?q=dock+gate").locator(".hit h2")
        expect(hits).to_have_count(5)
        expect(hits.first).to_have_text("Dock gate")
        expect(page.locator(".hit").first).to_contain_text("concept · Ann Person")  # its name does not look like a path
        page.keyboard.press("Control+k")
        page.keyboard.type("dock gate")
        rows = page.get_by_role("dialog").get_by_role("group", name="Knowledge").get_by_role("option")
        expect(rows.first).to_contain_text("Closed at night")
        expect(rows.nth(1)).to_contain_text("Dock gate of the yard")

    def test_a_phone_folds_the_filters_and_counts_the_active_ones(self, desk: Desk, page: Page) -> None:
        for number, kind in enumerate(("insight", "decision", "gotcha", "pattern")):
            desk.put(f"{kind}://shop/nickel-{number}", summary="Nickel shines", tags=[f"metal-{number}"])
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))  # else similar facts are hits too
        page.set_viewport_size({"width": 390, "height": 844})
        at(page, "search?q=nickel")
        chips = page.locator(".facets .chip:visible")
        expect(chips).to_have_text(["Filters"])
        chips.click()
        expect(chips).to_have_count(9)  # the fold, four types and four tags
        assert axe(page) == []
        boxes = [box for chip in chips.all() if (box := chip.bounding_box())]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        page.get_by_role("link", name="metal-2").click()
        expect(chips).to_have_text(["Filters (1)"])

    def test_a_hit_leads_to_further_hits_of_its_author(self, desk: Desk, page: Page) -> None:
        desk.put("insight://shop/copper", summary="Copper bends")
        until(lambda: at_rest(desk.call("status")), say=lambda: desk.call("status"))  # else similar facts are hits too
        at(page, "search?q=copper")
        expect(page.locator(".hit h2")).to_have_text("Copper bends")
        expect(page.locator(".hit h2 + p")).to_contain_text("insight · Ann Person")
        page.locator(".hit").get_by_role("link", name="Ann Person").click()
        expect(page.get_by_role("link", name="Author: Ann Person (remove)")).to_be_visible()
        expect(page.locator(".hit")).to_have_count(1)
        at(page, "search?q=copper&author=bob")
        expect(page.locator(".hit")).to_have_count(0)

    def test_a_filter_that_cannot_be_read_is_reported_on_the_page(self, page: Page) -> None:
        at(page, "search?" + urlencode({"q": "brass", "since": "someday"}))
        expect(page.get_by_role("alert")).to_contain_text("This is not a date")
        expect(page.get_by_label("From")).to_have_value("someday")
        page.get_by_label("From").fill("last year")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("alert")).to_have_count(0)

    @pytest.mark.requirement("N4")
    def test_search_and_history_are_filtered_by_period(self, desk: Desk, page: Page) -> None:
        valid = {"valid": {"until": "2024-05-31"}}
        desk.put("concept://shop/letterbox", name="Letterbox", summary="Sent", data=valid)
        at(page, "search?q=letterbox&since=yesterday")
        expect(page.locator(".hit")).to_contain_text("expired on 2024-05-31")
        at(page, "search?q=letterbox&since=last+year&until=2+days+ago")
        expect(page.get_by_role("heading", name="No results", exact=True)).to_be_visible()
        page.get_by_role("link", name="Search without filters").click()
        expect(page.locator(".hit").first).to_contain_text("expired on 2024-05-31")
        at(page, "node?uri=concept://shop/letterbox")
        expect(page.get_by_text("Expired on 2024-05-31.")).to_be_visible()
        at(page, "node/history?uri=concept://shop/letterbox&until=last+year")
        expect(page.locator("main")).to_contain_text("No commit changed this fact in this period")
