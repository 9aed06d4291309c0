"""The page *Graph*: the surroundings of nodes, or the whole workspace, on a page or as an SVG file. Addresses can be
shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from markupsafe import Markup

from kgd.drawing.scene import MEANINGS, SHAPES, Dot, Scene, scene_of_walk, scene_of_workspace
from kgd.drawing.svg import draw, sample
from kgd.errors import Invalid, NotFound
from kgd.tools.read.traverse import MOST_NODES
from kgd.ui.rendering import counted
from kgd.ui.visit import Download, Entry, Handled, Page, Redirect, Visit

ROWS = 50
"""Number of rows that the list shows at first."""
HITS = 8
"""Largest number of start nodes for a question."""
MEMBERS = 20
"""Largest number of a molecule's atoms that become start nodes with it."""
LOOKED_AT = 500
"""Number of nodes to search for types while some types are hidden."""
NONE = "-"
"""A type without nodes."""
BUDGET = 2_000_000
"""Token budget, larger than any answer; further pages are fetched by cursor."""
TYPE = "type:"


def graph(visit: Visit) -> Handled:
    wanted = Wanted.read(visit)
    known = {"wanted": wanted, "directions": DIRECTIONS, "dearest": DEAREST, "most": MOST_NODES}
    if wanted.is_whole:
        return Page("graph.html", known | _whole(visit))
    if wanted.is_form:
        return Redirect(wanted.address(visit))  # an address that can be shared
    wanted = _begun(visit, wanted)
    if not wanted.starts:
        return Page("graph.html", known | {"nothing": wanted.question})
    answer, types, edges = _walk(visit, wanted)
    scene = scene_of_walk(answer)
    title = _title(scene)
    picture = draw(scene, leads=lambda dot: _leads(visit, wanted, dot), title=title)
    return Page(
        "graph.html",
        known
        | {
            "wanted": wanted,
            "title": title,
            "types": _offered(types, wanted.hidden),
            "edges": _offered(edges, wanted.hidden_edges),
            "picture": Markup(picture),
            "legend": _legend(scene),
            "file": wanted.address(visit, "graph.svg"),
            "rows": _rows(visit, wanted, scene),
            "all_rows": wanted.with_rows(visit, len(scene.dots)),
            "count": len(scene.dots),
            "starts": _starts(visit, wanted, scene),
            "cut": [_said(cut, wanted) for cut in answer["cut"]]
            + _lines_left(scene)
            + _types_left(wanted, types, edges),
        },
    )


def saved(visit: Visit) -> Handled:
    """Return the picture as a self-contained SVG file."""
    wanted = Wanted.read(visit)
    if wanted.is_whole:
        svg = str(visit.call("graph_view")["drawing"])
    else:
        wanted = _begun(visit, wanted)
        if not wanted.starts:
            raise NotFound("no node was found to draw", at="q", next="Try other words.")
        scene = scene_of_walk(_walk(visit, wanted)[0])
        svg = draw(scene, title=f"{visit.workspace}: {_title(scene)}", alone=True)
    return Download(svg.encode(), "image/svg+xml", "kgd-graph.svg")


def _whole(visit: Visit) -> dict[str, Any]:
    """Show the whole workspace by areas and types."""
    answer = visit.call("graph_view")
    areas, types = answer["areas"], answer["types"]
    scene = scene_of_workspace(visit.workspace, areas, types)
    title = f"All of {visit.workspace}"
    told: dict[str, Any] = {
        "title": title,
        "whole": True,
        "empty": answer.get("next", ""),
        "count": len(scene.dots) - 1,
        "cut": [f"Not shown: {cut['count']:,} more {cut['limit']}; see Areas." for cut in answer["cut"]],
    }
    if areas or types:
        picture = draw(scene, leads=lambda dot: _leads_inside(visit, dot), title=title)
        told |= {"picture": Markup(picture), "legend": _legend(scene), "file": visit.to("graph.svg")}
        told["rows"] = [
            {"dot": dot, "node": _leads_inside(visit, dot), "marks": [dot.told], "alone": ""} for dot in scene.dots[1:]
        ]
    return told


