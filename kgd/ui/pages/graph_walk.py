"""Parts of the page *Graph*: the view that an address describes, and can share; walks with their start nodes, paths and
filters; the card of a node; and the legend, which explains each figure and hides or shows the nodes of a type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, cast

from markupsafe import Markup

from kgd.drawing import MEANINGS, UNKNOWN, Mark, Scene, in_words, shown_type, told_apart
from kgd.drawing.looks import TONES
from kgd.drawing.svg import HUES, Style, badge_sample, line_sample, sample, style_sample
from kgd.errors import Invalid, KgdError
from kgd.model.uri import IN_CODE, scheme_of
from kgd.tools.read.grouping import Colour, Grouping, proposed_of_walk, tones_of_walk
from kgd.ui.node_reading import AREAS, WHOLE, links, version_authors
from kgd.ui.visit import Visit
from kgd.ui.words import words_of

COST, NODES = 1.0, 60
DEAREST = 5
"""Maximum of the slider; the number field accepts more."""
DIRECTIONS = {"both": "both", "out": "outgoing", "in": "incoming"}
GROUPINGS: Mapping[Grouping, tuple[str, str]] = {
    "area": ("Area", "The area of the code that a fact is about"),
    "type": ("Type", "Insight, decision, gotcha and other types"),
    "namespace": ("Namespace", "The first part of a fact's path, as in billing/refunds"),
    "community": ("Cluster", "Facts with many relations among themselves"),
}
COLOURS: Mapping[Colour, tuple[str, str]] = {
    "type": ("Type", "Insight, decision, gotcha and other types"),
    "trouble": ("Problems", "Open conflicts, and stale or expired facts"),
    "age": ("Age", "Time since the last change"),
}
"""The label of each grouping and of each meaning of colours on the page, with an explanation."""
AUTO, TYPE = "auto", "type"
MOST_STARTS, MOST_OPENED = 100, 20
MOST_OFF = 60
"""Largest number of hidden types, of nodes and of relations each; every link of a picture repeats them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The view that an address of the graph describes.

    Without `starts` and `question`, `types` selects the start nodes; without those, the whole workspace is shown in
    groups, of which some are `opened`. With `to`, the view is a path from the first start to that node: the cheapest
    one, or the one with the number `alternative` in the list of paths. `node` is selected, `path_from` is the chosen
    first node of a path. `hidden` and `hidden_edges` are hidden types of nodes and relations. `colour` is the meaning
    of the nodes' colours. `rows` is the length of the list, `is_form` whether a form was submitted.
    """

    starts: tuple[str, ...] = ()
    to: str = ""
    question: str = ""
    node: str = ""
    path_from: str = ""
    group: str = AUTO
    colour: str = TYPE
    opened: tuple[str, ...] = ()
    cost: float = COST
    nodes: int = NODES
    direction: str = "both"
    types: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    hidden_edges: tuple[str, ...] = ()
    as_of: str = ""
    alternative: int = 0
    rows: int = 0
    is_form: bool = False

    @classmethod
    def read(cls, visit: Visit) -> Wanted:
        """Parse an address. Raises Invalid for a malformed number, direction or grouping."""
        direction = visit.query.get("direction") or "both"
        if direction not in DIRECTIONS:
            raise Invalid("unknown direction", at="direction", next=f"Known: {', '.join(DIRECTIONS)}.")
        begun = [_chosen(visit, "from")] if "from_uri" in visit.query else visit.many("from")
        starts = tuple(dict.fromkeys(text.strip() for text in begun if text.strip()))
        if len(starts) > MOST_STARTS:
            raise Invalid(f"a graph has at most {MOST_STARTS} starts", at="from", next="Remove some starts.")
        hidden, hidden_edges = tuple(sorted(_some(visit, "hide"))), _off(visit)
        if max(len(hidden), len(hidden_edges)) > MOST_OFF:
            raise Invalid(f"at most {MOST_OFF} types can be hidden", at="hide", next="Show some types.")
        group = visit.query.get("group") or AUTO
        if group not in (AUTO, *GROUPINGS):
            raise Invalid("unknown grouping", at="group", next=f"Known: {', '.join(GROUPINGS)}.")
        colour = visit.query.get("colour") or TYPE
        if colour not in COLOURS:
            raise Invalid("unknown colour", at="colour", next=f"Known: {', '.join(COLOURS)}.")
        return cls(
            starts,
            _chosen(visit, "to").strip(),
            visit.query.get("q", "").strip(),
            visit.query.get("node", "").strip(),
            visit.query.get("path_from", "").strip(),
            group,
            colour,
            _some(visit, "open")[:MOST_OPENED],
            _number(visit, "cost", COST),
            int(_number(visit, "nodes", NODES)),
            direction,
            _some(visit, "type"),
            hidden,
            hidden_edges,
            visit.query.get("as_of", "").strip(),
            int(_number(visit, "alternative", 0)),
            int(_number(visit, "rows", 0)),
            "form" in visit.query,
        )

    @property
    def is_whole(self) -> bool:
        """Whether the view has no start."""
        return not (self.starts or self.to or self.question or self.types)

    def address(self, visit: Visit, page: str = "graph") -> str:
        """Return the address of this view, without default values."""
        return visit.to(
            page,
            **{"from": list(self.starts)},
            to=self.to,
            node=self.node,
            path_from=self.path_from,
            group=self.group if self.is_whole and self.group != AUTO else "",
            colour=self.colour if self.colour != TYPE else "",
            open=list(self.opened) if self.is_whole else [],
            q="" if self.starts else self.question,
            cost=_told(self.cost, COST),
            nodes=_told(self.nodes, NODES),
            direction=self.direction if self.direction != "both" else "",
            type=list(self.types) if not self.starts else [],
            hide=list(self.hidden),
            hide_edge=list(self.hidden_edges),
            as_of=self.as_of,
            alternative=_told(self.alternative, 0),
            rows=_told(self.rows, 0),
        )

    def begun_at(self, visit: Visit, starts: Sequence[str]) -> str:
        """Return the address of this view with other start nodes; without any, the address of the whole workspace."""
        return self.changed(visit, starts=tuple(dict.fromkeys(starts)), to="", question="", node="", rows=0)

    def changed(self, visit: Visit, **fields: Any) -> str:
        """Return the address of this view with other values of some fields."""
        return replace(self, **fields).address(visit)

    def grouped(self, visit: Visit, group: str, opened: Sequence[str] = ()) -> str:
        """Return the address of the whole workspace in groups."""
        shown = Wanted(
            group=group, opened=tuple(opened), path_from=self.path_from, colour=self.colour, hidden=self.hidden
        )
        return shown.address(visit)

    def toggling(self, visit: Visit, type: str) -> str:
        """Return the address of this view with a type of nodes hidden or, if it was, shown; empty beyond `MOST_OFF`
        hidden types."""
        hidden = {*self.hidden} ^ {type}
        return replace(self, hidden=tuple(sorted(hidden)), node="").address(visit) if len(hidden) <= MOST_OFF else ""

    def path_to(self, visit: Visit, uri: str) -> str:
        """Return the address of the path from the chosen first node."""
        return Wanted(starts=(self.path_from,), to=uri, colour=self.colour).address(visit)

    def reversed(self, visit: Visit) -> str:
        """Return the address of the path from its last node to its first."""
        direction = {"out": "in", "in": "out"}.get(self.direction, self.direction)
        turned = replace(self, starts=(self.to,), to=self.starts[0], direction=direction)
        return replace(turned, node="", path_from="", alternative=0, rows=0).address(visit)


def _chosen(visit: Visit, name: str) -> str:
    """Return the text of a field for a node, or the node's URI if the field still has the node's name."""
    text = visit.query.get(name, "")
    return visit.query.get(f"{name}_uri", "") if text == visit.query.get(f"{name}_name") else text


def _some(visit: Visit, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, visit.many(name))))


def _off(visit: Visit) -> tuple[str, ...]:
    """Return the hidden types of relations: by name, or offered by a form and not checked."""
    return tuple(sorted({*_some(visit, "hide_edge"), *_some(visit, "of_edge")} - set(_some(visit, "show_edge"))))


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


HITS, NAMESAKES = 8, 20
"""Largest number of start nodes for a question, and of nodes of one name to choose from."""
MEMBERS = 20
"""Largest number of a molecule's atoms that become start nodes with it."""
LOOKED_AT = 500
"""Number of nodes to search for types while some types are hidden."""
NONE = "-"
"""A type without nodes."""
NAMED = 60
"""Largest number of lines of which the unusual ones have names and dashes, as in `graph.js`."""
FEW_NAMES = 3
"""Largest number of relations that the legend names for dashes."""
SPARE = "spare"
"""Class of the parts of a legend that a phone leaves out."""
BUDGET = 2_000_000
"""Token budget, larger than any answer; further pages are fetched by cursor."""


