"""Walks across workspaces: starts, origins of nodes, reasons for missing nodes; and alternatives to a path.

An alternative to the cheapest path is a cheapest path from the first node, one relation, and a cheapest path to the
last node. The best alternative is the second cheapest path. Costs two walks of at most `MOST_NODES` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.daemon.other_workspaces import seen
from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, NotFound, Unavailable
from kgd.graph.cross_workspace import Absence, Crossing
from kgd.graph.edges import EdgeSource, Visited
from kgd.model.access import Verb
from kgd.model.escaping import fenced_line
from kgd.model.fields import plain_weight
from kgd.model.uri import Uri, workspace_of
from kgd.tools import addressing, origins
from kgd.tools.hub_reads import FarMissing
from kgd.tools.nodes import Trust, moment
from kgd.tools.origins import Origin
from kgd.tools.paging import present
from kgd.tools.session import Session
from kgd.tools.visibility import walked
from kgd.workspace.workspace import Workspace

BROKEN_SHOWN = 20
HOME = frozenset({(), ("",), ("tree",), ("", "tree")})
"""Origins of a node that only the requested workspace has."""


class Detail(TypedDict):
    """The reason why another workspace cannot be read, and the time of the last contact with it."""

    last_seen: NotRequired[str]
    detail: NotRequired[str]


class Broken(Detail):
    """A broken link. `reason` is missing, or, for another `workspace`, gone, forbidden, unreachable, fetching or
    unknown_workspace; `last_seen` is the last contact with that workspace.
    """

    source: str
    type: str
    target: str
    reason: str
    workspace: NotRequired[str]
    weight: NotRequired[float]


class Absent(Detail):
    """A start that does not exist, or cannot be read."""

    uri: str
    reason: str
    workspace: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """The start of a walk. `workspace` is None if the home workspace is on a hub; `also` has former URIs of the starts.

    `refused` are texts that do not name a node, with the reason.
    """

    home: str
    workspace: Workspace | None
    starts: list[Uri]
    commit: str | None
    also: dict[Uri, list[str]]
    refused: dict[str, KgdError]
    to: Uri | None = None

    @classmethod
    def of(
        cls, session: Session, named: str | None, start: Sequence[str], as_of: str | None, to: str | None = None
    ) -> Asked:
        """Resolve the starts, and the node `to` at which the walk ends.

        Raises:
            Invalid, NotFound: `to` is not an address, or `as_of` is given for a walk on a hub.
        """
        far = addressing.far(session, named, start, reads=True)
        if far:
            if as_of:
                raise Invalid("walks on a hub read the present commit only", at="as_of", next="Leave out `as_of`.")
            found, refused = addressing.each(
                start, lambda n, text: addressing.resolve_far(session, far, text, at=f"start[{n}]")
            )
            end = addressing.resolve_far(session, far, to, at="to") if to else None
            return cls(far, None, list(found.values()), None, {}, {start[n]: why for n, why in refused.items()}, end)
        workspace = addressing.choose(session, named, start)
        found, refused = addressing.each(
            start, lambda n, text: addressing.resolve(session, workspace, text, at=f"start[{n}]")
        )
        starts = list(found.values())
        commit = session.commit(workspace, as_of) if as_of else None
        also = _former(workspace, starts)
        end = addressing.resolve(session, workspace, to, at="to") if to else None
        return cls(workspace.id, workspace, starts, commit, also, {start[n]: why for n, why in refused.items()}, end)

    @property
    def inside(self) -> str:
        """The id of the workspace of the walk's own sources; empty if the home is on a hub."""
        return self.workspace.id if self.workspace else ""

    def sources(self, session: Session, edge_types: Sequence[str] = ()) -> Sequence[EdgeSource]:
        if self.workspace is None:
            return []
        own = [self.workspace.history.graph_at(self.commit)] if self.commit else walked(self.workspace, edge_types)
        return seen(self.workspace.id, own, session.principal)

    def lacks(self, uri: Uri, sources: Sequence[EdgeSource]) -> bool:
        """Whether a node belongs to the home workspace and does not exist, which needs no walk to find out."""
        is_own = self.workspace is not None and workspace_of(uri) == self.home
        return is_own and not any(source.card(source.resolve(uri)) for source in sources)


def _former(workspace: Workspace, starts: Sequence[Uri]) -> dict[Uri, list[str]]:
    """The former URIs by which moved starts were requested. Other workspaces may know a start only by these URIs."""
    also: dict[Uri, list[str]] = {}
    for start in starts:
        current = workspace.graph.resolve(start)
        if current != start:
            also.setdefault(current, []).append(start)
    return also