def _leads_inside(visit: Visit, dot: Dot) -> str:
    """Return the address of a part of the whole workspace."""
    if dot.shape == "area":
        return visit.to("graph", **{"from": dot.uri})
    return visit.to("graph", type=dot.uri.removeprefix(TYPE)) if dot.uri.startswith(TYPE) else ""


def _begun(visit: Visit, wanted: Wanted) -> Wanted:
    """Add start nodes: from the address, from a question, or the newest nodes of a type."""
    if wanted.starts:
        return wanted
    if wanted.question:
        return replace(wanted, starts=_found(visit, wanted.question))
    newest = visit.call("graph_view", types=list(wanted.types), max_cost=0, max_nodes=MEMBERS)["nodes"]
    return replace(wanted, starts=tuple(node["uri"] for node in newest if "via" not in node))


def _found(visit: Visit, question: str) -> tuple[str, ...]:
    """Return the node of that name or path, otherwise the hits of a search."""
    named = visit.call("get", uris=[question]) if " " not in question else {"nodes": []}
    if named["nodes"]:
        return (named["nodes"][0]["uri"],)
    return tuple(hit["uri"] for hit in visit.call("search", query=question, limit=HITS, lanes="one")["hits"][:HITS])


def _walk(visit: Visit, wanted: Wanted) -> tuple[Mapping[str, Any], list[str], list[str]]:
    """Return the nearest nodes, and the types of nodes and relations among them."""
    plain = _traverse(visit, wanted, max(wanted.nodes, LOOKED_AT) if wanted.hidden else wanted.nodes)
    types, edges = _kinds(plain, wanted)
    if not wanted.hidden and not wanted.hidden_edges:
        return plain, types, edges
    shown = sorted(set(types) - set(wanted.hidden)) if wanted.hidden else None
    walked = sorted(set(edges) - set(wanted.hidden_edges)) if wanted.hidden_edges else None
    answer = _traverse(visit, wanted, wanted.nodes, _or_none(shown), _or_none(walked))
    return answer, types, edges


def _or_none(wanted: list[str] | None) -> list[str] | None:
    """Replace an empty list, which would mean all types."""
    return [NONE] if wanted == [] else wanted


def _traverse(
    visit: Visit, wanted: Wanted, nodes: int, types: list[str] | None = None, edges: list[str] | None = None
) -> Mapping[str, Any]:
    start = [*wanted.starts, *_members(visit, wanted.starts)]

    def ask(cursor: str | None, left: int) -> Mapping[str, Any]:
        return visit.call(
            "traverse",
            start=start,
            max_cost=wanted.cost,
            max_nodes=left,
            budget=BUDGET,
            direction=wanted.direction,
            include="edges",
            types=types,
            edge_types=edges,
            as_of=wanted.as_of or None,
            cursor=cursor,
        )

    return _all_pages(ask, nodes)


def _all_pages(ask: Callable[[str | None, int], Mapping[str, Any]], nodes: int) -> dict[str, Any]:
    """Join the pages of a walk, up to a number of nodes.

    Args:
        ask: Returns a page of `traverse` for a cursor and a largest number of nodes.
    """
    whole = dict(ask(None, nodes))
    while (cursor := whole.get("cursor")) and (left := nodes - len(whole["nodes"])) > 0:
        more = ask(cursor, left)
        if not more["nodes"]:
            break
        joined = {name: [*whole[name], *more[name]] for name in ("nodes", "edges", "broken_links", "conflicts")}
        whole = {**whole, **joined, "cut": more["cut"], "cursor": more.get("cursor")}
    return whole


def _members(visit: Visit, starts: tuple[str, ...]) -> list[str]:
    """Return the atoms of a single start molecule, to which no relation of the molecule leads."""
    if len(starts) != 1 or not starts[0].startswith("molecule:"):
        return []
    found = visit.call("query_graph", operation="get", entityType="molecule", id=starts[0], includeChangelog=False)
    return [atom["id"] for atom in found["data"].get("atoms", ())[:MEMBERS]] if found["success"] else []


