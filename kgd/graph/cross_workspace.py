"""Traversals across workspaces, local and on hubs, as one traversal.

The traversal proceeds in rounds. A round traverses the graphs in memory, under their locks. Then, without a lock, it
adds other local workspaces, and calls each hub once for its unknown nodes, with the remaining cost and nodes. The next
round starts again and includes these nodes, in the order of one graph (cost, hops, URI). The traversal ends when a
round finds nothing new.

A hub answers with the nodes near some starts, their costs, and the relations among them. Each node has its own known
radius: a traversal that reaches the node with more budget calls the hub again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from kgd.graph.edges import UNIT, BrokenLink, Card, Cut, Edge, EdgeSource, Met
from kgd.graph.traverse import Walk, traverse
from kgd.model.uri import Uri, is_owned, workspace_of

FAR = 1 << 62
"""No limit of cost or hops."""


class Reach(NamedTuple):
    """The radius known around a node: cost in millionths of a step, and hops."""

    cost: int
    hops: int


class AnsweredNode(NamedTuple):
    """One node of an answer: its card, and its distance from the nearest start."""

    card: Card
    cost: int
    hops: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One answer of a hub, complete within `reach` around the starts.

    `links` are relations (source, edge), including those to nodes outside `nodes`; `moved` maps starts to their new
    URIs; `gone` and `forbidden` are nodes that the hub cannot serve.
    """

    nodes: tuple[AnsweredNode, ...]
    links: tuple[tuple[Uri, Edge], ...]
    reach: Reach
    moved: Mapping[Uri, Uri] = field(default_factory=dict)
    gone: frozenset[Uri] = frozenset()
    forbidden: frozenset[Uri] = frozenset()
    stamps: Mapping[Uri, tuple[str, str]] = field(default_factory=dict)
    """The commit and the author of a node's last change, as reported by the hub."""


class Region:
    """What one traversal has learned from one hub; an `EdgeSource` for nodes of `workspaces` and for external nodes.

    Not thread-safe: each traversal has its own.
    """

    def __init__(self, workspaces: Iterable[str]) -> None:
        self.workspaces = frozenset(workspaces)
        self.reached: dict[Uri, Reach] = {}
        self.gone: set[Uri] = set()
        self.forbidden: set[Uri] = set()
        self.stamps: dict[Uri, tuple[str, str]] = {}
        self._cards: dict[Uri, Card] = {}
        self._out: dict[Uri, set[Edge]] = {}
        self._in: dict[Uri, set[Edge]] = {}
        self._moved: dict[Uri, Uri] = {}

    def add(self, patch: Patch) -> None:
        for card, cost, hops in patch.nodes:
            if workspace_of(card.uri) not in (None, *self.workspaces):
                continue
            self._cards[card.uri] = card
            here = Reach(
                *(
                    max(0, FAR if limit >= FAR else limit - spent)
                    for limit, spent in zip(patch.reach, (cost, hops), strict=True)
                )
            )
            known = self.reached.get(card.uri)
            if known is None or here > known:
                self.reached[card.uri] = here
        for source, edge in patch.links:
            if workspace_of(source) in (None, *self.workspaces):
                self._out.setdefault(source, set()).add(edge)
                self._in.setdefault(edge.target, set()).add(edge._replace(target=source))
        self._moved.update((old, new) for old, new in patch.moved.items() if new in self._cards)
        self.stamps.update(patch.stamps)
        self.gone |= patch.gone
        self.forbidden |= patch.forbidden

    def out(self, uri: Uri) -> list[Edge]:
        return sorted(self._out.get(uri, ()))

    def into(self, uri: Uri) -> list[Edge]:
        return sorted(self._in.get(uri, ()))

    def card(self, uri: Uri) -> Card | None:
        return self._cards.get(uri)

    def resolve(self, uri: Uri) -> Uri:
        return self._moved.get(uri, uri) if uri not in self._cards else uri


ROUNDS = 12
"""Maximum number of rounds; nodes that are still unknown are then cut. A round calls each hub at most once."""
MOST_STARTS = 100
"""Maximum number of start nodes of one call to a hub."""
FILTERED = 4
"""Nodes requested from a hub per node in the answer, if only some types are wanted."""
MOST_ASKED = 2_000
_NOWHERE = Reach(-1, -1)

