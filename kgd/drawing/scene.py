"""Scenes: the dots of a picture, the lines between them, and their marks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Literal

from kgd.model.uri import CODE_TREE, name_of

Shape = Literal["knowledge", "code", "area", "group", "missing"]
Mark = Literal["start", "missing", "unreachable", "conflict", "unverified", "foreign"]

MEANINGS: Mapping[Mark, str] = {
    "start": "start",
    "missing": "missing",
    "unreachable": "in another workspace that cannot be reached",
    "conflict": "open conflict",
    "unverified": "stale: the cited code has changed",
    "foreign": "from another workspace",
}
"""The text of each mark, in the order of a legend."""
SHAPES: Mapping[Shape, str] = {
    "knowledge": "knowledge",
    "code": "file, directory or symbol",
    "area": "area of the code",
    "group": "all nodes of a type, sized by number",
    "missing": "missing target of a link",
}
CODE = ("file", "dir", "symbol")
AREAS = ("atom", "molecule")
MOST_LINES = 4_000
"""Maximum number of lines. Relations on cheapest paths come first, then the cheapest others."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One node. `parent` is the previous visible node on its cheapest path; a start has no parent.

    `told` replaces the cost in pictures without costs. `size` grows with the number of nodes that it represents.
    """

    uri: str
    name: str
    type: str
    cost: float
    parent: str = ""
    shape: Shape = "knowledge"
    summary: str = ""
    marks: tuple[Mark, ...] = ()
    told: str = ""
    size: float = 5.5


@dataclass(frozen=True, slots=True)
class Line:
    """The relations between two dots. `is_path` is set if the cheapest path to one of the dots uses them."""

    source: str
    target: str
    types: tuple[str, ...]
    weight: float
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of a picture. Dots are ordered by cost, each after its parent. `left_out` is the number of omitted
    lines.

    `is_measured` is set if distance means cost.
    """

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    left_out: int = 0
    is_measured: bool = True

    @property
    def marks(self) -> list[Mark]:
        """The marks in use, in the order of the legend."""
        occurring = {mark for dot in self.dots for mark in dot.marks}
        return [mark for mark in MEANINGS if mark in occurring]

    @property
    def shapes(self) -> list[Shape]:
        occurring = {dot.shape for dot in self.dots if self.is_measured or "start" not in dot.marks}
        return [shape for shape in SHAPES if shape in occurring]


def scene_of_walk(answer: Mapping[str, Any]) -> Scene:
    """The scene of a `traverse` answer, including broken links."""
    known = {node["uri"] for node in answer["nodes"]}
    disputed = {one["uri"] for one in answer.get("conflicts", ())}
    dots = [_dot(node, known, disputed) for node in answer["nodes"]]
    dots += _missing(answer.get("broken_links", ()), {dot.uri: dot for dot in dots})
    by_uri = {dot.uri: dot for dot in dots}
    edges = [*answer["edges"], *(one for one in answer.get("broken_links", ()) if one["source"] in by_uri)]
    lines = _lines(edges, by_uri)
    kept = sorted(lines, key=lambda line: (not line.is_path, line.weight))[:MOST_LINES]
    return Scene(tuple(sorted(dots, key=lambda dot: dot.cost)), tuple(kept), len(lines) - len(kept))