def begun(visit: Visit, wanted: Wanted) -> tuple[Wanted, Sequence[Mapping[str, Any]]]:
    """Add start nodes: from the address, from a question, or the newest nodes of a type.

    Returns:
        The view, and its start nodes if all have the name in question, so that a visitor can choose one.
    """
    if wanted.starts:
        return wanted, ()
    if wanted.question:
        hits, is_name = found(visit, wanted.question)
        is_choice = is_name and len(hits) > 1
        return replace(wanted, starts=tuple(hit["uri"] for hit in hits)), hits if is_choice else ()
    newest = visit.call("graph_view", types=list(wanted.types), max_cost=0, max_nodes=MEMBERS)["nodes"]
    return replace(wanted, starts=tuple(node["uri"] for node in newest if "via" not in node)), ()


def found(visit: Visit, question: str) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """Return the nodes of that address or name, otherwise the hits of a search that answer it; and whether it is the
    address or name of the nodes.

    Code of the name does not count beside a node with the address.
    """
    at = visit.call("get", uris=[question], include=[])["nodes"] if " " not in question else []
    if at and ("/" in question or ":" in question):
        return at[:1], True
    answer = visit.call("search", query=question, limit=NAMESAKES, lanes="one")
    hits = answer["hits"]
    known = [hit for hit in hits if not at or scheme_of(hit["uri"]) not in IN_CODE]
    same = [hit for hit in known if hit["name"].casefold() == question.casefold()]
    named = list({node["uri"]: node for node in (*at[:1], *same)}.values())
    others = () if answer.get("nearest") else hits[:HITS]
    return named or others, bool(named)


