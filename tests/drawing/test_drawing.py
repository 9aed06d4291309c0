"""A picture shows distance as cost, without overlaps, and any text as text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import atan2, hypot, pi
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgd.drawing import Dot, Line, Scene, in_words, scene_of_groups, scene_of_walk, told_apart
from kgd.drawing.labels import LENGTHS, LONGEST, TITLE, Box, box, place_labels
from kgd.drawing.layout import (
    APART,
    INNER,
    MOST_RINGS,
    OUTER,
    ROW_HIGH,
    TALL,
    WIDE,
    Point,
    along,
    layout_dots,
    layout_scene,
)
from kgd.drawing.looks import CHARACTER, HEIGHT, KNOWN, OTHERS, OUTLINES, look_of, shortened, width
from kgd.drawing.packing import Place
from kgd.drawing.svg import draw

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0)


@st.composite
def scenes(draw: st.DrawFn, most: int = 60) -> Scene:
    """Trees of cheapest paths, some wide and some deep, with other relations between their dots."""
    count = draw(st.integers(1, most))
    deep = draw(st.integers(1, 20))
    dots = [Dot("concept://w/0", "start", "concept", 0.0, marks=("start",))]
    lines = []
    for number in range(1, count):
        parent = dots[draw(st.integers(max(0, number - deep), number - 1))]
        cost = round(parent.cost + draw(st.sampled_from(WEIGHTS)), 6)
        dot = Dot(f"concept://w/{number}", draw(st.text(max_size=40)), "concept", cost, parent.uri)
        dots.append(dot)
        lines.append(Line(parent.uri, dot.uri, ("uses",), 1.0, is_path=True))
    dots.sort(key=lambda dot: dot.cost)
    return Scene(tuple(dots), tuple(lines))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(scenes())
def test_dearer_nodes_are_never_nearer(scene: Scene) -> None:
    layout = layout_dots(scene.dots)
    assert list(layout.rings) == sorted(layout.rings)
    away = {dot.uri: hypot(layout.points[dot.uri].x, layout.points[dot.uri].y) for dot in scene.dots}
    few_costs = len({dot.cost for dot in scene.dots}) <= MOST_RINGS
    for near, far in zip(scene.dots, scene.dots[1:], strict=False):
        assert far.cost == near.cost or not few_costs or away[near.uri] < away[far.uri]


@settings(max_examples=20, deadline=None)
@given(scenes())
def test_in_a_tall_picture_each_node_has_a_row_beside_the_start_and_dearer_ones_are_further_outside(
    scene: Scene,
) -> None:
    layout = layout_scene(scene, tall=True)
    spots = [(point.x, point.y) for point in layout.points.values()]
    for side in (-1, 1):
        rows = sorted(down for right, down in spots if right * side > 0)
        assert all(low - high >= ROW_HIGH for high, low in pairwise(rows))
        assert rows == sorted({*rows} - {down for right, down in spots if side > 0 and not right})
    others = [dot for dot in scene.dots if dot.cost or dot.parent]
    few_costs = len({dot.cost for dot in scene.dots}) <= MOST_RINGS
    for near, far in pairwise(others):
        away, further = abs(layout.points[near.uri].x), abs(layout.points[far.uri].x)
        assert INNER <= away <= further <= OUTER
        assert far.cost == near.cost or not few_costs or away < further


def test_in_a_tall_picture_the_lines_of_a_start_end_in_different_directions() -> None:
    uris = [f"concept://w/{number}" for number in range(17)]
    dots = [Dot(uri, uri, "concept", float(uri != uris[0]), marks=("start",) if uri == uris[0] else ()) for uri in uris]
    scene = Scene(tuple(dots), tuple(Line(uri, uris[0], ("about",), 1.0) for uri in uris[1:]))
    layout = layout_scene(scene, tall=True)
    start = layout.points[uris[0]]
    bends = {uri: layout.curves[uri, uris[0]][1] for uri in uris[1:]}
    ways = sorted(atan2(down - start.y, right - start.x) for right, down in bends.values())
    assert min(after - before for before, after in pairwise(ways)) > pi / 25
    assert all(layout.points[uri].y == start.y or layout.points[uri].y != bends[uri][1] for uri in bends)


@settings(max_examples=20, deadline=None)
@given(scenes())
def test_no_dot_lies_over_another(scene: Scene) -> None:
    points = list(layout_dots(scene.dots).points.values())
    for number, one in enumerate(points):
        for other in points[:number]:
            assert hypot(one.x - other.x, one.y - other.y) > APART * 0.6


@settings(max_examples=20, deadline=None)
@given(scenes())
def test_no_label_lies_over_another_or_over_a_dot(scene: Scene) -> None:
    layout = layout_dots(scene.dots)
    labels = place_labels(scene.dots, layout)
    boxes = [
        (dot.uri, box(dot, layout, label.text, label.side))
        for dot in scene.dots
        if (label := labels[dot.uri]).size == 1
    ]
    for number, (uri, area) in enumerate(boxes):
        assert not any(_cross(area, other) for _, other in boxes[:number])
        dots = ((p.x - 5, p.y - 5, p.x + 5, p.y + 5) for one, p in layout.points.items() if one != uri)
        assert not any(_cross(area, dot) for dot in dots)


def _cross(a: Box, b: Box) -> bool:
    return a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(scenes())
def test_the_same_scene_is_always_drawn_alike(scene: Scene) -> None:
    assert draw(scene) == draw(scene)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text())
@example("a name of\ntwo lines", "")
@pytest.mark.requirement("E9")
def test_any_text_is_shown_as_text_in_a_well_formed_file(name: str, summary: str) -> None:
    scene = Scene((Dot("concept://w/a", name, name, 0.0, summary=summary, marks=("start",)),), ())
    root = ET.fromstring(draw(scene, title=name, alone=True, link=lambda dot: f"/x?{name}"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {
        "svg",
        "title",
        "defs",
        "marker",
        "g",
        "a",
        "rect",
        "circle",
        "ellipse",
        "path",
        "polygon",
        "text",
        "tspan",
    }
    assert not any(attribute.startswith("on") for element in root.iter() for attribute in element.attrib)


def test_a_file_needs_no_styles_of_a_page() -> None:
    groups = [{"id": "a", "name": "A", "count": 0}, {"id": "b", "name": "B", "count": 40_000}]
    root = ET.fromstring(draw(_grouped(groups), title="all", alone=True))
    assert root.find(f"{SVG}style") is None
    figures = [one for one in root.iter() if one.get("class", "").startswith("figure")]
    assert len(figures) == 2
    assert all(figure.get("fill") for figure in figures)
    assert "40,000" in "".join(root.itertext())


def _grouped(groups: list[dict[str, Any]], related: Sequence[tuple[str, str]] = ()) -> Scene:
    links = [{"source": a, "target": b, "count": 3} for a, b in related]
    return scene_of_groups({"groups": groups, "links": links, "edges": []})


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 30)), min_size=1, max_size=40))
def test_no_group_overlaps_another_and_members_are_inside_theirs(counts: list[tuple[int, int]]) -> None:
    groups = [
        {
            "id": str(number),
            "name": f"group {number}",
            "count": count + shown,
            "members": [{"uri": f"concept://w/{number}/{n}", "name": "x", "type": "concept"} for n in range(shown)],
        }
        for number, (count, shown) in enumerate(counts)
    ]
    scene = _grouped(groups)
    layout = layout_scene(scene)
    areas = {dot.uri: _area(layout.places[dot.uri]) for dot in scene.dots}
    outer = [areas[dot.uri] for dot in scene.dots if dot.shape == "group"]
    assert not any(_cross(area, other) for number, area in enumerate(outer) for other in outer[:number])
    for dot in scene.dots:
        if dot.shape == "node":
            left, top, right, bottom = areas[dot.uri]
            a, b, c, d = areas[dot.parent]
            assert a < left < right < c
            assert b < top < bottom < d


def _area(place: Place) -> Box:
    across, down = (place.wide / 2, place.high / 2) if place.wide else (place.size, place.size)
    return place.x - across, place.y - down, place.x + across, place.y + down


AREAS = {"Money": 5, "Warehouse": 4, "Customers": 3}


def _areas_of_a_shop(
    related: Sequence[tuple[str, str]] = (("Money0", "Warehouse0"),), opened: Sequence[str] = ()
) -> Scene:
    """Areas in three groups, and a large group beside them. `opened` areas show four of their nodes; groups of areas
    beside them are closed."""
    closed = {name for name in AREAS if opened and not any(one.startswith(name) for one in opened)}
    inner = [
        {"id": f"{name}{n}", "name": f"{name} {n}", "count": 8 + 3 * n, "inside": name, "types": {"insight": 8 + 3 * n}}
        for name, count in AREAS.items()
        for n in range(0 if name in closed else count)
    ]
    outer = [{"id": name, "name": name, "count": 40} for name in AREAS]
    beside = {"id": "~outside", "name": "Outside areas", "count": 34, "types": {"task": 30, "gotcha": 4}}
    for one in inner:
        if one["id"] in opened:
            one["members"] = [{"uri": f"insight://w/{one['id']}/{n}", "name": "x", "type": "insight"} for n in range(4)]
    shown = {(_group(a, closed), _group(b, closed)) for a, b in related}
    return _grouped([*inner, beside, *outer], sorted(shown))


def _group(area: str, closed: set[str]) -> str:
    group = area.rstrip("0123456789")
    return group if group in closed else area


@pytest.mark.parametrize("tall", [False, True])
def test_groups_fill_the_frame_in_proportion_to_their_nodes(tall: bool) -> None:
    scene = _areas_of_a_shop()
    layout = layout_scene(scene, tall=tall)
    areas = [_area(place) for place in layout.places.values()]
    wide, high = TALL if tall else WIDE
    assert max(area[2] for area in areas) - min(area[0] for area in areas) > 0.9 * wide
    assert max(area[3] for area in areas) - min(area[1] for area in areas) > 0.9 * high
    scales = [layout.places[dot.uri].size / dot.size for dot in scene.dots if not layout.is_box(dot.uri)]
    assert max(scales) - min(scales) < 0.01


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("opened", [[], ["Money1"], ["Warehouse1"]])
def test_a_line_between_groups_passes_behind_no_other_group(tall: bool, opened: list[str]) -> None:
    """It would look like a line to that group."""
    related = [("Money0", "Warehouse2"), ("Money1", "Customers2"), ("Money4", "Customers0"), ("Warehouse3", "Money2")]
    scene = _areas_of_a_shop([*related, ("Customers1", "Warehouse0")], opened)
    layout = layout_scene(scene, tall=tall)
    assert len(layout.curves) == len(scene.lines) >= 4
    with_parts = {dot.parent for dot in scene.dots if dot.shape == "group"}
    for ends, curve in layout.curves.items():
        for uri in layout.places.keys() - with_parts - set(ends):
            left, top, right, bottom = _area(layout.places[uri])
            spots = [along(curve, n / 200) for n in range(201)]
            if layout.is_box(uri) and len(opened) == 1:
                assert not any(left < x < right and top < y < bottom for x, y in spots)
            elif uri.startswith("group:"):
                place = layout.places[uri]
                assert min(hypot(x - place.x, y - place.y) for x, y in spots) > place.size
        for dot in scene.dots if not opened else ():  # nor through the title of a box
            if layout.is_box(dot.uri):
                left, top, right, bottom = _area(layout.places[dot.uri])
                title = left + TITLE[0] + width(dot.name) * CHARACTER, top + TITLE[1] + HEIGHT / 2
                assert not any(left < x < title[0] and top < y < title[1] for x, y in spots)


def test_a_box_with_nodes_hides_the_lines_between_groups_and_no_others() -> None:
    """With several open boxes, a curve may have no room beside them."""
    related = [("Money0", "Warehouse2"), ("Money4", "Customers0")]
    scene = _areas_of_a_shop(related, ["Money1", "Warehouse1"])
    inside = Line("insight://w/Money1/0", "insight://w/Money1/1", ("about",), 1.0)
    root = ET.fromstring(draw(replace(scene, lines=(*scene.lines, inside)), alone=True))
    order = list(root.iter())
    between, within = [
        max(order.index(one) for one in order if one.get("data-ends") and ("marker-end" in one.attrib) == is_inside)
        for is_inside in (False, True)
    ]
    boxes = [one for one in order if "filled" in (one.get("class") or "").split()]
    assert len(boxes) == 2
    for one in boxes:
        assert between < order.index(one) < within
        (shape,) = [part for part in one if part.tag == f"{SVG}rect"]
        assert "fill-opacity" not in shape.attrib


def test_related_groups_are_near_each_other() -> None:
    related = [("0", "11"), ("0", "7"), ("3", "8"), ("8", "5"), ("11", "2")]
    groups = [{"id": str(number), "name": f"group {number}", "count": 20} for number in range(12)]
    places = layout_scene(_grouped(groups, related)).places
    lengths = [_apart(places[f"group:{a}"], places[f"group:{b}"]) for a, b in related]
    everywhere = [_apart(one, other) for one in places.values() for other in places.values() if one != other]
    assert sum(lengths) / len(lengths) < 0.7 * sum(everywhere) / len(everywhere)


def _apart(one: Place, other: Place) -> float:
    return hypot(one.x - other.x, one.y - other.y)


def test_every_group_has_its_label_beside_it_and_none_covers_an_edge() -> None:
    scene = _areas_of_a_shop()
    layout = layout_scene(scene)
    labels = place_labels(scene.dots, layout)
    assert {label.size for label in labels.values()} == {1}
    boxes = {dot.uri: box(dot, layout, labels[dot.uri].text, labels[dot.uri].side) for dot in scene.dots}
    for dot in scene.dots:
        assert dot.name.endswith(labels[dot.uri].text.rpartition(" ")[2])
        for other in scene.dots:
            left, top, right, bottom = _area(layout.places[other.uri])
            if other is not dot and not layout.is_box(other.uri):
                assert not _cross(boxes[dot.uri], (left, top, right, bottom))
            for edge in ((left, top, right, top), (left, bottom, right, bottom)) * layout.is_box(other.uri):
                assert not _cross(boxes[dot.uri], edge)


def test_a_group_shows_its_composition_by_type_and_the_relations_to_others() -> None:
    scene = _areas_of_a_shop()
    root = ET.fromstring(draw(scene, alone=True))
    groups = {one.get("data-uri"): one for one in root.iter(f"{SVG}g") if "group" in (one.get("class") or "")}
    parts = list(groups["group:~outside"].iter(f"{SVG}path"))
    assert [(part.get("class"), (part.get("d") or "").count("M")) for part in parts] == [("orange", 30), ("rose", 4)]
    assert "34 facts: task 30, gotcha 4" in "".join(groups["group:~outside"].itertext())
    assert scene.types["task"] == 30
    (line,) = [one for one in root.iter(f"{SVG}path") if one.get("data-ends")]
    assert "".join(line.itertext()) == "3 relations"
    assert float(line.get("stroke-width") or 0) > 2
    assert [one.text for one in root.iter(f"{SVG}text") if one.get("class") == "relation"] == ["3"]


def test_a_picture_of_many_nodes_has_a_shape_for_some_of_them() -> None:
    groups = [{"id": "a", "name": "A", "count": 40_000, "types": {"insight": 39_999, "task": 1}}]
    root = ET.fromstring(draw(_grouped(groups), alone=True))
    shapes = [(one.get("d") or "").count("M") for one in root.iter(f"{SVG}path") if one.get("class")]
    assert shapes == [600, 1]


def test_the_number_of_nodes_sets_the_size_of_a_group() -> None:
    scene = _grouped([{"id": str(count), "name": "g", "count": count} for count in (0, 10, 1_000)])
    sizes = [dot.size for dot in scene.dots]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


def test_every_type_of_kgd_has_a_form_of_its_own_and_other_types_have_other_forms() -> None:
    forms = {look_of(type).form for type in KNOWN}
    assert len(forms) == len(KNOWN)
    assert not forms & {look.form for look in OTHERS}
    assert look_of("runbook") == look_of("runbook")
    assert look_of("runbook") in OTHERS


@pytest.mark.parametrize("form", OUTLINES)
def test_forms_look_equally_large(form: str) -> None:
    corners = {str(name): outline for name, outline in OUTLINES.items()}[form]
    pairs = zip(corners, [*corners[1:], corners[0]], strict=True)
    assert 2.2 < abs(sum(a * d - c * b for (a, b), (c, d) in pairs)) / 2 < 4.0
    assert all(hypot(*corner) < 1.7 for corner in corners)


def test_a_path_is_a_row_or_a_column_with_its_whole_names_and_relations() -> None:
    a, b, c = (f"concept://w/{name}" for name in "abc")
    name = "The provider answers 503 after it has charged"
    nodes = [_node(a, name=name), _node(b, 0.5, [a]), _node(c, 1.0, [a, b], name=name)]
    edges = [{"source": a, "target": b, "type": "uses"}, {"source": c, "target": b, "type": "about"}]
    scene = scene_of_walk(_answer(nodes, edges=edges), is_path=True)
    points = layout_scene(scene).points
    assert points[a].x < points[b].x < points[c].x
    assert {one.y for one in points.values()} == {0.0}
    assert {one.y for one in layout_scene(scene, tall=True).points.values()} == {0.0, 90.0, 180.0}
    root = ET.fromstring(draw(scene, alone=True))
    texts = [("".join(one.itertext()), one.get("class") or "") for one in root.iter(f"{SVG}text")]
    assert [text for text, kind in texts if kind.startswith("label")] == [name, "b", name]
    assert sorted(text for text, kind in texts if kind == "relation") == ["uses →", "← about"]


KINDS = ("insight", "decision", "gotcha")


def _mixed() -> Scene:
    """A start with twelve neighbours of three types, and a missing one, in the order of their addresses."""
    start = "concept://w/start"
    nodes = [_node(start), *(_node(f"x://w/{n:02}", 0.5, [start], type=KINDS[n % 3]) for n in range(12))]
    edges = [{"source": one["uri"], "target": start, "type": "about", "weight": 0.5} for one in nodes[1:]]
    broken = [{"source": start, "type": "see", "target": "concept://w/gone", "weight": 0.5, "reason": "missing"}]
    return scene_of_walk(_answer(nodes, edges=edges, broken_links=broken))


def test_the_neighbours_of_a_start_are_ordered_by_type() -> None:
    scene = _mixed()
    points = layout_scene(scene).points
    around = sorted((dot for dot in scene.dots if dot.cost), key=lambda dot: points[dot.uri].angle)
    assert [dot.type for dot in around] == [*("insight",) * 4, *("decision",) * 4, *("gotcha",) * 4, ""]


def test_a_line_passes_beside_the_dots_between_its_ends() -> None:
    scene = _mixed()
    layout = layout_scene(scene)
    ring = sorted((dot for dot in scene.dots if dot.cost), key=lambda dot: layout.points[dot.uri].angle)
    ends = ring[0].uri, ring[2].uri
    between = layout_scene(replace(scene, lines=(*scene.lines, Line(*ends, ("uses",), 1.0))))
    middle = between.points[ring[1].uri]
    straight = [between.points[uri] for uri in ends]
    curve = between.curves.get(ends) or (
        (straight[0].x, straight[0].y),
        _mean(straight),
        (straight[1].x, straight[1].y),
    )
    away = [hypot(x - middle.x, y - middle.y) for x, y in (along(curve, n / 100) for n in range(101))]
    assert min(away) > 10


def _mean(points: Sequence[Any]) -> tuple[float, float]:
    return sum(one.x for one in points) / len(points), sum(one.y for one in points) / len(points)


def test_a_label_is_on_a_side_without_a_line_if_there_is_one() -> None:
    a, b, c = (f"concept://w/{name}" for name in "abc")
    dots = (
        Dot(a, "a", "concept", 0.0, marks=("start",)),
        Dot(b, "b", "concept", 1.0, a),
        Dot(c, "c", "concept", 1.0, a),
    )
    layout = replace(layout_dots(dots), points={a: Point(0, 0, 0), b: Point(300, 0, 0), c: Point(313, -300, 0)})
    crossing = Line(a, c, (), 1.0)
    own = place_labels(dots, layout)[b]
    assert own.side == "right"
    moved = replace(layout, points={**layout.points, a: Point(313, 300, 0)})
    assert place_labels(dots, moved, [crossing])[b].side == "left"


def test_a_class_gives_a_node_its_colour_and_its_type_the_form() -> None:
    a, b = "insight://w/a", "insight://w/b"
    nodes = [_node(a, type="insight"), _node(b, 0.5, [a], type="insight")]
    scene = scene_of_walk(_answer(nodes, tones={a: "stale", b: "fine"}))
    root = ET.fromstring(draw(scene, alone=True))
    figures = [one for one in root.iter(f"{SVG}polygon") if "figure" in (one.get("class") or "")]
    assert [one.get("class") for one in figures] == ["figure amber", "figure grey"]
    assert scene.tones == {"stale": 1, "fine": 1}
    group = {"id": "a", "name": "A", "count": 3, "tones": {"stale": 2, "fine": 1}, "conflicts": 1, "stale": 2}
    whole = scene_of_groups({"groups": [group], "links": [], "edges": [], "tones": {}})
    picture = ET.fromstring(draw(whole, alone=True))
    parts = [one for one in picture.iter(f"{SVG}path") if one.get("data-type")]
    assert [(one.get("class"), (one.get("d") or "").count("M")) for one in parts] == [("amber", 2), ("grey", 1)]
    assert [one.text for one in picture.iter(f"{SVG}text") if one.get("font-weight") == "700"] == ["! 1", "? 2"]
    assert "3 facts: stale 2, no problem 1; in conflict 1; stale 2" in "".join(picture.itertext())


@pytest.mark.slow
def test_many_opened_groups_are_drawn_within_two_seconds_of_processor_time() -> None:
    names = ["A walk stops at the cost limit, not at the number of nodes", "Refunds take five days"]
    groups = [
        {
            "id": str(number),
            "name": f"group {number}",
            "count": 60,
            "members": [
                {"uri": f"insight://w/{number}/{n}", "name": names[n % 2], "type": "insight"} for n in range(12)
            ],
        }
        for number in range(20)
    ]
    groups += [{"id": f"other {number}", "name": f"other {number}", "count": 90} for number in range(20)]
    ids = [str(group["id"]) for group in groups]
    related = [(one, other) for number, one in enumerate(ids) for other in ids[number + 1 : number + 5]]
    begun = process_time()
    draw(_grouped(groups, related))
    assert process_time() - begun < 2


def test_an_arrow_ends_at_the_edge_of_its_target() -> None:
    a, b = "concept://w/a", "concept://w/b"
    edges = [{"source": a, "target": b, "type": "uses", "weight": 0.5}]
    scene = scene_of_walk(_answer([_node(a), _node(b, 0.5, [a])], edges=edges))
    root = ET.fromstring(draw(scene, alone=True))
    line = next(one for one in root.iter(f"{SVG}path") if one.get("marker-end"))
    assert "".join(line.itertext()) == "uses"
    end = [float(number) for number in (line.get("d") or "").partition("L")[2].split()]
    point = layout_scene(scene).points[b]
    assert 5 < hypot(end[0] - point.x, end[1] - point.y) < 12


def _node(uri: str, cost: float = 0.0, before: list[str] | None = None, **more: Any) -> dict[str, Any]:
    steps = [{"from": one, "type": "uses"} for one in before or ()]
    via = {"via": {**steps[-1], "through": steps[:-1]}} if steps else {}
    return {"uri": uri, "type": "concept", "name": uri[-1], "cost": cost, **via, **more}


def _answer(nodes: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"nodes": nodes, "edges": [], "broken_links": [], "conflicts": [], **more}


def test_nodes_of_one_name_are_told_apart_by_their_folders() -> None:
    start, other, alone = (f"file://w/src/{path}" for path in ("mail/service.py", "shop/service.py", "clock.py"))
    nodes = [_node(start, name="service.py"), _node(other, 0.5, [start], name="service.py")]
    scene = scene_of_walk(_answer([*nodes, _node(alone, 1.0, [start, other], name="clock.py")]))
    assert [dot.name for dot in scene.dots] == ["mail/service.py", "shop/service.py", "clock.py"]
    once = told_apart(dict.fromkeys((f"file://w/{top}/mail/service.py" for top in "ab"), "service.py"))
    assert told_apart(once) == once == dict.fromkeys(once, "mail/service.py")


def test_a_node_is_marked_by_its_state() -> None:
    a, b, c = (f"concept://w/{name}" for name in "abc")
    nodes = [
        _node(a),
        _node(b, 0.5, [a], unverified={"reason": "changed"}),
        _node(c, 1.0, [a, b], origin={"workspace": "x", "trust": "remote"}),
    ]
    scene = scene_of_walk({**_answer(nodes, conflicts=[{"uri": b}]), "proposed": {a, b}})
    assert [dot.marks for dot in scene.dots] == [
        ("start", "proposed"),
        ("conflict", "unverified", "proposed"),
        ("foreign",),
    ]
    assert scene.marks == {"start": 1, "conflict": 1, "unverified": 1, "proposed": 2, "foreign": 1}


def test_a_missing_node_is_as_far_as_its_cheapest_link() -> None:
    a, b = "concept://w/a", "concept://w/b"
    links = [
        {"source": a, "type": "see", "target": "concept://w/gone", "weight": 0.9, "reason": "missing"},
        {"source": b, "type": "see", "target": "concept://w/gone", "weight": 0.25, "reason": "missing"},
        {"source": a, "type": "see", "target": "concept://far/x", "weight": 0.1, "reason": "unreachable"},
    ]
    scene = scene_of_walk(_answer([_node(a), _node(b, 0.5, [a])], broken_links=links))
    by_uri = {dot.uri: dot for dot in scene.dots}
    gone = by_uri["concept://w/gone"]
    assert (gone.cost, gone.parent, gone.marks, gone.shape) == (0.75, b, ("missing",), "missing")
    assert by_uri["concept://far/x"].marks == ("unreachable",)


def test_a_path_through_hidden_nodes_is_a_dashed_line() -> None:
    a, c = "concept://w/a", "concept://w/c"
    scene = scene_of_walk(_answer([_node(a), _node(c, 1.0, [a, "file://w/hidden"])]))
    assert scene.lines == (Line(a, c, (), 1.0, is_path=True),)
    assert 'stroke-dasharray="4 3"' in draw(scene)


def test_a_long_name_is_cut_by_its_width() -> None:
    assert shortened("short", 26) == "short"
    assert width(shortened("x" * 100, 26)) <= 26
    assert width(shortened("漢" * 100, 26)) <= 26


def test_a_label_is_as_long_as_there_is_room() -> None:
    """Alone, a name is long; in a crowd, it is short instead of hidden."""
    alone = scene_of_walk(_answer([_node("concept://w/a", name="x" * 100)]))
    assert width(place_labels(alone.dots, layout_scene(alone))["concept://w/a"].text) == LONGEST
    around = [_node(f"concept://w/{n}", 0.5 + n % 3, ["concept://w/a"], name="x" * 100) for n in range(150)]
    crowd = scene_of_walk(_answer([_node("concept://w/a"), *around]))
    lengths = {width(label.text) for label in place_labels(crowd.dots, layout_scene(crowd)).values() if label.size == 1}
    assert LENGTHS[1] in lengths


def test_long_names_in_an_opened_group_have_lines_as_wide_as_their_column() -> None:
    name = "A walk stops at the cost limit, not at the number"
    members = [{"uri": f"insight://w/{n}", "name": name, "type": "insight"} for n in range(12)]
    scene = _grouped([{"id": "a", "name": "a", "count": 12, "members": members}, {"id": "b", "name": "b", "count": 12}])
    layout = layout_scene(scene)
    labels = place_labels(scene.dots, layout)
    texts = {uri: label.text for uri, label in labels.items() if uri.startswith("insight:")}
    assert {text.replace("\n", " ") for text in texts.values()} == {name}
    for uri, text in texts.items():
        assert CHARACTER * max(map(len, text.split("\n"))) <= layout.places[uri].room
    boxes = [box(dot, layout, labels[dot.uri].text, labels[dot.uri].side) for dot in scene.dots if labels[dot.uri].size]
    assert not [one for number, one in enumerate(boxes) for other in boxes[:number] if _cross(one, other)]


def test_no_label_in_an_opened_group_covers_its_own_dot_or_cuts_a_word_inside() -> None:
    names = ["payments audit", "incomprehensibilities of reconciliation", "a b c d e f g h i j k l m n o p q r s t u"]
    members = [{"uri": f"insight://w/{n}", "name": names[n % 3], "type": "insight"} for n in range(60)]
    opened = {"id": "a", "name": "a", "count": 60, "members": members}
    scene = _grouped([opened, {"id": "b", "name": "b", "count": 900}])
    layout = layout_scene(scene)
    for uri, label in place_labels(scene.dots, layout).items():
        if not uri.startswith("insight:") or not label.size:
            continue
        dot = next(dot for dot in scene.dots if dot.uri == uri)
        point, size = layout.points[uri], layout.places[uri].size
        figure = point.x - size, point.y - size, point.x + size, point.y + size
        assert not _cross(box(dot, layout, label.text, label.side, label.size), figure), label
        words = dot.name.split()
        assert all(word in words for word in label.text.split() if not word.endswith("…")), label


@pytest.mark.parametrize("tall", [False, True])
def test_an_opened_group_gets_most_of_the_picture(tall: bool) -> None:
    others = [{"id": f"o{n}", "name": f"o{n}", "count": 900} for n in range(8)]
    opened = {"id": "a", "name": "a", "count": 6, "members": _members(6)}
    assert _share(_grouped([opened, *others]), "group:a", tall) > 0.55


@pytest.mark.slow
@pytest.mark.parametrize("tall", [False, True])
def test_an_opened_area_in_a_group_of_areas_gets_most_of_the_picture(tall: bool) -> None:
    inner = [{"id": f"Money {n}", "name": f"Money {n}", "count": 8 + n, "inside": "Money"} for n in range(5)]
    inner[1]["members"] = _members(9)
    closed = [{"id": name, "name": name, "count": count} for name, count in AREAS.items() if name != "Money"]
    outer = [{"id": "Money", "name": "Money", "count": 50}, {"id": "~outside", "name": "Outside areas", "count": 34}]
    assert _share(_grouped([*inner, *closed, *outer]), "group:Money 1", tall) > 0.5


def test_an_opened_area_leaves_room_to_many_groups_beside_it() -> None:
    """In a larger frame, all labels would have less room."""
    inner = [{"id": f"Money {n}", "name": f"Money {n}", "count": 40, "inside": "Money"} for n in range(5)]
    inner[1]["members"] = _members(39)
    beside = [{"id": f"Group {n}", "name": f"Group {n}", "count": 190} for n in range(7)]
    outer = [
        {"id": "Money", "name": "Money", "count": 200},
        {"id": "~outside", "name": "Outside areas", "count": 1_081},
    ]
    scene = _grouped([*inner, *beside, *outer])
    assert max(_area(place)[2] for place in layout_scene(scene).places.values()) <= WIDE[0]
    assert _share(scene, "group:Money 1", tall=False) > 0.45


def _members(count: int) -> list[dict[str, str]]:
    return [{"uri": f"insight://w/{n}", "name": "a rule", "type": "insight"} for n in range(count)]


def _share(scene: Scene, uri: str, tall: bool) -> float:
    """The share of the picture that an opened group has."""
    places = layout_scene(scene, tall=tall).places
    areas = [_area(place) for place in places.values()]
    across = max(area[2] for area in areas) - min(area[0] for area in areas)
    down = max(area[3] for area in areas) - min(area[1] for area in areas)
    return places[uri].wide * places[uri].high / (across * down)


def test_areas_have_the_name_that_all_pages_use() -> None:
    assert [in_words(type) for type in ("atom", "molecule", "insight")] == ["area", "group of areas", "insight"]
    picture = draw(scene_of_walk(_answer([_node("atom://w/a", type="atom")])))
    assert "a, area, at cost 0" in picture
    groups = [{"id": "atom", "name": "atom", "count": 3}]
    assert "area 3" in draw(scene_of_groups({"grouping": "type", "groups": groups, "links": [], "edges": []}))


def test_the_cheapest_of_too_many_relations_are_drawn() -> None:
    nodes = [_node(f"concept://w/{number}") for number in range(100)]
    edges = [
        {"source": f"concept://w/{a}", "target": f"concept://w/{b}", "type": "see", "weight": a / 10}
        for a in range(100)
        for b in range(100)
        if a != b
    ]
    scene = scene_of_walk(_answer(nodes, edges=edges))
    assert len(scene.lines) + scene.left_out == 9_900
    assert max(line.weight for line in scene.lines) < 5
