"""Addresses of the page *Graph*: each describes a view, and can be shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from kgd.errors import Invalid
from kgd.tools.read.grouping import Grouping
from kgd.tools.read.states import Colour
from kgd.ui.visit import Visit

COST, NODES = 1.0, 60
DEAREST = 5
"""Maximum of the slider; the number field accepts more."""
DIRECTIONS = {"both": "both", "out": "outgoing", "in": "incoming"}
GROUPINGS: Mapping[Grouping, tuple[str, str]] = {
    "area": ("Area", "The area of the code that a node is about"),
    "type": ("Type", "Insight, decision, gotcha and other types"),
    "namespace": ("Namespace", "The first part of a node's path, as in billing/refunds"),
    "community": ("Cluster", "Nodes with many relations among themselves"),
}
COLOURS: Mapping[Colour, tuple[str, str]] = {
    "type": ("Type", "Insight, decision, gotcha and other types"),
    "trouble": ("Problems", "Open conflicts, and stale or expired nodes"),
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
            raise Invalid(f"a graph has at most {MOST_STARTS} start nodes", at="from", next="Remove some start nodes.")
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
        return replace(self, starts=tuple(dict.fromkeys(starts)), to="", question="", node="", rows=0).address(visit)

    def selecting(self, visit: Visit, uri: str) -> str:
        """Return the address of this view with a card about a node; without one if `uri` is empty."""
        return replace(self, node=uri).address(visit)

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

    def coloured(self, visit: Visit, colour: str) -> str:
        """Return the address of this view with other colours."""
        return replace(self, colour=colour).address(visit)

    def path_begun(self, visit: Visit, uri: str) -> str:
        """Return the address of this view with the first node of a path."""
        return replace(self, path_from=uri, node="").address(visit)

    def path_to(self, visit: Visit, uri: str) -> str:
        """Return the address of the path from the chosen first node."""
        return Wanted(starts=(self.path_from,), to=uri, colour=self.colour).address(visit)

    def reversed(self, visit: Visit) -> str:
        """Return the address of the path from its last node to its first."""
        direction = {"out": "in", "in": "out"}.get(self.direction, self.direction)
        turned = replace(self, starts=(self.to,), to=self.starts[0], direction=direction)
        return replace(turned, node="", path_from="", alternative=0, rows=0).address(visit)

    def with_alternative(self, visit: Visit, alternative: int) -> str:
        """Return the address of the path with this number between the same nodes; 0 is the cheapest one."""
        return replace(self, alternative=alternative, node="", rows=0).address(visit)

    def now(self, visit: Visit) -> str:
        """Return the address of this view at the current tip."""
        return replace(self, as_of="").address(visit)

    def with_rows(self, visit: Visit, count: int) -> str:
        return replace(self, rows=count).address(visit)


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
