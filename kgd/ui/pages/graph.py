"""The page *Graph*: the surroundings of nodes, a path, or the whole workspace in groups; on a page, or as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from kgd.drawing import (
    GROUP,
    MEANINGS,
    Dot,
    Mark,
    Scene,
    in_words,
    scene_of_groups,
    scene_of_walk,
    shown_type,
)
from kgd.drawing.looks import place_of
from kgd.drawing.svg import draw, sample
from kgd.errors import NotFound
from kgd.model.uri import is_owned, path_of
from kgd.tools.read.grouping import OUTSIDE
from kgd.tools.read.traverse import MOST_NODES
from kgd.ui.pages.graph_walk import (
    COLOURS,
    COST,
    DEAREST,
    DIRECTIONS,
    GROUPINGS,
    MOST_OFF,
    TYPE,
    Wanted,
    begun,
    card_of,
    found,
    legend_of,
    marked,
    paths,
    similar,
    variants,
    walk,
    without,
)
from kgd.ui.rendering import counted
from kgd.ui.visit import Download, Entry, Handled, Page, Redirect, Visit
from kgd.ui.words import verb_of, words_of

WORDING = {"in_words": in_words, "words_of": words_of, "verb_of": verb_of}
BADGES: Mapping[Mark, str] = {
    "conflict": "conflict",
    "unverified": "stale",
    "proposed": "proposed",
    "missing": MEANINGS["missing"],
}
"""Marks of nodes in the list beside the picture."""
ROWS = 50
"""Number of rows that the list shows at first."""
FACTS = 100
"""Largest number of facts about an area that are compared with the picture."""
NEIGHBOURS = 20
"""Largest number of nodes of one relation in the list beside the picture."""


def graph(visit: Visit) -> Handled:
    wanted = Wanted.read(visit)
    if wanted.is_form:
        return Redirect(wanted.address(visit))  # an address that can be shared
    shown = _whole if wanted.is_whole else _path if wanted.to else _around
    told: dict[str, Any] = {
        "most": MOST_NODES,
        "dearest": DEAREST,
        "directions": DIRECTIONS,
        "groupings": GROUPINGS,
        "colours": COLOURS,
        "shown_neighbours": NEIGHBOURS,
        "usual_cost": f"{COST:g}",
        "wanted": wanted,
        **WORDING,
        **shown(visit, wanted),
    }
    told["ends"] = _ends(visit, told["wanted"])
    return Page("graph.html", {"card": card_of(visit, told["wanted"]), **told})


def saved(visit: Visit) -> Handled:
    """Return the picture as a self-contained SVG file."""
    wanted = Wanted.read(visit)
    if wanted.is_whole:
        svg = str(_grouped(visit, wanted)["drawing"])
    else:
        wanted, unknown = _both_ends(visit, wanted) if wanted.to else (begun(visit, wanted)[0], {})
        if unknown or not wanted.starts:
            raise NotFound("no fact was found to draw", at="q", next="Try other words.")
        if is_path := bool(wanted.to):
            alternatives = paths(visit, wanted)
            answer = marked(visit, wanted, alternatives[_alternative(alternatives, wanted)])
        else:
            answer = walk(visit, wanted)[0]
        scene = scene_of_walk(answer, is_path=is_path)
        svg = draw(scene, title=f"{visit.workspace}: {_title(scene)}", alone=True)
    return Download(svg.encode(), "image/svg+xml", "kgd-graph.svg")


def _grouped(visit: Visit, wanted: Wanted) -> Mapping[str, Any]:
    return visit.call("graph_view", group=wanted.group, opened=list(wanted.opened), colour=wanted.colour)


def _whole(visit: Visit, wanted: Wanted) -> dict[str, Any]:
    """Show the whole workspace in groups."""
    answer = _grouped(visit, wanted)
    wanted = replace(wanted, group=answer["grouping"])
    shown = without(answer, wanted.hidden) if wanted.hidden and wanted.colour == TYPE else answer
    scene = scene_of_groups(shown)
    groups, looked_at, in_all = answer["groups"], answer["looked_at"], answer["nodes_in_all"]
    sampled = f"Counts are estimates from a sample of {looked_at:,} of {in_all:,} facts."
    opened = [
        f"{group['name']}: the {len(group['members']):,} facts with the most relations, of {group['count']:,}."
        for group in groups
        if 0 < len(group.get("members", ())) < group["count"]
    ]
    title = f"All of {visit.workspace}"
    told: dict[str, Any] = {"title": title, "whole": True, "empty": answer.get("next", ""), "wanted": wanted}
    if not groups:
        return told
    rows = [
        {"dot": dot, "node": _link(visit, wanted, scene, dot), "marks": [dot.told], "alone": ""} for dot in scene.dots
    ]
    return (
        told
        | {"hint": f"{_summary(answer)}. Click a circle to open it.", "opened": _opened(visit, wanted, scene, groups)}
        | {"cut": [sampled] * answer["is_sample"] + opened}
        | _drawn(visit, wanted, scene, title)
        | {"rows": rows[: max(ROWS, wanted.rows)]}
    )


def _summary(answer: Mapping[str, Any]) -> str:
    """Count the facts of the whole workspace; areas and their groups are nodes, but in no group of the picture."""
    containers = {one.get("inside") for one in answer["groups"]}
    counts = {one["id"]: one["count"] for one in answer["groups"] if one["id"] not in containers}
    if answer["grouping"] != "area":
        return f"{counted(answer['nodes_in_all'], 'fact')} in {counted(len(counts), 'group')}"
    outside = counts.pop(OUTSIDE, 0)
    areas = counted(len(counts), "area") if all(map(_has_members, counts)) else "areas"
    facts = f"{counted(sum(counts.values()), 'fact')} in {areas}"
    return f"{facts}, {outside:,} outside" if outside else facts


def _opened(visit: Visit, wanted: Wanted, scene: Scene, groups: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the opened groups, each with its page if it is an area, and the address of the picture without it."""
    dots = {dot.uri: dot for dot in scene.dots}
    return [
        {
            "name": group["name"],
            "link": visit.to("area", uri=group["id"]) if group["id"].startswith("atom:") else "",
            "without": _link(visit, wanted, scene, dots[f"{GROUP}{group['id']}"]),
        }
        for group in groups
        if "members" in group
    ]