def scene_of_workspace(workspace: str, areas: Sequence[Mapping[str, Any]], types: Mapping[str, int]) -> Scene:
    """The scene of a workspace: its areas, and the number of nodes of each type around them."""
    middle = Dot(f"workspace:{workspace}", workspace, "workspace", 0.0, marks=("start",), told="all of it")
    dots = [middle]
    for area in areas:
        kind = area["uri"].partition(":")[0]
        inside = area.get("molecule", middle.uri)
        count = area.get("count")
        told = "" if count is None else _many(count, "area inside" if kind == "molecule" else "node leads to it")
        dots.append(
            Dot(
                area["uri"],
                area["name"],
                kind,
                1.0 if inside == middle.uri else 2.0,
                inside,
                "area",
                told=told or "an area",
                size=8.0 if kind == "molecule" else 5.5,
            )
        )
    for type, count in types.items():
        name, size = f"{type} {count:,}", 6.0 + 2.0 * log10(max(1, count))
        dots.append(Dot(f"type:{type}", name, "", 1.0, middle.uri, "group", told=_many(count, "node"), size=size))
    dots.sort(key=lambda dot: dot.cost)
    lines = [Line(dot.parent, dot.uri, ("",), 1.0, is_path=True) for dot in dots[1:]]
    return Scene(tuple(dots), tuple(lines), is_measured=False)


def _many(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    one, _, rest = what.partition(" ")
    return f"{count:,} {one}s" + (f" {rest.replace('leads', 'lead')}" if rest else "")


def _parent(node: Mapping[str, Any], known: Collection[str]) -> str:
    """The visible node before a node on its path."""
    via = node.get("via")
    before = [via, *reversed(via.get("through", ()))] if via else []
    return next((step["from"] for step in before if step["from"] in known), "")


def _dot(node: Mapping[str, Any], known: Collection[str], disputed: Iterable[str]) -> Dot:
    marks: list[Mark] = [] if "via" in node else ["start"]
    if node["uri"] in disputed:
        marks.append("conflict")
    if "unverified" in node:
        marks.append("unverified")
    if node.get("origin", {}).get("trust") == "remote":
        marks.append("foreign")
    return Dot(
        node["uri"],
        node["name"],
        _type(node),
        node["cost"],
        _parent(node, known),
        _shape(node["uri"]),
        node.get("summary", ""),
        tuple(marks),
    )


def _type(node: Mapping[str, Any]) -> str:
    """The type to show: file or directory by the scheme, which is more precise than the node's type."""
    scheme: str = node["uri"].partition(":")[0]
    return scheme if scheme in CODE_TREE else node["type"]


def _shape(uri: str) -> Shape:
    scheme = uri.partition(":")[0]
    return "code" if scheme in CODE else "area" if scheme in AREAS else "knowledge"


def _missing(broken: Iterable[Mapping[str, Any]], known: Mapping[str, Dot]) -> list[Dot]:
    """A dot for each missing target, at the distance of its cheapest link."""
    found: dict[str, Dot] = {}
    for link in broken:
        source = known.get(link["source"])
        uri = link["target"]
        if source is None or uri in known:
            continue
        cost = round(source.cost + link.get("weight", 1.0), 6)
        if uri not in found or cost < found[uri].cost:
            mark: Mark = "missing" if link["reason"] in ("missing", "gone") else "unreachable"
            found[uri] = Dot(uri, name_of(uri), "", cost, source.uri, "missing", "", (mark,))
    return list(found.values())


def _lines(edges: Iterable[Mapping[str, Any]], dots: Mapping[str, Dot]) -> list[Line]:
    """One line for each pair of related dots, and one for each dot whose path goes through hidden nodes."""
    types: dict[tuple[str, str], dict[str, float]] = {}
    for edge in edges:
        if edge["target"] in dots and edge["source"] != edge["target"]:
            types.setdefault((edge["source"], edge["target"]), {})[edge["type"]] = edge.get("weight", 1.0)
    lines = []
    drawn = set()
    for (source, target), by_type in types.items():
        is_path = dots[target].parent == source or dots[source].parent == target
        drawn.add((source, target))
        lines.append(Line(source, target, tuple(sorted(by_type)), min(by_type.values()), is_path))
    for dot in dots.values():
        if dot.parent and (dot.parent, dot.uri) not in drawn and (dot.uri, dot.parent) not in drawn:
            lines.append(Line(dot.parent, dot.uri, (), dot.cost - dots[dot.parent].cost, is_path=True))
    return lines