def similar(visit: Visit, text: str) -> Sequence[Mapping[str, Any]]:
    """Return the nodes whose addresses are similar to a text for which nothing was found."""
    missing = visit.tried("get", uris=[text], include=[]).get("missing", ())  # the text may not be an address
    uris = [uri for one in missing for uri in one["similar"]]
    found: Sequence[Mapping[str, Any]] = visit.tried("get", uris=uris, include=[]).get("nodes", ()) if uris else ()
    return found


def paths(visit: Visit, wanted: Wanted) -> list[Mapping[str, Any]]:
    """Return the cheapest path from the first start node to the node `to`, then the alternatives, each as an answer of
    `traverse`.

    Of paths of one cost, those through code or single nodes precede those through areas, which say less. A detour
    from another path is left out.

    Raises:
        NotFound: One of them does not exist.
    """
    best = visit.call(
        "traverse",
        start=wanted.starts[:1],
        to=wanted.to,
        direction=wanted.direction,
        include=["edges", "path", "alternatives"],
        budget=BUDGET,
        as_of=wanted.as_of or None,
    )
    found = [best, *({**best, **one} for one in best.get("alternatives", ()))]
    found.sort(key=lambda one: (one["nodes"][-1]["cost"], any(scheme_of(uri) in AREAS for uri in _between(one))))
    names = told_apart({node["uri"]: node["name"] for one in found for node in one["nodes"]})
    found = [{**one, "nodes": [node | {"name": names[node["uri"]]} for node in one["nodes"]]} for one in found]
    return [one for one in found if not any(set() < _between(other) < _between(one) for other in found)]