def _path(visit: Visit, wanted: Wanted) -> dict[str, Any]:
    """Show the cheapest path between two nodes."""
    wanted, unknown = _both_ends(visit, wanted)
    if unknown:
        return {"wanted": wanted, **unknown}
    alternatives = paths(visit, wanted)
    alternative = _alternative(alternatives, wanted)
    weights = {edge["weight"] for one in alternatives for edge in one["edges"]}
    has_costs = len(weights) > 1
    answer = marked(visit, wanted, alternatives[alternative])
    scene = scene_of_walk(answer, is_path=True)
    names = {dot.uri: dot.name for dot in scene.dots}
    if answer.get("unreached"):
        ends = names[scene.dots[0].uri], _ends(visit, wanted)["to"][1]
        return {"wanted": wanted, "title": "No path", "unreached": ends}
    title = _title(scene)
    steps = counted(len(scene.dots) - 1, "step")
    costs = {(edge["source"], edge["target"], edge["type"]): edge["weight"] for edge in answer["edges"]}
    shared = set.intersection(*({node["uri"] for node in one["nodes"]} for one in alternatives))
    return {
        "wanted": wanted,
        "title": title,
        "hint": steps + (f", total cost {scene.dots[-1].cost:g} (a full step costs 1)" if has_costs else ""),
        "has_costs": has_costs,
        "steps": [_step(visit, wanted, node, costs) for node in answer["nodes"]],
        "alternative": alternative,
        "alternatives": [_variants(visit, wanted, alternatives, group, shared) for group in variants(alternatives)],
        "reverse": wanted.reversed(visit),
        "cut": _lines_left(scene),
        **_drawn(visit, wanted, scene, title),
    }


