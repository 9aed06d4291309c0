"""Drawing: turns a traversal into a picture, with layout, labels and SVG.

Pages, saved pictures and agents' hosts show the same picture. A picture begins as a scene: its dots, the lines between
them, and their marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal

from kgd.drawing.looks import TONES
from kgd.model.uri import CODE_TREE, name_of, namespace_of

Shape = Literal["node", "group", "missing"]
Arrangement = Literal["rings", "path", "groups"]
"""By cost around the starts; along one path; or as groups, sized by their number of nodes."""
Mark = Literal["start", "missing", "unreachable", "conflict", "unverified", "proposed", "foreign"]

MEANINGS: Mapping[Mark, str] = {
    "start": "start",
    "missing": "missing",
    "unreachable": "in another workspace that cannot be reached",
    "conflict": "open conflict",
    "proposed": "in a proposal",
    "unverified": "stale",
    "foreign": "from another workspace",
}
"""The text of each mark, in the order of a legend."""
SHORT: Mapping[Mark, str] = {"conflict": "in conflict", "unverified": "stale", "proposed": "with an open proposal"}
"""The text of a mark beside a number of nodes."""
MOST_LINES = 4_000
"""Maximum number of lines. Relations on cheapest paths come first, then the cheapest others."""


LEAST_BUBBLE, LARGEST_BUBBLE = 14.0, 84.0
"""Radius of the smallest and the largest group of a picture."""
DOT, LARGE_DOT, STEP = 5.5, 8.0, 14.0
"""Radius of a node, of a node in a walk of at most `FEW` nodes, and of a node of a path."""
FEW = 40
MANY = 10
"""Number of relations between two groups that makes a line wide, if no two groups have more."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One node, or one group of nodes. `parent` is the previous visible node on its cheapest path, or the group that
    contains it; a start has no parent.

    `told` replaces the cost in pictures without costs. `size` is the radius of its figure. `tone` is the class that
    gives it its colour, instead of its type. `parts` has the number of a group's nodes by type or, in a picture with
    classes, by class; `counts` the numbers of its nodes with marks, and
    `first` the names of some of its nodes.
    """

    uri: str
    name: str
    type: str
    cost: float
    parent: str = ""
    shape: Shape = "node"
    summary: str = ""
    marks: tuple[Mark, ...] = ()
    told: str = ""
    size: float = DOT
    tone: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    counts: tuple[tuple[Mark, int], ...] = ()
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The relations between two dots, or between the nodes of two groups. `is_path` is set if the cheapest path to one
    of the dots uses them. `width` is in units of the picture."""

    source: str
    target: str
    types: tuple[str, ...]
    weight: float
    is_path: bool = False
    width: float = 1.0
    has_arrow: bool = True


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of a picture. Dots are ordered by cost, each after its parent. `left_out` is the number of omitted
    lines."""

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    left_out: int = 0
    arrangement: Arrangement = "rings"
    has_tones: bool = False

    @property
    def marks(self) -> dict[Mark, int]:
        """The number of nodes with each mark, in the order of the legend. Groups also count nodes without a dot."""
        counts = Counter[Mark]()
        for dot in self.dots:
            counts.update(dict(dot.counts))
            counts.update(dot.marks if self.arrangement != "groups" else ())
        return {mark: counts[mark] for mark in MEANINGS if counts[mark]}

    @property
    def usual(self) -> str:
        """The relation of most lines; empty without lines."""
        return next((names for names, _ in Counter(", ".join(line.types) for line in self.lines).most_common(1)), "")

    @property
    def types(self) -> dict[str, int]:
        """The number of nodes of each type, the most frequent first; in groups also of nodes without a dot."""
        counts = Counter[str]()
        for dot in self.dots:
            counts.update({} if self.has_tones else dict(dot.parts))
            counts.update([dot.type] if dot.shape == "node" and self.arrangement != "groups" else [])
        return dict(counts.most_common())

    @property
    def tones(self) -> dict[str, int]:
        """The number of nodes of each class, in the order of a legend; empty in a picture without classes."""
        counts = Counter[str]()
        for dot in self.dots if self.has_tones else ():
            counts.update(dict(dot.parts))
            counts.update([dot.tone] if dot.tone and self.arrangement != "groups" else [])
        return {tone: counts[tone] for tone in TONES if counts[tone]}


def scene_of_walk(answer: Mapping[str, Any], *, is_path: bool = False) -> Scene:
    """The scene of a `traverse` answer, including broken links.

    Args:
        is_path: Whether the answer is the path to one node, which is drawn without broken links.
    """
    known = {node["uri"] for node in answer["nodes"]}
    marked: Mapping[Mark, Collection[str]] = {
        "conflict": {one["uri"] for one in answer.get("conflicts", ())},
        "unverified": {node["uri"] for node in answer["nodes"] if "unverified" in node},
        "proposed": answer.get("proposed", ()),
    }
    broken = () if is_path else answer.get("broken_links", ())
    tones = answer.get("tones", {})
    size = STEP if is_path else LARGE_DOT if len(known) <= FEW else DOT
    dots = [
        replace(_dot(node, known, marked, size), tone=tones.get(node["uri"], UNKNOWN if tones else ""))
        for node in answer["nodes"]
    ]
    dots += _missing(broken, {dot.uri: dot for dot in dots})
    names = told_apart({dot.uri: dot.name for dot in dots})
    dots = [replace(dot, name=names[dot.uri]) for dot in dots]
    by_uri = {dot.uri: dot for dot in dots}
    edges = [*answer["edges"], *(one for one in broken if one["source"] in by_uri)]
    lines = _lines(edges, by_uri)
    kept = sorted(lines, key=lambda line: (not line.is_path, line.weight))[:MOST_LINES]
    arrangement: Arrangement = "path" if is_path else "rings"
    ordered = tuple(sorted(dots, key=lambda dot: dot.cost))
    return Scene(ordered, tuple(kept), len(lines) - len(kept), arrangement, "tones" in answer)


GROUP = "group:"
FLAGS: Mapping[Mark, str] = {"conflict": "has_conflict", "unverified": "is_stale", "proposed": "is_proposed"}
"""The field of a group's member for each mark."""
UNKNOWN = "unknown"
"""The class of a node whose class is not known."""