def variants(paths: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return the numbers of paths in groups. The paths of a group differ in one node, at the same step."""
    steps = [[node["uri"] for node in one["nodes"]] for one in paths]
    groups: list[list[int]] = []
    for number, path in enumerate(steps):
        for group in groups:
            parts = [steps[other] for other in group]
            places = {at for other in parts for at, (a, b) in enumerate(zip(other, path, strict=False)) if a != b}
            if len(places) == 1 and all(len(other) == len(path) for other in parts):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _between(path: Mapping[str, Any]) -> set[str]:
    """The URIs of the nodes of a path without its ends."""
    return {node["uri"] for node in path["nodes"][1:-1]}


def marked(visit: Visit, wanted: Wanted, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the nodes that open proposals change and, if the picture shows classes, the class of each node."""
    if wanted.as_of:
        return answer
    answer = {**answer, "proposed": proposed_of_walk(visit.session(), answer)}
    return (
        answer
        if wanted.colour == TYPE
        else {**answer, "tones": tones_of_walk(visit.session(), answer, cast("Colour", wanted.colour))}
    )


def walk(visit: Visit, wanted: Wanted) -> tuple[Mapping[str, Any], list[str]]:
    """Return the nearest nodes, and the types of relations among them."""
    plain = _traverse(visit, wanted, max(wanted.nodes, LOOKED_AT) if wanted.hidden else wanted.nodes)
    edges = {edge["type"] for edge in (*plain["edges"], *plain["broken_links"])} | set(wanted.hidden_edges)
    if not wanted.hidden and not wanted.hidden_edges:
        return marked(visit, wanted, plain), sorted(edges)
    types = {shown_type(node) for node in plain["nodes"]} | set(wanted.hidden)
    shown = sorted(types - set(wanted.hidden)) if wanted.hidden else None
    walked = sorted(edges - set(wanted.hidden_edges)) if wanted.hidden_edges else None
    answer = _traverse(visit, wanted, wanted.nodes, _or_none(shown), _or_none(walked))
    return marked(visit, wanted, answer), sorted(edges)


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


RELATIONS = 8
"""Largest number of relations in each direction; the page of the node has the others."""


def card_of(visit: Visit, wanted: Wanted) -> dict[str, Any] | None:
    """Return the variables of the card, or None if no node is selected."""
    uri = wanted.node
    if not uri:
        return None
    card: dict[str, Any] = {
        "uri": uri,
        "node": None,
        "open": visit.to("node", uri=uri, as_of=wanted.as_of),
        "close": wanted.changed(visit, node=""),
    }
    try:
        answer = visit.call("get", uris=[uri], include=[], as_of=wanted.as_of or None, budget=WHOLE)
        if not answer["nodes"]:
            return card | {"is_missing": True}
        node = answer["nodes"][0]
        directions = [
            (way, links(visit, node["uri"], way, None, wanted.as_of or None)) for way in ("relations", "incoming")
        ]
    except KgdError as error:
        return card | {"error": error}
    relations = [
        {
            "rows": [row | {"link": wanted.changed(visit, node=row["other"])} for row in found.rows[:RELATIONS]],
            "of": found.of,
            "way": way,
        }
        for way, found in directions
        if found.rows
    ]
    card |= {"node": node, "version_authors": version_authors(visit, node), "relations": relations}
    is_start = node["uri"] in wanted.starts
    if not wanted.to and not (is_start and len(wanted.starts) == 1):
        others = [one for one in wanted.starts if one != node["uri"]]
        card["collapse" if is_start else "expand"] = wanted.begun_at(visit, others if is_start else [*others, uri])
    if wanted.path_from and wanted.path_from != node["uri"]:
        card["path_to"] = wanted.path_to(visit, node["uri"])
    else:
        card["path_begun"] = wanted.changed(visit, path_from=node["uri"], node="")
    return card


def legend_of(visit: Visit, wanted: Wanted, scene: Scene) -> list[dict[str, Any]]:
    """Return the figures of the picture with their meanings. Each type has a link that hides or shows it, except in a
    path and in groups that show classes."""
    tone = UNKNOWN if scene.has_tones else ""
    signs: Mapping[str, Mark] = {"conflict": "conflict", "stale": "unverified"}
    of_tones = [(one, (signs[one],) if one in signs else (), count) for one, count in scene.tones.items()]
    tones = [(marks, _entry(sample("", marks, one), f"{TONES[one][1]} {count:,}")) for one, marks, count in of_tones]
    is_filter = scene.arrangement != "path" and not (scene.has_tones and scene.arrangement == "groups")
    types = {**scene.types, **dict.fromkeys(wanted.hidden, 0)} if is_filter else scene.types
    of_types = [
        _entry(
            sample(type, tone=tone),
            f"{in_words(type)}{f' {count:,}' if type not in wanted.hidden else ''}",
            wanted.toggling(visit, type) if is_filter else "",
            type in wanted.hidden,
        )
        for type, count in types.items()
    ]
    kind: Mapping[str, str] = {"missing": "missing", "unreachable": "unreachable"}
    named = {mark for _, marks, _ in of_tones for mark in marks}
    is_grouped = scene.arrangement == "groups"
    of_lines = [_entry(line_sample(), "relations between groups")] if is_grouped and scene.lines else []
    of_lines += _line_styles(scene) if scene.arrangement == "rings" else []

    def figure(mark: Mark) -> str:
        if mark in HUES:
            return badge_sample(mark, "n" if is_grouped else "")
        return sample(kind.get(mark, "concept"), (mark,), tone)

    of_marks = [
        _entry(figure(mark), MEANINGS[mark] + f" {count:,}" * (mark != "start"), kind=SPARE * (mark == "start"))
        for mark, count in scene.marks.items()
        if mark not in named
    ]
    if not tones:
        return [*of_types, *of_lines, *of_marks]
    with_signs = [entry for own, entry in tones if own]
    return [*with_signs, *of_marks, *(entry for own, entry in tones if not own), *of_types, *of_lines]


def _line_styles(scene: Scene) -> list[dict[str, Any]]:
    """Return the meanings of the lines around starts: first the relations, then the widths. Scripts draw the lines of
    unusual relations with dashes."""
    lines = scene.lines if len(scene.lines) <= NAMED else ()
    styles: dict[Style, Counter[str]] = {"path": Counter(), "unusual": Counter()}
    for line in lines:
        styles["path" if ", ".join(line.types) == scene.usual else "unusual"].update(map(words_of, line.types))
    relations = [
        _entry(
            style_sample(style),
            ", ".join(name for name, _ in types.most_common(FEW_NAMES)) + ", …" * (len(types) > FEW_NAMES),
            kind="scripted-only",
        )
        for style, types in styles.items()
        if types
    ]
    widths = [
        _entry(style_sample("path"), "thick: cheapest path", kind=SPARE),
        _entry(style_sample("other"), "thin: other relation", kind=SPARE),
    ]
    return relations + widths * (len({line.is_path for line in scene.lines}) > 1)


def _entry(figure: str, words: str, link: str = "", is_hidden: bool = False, kind: str = "") -> dict[str, Any]:
    return {"figure": Markup(figure), "words": words, "link": link, "is_hidden": is_hidden, "kind": kind}


def without(answer: Mapping[str, Any], hidden: Sequence[str]) -> Mapping[str, Any]:
    """Return the answer without nodes of hidden types in the groups; lines still count all relations."""
    groups, left = [], Counter[str]()
    for group in answer["groups"]:
        types = {type: count for type, count in group.get("types", {}).items() if type not in hidden}
        gone = sum(group.get("types", {}).values()) - sum(types.values())
        left.update({group["id"]: gone, group.get("inside", ""): gone})
        groups.append({**group, "types": types} if "types" in group else dict(group))
        if "members" in group:
            groups[-1]["members"] = [one for one in group["members"] if shown_type(one) not in hidden]
        if "first" in group:
            groups[-1]["first"] = [one for one in group["first"] if one["type"] not in hidden]
    # The counts of a sample are rounded, so a difference may be negative.
    return {**answer, "groups": [{**one, "count": max(0, one["count"] - left[one["id"]])} for one in groups]}