def _variants(
    visit: Visit, wanted: Wanted, paths: Sequence[Mapping[str, Any]], group: Sequence[int], shared: set[str]
) -> dict[str, Any]:
    """Return a group of alternatives: the names of the nodes between the ends that its paths have in common, if there
    are several, and for each path its number, cost, steps, other nodes and address. The nodes that all alternatives
    share are no other nodes."""
    inner = [{node["uri"]: node["name"] for node in paths[number]["nodes"][1:-1]} for number in group]
    common = set.intersection(*map(set, inner)) if len(group) > 1 else set[str]()
    return {
        "common": [name for uri, name in inner[0].items() if uri in common],
        "rows": [
            (
                number,
                paths[number]["nodes"][-1]["cost"],
                len(paths[number]["nodes"]) - 1,
                [name for uri, name in names.items() if uri not in common | shared],
                wanted.changed(visit, alternative=number, node="", rows=0),
            )
            for number, names in zip(group, inner, strict=True)
        ],
    }


def _alternative(alternatives: Sequence[Mapping[str, Any]], wanted: Wanted) -> int:
    """Return the number of the wanted path, or of the last one if there are fewer."""
    return min(max(wanted.alternative, 0), len(alternatives) - 1)


def _both_ends(visit: Visit, wanted: Wanted) -> tuple[Wanted, dict[str, Any]]:
    """Replace names by nodes. If a name stands for no node or for several, return the message or the choice as well."""
    for end, text in (("from", next(iter(wanted.starts), "")), ("to", wanted.to)):
        if "://" in text:
            continue
        hits, is_name = found(visit, text) if text else ((), False)
        if not hits:
            near = [(one["name"], _at_end(wanted, end, one["uri"]).address(visit)) for one in similar(visit, text)]
            return wanted, {"nothing": text, "near": near}
        at = [(hit, _at_end(wanted, end, hit["uri"])) for hit in hits]
        if not is_name or len(hits) > 1:
            return wanted, _choice(text, [(hit, one.address(visit)) for hit, one in at], is_name=is_name)
        wanted = at[0][1]
    return wanted, {}


def _at_end(wanted: Wanted, end: str, uri: str) -> Wanted:
    """Return the path with another first or last node."""
    return replace(wanted, to=uri) if end == "to" else replace(wanted, starts=(uri,))


def _choice(name: str, nodes: Sequence[tuple[Mapping[str, Any], str]], *, is_name: bool = True) -> dict[str, Any]:
    """Return the nodes of one name, each with its path.

    Args:
        nodes: Each with the address of its picture.
        is_name: Whether they have this name; otherwise a search for it found them.
    """
    rows = [
        {
            "name": node["name"],
            "type": shown_type(node),
            "path": path_of(node["uri"]) if is_owned(node["uri"]) else node["uri"],
            "link": link,
        }
        for node, link in nodes
    ]
    return {"choice": {"name": name, "rows": rows, "is_name": is_name}}


def _ends(visit: Visit, wanted: Wanted) -> dict[str, tuple[str, str]]:
    """Return URI and name of the chosen ends of a path; text that is no URI is its own name."""
    ends = {"from": wanted.path_from or (wanted.starts[0] if wanted.to and wanted.starts else ""), "to": wanted.to}
    uris = [end for end in ends.values() if "://" in end]
    found = visit.call("get", uris=uris, include=[], as_of=wanted.as_of or None)["nodes"] if uris else []
    names = {node["uri"]: node["name"] for node in found}
    return {end: (text if text in names else "", names.get(text, text)) for end, text in ends.items()}


def _step(visit: Visit, wanted: Wanted, node: Mapping[str, Any], costs: Mapping[Any, float]) -> dict[str, Any]:
    """Return one node of a path, and the relation that leads to it."""
    step: dict[str, Any] = {"node": node, "link": wanted.changed(visit, node=node["uri"])}
    if via := node.get("via"):
        backward = via.get("direction") == "in"
        ends = (node["uri"], via["from"]) if backward else (via["from"], node["uri"])
        step |= {"type": via["type"], "backward": backward, "weight": costs.get((*ends, via["type"]))}
    return step