def _kinds(answer: Mapping[str, Any], wanted: Wanted) -> tuple[list[str], list[str]]:
    """Return the types of nodes and relations in an answer, and the hidden types."""
    types = {_kind(node["uri"], node["type"]) for node in answer["nodes"]} | set(wanted.hidden)
    edges = {edge["type"] for edge in (*answer["edges"], *answer["broken_links"])} | set(wanted.hidden_edges)
    return sorted(types), sorted(edges)


def _offered(types: list[str], hidden: tuple[str, ...]) -> list[str]:
    """Return the types that a form offers: the hidden types, and other types up to `MOST_OFF`."""
    others = sorted(set(types) - set(hidden))[: max(0, MOST_OFF - len(hidden))]
    return sorted([*hidden, *others])


def _types_left(wanted: Wanted, types: list[str], edges: list[str]) -> list[str]:
    many = (("node types", types, wanted.hidden), ("relation types", edges, wanted.hidden_edges))
    return [
        f"The form offers {len(offered):,} of {len(all_of_them):,} {what}."
        for what, all_of_them, hidden in many
        if len(offered := _offered(all_of_them, hidden)) < len(all_of_them)
    ]


def _kind(uri: str, type: str) -> str:
    """Return the type as `traverse` names it: files and directories by their scheme."""
    scheme = uri.partition(":")[0]
    return scheme if scheme in ("file", "dir") else type


def _title(scene: Scene) -> str:
    begun = [dot.name for dot in scene.dots if "start" in dot.marks]
    more = f" and {len(begun) - 3} more" if len(begun) > 3 else ""
    return f"Around {', '.join(begun[:3])}{more}"[:200]


def _leads(visit: Visit, wanted: Wanted, dot: Dot) -> str:
    """Return the link of a dot: it expands the graph, or opens a start node."""
    if dot.shape == "missing" or "start" in dot.marks:
        return visit.to("node", uri=dot.uri, as_of=wanted.as_of)
    return wanted.begun_at(visit, [*wanted.starts, dot.uri])


def _starts(visit: Visit, wanted: Wanted, scene: Scene) -> list[dict[str, str]]:
    """Return the start nodes, each with the address of the picture without it."""
    begun = [dot for dot in scene.dots if "start" in dot.marks]
    return [
        {
            "uri": dot.uri,
            "name": dot.name,
            "without": wanted.begun_at(visit, [one.uri for one in begun if one is not dot]),
        }
        for dot in begun
    ]


def _rows(visit: Visit, wanted: Wanted, scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "dot": dot,
            "node": visit.to("node", uri=dot.uri, as_of=wanted.as_of),
            "marks": [MEANINGS[mark] for mark in dot.marks],
            "alone": wanted.begun_at(visit, [dot.uri]) if dot.shape != "missing" else "",
        }
        for dot in scene.dots[: max(ROWS, wanted.rows)]
    ]


def _legend(scene: Scene) -> list[tuple[Markup, str]]:
    shapes = [(Markup(sample(shape)), SHAPES[shape]) for shape in scene.shapes if shape != "missing"]
    marks = [
        (Markup(sample("missing" if mark in ("missing", "unreachable") else "knowledge", (mark,))), MEANINGS[mark])
        for mark in scene.marks
        if scene.is_measured
    ]
    return shapes + marks


def _said(cut: Mapping[str, Any], wanted: Wanted) -> str:
    count, limit = cut["count"], cut["limit"]
    nodes, relations = counted(count, "more node"), counted(count, "more relation")
    said = {
        "max_nodes": f"Limited to {wanted.nodes:,} nodes: at least {nodes} not shown.",
        "max_cost": f"Beyond cost {wanted.cost:g}: {relations}.",
        "broken_links": f"Not shown: {counted(count, 'more broken link')}.",
        "edges": f"Too many to follow: {relations}.",
        "passed_nodes": "The walk ended early: too many nodes of hidden types lie between.",
        "elsewhere": f"Not expanded: {nodes} of other workspaces.",
        "budget": f"Too many nodes for one page: {nodes}.",
    }
    return said.get(limit, f"Omitted by {limit}: {count:,}.")


def _lines_left(scene: Scene) -> list[str]:
    left = counted(scene.left_out, "more relation")
    return [f"Too many to draw: {left}, at the highest cost."] if scene.left_out else []