class Sources:
    """The origins of the nodes of a walk."""

    def __init__(self, session: Session, crossing: Crossing) -> None:
        self._session, self._crossing = session, crossing
        self._trust: dict[str, Trust] = {}

    def of(self, node: Visited) -> list[Origin]:
        """The origins of a node; empty if only the requested workspace has it and the caller has no token."""
        if node.origins in HOME and self._session.principal is None:
            return []
        holders = [self._crossing.home if origin in ("", "tree") else origin for origin in node.origins]
        return [self._origin(holder, node.uri) for holder in dict.fromkeys(holders)]

    @cached_property
    def _open(self) -> dict[str, Workspace]:
        return {one.id: one for one in self._session.daemon.opened()}

    def _origin(self, holder: str, uri: Uri) -> Origin:
        region = self._crossing.regions.get(self._crossing.hubs.get(holder, ""))
        if region is not None or holder not in self._open:
            return origins.of_remote(holder, region.stamps.get(uri, ("", "")) if region else ("", ""))
        workspace = self._open[holder]
        if holder not in self._trust:
            self._trust[holder] = origins.trust_in(self._session, workspace)
        return origins.of_stored(workspace, uri, self._trust[holder])


def broken(crossing: Crossing, answered: Collection[Uri], asked: Asked, most: int = BROKEN_SHOWN) -> list[Broken]:
    """Broken links of the returned nodes: up to `most` within this workspace, then all links to other workspaces."""
    own, others = list[Broken](), list[Broken]()
    for link, absence in crossing.broken():
        if link.source not in answered:
            continue
        found: Broken = {
            "source": link.source,
            "type": link.type,
            "target": link.target,
            "reason": "missing",
            "weight": plain_weight(link.weight),
        }
        if workspace_of(link.target) not in (None, asked.inside):
            found["workspace"] = workspace_of(link.target) or ""
            others.append({**found, "reason": absence.reason, **detail_of(absence)})
        elif not (asked.commit and asked.workspace and asked.workspace.in_overlay(link.target)):
            # The code tree's past is not recorded.
            own.append(found)
    return own[:most] + others


def why_not(session: Session, asked: Asked, crossing: Crossing) -> Callable[[Uri], Absence]:
    """A function that says why a start is missing. It does not reveal whether a hidden start exists."""

    def why(uri: Uri) -> Absence:
        hidden = asked.workspace is not None and not session.may(asked.workspace, uri, Verb.READ)
        return Absence("forbidden") if hidden and session.principal else crossing.why(uri)

    return why


def absent(uri: Uri, absence: Absence) -> Absent:
    return {"uri": uri, "reason": absence.reason, "workspace": workspace_of(uri) or "", **detail_of(absence)}


def refused(asked: Asked) -> list[Absent]:
    """The starts that are not an address in a known workspace."""
    return [
        {"uri": text[:300], "reason": addressing.reason_of(why), "detail": f"{why.message}. {why.next}".strip()[:300]}
        for text, why in asked.refused.items()
    ]


def detail_of(absence: Absence | FarMissing) -> Detail:
    last_seen = moment(absence.last_seen) if absence.last_seen is not None else ""
    told: Detail = present(last_seen=last_seen, detail=fenced_line(absence.detail, 200))
    return told


def nowhere(session: Session, asked: Asked, start: Uri, why: Absence) -> KgdError:
    """The error for a walk whose start does not exist; it names only nodes that the caller may read."""
    if why.reason == "forbidden":
        return Forbidden(why.detail or "you may not read this node", at=start, next="Ask the owner for a wider token.")
    if why.reason not in ("missing", "gone"):
        last = f" It was last seen {moment(why.last_seen)}." if why.last_seen is not None else ""
        return Unavailable(f"its workspace is {why.reason}: {why.detail}", at=start, next=f"Ask again later.{last}")
    here = asked.workspace
    if here:
        return addressing.missing_node(here, start, session.sight(here.id))
    return NotFound("there is no such node", at=start, next=Advice("Find it with ", Do("search"), "."))


MOST = 2
"""Largest number of alternatives."""
MOST_NODES = 300
EXTRA_COST = 1.0
"""Largest difference between the cost of a path and the lowest cost."""
Direction = Literal["out", "in", "both"]
OPPOSITE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}