def _around(visit: Visit, wanted: Wanted) -> dict[str, Any]:
    """Show the nodes around the starts."""
    wanted, namesakes = begun(visit, wanted)
    if namesakes:
        nodes = [(node, wanted.begun_at(visit, [node["uri"]])) for node in namesakes]
        return {"wanted": replace(wanted, starts=()), **_choice(wanted.question, nodes)}
    if not wanted.starts:
        near = [(one["name"], wanted.begun_at(visit, [one["uri"]])) for one in similar(visit, wanted.question)]
        return {"wanted": wanted, "nothing": wanted.question, "near": near}
    answer, edges = walk(visit, wanted)
    scene = scene_of_walk(answer)
    title = _title(scene)
    facts, undrawn = _undrawn(visit, wanted, scene)
    further = sum(cut["count"] for cut in answer["cut"] if cut["limit"] == "max_cost")
    return {
        "wanted": wanted,
        "title": title,
        "hint": f"{counted(len(scene.dots), 'fact or file', 'facts and files')}, the most related in the middle.",
        "undrawn": undrawn,
        "not_drawn": f"{len(undrawn):,} of {counted(facts, 'fact')} not drawn",
        "facts": facts,
        "is_only_files": _is_only_files(wanted, answer),
        "further": f"{counted(further, 'relation')} {'lead' if further != 1 else 'leads'} further." if further else "",
        "usual": "" if wanted.cost == COST else wanted.changed(visit, cost=COST),
        "edges": _offered(edges, wanted.hidden_edges),
        "starts": _starts(visit, wanted, scene),
        "neighbours": _neighbours(visit, wanted, scene, answer),
        "cut": [_said(cut, wanted) for cut in answer["cut"]] + _lines_left(scene) + _types_left(wanted, edges),
        **_drawn(visit, wanted, scene, title),
    }