ENTRIES = (Entry("graph", "graph", graph), Entry("graph", "graph.svg", saved))


COST, NODES = 1.0, 60
DEAREST = 5
"""Maximum of the slider; the number field accepts more."""
DIRECTIONS = {"both": "both", "out": "outgoing", "in": "incoming"}
MOST_STARTS = 100
MOST_OFF = 60
"""Largest number of hidden types, of nodes and of relations each; every link of a picture repeats them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The view that an address of the graph describes.

    Without `starts` and `question`, `types` selects the start nodes. `hidden` and `hidden_edges` are hidden types of
    nodes and relations. `rows` is the length of the list, `is_form` whether a form was submitted.
    """

    starts: tuple[str, ...] = ()
    question: str = ""
    cost: float = COST
    nodes: int = NODES
    direction: str = "both"
    types: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    hidden_edges: tuple[str, ...] = ()
    as_of: str = ""
    rows: int = 0
    is_form: bool = False

    @classmethod
    def read(cls, visit: Visit) -> Wanted:
        """Parse an address. Raises Invalid for a malformed number or an unknown direction."""
        direction = visit.query.get("direction") or "both"
        if direction not in DIRECTIONS:
            raise Invalid("unknown direction", at="direction", next=f"Known: {', '.join(DIRECTIONS)}.")
        starts = tuple(dict.fromkeys(text.strip() for text in visit.many("from") if text.strip()))
        if len(starts) > MOST_STARTS:
            raise Invalid(f"a graph has at most {MOST_STARTS} start nodes", at="from", next="Remove some start nodes.")
        hidden, hidden_edges = _off(visit, "hide", "of", "show"), _off(visit, "hide_edge", "of_edge", "show_edge")
        if max(len(hidden), len(hidden_edges)) > MOST_OFF:
            raise Invalid(f"at most {MOST_OFF} types can be hidden", at="hide", next="Show some types.")
        return cls(
            starts,
            visit.query.get("q", "").strip(),
            _number(visit, "cost", COST),
            int(_number(visit, "nodes", NODES)),
            direction,
            _some(visit, "type"),
            hidden,
            hidden_edges,
            visit.query.get("as_of", "").strip(),
            int(_number(visit, "rows", 0)),
            "form" in visit.query,
        )

    @property
    def is_whole(self) -> bool:
        """Whether the view has no start."""
        return not (self.starts or self.question or self.types)

    def address(self, visit: Visit, page: str = "graph") -> str:
        """Return the address of this view, without default values."""
        return visit.to(
            page,
            **{"from": list(self.starts)},
            q="" if self.starts else self.question,
            cost=_told(self.cost, COST),
            nodes=_told(self.nodes, NODES),
            direction=self.direction if self.direction != "both" else "",
            type=list(self.types) if not self.starts else [],
            hide=list(self.hidden),
            hide_edge=list(self.hidden_edges),
            as_of=self.as_of,
            rows=_told(self.rows, 0),
        )

    def begun_at(self, visit: Visit, starts: Sequence[str]) -> str:
        """Return the address of this view with other start nodes; without any, the address of the whole workspace."""
        return replace(self, starts=tuple(dict.fromkeys(starts)), question="", rows=0).address(visit)

    def now(self, visit: Visit) -> str:
        """Return the address of this view at the current tip."""
        return replace(self, as_of="").address(visit)

    def with_rows(self, visit: Visit, count: int) -> str:
        return replace(self, rows=count).address(visit)


def _some(visit: Visit, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, visit.many(name))))


def _off(visit: Visit, name: str, offered: str, chosen: str) -> tuple[str, ...]:
    """Return the hidden types: by name, or offered by a form and not checked."""
    shown = _some(visit, chosen)
    return tuple(sorted({*_some(visit, name), *_some(visit, offered)} - set(shown)))


def _number(visit: Visit, name: str, usual: float) -> float:
    text = visit.query.get(name, "").strip()
    try:
        number = float(text) if text else usual
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise Invalid(f"'{text[:40]}' is not a number", at=name, next="Enter a number, such as 1.5.")
    return number


def _told(number: float, usual: float) -> str:
    return "" if number == usual else f"{number:g}"