Answer = Mapping[str, Any]
"""An answer of `traverse` with its relations, or a path in this form."""
Step = tuple[str, str, bool, float]
"""A relation: the node that it leads to, its type, whether it is followed backward, and its cost."""
Walk = Callable[[str, float, Direction], Answer]
"""Returns the nodes around a node, up to a cost, in a direction."""


def alternatives(best: Answer, direction: Direction, most: float | None, hops: int | None, walk: Walk) -> list[Answer]:
    """Return up to `MOST` paths between the ends of the cheapest path, the cheapest first.

    Args:
        best: The cheapest path.
        most: Largest cost of a path; `EXTRA_COST` above the cheapest one at most.
        hops: Largest number of relations on a path.
    """
    first, last = best["nodes"][0]["uri"], best["nodes"][-1]
    dearest = min(last["cost"] + EXTRA_COST, float("inf") if most is None else most)
    ahead = walk(first, dearest, direction)
    back = walk(last["uri"], dearest, OPPOSITE[direction])
    found, seen = list[Answer](), {tuple(node["uri"] for node in best["nodes"])}
    for _, uris, steps in _candidates(ahead, back, direction, dearest):
        if len(found) == MOST:
            break
        if uris not in seen and (hops is None or len(steps) <= hops):
            seen.add(uris)
            found.append(_answer(ahead, back, first, steps))
    return found


def _candidates(
    ahead: Answer, back: Answer, direction: Direction, most: float
) -> list[tuple[float, tuple[str, ...], list[Step]]]:
    """Return the paths that visit no node twice, each with its cost and its nodes, the cheapest first."""
    begin, first = _costs(ahead), ahead["nodes"][0]["uri"]
    end = _costs(back)
    trees = _tree(ahead, begin), _tree(back, end)
    found = []
    for edge in ahead["edges"]:
        ends = edge["source"], edge["target"]
        for before, after, backward in ((*ends, False), (*reversed(ends), True)):
            if before not in begin or after not in end or direction == ("out" if backward else "in"):
                continue
            cost = round(begin[before] + edge["weight"] + end[after], 6)
            if cost > most:
                continue
            head = [(to, type, is_back, weight) for _, to, type, is_back, weight in _up(trees[0], before)]
            tail = [(to, type, not is_back, weight) for to, _, type, is_back, weight in _up(trees[1], after)]
            steps = [*reversed(head), (after, edge["type"], backward, edge["weight"]), *tail]
            uris = (first, *(step[0] for step in steps))
            if len(set(uris)) == len(uris):
                found.append((cost, uris, steps))
    return sorted(found, key=lambda one: (one[0], len(one[1]), one[1]))


def _costs(walk: Answer) -> dict[str, float]:
    return {node["uri"]: node["cost"] for node in walk["nodes"]}


def _tree(walk: Answer, costs: Mapping[str, float]) -> dict[str, tuple[str, str, bool, float]]:
    """Return the predecessor of each node with the relation that leads from it: type, whether backward, and cost."""
    return {
        node["uri"]: (via["from"], via["type"], "direction" in via, round(node["cost"] - costs[via["from"]], 6))
        for node in walk["nodes"]
        if (via := node.get("via"))
    }


def _up(tree: Mapping[str, tuple[str, str, bool, float]], uri: str) -> Iterator[tuple[str, str, str, bool, float]]:
    """Yield the relations of a node's path from its end: both nodes, type, whether backward, and cost."""
    while uri in tree:
        before, type, is_back, weight = tree[uri]
        yield before, uri, type, is_back, weight
        uri = before


def _answer(ahead: Answer, back: Answer, first: str, steps: Sequence[Step]) -> Answer:
    known = {node["uri"]: node for walk in (back, ahead) for node in walk["nodes"]}
    nodes, edges, cost, before = [_at(known[first], 0.0)], [], 0.0, first
    for uri, type, backward, weight in steps:
        cost = round(cost + weight, 6)
        via = {"from": before, "type": type, **({"direction": "in"} if backward else {})}
        nodes.append({**_at(known[uri], cost), "via": via})
        source, target = (uri, before) if backward else (before, uri)
        edges.append({"source": source, "target": target, "type": type, "weight": weight})
        before = uri
    return {"cost": cost, "nodes": nodes, "edges": edges}


def _at(node: Mapping[str, Any], cost: float) -> dict[str, Any]:
    return {**{name: value for name, value in node.items() if name != "via"}, "cost": cost}
