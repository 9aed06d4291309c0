"""The graph of a realistic workspace: its labels, its groups and its paths fill the window and never cross."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.conftest import at, axe
from tests.ui.pictures import NODE
from tests.ui.realistic import RETRY, Realistic, realistic_desk
from tests.ui.test_graph_labels import Area, crossing, shown

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow, pytest.mark.timeout(300)]

AREAS = 16
"""Twelve areas in three groups, and the nodes outside of areas."""
CIRCLES = """[...document.querySelectorAll("#drawing .group:not(.open) .bubble")]
  .map((bubble) => bubble.getBoundingClientRect())
  .map(({ left, top, right, bottom }) => [left, top, right, bottom])"""
BOXES = CIRCLES.replace(":not(.open)", ".open")
BEHIND = """[...document.querySelectorAll("#drawing .lines path")].flatMap((path) => {
  const ends = path.dataset.ends.split(" ").map((number) => document.querySelectorAll("#drawing > .dot")[number]);
  const spots = Array.from({ length: 201 }, (_, n) => path.getPointAtLength(n / 200 * path.getTotalLength()));
  const others = [...document.querySelectorAll("#drawing .group:not(.open)")].filter((group) => !ends.includes(group));
  return others.filter((group) => {
    const { e, f } = group.transform.baseVal[0].matrix, size = Number(group.querySelector(".bubble").getAttribute("r"));
    return spots.some((spot) => Math.hypot(spot.x - e, spot.y - f) < size);
  }).map((group) => group.dataset.uri);
})"""
LAPTOP, PHONE = (1280, 800), (390, 844)
SIDE = 272


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realistic]:
    yield from realistic_desk(tmp_path_factory.mktemp("realistic"))


CROSSED = """[...document.querySelectorAll("#drawing .lines path")].flatMap((path) => {
  const drawing = document.querySelector("#drawing"), { x, y } = drawing.viewBox.baseVal;
  const { left, top } = drawing.getBoundingClientRect();
  const spots = Array.from({ length: 60 }, (_, n) => path.getPointAtLength(path.getTotalLength() * n / 59));
  return [...document.querySelectorAll("#drawing .dot > .label:not([display])")].filter((label) => {
    const box = label.getBoundingClientRect();
    return spots.some((spot) => {
      const right = spot.x - x + left, down = spot.y - y + top;
      return right > box.left + 1 && right < box.right - 1 && down > box.top + 1 && down < box.bottom - 1;
    });
  }).map((label) => label.textContent);
})"""
"""The names that lines cross."""


def opened(page: Page, size: tuple[int, int], place: str) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    at(page, place)
    expect(page.locator("#drawing")).to_have_attribute("data-painted", "yes")


def areas(texts: Locator) -> list[Area]:
    """Without the light edges of the letters."""
    found = texts.evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
    return [(one["left"], one["top"], one["right"], one["bottom"]) for one in found]


def test_at_least_30_labels_are_visible_on_a_laptop_and_none_overlap(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments&cost=2&nodes=80")
    assert len(shown(page)) >= 30
    assert crossing(shown(page)) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_every_node_around_an_area_has_a_label(page: Page, size: tuple[int, int]) -> None:
    opened(page, size, "graph?from=atom://shop/payments")
    assert len(shown(page)) == page.locator("#drawing .dot").count() == 21
    assert crossing(shown(page)) == []
    expect(page.locator("#rest")).to_be_hidden()
    drawn = [*areas(page.locator("#drawing .dot .figure")), *shown(page)]
    picture = page.locator("#drawing").bounding_box()
    assert picture
    for first, long in ((0, picture["width"]), (1, picture["height"])):
        assert max(one[first + 2] for one in drawn) - min(one[first] for one in drawn) > 0.75 * long


def test_on_a_phone_names_are_whole_and_in_two_columns_that_few_lines_cross(page: Page) -> None:
    """In rings, 9 names are cut, and lines cross names 50 times."""
    opened(page, PHONE, "graph?from=atom://shop/payments")
    labels = page.locator("#drawing .dot > .label")
    assert not [text for text in labels.all_text_contents() if "…" in text]
    assert len(page.evaluate(CROSSED)) <= 5
    figures = areas(page.locator("#drawing .dot:not(:has(circle.mark)) .figure"))
    names = areas(page.locator("#drawing .dot:not(:has(circle.mark)) > .label"))
    assert all(
        name[0] > figure[2] if figure[0] > PHONE[0] / 2 else name[2] < figure[0]
        for figure, name in zip(figures, names, strict=True)
    )
    opened(page, PHONE, "graph?from=atom://shop/payments&cost=2")
    assert len(shown(page)) > 50
    assert crossing(shown(page)) == []
    assert axe(page) == []


@pytest.mark.parametrize(("area", "most"), [("payments", 8), ("orders", 2)])
def test_few_lines_cross_a_name(page: Page, area: str, most: int) -> None:
    """Straight lines cross 13 and 5."""
    opened(page, LAPTOP, f"graph?from=atom://shop/{area}")
    assert len(page.evaluate(CROSSED)) <= most


def test_facts_about_an_area_that_the_picture_lacks_are_counted_and_listed(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments")
    page.get_by_role("link", name="1 of 14 facts not drawn").click()
    expect(page.get_by_role("list", name="Not drawn 1")).to_have_text(re.compile("Refund a single line"))
    expect(page.locator("#undrawn")).to_be_in_viewport()
    page.get_by_role("link", name="Refund a single line").click()
    expect(page.locator("#card h2")).to_have_text("Refund a single line")


def test_the_largest_cost_is_explained_with_the_relations_beyond_and_its_usual_value(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments")
    reach = page.locator("#reach")
    expect(reach).to_have_text("Sum of the costs on the path. 27 relations lead further.")
    page.get_by_label("Largest cost", exact=True).fill("0.25")
    page.get_by_label("Largest cost", exact=True).press("Enter")
    expect(reach).to_contain_text("(default: 1)")
    assert axe(page) == []
    reach.get_by_role("link").click()
    expect(page.get_by_label("Largest cost", exact=True)).to_have_value("1")


def test_a_type_is_hidden_and_shown_again_by_its_name_below_the_whole_workspace(page: Page) -> None:
    opened(page, LAPTOP, "graph")
    insight = page.locator(".legend").get_by_role("link", name=re.compile("^insight"))
    count = page.locator("#drawing .dot.open .amount").first.text_content()
    expect(page.locator("#drawing path[data-type=insight]")).not_to_have_count(0)
    insight.click()
    expect(page.locator("#drawing path[data-type=insight]")).to_have_count(0)
    expect(page.locator("#drawing .dot.open .amount").first).not_to_have_text(count or "")
    expect(insight).to_have_class("off")
    opened(page, LAPTOP, "graph?group=type&hide=insight")
    insight.click()
    expect(page).not_to_have_url(re.compile("hide"))


def test_relations_other_than_most_have_their_names_and_cross_no_label(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments")
    said = "the most related in the middle."
    expect(page.locator(".graph-head")).to_contain_text(said)
    names = page.locator("#drawing .relation")
    assert sorted(set(names.all_text_contents())) == ["depends on"]
    imports = page.locator("#drawing .lines .unusual:not(.path)")
    assert imports.evaluate_all("found => found.map(one => getComputedStyle(one).opacity)") == ["0"] * imports.count()
    assert imports.count()
    assert crossing([*areas(names), *shown(page)]) == []


@pytest.mark.parametrize("size", [LAPTOP, (1440, 900)])
def test_the_groups_of_the_whole_workspace_name_some_of_their_nodes_where_there_is_room(
    page: Page, size: tuple[int, int]
) -> None:
    opened(page, size, "graph")
    named = page.locator("#drawing .first")
    texts = [*areas(named), *shown(page)]
    assert len(texts) >= 30
    assert crossing([*texts, *page.evaluate(CIRCLES), *areas(page.locator("#drawing .relation"))]) == []
    assert "Refunds take five days" in named.all_text_contents()
    assert "Payments" not in named.all_text_contents()
    assert named.first.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") >= 12
    assert page.evaluate(CROSSED.replace(".dot > .label:not([display])", ".first")) == []
    assert axe(page) == []
    page.locator(".legend").get_by_role("link", name=re.compile("^insight")).click()
    expect(named.filter(has_text="Refunds take five days")).to_have_count(0)


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_the_whole_workspace_fills_the_window_and_no_label_covers_an_edge(page: Page, size: tuple[int, int]) -> None:
    opened(page, size, "graph")
    labels, circles, boxes = shown(page), page.evaluate(CIRCLES), page.evaluate(BOXES)
    assert (len(labels), len(circles), len(boxes)) == (AREAS, AREAS - 3, 3)
    assert crossing([*labels, *circles]) == []
    assert page.evaluate(BEHIND) == [], "a line passes behind a group, as if it ended there"
    if size == LAPTOP:  # a phone has groups below one another, each with its name below it
        assert page.evaluate(CROSSED) == [], "a line passes through the name of a group"
    for left, top, right, bottom in boxes:
        edges: list[Area] = [(left, top, left, bottom), (right, top, right, bottom)]
        edges += [(left, top, right, top), (left, bottom, right, bottom)]
        assert not [one for label in labels for edge in edges for one in crossing([label, edge])]
    picture = page.locator("#drawing").bounding_box()
    assert picture
    marks, numbers = areas(page.locator("#drawing .badges .mark rect")), areas(page.locator("#drawing .relation"))
    assert crossing([*marks, *numbers, *labels]) == []
    covered = sum((right - left) * (bottom - top) for left, top, right, bottom in [*boxes, *circles[-1:]])
    assert covered > 0.7 * picture["width"] * picture["height"]


def test_the_groups_of_the_whole_workspace_show_types_and_relations(page: Page) -> None:
    opened(page, LAPTOP, "graph")
    payments = page.locator("#drawing .group", has_text="Payments")
    expect(payments).to_have_attribute(
        "aria-label",
        "Payments 14, area, 14 facts: insight 6, gotcha 3, decision 2, concept 1, pattern 1, task 1"
        "; in conflict 1; stale 1; with an open proposal 1",
    )
    assert payments.locator(".parts path").count() == 6
    lines = page.locator("#drawing .lines path").all_text_contents()
    assert len(lines) >= 8
    assert "2 relations" in lines
    numbers = page.locator("#drawing .relation")
    assert sorted(numbers.all_text_contents()) == sorted(line.split()[0] for line in lines)
    assert crossing([*areas(numbers), *shown(page)]) == []
    summary = "110 facts in 12 areas, 26 outside. Click a circle to open it."
    expect(page.locator(".graph-head")).to_contain_text(summary)
    page.locator("#drawing .group", has_text="Accounts").hover()
    expect(numbers).to_have_text(["1 relation"])
    payments.hover()  # its line is too short for the words
    expect(numbers).to_have_text(["1"])
    expect(page.locator(".legend")).to_contain_text("gotcha 31")
    assert axe(page) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_a_redrawn_label_keeps_nothing_of_the_previous_one(page: Page, size: tuple[int, int]) -> None:
    opened(page, size, "graph?group=area&open=atom://shop/payments")
    labels = page.locator("#drawing .dot:not(.group)").evaluate_all(
        "all => all.map((dot) => [dot.ariaLabel, dot.querySelector('.label').textContent])"
    )
    assert len(labels) == 14
    for said, label in labels:
        assert said.replace(" ", "").startswith("".join(label.split()).rstrip("…")), (said, label)
        assert ("shown as" in said) == ("…" in label), (said, label)


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_an_opened_area_has_most_of_the_window_and_the_other_groups_of_areas_are_circles(
    page: Page, size: tuple[int, int]
) -> None:
    opened(page, size, "graph?group=area&open=atom://shop/payments")
    assert page.locator("#drawing .group.open").count() == 2
    expect(page.locator("#drawing .group:not(.open)", has_text="Warehouse")).to_be_visible()
    box, picture = (page.locator(one).bounding_box() for one in ("#drawing .filled > .figure", "#drawing"))
    assert box
    assert picture
    assert box["width"] * box["height"] > 0.45 * picture["width"] * picture["height"]
    assert crossing(shown(page)) == []
    page.locator("#drawing .group", has_text="Warehouse").click()
    expect(page.locator("#drawing .group.open")).to_have_count(3)
    page.locator("#drawing .group.open > .label", has_text="Money").click()
    expect(page.locator("#drawing .group.open")).to_have_count(3)
    expect(page.locator("#drawing .dot:not(.group)")).to_have_count(0)


MIDDLE = """(path) => {
  const { x, y } = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
  return [x, y];
}"""


def test_a_click_on_a_line_opens_both_of_its_groups(page: Page) -> None:
    opened(page, LAPTOP, "graph")
    line = page.locator("#drawing .lines path").first
    x, y = line.evaluate(MIDDLE)
    page.mouse.move(x, y)
    expect(line).to_have_class("near")
    page.mouse.click(x, y)
    expect(page.locator("#drawing .filled")).to_have_count(2)


def test_long_names_in_an_opened_group_have_several_lines_and_cross_no_other(page: Page) -> None:
    opened(page, LAPTOP, "graph?group=area&open=atom://shop/payments")
    names = page.locator("#drawing .dot:not(.group) > .label")
    expect(names).to_have_count(14)
    assert names.filter(has=page.locator("tspan:nth-child(2)")).count() >= 3
    assert crossing(shown(page)) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_a_path_leads_from_left_to_right_or_from_top_to_bottom_with_all_of_its_names(
    page: Page, size: tuple[int, int]
) -> None:
    opened(page, size, f"graph?from={NODE}&to={RETRY}")
    names = ["The provider answers 503 after it has charged", "provider.py", "One retry, with an idempotency key"]
    assert page.locator("#drawing .label").all_text_contents() == names
    expect(page.locator("h1")).to_have_text(f"{names[0]} → {names[2]}")
    summary = page.locator("#drawing .told").first
    expect(summary).to_have_text("The charge appears in its list a minute later; repeat with the same key")
    relations = page.locator("#drawing .relation")
    forward, back = ("about →", "← about") if size == LAPTOP else ("about ↓", "about ↑")
    assert sorted(relations.all_text_contents()) == sorted([forward, back])
    texts = areas(page.locator("#drawing .relation, #drawing .told"))
    assert crossing([*shown(page), *texts]) == []
    assert all(0 <= left < right <= size[0] for left, _, right, _ in [*shown(page), *texts])
    box, picture = (page.locator(one).bounding_box() for one in ("#drawing .lines", "#drawing"))
    assert box
    assert picture
    if size == LAPTOP:
        assert 650 < box["width"] < 760, "a short path is enlarged"
        assert 0.25 < (box["y"] - picture["y"]) / picture["height"] < 0.55, "the row and its texts are in the middle"
    else:
        assert box["height"] > 0.6 * picture["height"]
    assert min(box["width"], box["height"]) < 30
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    assert axe(page) == []


def test_a_long_path_names_each_relation_on_a_phone_and_paths_differ_by_their_names(page: Page) -> None:
    opened(page, PHONE, "graph?from=decision://shop/round-half-to-even&to=insight://shop/capture-is-idempotent")
    dots = page.locator("#drawing .dot").count()
    assert dots == 9
    assert page.locator("#drawing .relation").count() == dots - 1
    texts = areas(page.locator("#drawing .dot > .label, #drawing .relation, #drawing .told"))
    assert crossing(texts) == []
    names = page.locator(".alternatives b").all_text_contents()
    assert len(set(names)) == len(names) == 3
    assert not [name for name in names if "Pricing" in name]
    page.locator("#near").scroll_into_view_if_needed()
    opened(page, PHONE, f"graph?from={NODE}&to={RETRY}")
    expect(page.locator(".alternatives a").first).to_be_in_viewport()
    assert page.locator("#drawing").evaluate("one => getComputedStyle(one).touchAction") == "pan-y pinch-zoom"


def test_paths_that_differ_in_one_node_are_listed_together(page: Page) -> None:
    opened(page, LAPTOP, f"graph?from={NODE}&to=insight://shop/a-hold-lasts-ten-minutes")
    expect(page.locator(".variants")).to_have_text(re.compile("^Through Payments, .* and reservations.py, 2 variants$"))
    expect(page.locator(".variants + li a")).to_have_attribute("aria-current", "true")
    expect(page.locator(".alternatives a")).to_have_count(3)


def test_a_path_explains_itself_and_can_be_reversed(page: Page) -> None:
    opened(page, LAPTOP, f"graph?from={NODE}&to={RETRY}")
    near = page.locator("#near")
    steps = near.locator(".steps li")
    expect(steps.nth(0)).to_contain_text("The charge appears in its list a minute later")
    expect(steps.nth(2)).to_have_text(re.compile("^which is the subject ofOne retry"))
    expect(page.locator("#begin")).to_be_hidden()
    expect(near.locator(".alternatives a").nth(0)).to_have_attribute("aria-current", "true")
    expect(steps.nth(1)).to_have_text(re.compile("^is aboutprovider.py"))
    expect(near.locator(".alternatives li")).to_have_text(["Through provider.py 2 steps", "Through Payments 2 steps"])
    expect(page.locator(".side")).not_to_contain_text("cost 0.")
    assert page.locator(".side").evaluate("side => side.offsetWidth") == SIDE
    assert axe(page) == []
    near.get_by_role("link", name="Through Payments").click()
    expect(steps.nth(1)).to_have_text(re.compile("^is aboutPayments"))
    near.get_by_role("link", name="Reverse the path").click()
    expect(page.locator("h1")).to_have_text(
        "One retry, with an idempotency key → The provider answers 503 after it has charged"
    )


CONTRASTS = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const painted = (...colours) => {
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const paper = getComputedStyle(document.querySelector(".stage")).backgroundColor;
    return [...document.querySelectorAll("#drawing .lines path, .legend .lines path")].map((line) => {
        const { stroke, strokeOpacity } = getComputedStyle(line);
        const of = [painted(paper), painted(paper, stroke)];
        return strokeOpacity === "1" ? Math.max(...of) / Math.min(...of) : 0;
    });
}"""