Reason = Literal["missing", "gone", "unreachable", "fetching", "forbidden", "unknown_workspace"]


class Absence(NamedTuple):
    """Why a workspace cannot be traversed. `last_seen` is in Unix seconds, None for never."""

    reason: Reason
    detail: str = ""
    last_seen: float | None = None


class OnHub(NamedTuple):
    """A workspace on a hub. `hub` is the hub with one token; `workspaces` are those that the token may read."""

    hub: str
    workspaces: frozenset[str]


class Question(NamedTuple):
    """A request to a hub: everything near some nodes. None means no limit."""

    workspace: str
    starts: tuple[Uri, ...]
    max_cost: float | None
    max_depth: int | None
    max_nodes: int
    edge_types: tuple[str, ...]
    direction: str


Place = Sequence[EdgeSource] | OnHub | Absence


class World(Protocol):
    """The other workspaces, as visible to one traversal."""

    def place(self, workspace: str) -> Place:
        """The place of a workspace. A local workspace is opened."""

    def holders(self, uri: Uri) -> Collection[str]:
        """The open local workspaces that hold an external resource."""

    def pointing(self) -> Collection[str]:
        """The open local workspaces, whose relations may lead into other workspaces."""

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Patch | Absence]:
        """Ask several hubs concurrently and return their answers. A hub that exceeds its deadline is treated as
        absent."""


Sees = Callable[[Uri], bool]