def scene_of_groups(answer: Mapping[str, Any]) -> Scene:
    """The scene of a whole workspace as `graph_view` groups it: a bubble for each group, with the shown members of an
    opened group as dots in it."""
    groups, tones = answer["groups"], answer.get("tones")
    largest = max((group["count"] for group in groups), default=0) or 1
    dots = []
    for group in groups:
        uri, parent = f"{GROUP}{group['id']}", f"{GROUP}{inside}" if (inside := group.get("inside")) else ""
        size = LEAST_BUBBLE + (LARGEST_BUBBLE - LEAST_BUBBLE) * sqrt(group["count"] / largest)
        parts = tuple(group.get("types" if tones is None else "tones", {}).items())
        counts: list[tuple[Mark, int]] = [
            ("conflict", group.get("conflicts", 0)),
            ("unverified", group.get("stale", 0)),
            ("proposed", group.get("proposed", 0)),
        ]
        kinds = ", ".join(
            f"{TONES[kind][1] if tones is not None else in_words(kind)} {count:,}" for kind, count in parts
        )
        told = f"{'about ' if answer.get('is_sample') else ''}{_many(group['count'], 'fact')}"
        told += f": {kinds}" if kinds else ""
        told += "".join(f"; {SHORT[mark]} {count:,}" for mark, count in counts if count)
        name = in_words(group["name"]) if answer.get("grouping") == "type" else group["name"]
        kind, is_uri, _ = group["id"].partition("://")
        dots.append(
            Dot(
                uri,
                f"{name} {group['count']:,}",
                kind if is_uri and answer.get("grouping") == "area" else "",
                1.0 if parent else 0.0,
                parent,
                "group",
                told=told,
                size=round(size, 1),
                tone=UNKNOWN if tones is not None else "",
                parts=parts,
                counts=tuple(one for one in counts if one[1]),
                first=tuple(one["name"] for one in group.get("first", ())),
            )
        )
        dots += [_member(node, uri, group["name"], tones or {}) for node in group.get("members", ())]
    dots.sort(key=lambda dot: dot.cost)
    known = {dot.uri: dot for dot in dots}
    lines = _lines(answer["edges"], known, trees=False)
    most = max((one["count"] for one in answer["links"]), default=1)
    for one in answer["links"]:
        source, target = f"{GROUP}{one['source']}", f"{GROUP}{one['target']}"
        width = round(1 + 6 * sqrt(one["count"] / max(most, MANY)), 1)
        lines.append(Line(source, target, (_many(one["count"], "relation"),), 1.0, width=width, has_arrow=False))
    return Scene(tuple(dots), tuple(lines), arrangement="groups", has_tones=tones is not None)