@pytest.mark.parametrize("place", ["graph", "graph?from=atom://shop/payments"])
def test_relations_have_enough_contrast_in_both_themes(page: Page, place: str) -> None:
    opened(page, LAPTOP, place)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 5
        assert min(found) >= 3


def test_the_legend_explains_the_styles_of_lines(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments")
    for words in ("about", "thick: cheapest path", "thin: other relation", "depends on"):
        item = page.locator(".legend li", has_text=words)
        expect(item).to_be_visible()
        expect(item.locator(".lines path")).to_have_count(1)


def test_on_a_phone_buttons_are_below_the_picture_and_small_groups_have_a_large_shape_of_each_type(page: Page) -> None:
    opened(page, PHONE, "graph?from=atom://shop/payments")
    zoom, picture = page.locator(".zoom").bounding_box(), page.locator("#drawing").bounding_box()
    assert zoom
    assert picture
    assert picture["y"] + picture["height"] <= zoom["y"]
    assert zoom["y"] + zoom["height"] <= PHONE[1] + 1
    opened(page, PHONE, "graph")
    sizes = page.locator("#drawing .parts path:visible").evaluate_all(
        "all => all.map((one) => Math.max(one.getBoundingClientRect().width, one.getBoundingClientRect().height))"
    )
    assert len(sizes) > 60
    assert min(sizes) >= 9


def test_colours_show_what_is_in_trouble_or_old_and_are_kept_by_links(page: Page) -> None:
    opened(page, LAPTOP, "graph")
    badges = page.locator("#drawing .badges .mark")
    assert sorted(badges.all_text_contents()) == ["! 1"] * 3 + ["+ 1"] * 3 + ["? 1"] * 5
    page.get_by_role("link", name="Problems", exact=True).click()
    expect(page.locator(".legend")).to_contain_text("open conflict 3")
    expect(page.locator(".legend")).to_contain_text("stale 4")  # a fifth is in conflict
    signs = page.locator(".legend li:nth-child(-n + 3)")
    expect(signs).to_have_text([re.compile(f"{one}$") for one in ("open conflict 3", "stale 4", "in a proposal 3")])
    assert badges.count() == 11
    assert axe(page) == []
    page.locator("#drawing .group", has_text="Payments").click()
    expect(page.locator("#drawing .filled")).to_have_count(1)
    assert "colour=trouble" in page.url
    conflict = page.locator(f'#drawing .dot[data-uri="{RETRY}"]')
    assert conflict.locator(".figure").get_attribute("class") == "figure rose"
    assert conflict.locator(".mark.conflict").count() == 1
    opened(page, LAPTOP, "graph?from=atom://shop/payments&colour=age")
    expect(page.locator(".legend")).to_contain_text("last half year")
    page.locator("#cost").fill("0.25")
    page.locator("#cost").press("Enter")
    expect(page).to_have_url(re.compile("colour=age.*cost=0.25|cost=0.25.*colour=age"))
    page.get_by_text("Find a path").click()
    page.locator("#route-from").fill("Payments")
    page.locator("#route-to").fill("Refunds take five days")
    page.get_by_role("button", name="Find path").click()
    expect(page).to_have_url(re.compile("graph.*&to=.*colour=age|colour=age.*&to="))


def test_a_phone_lists_the_relations_by_type_below_the_picture_and_folds_the_controls(page: Page) -> None:
    opened(page, PHONE, "graph?from=atom://shop/payments")
    near = page.locator("#near")
    expect(near.locator("h3")).to_have_text(["Facts about it 13 of 14", "Depends on 3", "Not drawn 1"])
    expect(near.get_by_role("link", name="1 only about its files")).to_be_visible()
    expect(near.locator("li", has_text="One retry")).to_contain_text("conflict")
    box, picture = near.bounding_box(), page.locator("#drawing").bounding_box()
    assert box
    assert picture
    assert picture["y"] + picture["height"] <= box["y"]
    expect(page.locator("#begin")).to_be_hidden()
    expect(page.locator("#drawing .dot").first).to_be_in_viewport()
    expect(page.locator(".graph-head").get_by_role("link", name="List")).to_be_visible()
    near.get_by_role("link", name="Refunds take five days").click()
    expect(page.locator("#card h2")).to_have_text("Refunds take five days")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert axe(page) == []


def test_areas_are_called_areas(page: Page) -> None:
    opened(page, LAPTOP, "graph?from=atom://shop/payments&node=atom://shop/payments")
    for place in (".legend", ".dots", "#card header"):
        expect(page.locator(place).first).to_contain_text("area")
        expect(page.locator(place).first).not_to_contain_text("atom")


def test_the_palette_orders_complete_words_as_the_search_does_and_offers_to_write(page: Page) -> None:
    at(page, "search?q=refund")
    searched = page.locator(".results .hit h2 a:not(.badge)").all_inner_texts()
    page.keyboard.press("Control+k")
    page.keyboard.type("refund")
    rows = page.locator("#palette-list")
    found = rows.get_by_role("group", name="Knowledge").locator("[role=option] > span:first-of-type")
    expect(found).to_have_count(6)
    assert found.all_inner_texts() == searched[:6]
    expect(rows.get_by_role("option", name=f"All {len(searched)} results")).to_be_visible()
    expect(rows.locator(".aside mark").first).to_have_text("refunds")
    rows.get_by_role("option", name="Write a fact about “refund”").click()
    expect(page.get_by_label("Summary")).to_have_value("refund")


def test_a_phone_keeps_the_words_of_a_search_in_a_field(page: Page) -> None:
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    at(page, "search?q=refund&type=insight")
    field = page.get_by_label("Search again")
    expect(field).to_have_value("refund")
    field.fill("label")
    field.press("Enter")
    expect(page.locator("h1")).to_have_text("Results for “label”")
    expect(page).to_have_url(re.compile("type=insight"))
    assert axe(page) == []
    account = page.get_by_role("button", name="Account").bounding_box()
    assert account
    assert account["width"] == account["height"] == 40


def test_proposals_without_a_conflict_say_so(page: Page) -> None:
    at(page, "proposals")
    expect(page.locator(".headline .badge.good")).to_have_text(["no conflict", "no conflict"])
    assert page.locator("ins").first.evaluate("ins => getComputedStyle(ins).textDecorationLine") == "none"


def test_the_page_of_a_person_tells_their_facts_from_those_of_their_agents(page: Page) -> None:
    at(page, "author?name=Carla+Moreno")
    numbers = page.locator(".numbers")
    expect(numbers).to_contain_text(re.compile(r"Facts\s*34 27 by hand, 4 with claude-code, 3 with cursor"))
    expect(numbers).to_contain_text(re.compile(r"\d conflicts?\s+\d stale"))
    expect(page.locator(".node-row", has_text="· with ").first).to_be_visible()
    areas = page.get_by_role("region", name="Areas").get_by_role("link")
    expect(areas.filter(visible=True)).to_have_count(3)
    page.get_by_text("7 areas with 1 fact").click()
    expect(areas.filter(visible=True)).to_have_count(10)
    assert axe(page) == []


def test_the_form_of_a_stale_fact_names_the_numbers_that_its_code_lost(page: Page) -> None:
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    at(page, "node/edit?uri=insight://shop/batches-of-200-at-night")
    note = page.get_by_role("note")
    expect(note).to_have_text("Stale: the cited code has changed and no longer has 200. See the change")
    note.get_by_role("link").click()
    expect(page.locator(".form-page .diff ins").first).to_be_in_viewport()
    expect(page.locator(".form-page .diff ins").first).to_contain_text("BATCH = 80")
    assert axe(page) == []
