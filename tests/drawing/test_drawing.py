"""A picture shows distance as cost, without overlaps, and any text as text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from math import hypot
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.drawing.labels import Box, box, place_labels, shortened, width
from kgd.drawing.layout import APART, layout_dots, layout_scene
from kgd.drawing.looks import KNOWN, look_of
from kgd.drawing.scene import Dot, Line, Scene, scene_of_groups, scene_of_walk
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


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_dearer_nodes_are_never_nearer(scene: Scene) -> None:
    layout = layout_dots(scene.dots)
    rings = [ring.radius for ring in layout.rings]
    assert rings == sorted(rings)
    away = {dot.uri: hypot(layout.points[dot.uri].x, layout.points[dot.uri].y) for dot in scene.dots}
    few_costs = all("≤" not in ring.label for ring in layout.rings)
    for near, far in zip(scene.dots, scene.dots[1:], strict=False):
        assert far.cost == near.cost or not few_costs or away[near.uri] < away[far.uri]


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_no_dot_lies_over_another(scene: Scene) -> None:
    points = list(layout_dots(scene.dots).points.values())
    for number, one in enumerate(points):
        for other in points[:number]:
            assert hypot(one.x - other.x, one.y - other.y) > APART * 0.6


@settings(max_examples=40, deadline=None)
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


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_the_same_scene_is_always_drawn_alike(scene: Scene) -> None:
    assert draw(scene) == draw(scene)


@settings(max_examples=150, deadline=None)
@given(st.text(), st.text())
@pytest.mark.requirement("E9")
def test_any_text_is_shown_as_text_in_a_well_formed_file(name: str, summary: str) -> None:
    scene = Scene((Dot("concept://w/a", name, name, 0.0, summary=summary, marks=("start",)),), ())
    root = ET.fromstring(draw(scene, title=name, alone=True, leads=lambda dot: f"/x?{name}"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "defs", "marker", "g", "a", "rect", "circle", "ellipse", "path", "polygon", "text"}
    assert not any(attribute.startswith("on") for element in root.iter() for attribute in element.attrib)


def test_a_file_needs_no_styles_of_a_page() -> None:
    groups = [{"id": "a", "name": "A", "count": 0}, {"id": "b", "name": "B", "count": 40_000}]
    root = ET.fromstring(draw(_grouped(groups), title="all", alone=True))
    assert root.find(f"{SVG}style") is None
    figures = [one for one in root.iter() if one.get("class", "").startswith("figure")]
    assert len(figures) == 2
    assert all(figure.get("fill") for figure in figures)
    assert "40,000" in "".join(root.itertext())


def _grouped(groups: list[dict[str, Any]]) -> Scene:
    return scene_of_groups({"groups": groups, "links": [], "edges": []})


@settings(max_examples=40, deadline=None)
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
    circles = [(dot, layout.points[dot.uri], layout.sizes[dot.uri]) for dot in scene.dots]
    outer = [one for one in circles if one[0].shape == "group"]
    for number, (_, a, size) in enumerate(outer):
        assert all(hypot(a.x - b.x, a.y - b.y) > size + other for _, b, other in outer[:number])
    middles = {dot.uri: (point, size) for dot, point, size in outer}
    for dot, point, size in circles:
        if dot.shape == "node":
            middle, radius = middles[dot.parent]
            assert hypot(point.x - middle.x, point.y - middle.y) + size < radius


def test_the_number_of_nodes_sets_the_size_of_a_group() -> None:
    scene = _grouped([{"id": str(count), "name": "g", "count": count} for count in (0, 10, 1_000)])
    sizes = [dot.size for dot in scene.dots]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


def test_every_type_of_kgd_has_a_look_of_its_own_and_other_types_always_the_same() -> None:
    knowledge = [type for type in KNOWN if type not in ("file", "dir", "symbol", "atom", "molecule")]
    assert len({look_of(type) for type in knowledge}) == len(knowledge)
    assert look_of("runbook") == look_of("runbook")
    assert look_of("runbook") not in KNOWN.values()


def test_a_path_is_drawn_in_its_order() -> None:
    a, b, c = (f"concept://w/{name}" for name in "abc")
    nodes = [_node(a), _node(b, 0.5, [a]), _node(c, 1.0, [a, b])]
    scene = scene_of_walk(_answer(nodes), is_path=True)
    points = layout_scene(scene).points
    assert points[a].x < points[b].x < points[c].x


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


def test_a_node_is_marked_by_its_state() -> None:
    a, b, c = (f"concept://w/{name}" for name in "abc")
    nodes = [
        _node(a),
        _node(b, 0.5, [a], unverified={"reason": "changed"}),
        _node(c, 1.0, [a, b], origin={"workspace": "x", "trust": "remote"}),
    ]
    scene = scene_of_walk(_answer(nodes, conflicts=[{"uri": b}]))
    assert [dot.marks for dot in scene.dots] == [("start",), ("conflict", "unverified"), ("foreign",)]
    assert scene.marks == ["start", "conflict", "unverified", "foreign"]


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
    assert shortened("short") == "short"
    assert width(shortened("x" * 100)) <= 26
    assert width(shortened("漢" * 100)) <= 26


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