def _member(node: Mapping[str, Any], parent: str, group: str, tones: Mapping[str, str]) -> Dot:
    """A node that an opened group shows."""
    marks = tuple(mark for mark, flag in FLAGS.items() if node.get(flag))
    return Dot(
        node["uri"],
        node["name"],
        shown_type(node),
        2.0,
        parent,
        summary=node.get("summary", ""),
        marks=marks,
        told="; ".join([f"in {group}", *map(MEANINGS.__getitem__, marks)]),
        tone=tones.get(node["uri"], ""),
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def _parent(node: Mapping[str, Any], known: Collection[str]) -> str:
    """The visible node before a node on its path."""
    via = node.get("via")
    before = [via, *reversed(via.get("through", ()))] if via else []
    return next((step["from"] for step in before if step["from"] in known), "")


def _dot(node: Mapping[str, Any], known: Collection[str], marked: Mapping[Mark, Collection[str]], size: float) -> Dot:
    marks: list[Mark] = [] if "via" in node else ["start"]
    marks += [mark for mark, uris in marked.items() if node["uri"] in uris]
    if node.get("origin", {}).get("trust") == "remote":
        marks.append("foreign")
    return Dot(
        node["uri"],
        node["name"],
        shown_type(node),
        node["cost"],
        _parent(node, known),
        summary=node.get("summary", ""),
        marks=tuple(marks),
        size=size,
    )


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """The names of nodes by URI. A name that several nodes have begins with the folder or namespace of its node, and
    only once: a second call changes nothing."""
    counts = Counter(names.values())
    folders = {uri: namespace_of(uri).rpartition("/")[2] for uri, name in names.items() if name and counts[name] > 1}
    return {
        uri: f"{folder}/{name}" if (folder := folders.get(uri)) and not name.startswith(f"{folder}/") else name
        for uri, name in names.items()
    }


def in_words(type: str) -> str:
    """The name of a type on pages and in pictures."""
    return {"atom": "area", "molecule": "group of areas", "dir": "folder"}.get(type, type)


def shown_type(node: Mapping[str, Any]) -> str:
    """The type to show: file or directory by the scheme, which is more precise than the node's type."""
    scheme: str = node["uri"].partition(":")[0]
    return scheme if scheme in CODE_TREE else node["type"]


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
            found[uri] = Dot(uri, name_of(uri), "", cost, source.uri, "missing", marks=(mark,))
    return list(found.values())


def _lines(edges: Iterable[Mapping[str, Any]], dots: Mapping[str, Dot], *, trees: bool = True) -> list[Line]:
    """One line for each pair of related dots.

    Args:
        trees: Whether parents are previous nodes of paths; a path through hidden nodes then has a line of its own.
    """
    types: dict[tuple[str, str], dict[str, float]] = {}
    for edge in edges:
        if edge["target"] in dots and edge["source"] in dots and edge["source"] != edge["target"]:
            name = edge["type"].replace("_", " ")
            types.setdefault((edge["source"], edge["target"]), {})[name] = edge.get("weight", 1.0)
    lines = []
    drawn = set()
    for (source, target), by_type in types.items():
        is_path = trees and (dots[target].parent == source or dots[source].parent == target)
        drawn.add((source, target))
        lines.append(Line(source, target, tuple(sorted(by_type)), min(by_type.values()), is_path))
    for dot in dots.values() if trees else ():
        if dot.parent and (dot.parent, dot.uri) not in drawn and (dot.uri, dot.parent) not in drawn:
            lines.append(Line(dot.parent, dot.uri, (), dot.cost - dots[dot.parent].cost, is_path=True))
    return lines