def _neighbours(visit: Visit, wanted: Wanted, scene: Scene, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the relations of the starts by type and direction, the nearest first."""
    dots = {dot.uri: dot for dot in scene.dots}
    starts = {uri for uri, dot in dots.items() if "start" in dot.marks}
    found: dict[tuple[str, bool], dict[str, float]] = {}
    for edge in (*answer["edges"], *answer["broken_links"]):
        for one, other, is_incoming in (
            (edge["source"], edge["target"], False),
            (edge["target"], edge["source"], True),
        ):
            if one in starts and other in dots and other not in starts:
                found.setdefault((edge["type"], is_incoming), {})[other] = edge.get("weight", 1.0)
    return [
        {
            "words": "facts about it" if is_incoming and type == "about" else words_of(type, is_incoming),
            "rows": [_neighbour(visit, wanted, dot) for dot in sorted(map(dots.__getitem__, near), key=_in_order)],
        }
        for (type, is_incoming), near in sorted(found.items(), key=lambda one: min(one[1].values()))
    ]


def _undrawn(visit: Visit, wanted: Wanted, scene: Scene) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of facts about the start, if it is an area, and those that the picture lacks: a task, for
    example, belongs to the area of its files, but has no relation to it."""
    area = wanted.starts[0] if len(wanted.starts) == 1 else ""
    drawn = {dot.uri for dot in scene.dots}
    is_area = area.startswith("atom://") and not wanted.as_of
    answer = visit.tried("area_facts", area=area, limit=FACTS) if is_area else {}
    facts = answer.get("facts", ())
    left = [one for one in facts if one["uri"] not in drawn and one["type"] not in wanted.hidden]
    dots = (Dot(one["uri"], one["name"], shown_type(one), 0.0) for one in left)
    return answer.get("total", 0), [_neighbour(visit, wanted, dot) for dot in dots]


def _is_only_files(wanted: Wanted, answer: Mapping[str, Any]) -> bool:
    """Whether the picture has every fact that is related to the start itself, so that others are about its files."""
    limits = {cut["limit"] for cut in answer["cut"]}
    return wanted.cost >= 1 and wanted.direction == "both" and not wanted.hidden_edges and limits <= {"max_cost"}


def _in_order(dot: Dot) -> tuple[Any, ...]:
    return place_of(dot.type), dot.cost, dot.name


def _neighbour(visit: Visit, wanted: Wanted, dot: Dot) -> dict[str, Any]:
    return {
        "name": dot.name or dot.uri,
        "link": wanted.changed(visit, node=dot.uri),
        "figure": Markup(sample(dot.type, dot.marks if dot.shape == "missing" else (), dot.tone)),
        "marks": [BADGES[mark] for mark in dot.marks if mark in BADGES],
    }


def _drawn(visit: Visit, wanted: Wanted, scene: Scene, title: str) -> dict[str, Any]:
    """Return the picture, its legend and its list."""
    picture = draw(scene, link=lambda dot: _link(visit, wanted, scene, dot), title=title, selected=wanted.node)
    return {
        "picture": Markup(picture),
        "legend": legend_of(visit, wanted, scene),
        "file": replace(wanted, node="", path_from="").address(visit, "graph.svg"),
        "rows": _rows(visit, wanted, scene),
        "all_rows": wanted.changed(visit, rows=len(scene.dots)),
        "count": len(scene.dots),
    }


def _offered(types: list[str], hidden: tuple[str, ...]) -> list[str]:
    """Return the types that a form offers: the hidden types, and other types up to `MOST_OFF`."""
    others = sorted(set(types) - set(hidden))[: max(0, MOST_OFF - len(hidden))]
    return sorted([*hidden, *others])


def _types_left(wanted: Wanted, edges: list[str]) -> list[str]:
    offered = _offered(edges, wanted.hidden_edges)
    left = len(offered) < len(edges)
    return [f"The form offers {len(offered):,} of {len(edges):,} relation types."] if left else []


def _title(scene: Scene) -> str:
    if scene.arrangement == "path":
        return f"{scene.dots[0].name} → {scene.dots[-1].name}"[:200]
    begun = [dot.name for dot in scene.dots if "start" in dot.marks]
    more = f" and {len(begun) - 3} more" if len(begun) > 3 else ""
    return f"Around {', '.join(begun[:3])}{more}"[:200]


def _link(visit: Visit, wanted: Wanted, scene: Scene, dot: Dot) -> str:
    """Return the link of a dot: it selects a node, or opens or closes a group, with the groups inside of it."""
    if dot.shape != "group":
        return wanted.changed(visit, node=dot.uri)
    id = dot.uri.removeprefix(GROUP)
    inside = {one.uri.removeprefix(GROUP) for one in scene.dots if one.parent == dot.uri}
    opened = [one for one in wanted.opened if one != id and one not in inside]
    if len(opened) == len(wanted.opened):
        opened.append(id)
    if any(map(_has_members, opened)) != any(map(_has_members, wanted.opened)):
        opened = list(filter(_has_members, opened))  # the ids of groups of areas now mean the opposite
    return wanted.grouped(visit, wanted.group, opened)


def _has_members(id: str) -> bool:
    """Whether an opened group shows its nodes, which a group of areas does not."""
    return not id.startswith("molecule:")


def _starts(visit: Visit, wanted: Wanted, scene: Scene) -> list[dict[str, str]]:
    """Return the start nodes, each with the address of the picture without it."""
    starts = [dot for dot in scene.dots if "start" in dot.marks]
    return [
        {
            "uri": dot.uri,
            "name": dot.name,
            "link": wanted.changed(visit, node=dot.uri),
            "without": wanted.begun_at(visit, [one.uri for one in starts if one is not dot]),
        }
        for dot in starts
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


def _said(cut: Mapping[str, Any], wanted: Wanted) -> str:
    count, limit = cut["count"], cut["limit"]
    nodes, relations = counted(count, "more fact"), counted(count, "more relation")
    said = {
        "max_nodes": f"Limited to {wanted.nodes:,} facts: at least {nodes} not shown.",
        "max_cost": f"Beyond cost {wanted.cost:g}: {relations}.",
        "broken_links": f"Not shown: {counted(count, 'more broken link')}.",
        "edges": f"Too many to follow: {relations}.",
        "passed_nodes": "The walk ended early: too many facts of hidden types lie between.",
        "elsewhere": f"Not expanded: {nodes} of other workspaces.",
        "budget": f"Too many facts for one page: {nodes}.",
    }
    return said.get(limit, f"Omitted by {limit}: {count:,}.")


def _lines_left(scene: Scene) -> list[str]:
    left = counted(scene.left_out, "more relation")
    return [f"Too many to draw: {left}, those with the highest cost."] if scene.left_out else []


def card(visit: Visit) -> Handled:
    """Return the card alone, for a page that shows the picture already."""
    wanted = Wanted.read(visit)
    return Page("graph_card.html", {"card": card_of(visit, wanted), "wanted": wanted, **WORDING})


ENTRIES = (Entry("graph", "graph", graph), Entry("graph", "graph.svg", saved), Entry("graph", "graph/card", card))
