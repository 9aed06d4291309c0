"""This file is where the graph is looked at: what is near some nodes, or the whole workspace; and where it is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from kgd.drawing.scene import MEANINGS, SHAPES, Dot, Scene, scene_of_walk, scene_of_workspace
from kgd.drawing.svg import draw, sample
from kgd.errors import NotFound
from kgd.tools.walking import MOST_NODES
from kgd.ui.asked import Asked, Go, Handled, Page, Whole
from kgd.ui.entry import Entry
from kgd.ui.pages.graph_address import DEAREST, DIRECTIONS, MOST_OFF, Wanted
from kgd.ui.rendering import counted

ROWS = 50
"""Lines of the list that are shown at first."""
HITS = 8
"""Of a question: what the picture begins at."""
MEMBERS = 20
"""Of an area: atoms, or directories, that are begun at beside it."""
LOOKED_AT = 500
"""Nodes among which types are found while some are switched off."""
NONE = "-"
"""A type that nothing has."""
BUDGET = 2_000_000
"""Tokens, more than an answer has room for; it is asked again for the rest."""
TYPE = "type:"


def graph(asked: Asked) -> Handled:
    wanted = Wanted.read(asked)
    known = {"wanted": wanted, "directions": DIRECTIONS, "dearest": DEAREST, "most": MOST_NODES}
    if wanted.is_whole:
        return Page("graph.html", known | _whole(asked))
    if wanted.is_form:
        return Go(wanted.address(asked))  # an address that can be sent to somebody
    wanted = _begun(asked, wanted)
    if not wanted.starts:
        return Page("graph.html", known | {"nothing": wanted.question})
    answer, types, edges = _walk(asked, wanted)
    scene = scene_of_walk(answer)
    title = _title(scene)
    picture = draw(scene, leads=lambda dot: _leads(asked, wanted, dot), title=title)
    return Page("graph.html", known | {
        "wanted": wanted, "title": title, "types": _offered(types, wanted.hidden),
        "edges": _offered(edges, wanted.hidden_edges), "picture": Markup(picture),
        "legend": _legend(scene), "file": wanted.address(asked, "graph.svg"),
        "rows": _rows(asked, wanted, scene), "all_rows": wanted.with_rows(asked, len(scene.dots)),
        "count": len(scene.dots), "starts": _starts(asked, wanted, scene),
        "cut": [_said(cut, wanted) for cut in answer["cut"]] + _lines_left(scene)
        + _types_left(wanted, types, edges),
    })  # fmt: skip


def saved(asked: Asked) -> Handled:
    """The same picture as a file that needs nothing else."""
    wanted = Wanted.read(asked)
    if wanted.is_whole:
        svg = str(asked.call("graph_view")["drawing"])
    else:
        wanted = _begun(asked, wanted)
        if not wanted.starts:
            raise NotFound("nothing was found, so there is nothing to draw", at="q", next="Ask in other words.")
        scene = scene_of_walk(_walk(asked, wanted)[0])
        svg = draw(scene, title=f"{asked.workspace}: {_title(scene)}", alone=True)
    return Whole(svg.encode(), "image/svg+xml", "kgd-graph.svg")


def _whole(asked: Asked) -> dict[str, Any]:
    """Everything: its areas, and its types."""
    answer = asked.call("graph_view")
    areas, types = answer["areas"], answer["types"]
    scene = scene_of_workspace(asked.workspace, areas, types)
    title = f"All of {asked.workspace}"
    told: dict[str, Any] = {
        "title": title, "whole": True, "empty": answer.get("next", ""), "count": len(scene.dots) - 1,
        "cut": [f"Not in the picture: {cut['count']:,} more {cut['limit']}; Areas has them." for cut in answer["cut"]],
    }  # fmt: skip
    if areas or types:
        picture = draw(scene, leads=lambda dot: _leads_inside(asked, dot), title=title)
        told |= {"picture": Markup(picture), "legend": _legend(scene), "file": asked.to("graph.svg")}
        told["rows"] = [
            {"dot": dot, "node": _leads_inside(asked, dot), "marks": [dot.told], "alone": ""} for dot in scene.dots[1:]
        ]
    return told


def _leads_inside(asked: Asked, dot: Dot) -> str:
    """From the whole into a part of it."""
    if dot.shape == "area":
        return asked.to("graph", **{"from": dot.uri})
    return asked.to("graph", type=dot.uri.removeprefix(TYPE)) if dot.uri.startswith(TYPE) else ""


def _begun(asked: Asked, wanted: Wanted) -> Wanted:
    """With starts: what was named, what a question finds, or the newest nodes of a type."""
    if wanted.starts:
        return wanted
    if wanted.question:
        return replace(wanted, starts=_found(asked, wanted.question))
    newest = asked.call("graph_view", types=list(wanted.types), max_cost=0, max_nodes=MEMBERS)["nodes"]
    return replace(wanted, starts=tuple(node["uri"] for node in newest if "via" not in node))


def _found(asked: Asked, question: str) -> tuple[str, ...]:
    """The node that is called so, or lies at that path; else what a search finds."""
    named = asked.call("get", uris=[question]) if " " not in question else {"nodes": []}
    if named["nodes"]:
        return (named["nodes"][0]["uri"],)
    return tuple(hit["uri"] for hit in asked.call("search", query=question, limit=HITS)["hits"])


def _walk(asked: Asked, wanted: Wanted) -> tuple[Mapping[str, Any], list[str], list[str]]:
    """What is near, and which types of nodes and of relations there are to switch off."""
    plain = _traverse(asked, wanted, max(wanted.nodes, LOOKED_AT) if wanted.hidden else wanted.nodes)
    types, edges = _kinds(plain, wanted)
    if not wanted.hidden and not wanted.hidden_edges:
        return plain, types, edges
    shown = sorted(set(types) - set(wanted.hidden)) if wanted.hidden else None
    walked = sorted(set(edges) - set(wanted.hidden_edges)) if wanted.hidden_edges else None
    answer = _traverse(asked, wanted, wanted.nodes, _or_none(shown), _or_none(walked))
    return answer, types, edges


def _or_none(wanted: list[str] | None) -> list[str] | None:
    """An empty list would mean all."""
    return [NONE] if wanted == [] else wanted


def _traverse(
    asked: Asked, wanted: Wanted, nodes: int, types: list[str] | None = None, edges: list[str] | None = None
) -> Mapping[str, Any]:
    start = [*wanted.starts, *_members(asked, wanted.starts)]

    def ask(cursor: str | None, left: int) -> Mapping[str, Any]:
        return asked.call(
            "traverse", start=start, max_cost=wanted.cost, max_nodes=left, budget=BUDGET, direction=wanted.direction,
            types=types, edge_types=edges, as_of=wanted.as_of or None, cursor=cursor,
        )  # fmt: skip

    return _all_pages(ask, nodes)


def _all_pages(ask: Callable[[str | None, int], Mapping[str, Any]], nodes: int) -> dict[str, Any]:
    """What a walk finds up to so many nodes, put together from as many answers as it takes.

    Args:
        ask: Gives the answer of `traverse` behind a cursor, for at most so many nodes.
    """
    whole = dict(ask(None, nodes))
    while (cursor := whole.get("cursor")) and (left := nodes - len(whole["nodes"])) > 0:
        more = ask(cursor, left)
        if not more["nodes"]:
            break
        joined = {name: [*whole[name], *more[name]] for name in ("nodes", "edges", "broken_links", "conflicts")}
        whole = {**whole, **joined, "cut": more["cut"], "cursor": more.get("cursor")}
    return whole


def _members(asked: Asked, starts: tuple[str, ...]) -> list[str]:
    """What belongs to an area that a picture begins at, and no relation leads to: the atoms of a molecule."""
    if len(starts) != 1 or not starts[0].startswith("molecule:"):
        return []
    found = asked.call("query_graph", operation="get", entityType="molecule", id=starts[0], includeChangelog=False)
    return [atom["id"] for atom in found["data"].get("atoms", ())[:MEMBERS]] if found["success"] else []


def _kinds(answer: Mapping[str, Any], wanted: Wanted) -> tuple[list[str], list[str]]:
    """Types of nodes and of relations that there are here, and those that are switched off."""
    types = {_kind(node["uri"], node["type"]) for node in answer["nodes"]} | set(wanted.hidden)
    edges = {edge["type"] for edge in (*answer["edges"], *answer["broken_links"])} | set(wanted.hidden_edges)
    return sorted(types), sorted(edges)


def _offered(types: list[str], hidden: tuple[str, ...]) -> list[str]:
    """Those that are off, and as many others as a form bears: what is not offered stays as it is."""
    others = sorted(set(types) - set(hidden))[: max(0, MOST_OFF - len(hidden))]
    return sorted([*hidden, *others])


def _types_left(wanted: Wanted, types: list[str], edges: list[str]) -> list[str]:
    many = (("types of nodes", types, wanted.hidden), ("types of relations", edges, wanted.hidden_edges))
    return [
        f"Of {len(all_of_them):,} {what} here {len(offered):,} can be switched off by the form."
        for what, all_of_them, hidden in many
        if len(offered := _offered(all_of_them, hidden)) < len(all_of_them)
    ]


def _kind(uri: str, type: str) -> str:
    """As `traverse` takes it: files and directories by what they are."""
    scheme = uri.partition(":")[0]
    return scheme if scheme in ("file", "dir") else type


def _title(scene: Scene) -> str:
    begun = [dot.name for dot in scene.dots if "start" in dot.marks]
    more = f" and {len(begun) - 3} more" if len(begun) > 3 else ""
    return f"Around {', '.join(begun[:3])}{more}"[:200]


def _leads(asked: Asked, wanted: Wanted, dot: Dot) -> str:
    """A dot is gone on from; one that was begun at is shown."""
    if dot.shape == "missing" or "start" in dot.marks:
        return asked.to("node", uri=dot.uri, as_of=wanted.as_of)
    return wanted.begun_at(asked, [*wanted.starts, dot.uri])


def _starts(asked: Asked, wanted: Wanted, scene: Scene) -> list[dict[str, str]]:
    """What the picture begins at, each with the address of the picture without it."""
    begun = [dot for dot in scene.dots if "start" in dot.marks]
    return [
        {
            "uri": dot.uri, "name": dot.name,
            "without": wanted.begun_at(asked, [one.uri for one in begun if one is not dot]),
        }
        for dot in begun
    ]  # fmt: skip


def _rows(asked: Asked, wanted: Wanted, scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "dot": dot, "node": asked.to("node", uri=dot.uri, as_of=wanted.as_of),
            "marks": [MEANINGS[mark] for mark in dot.marks],
            "alone": wanted.begun_at(asked, [dot.uri]) if dot.shape != "missing" else "",
        }
        for dot in scene.dots[: max(ROWS, wanted.rows)]
    ]  # fmt: skip


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
        "max_nodes": f"At least {nodes} would come next: the picture ends at {wanted.nodes:,} nodes.",
        "max_cost": f"Left out beyond cost {wanted.cost:g}: {relations}.",
        "broken_links": f"Left out beside those shown: {counted(count, 'more link')} to what nobody has written.",
        "edges": f"Not looked at, because there are too many: {relations}.",
        "passed_nodes": "Too many nodes of other types lie between; the walk ended there.",
        "elsewhere": f"Of other workspaces {nodes} were reached and not gone on from.",
        "budget": f"Too much for one page: {nodes}.",
    }
    return said.get(limit, f"Left out by {limit}: {count:,}.")


def _lines_left(scene: Scene) -> list[str]:
    left = counted(scene.left_out, "more relation")
    return [f"Not drawn, because there are too many: {left}, the dearest."] if scene.left_out else []


ENTRIES = (Entry("graph", "graph", graph), Entry("graph", "graph.svg", saved))