class Joined:
    """A source of another workspace, or of the caller's own workspace limited by their scope. It covers only its own
    nodes.

    Args:
        sees: Predicate for the nodes that the caller may read; None for all. Relations to other nodes are hidden.
    """

    __slots__ = ("_sees", "_source", "lock", "workspace")

    def __init__(self, workspace: str, source: EdgeSource, sees: Sees | None = None) -> None:
        self.workspace, self._source, self._sees = workspace, source, sees
        self.lock: AbstractContextManager[object] = getattr(source, "lock", None) or nullcontext()

    def card(self, uri: Uri) -> Card | None:
        card = self._source.card(uri) if workspace_of(uri) in (None, self.workspace) else None
        return card._replace(origin=self.workspace) if card and (not self._sees or self._sees(uri)) else None

    def out(self, uri: Uri) -> Sequence[Edge]:
        return self._shown(self._source.out(uri)) if workspace_of(uri) in (None, self.workspace) else ()

    def into(self, uri: Uri) -> Sequence[Edge]:
        return self._shown(self._source.into(uri))

    def resolve(self, uri: Uri) -> Uri:
        return self._source.resolve(uri) if workspace_of(uri) == self.workspace else uri

    def _shown(self, edges: Sequence[Edge]) -> Sequence[Edge]:
        """The visible edges. A relation into another workspace reveals nothing about its target, so it stays."""
        sees, own = self._sees, (None, self.workspace)
        return edges if not sees else [e for e in edges if workspace_of(e.target) not in own or sees(e.target)]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A traversal that may have left its workspace. `absences` gives the reason for each workspace that was not
    entered."""

    walk: Walk
    home: str
    cut: tuple[Cut, ...]
    joined: Collection[str]
    regions: Mapping[str, Region]
    absences: Mapping[str, Absence]
    hubs: Mapping[str, str]

    def why(self, target: Uri) -> Absence:
        """The reason why a link to a node outside the walk leads nowhere."""
        owner = workspace_of(target)
        if owner is None or owner == self.home:
            return Absence("missing")
        if owner in self.absences:
            return self.absences[owner]
        region = self.regions.get(self.hubs.get(owner, ""))
        if region and target in region.forbidden:
            return Absence("forbidden")
        if owner in self.joined or (region and target in region.gone):
            return Absence("gone")
        return Absence("unreachable", "the traversal ended before this workspace was asked")

    def broken(self) -> list[tuple[BrokenLink, Absence]]:
        return [(link, self.why(link.target)) for link in self.walk.broken]


def walk_across(
    home: str,
    sources: Sequence[EdgeSource],
    starts: Sequence[Uri],
    world: World,
    *,
    max_cost: float | None = 1.0,
    max_depth: int | None = None,
    edge_types: Collection[str] = (),
    types: Collection[str] = (),
    direction: Literal["out", "in", "both"] = "out",
    max_nodes: int = 50,
    to: Uri | None = None,
) -> Crossing:
    """Like `traverse`, but continued in other workspaces.

    Nodes of the workspace `home` come from `sources`; a start may lie elsewhere. Relations that lead into a workspace
    from other workspaces are known only if those other workspaces are local and open.

    Raises:
        Invalid: A limit is negative, or not a number.
    """
    state = _State(home, world, (max_cost, max_depth, max_nodes), tuple(sorted(edge_types)), bool(types), direction)
    if direction != "out":
        for workspace in world.pointing():
            state.enter(workspace)
    for left in reversed(range(ROUNDS)):
        found = traverse(
            [*sources, *state.sources()] or [Region(())],
            starts,
            max_cost=max_cost,
            max_depth=max_depth,
            edge_types=edge_types or None,
            types=types or None,
            direction=direction,
            max_nodes=max_nodes,
            to=to,
            keep_met=bool(state.regions),
        )
        if not state.advance(found, may_ask=left > 0):
            break
    return Crossing(found, home, state.cut(), state.joined.keys(), state.regions, state.absences, state.hubs)


class _State:
    """What one traversal has learned about other workspaces."""

    def __init__(
        self,
        home: str,
        world: World,
        limits: tuple[float | None, int | None, int],
        edge_types: tuple[str, ...],
        filtered: bool,
        direction: str,
    ) -> None:
        self.home, self.world, self.edge_types, self.direction = home, world, edge_types, direction
        self.max_cost = FAR if limits[0] is None or limits[0] * UNIT >= FAR else round(limits[0] * UNIT)
        self.max_depth = FAR if limits[1] is None else limits[1]
        self.max_nodes, self.filtered = limits[2], filtered
        self.joined: dict[str, list[EdgeSource]] = {}
        self.regions: dict[str, Region] = {}
        self.hubs: dict[str, str] = {}
        self.absences: dict[str, Absence] = {}
        self.asked: dict[Uri, Reach] = {}
        """The radius already requested around each node, even if its hub did not answer, so that no hub is asked twice
        for it."""
        self.asked_beside: dict[Uri, Reach] = {}
        """The radius requested in calls that combined starts reached at different costs. A hub that cuts its answer may
        omit the nearest nodes of some starts, so these starts are requested once more, separately."""
        self.short: dict[Uri, Met] = {}
        """Nodes that the last round reached with more budget than the hub's answer covers."""

    def sources(self) -> list[EdgeSource]:
        """All joined sources, in an order that does not depend on when they were joined."""
        local = [source for workspace in sorted(self.joined) for source in self.joined[workspace]]
        return [*local, *(self.regions[hub] for hub in sorted(self.regions))]

    def enter(self, workspace: str) -> bool:
        """Find where a workspace is; True if it can be traversed at once."""
        if workspace in (self.home, *self.joined, *self.hubs, *self.absences):
            return False
        place = self.world.place(workspace)
        if isinstance(place, Absence):
            self.absences[workspace] = place
        elif isinstance(place, OnHub):
            self.hubs[workspace] = place.hub
            self.regions.setdefault(place.hub, Region(place.workspaces))
        else:
            self.joined[workspace] = list(place)
            return True
        return False

    def advance(self, found: Walk, *, may_ask: bool) -> bool:
        """Join and request the unknown nodes of a round; True if another round is needed."""
        news = False
        wanted: dict[str, dict[Uri, Met]] = defaultdict(dict)
        unknown = {**{start: [Met(0, 0, 0)] for start in found.missing}, **found.unknown}
        for uri, ways in unknown.items():
            owner = workspace_of(uri)
            if owner is not None:
                news |= self.enter(owner)
                if owner in self.hubs and owner not in self.absences and not self._denied(owner, uri):
                    wanted[self.hubs[owner]][uri] = ways[0]._replace(hops=ways[-1].hops)
        if not {self.home, *self.joined}.issuperset(self.world.pointing()):  # another workspace may still join
            for node in found.nodes:
                if not is_owned(node.uri):
                    for holder in self.world.holders(node.uri):
                        news |= self.enter(holder)
        self.short = self._look_further(found)
        for uri, met in self.short.items():
            hub = next(hub for hub, region in sorted(self.regions.items()) if uri in region.reached)
            wanted[hub][uri] = met
        return (self._ask(wanted) or news) if may_ask else False

    def _denied(self, owner: str, uri: Uri) -> bool:
        region = self.regions[self.hubs[owner]]
        return uri in region.gone or uri in region.forbidden

    def _look_further(self, found: Walk) -> dict[Uri, Met]:
        """Nodes that the traversal reached with more budget than was requested from their hub, up to its end."""
        full = len(found.nodes) >= self.max_nodes
        end = min(self.max_cost, round(found.nodes[-1].cost * UNIT)) if full else self.max_cost
        return {
            uri: met
            for region in self.regions.values()
            for uri, reach in region.reached.items()
            if (met := found.met.get(uri))
            and workspace_of(uri) not in self.absences
            and (reach.cost < end - met.cost or reach.hops < self.max_depth - met.hops)
        }

    def _ask(self, wanted: Mapping[str, Mapping[Uri, Met]]) -> bool:
        """Ask all hubs at once, starting with the nearest nodes if one call cannot take all; True if any hub
        answered."""
        questions = {}
        for hub, entries in wanted.items():
            chosen = self._choose(entries)
            if chosen:
                questions[hub] = self._question(hub, chosen)
        news = False
        for hub, reply in (self.world.ask(questions) if questions else {}).items():
            if isinstance(reply, Absence):
                self.absences.update(dict.fromkeys((w for w, its in self.hubs.items() if its == hub), reply))
                continue
            ways = {(met.cost, met.hops) for uri in questions[hub].starts if (met := wanted[hub][uri])}
            if len(ways) > 1 and reply.reach.cost < _units(questions[hub].max_cost):
                # At its outer limit, the answer may omit a node that comes before an included one, seen from another
                # start.
                reply = replace(reply, reach=reply.reach._replace(cost=max(0, reply.reach.cost - 1)))
            self.regions[hub].add(reply)
            news = True
        return news

    def _choose(self, entries: Mapping[Uri, Met]) -> dict[Uri, Met]:
        """The starts of one call: all new nodes or, if there are none, the cheapest nodes that were not yet requested
        separately."""
        new = {uri: met for uri, met in entries.items() if self._need(met) > self.asked.get(uri, _NOWHERE)}
        fresh = {uri: met for uri, met in new.items() if self._need(met) > self.asked_beside.get(uri, _NOWHERE)}
        nearest = sorted((fresh or new).items(), key=lambda entry: (entry[1], entry[0]))[:MOST_STARTS]
        if not fresh:
            nearest = [(uri, met) for uri, met in nearest if met[:2] == nearest[0][1][:2]]
        alone = len({met[:2] for _, met in nearest}) == 1
        (self.asked if alone else self.asked_beside).update((uri, self._need(met)) for uri, met in nearest)
        return dict(nearest)

    def _need(self, met: Met) -> Reach:
        return Reach(self.max_cost - met.cost, self.max_depth - met.hops)

    def _question(self, hub: str, entries: Mapping[Uri, Met]) -> Question:
        need = max(self._need(met).cost for met in entries.values())
        hops = max(self._need(met).hops for met in entries.values())
        nodes = max(1, self.max_nodes - min(met.before for met in entries.values()))
        served = self.regions[hub].workspaces
        owners = {owner for uri in entries if (owner := workspace_of(uri)) in served and owner}
        return Question(
            min(owners or served),
            tuple(entries),
            None if self.max_cost >= FAR else need / UNIT,
            None if self.max_depth >= FAR else hops,
            min(nodes * (FILTERED if self.filtered else 1), MOST_ASKED),
            self.edge_types,
            self.direction,
        )

    def cut(self) -> tuple[Cut, ...]:
        """Nodes that were not requested from any hub, or not with enough budget."""
        left = sorted(self.short)
        return (Cut("elsewhere", left[0], len(left)),) if left else ()


def _units(max_cost: float | None) -> int:
    return FAR if max_cost is None else round(max_cost * UNIT)
