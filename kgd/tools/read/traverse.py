"""The `traverse` tool: everything near a node, cheapest first, with a reason for every omission."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid
from kgd.graph.cross_workspace import Absence, Crossing, walk_across
from kgd.graph.edges import EdgeSource, Link, Step, Visited
from kgd.graph.traverse import Walk
from kgd.mentions.mentions import MENTIONS
from kgd.model.access import Verb
from kgd.model.escaping import fenced
from kgd.model.fields import plain_weight
from kgd.model.uri import Uri, name_of, workspace_of
from kgd.model.usage import Link as Counted
from kgd.tools import addressing, as_markdown, nodes, paging
from kgd.tools.model_decisions import Resolved, on_the_way
from kgd.tools.nodes import Brief, ConflictAnswer, Standing
from kgd.tools.operation import (
    ADDRESS,
    AS_OF,
    BUDGET,
    CONTEXT_ID,
    CURSOR,
    EDGE_TYPES,
    TYPES,
    USUAL,
    Command,
    Hints,
    Operation,
    option,
)
from kgd.tools.origins import Origin, mark
from kgd.tools.paging import Room, clip
from kgd.tools.parameters import EdgeTypes, Many, Paged
from kgd.tools.read.traverse_across import (
    BROKEN_SHOWN,
    Absent,
    Asked,
    Broken,
    Direction,
    Sources,
    absent,
    alternatives,
    broken,
    nowhere,
    refused,
    why_not,
)
from kgd.tools.read.traverse_across import MOST_NODES as MOST_AROUND
from kgd.tools.session import Hint, Session, enter_working_set, note_reads

MOST_NODES = 2_000
BOUNDLESS = 1 << 30
LONGEST_SIDE = 600
EXAMINED = 200
"""Largest number of relations of a start, on each side, whose types are examined for an error."""


class TraverseParams(Paged):
    start: Annotated[Many[str], Field(min_length=1, max_length=100, description="URIs or paths")]
    to: Annotated[
        str | None, Field(description="only the cheapest path to this node; by default of any cost, in both directions")
    ] = None
    max_cost: Annotated[
        float | None, Field(ge=0, description="null: no limit", json_schema_extra={"type": ["number", "null"]})
    ] = 1.0
    max_depth: Annotated[int | None, Field(ge=0)] = None
    edge_types: EdgeTypes = Field(default_factory=list)
    types: Annotated[Many[str], Field(description="node types; file and dir too")] = Field(default_factory=list)
    direction: Literal["out", "in", "both"] = "out"
    max_nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] = 50
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000
    as_of: Annotated[str | None, Field(description="a commit")] = None
    conflicts: Literal["show", "resolve"] = "show"
    include: Annotated[
        Many[Literal["edges", "path", "alternatives"]],
        Field(description="the relations among the nodes; each node's whole path; with `to`, two further paths"),
    ] = Field(default_factory=list)
    context_id: str | None = None


PathStep = TypedDict("PathStep", {"from": str, "type": str, "direction": NotRequired[Literal["in"]]})
"""One relation of a path, leaving `from`; `direction` is present if it was followed backwards."""


class Via(PathStep):
    """The last relation of a node's path, leaving its predecessor `from`.

    `through` are the steps before it, if the answer omits the nodes between them. The whole path is the path to the
    node that the first step leaves, on this page or an earlier one, followed by these steps.
    """

    through: NotRequired[list[PathStep]]


class Reached(Brief, Standing):
    """A node of the walk; a start has no `via`."""

    cost: float
    via: NotRequired[Via]
    path: NotRequired[list[PathStep]]
    stored: NotRequired[bool]
    origin: NotRequired[Origin]
    origins: NotRequired[list[Origin]]
    asked: NotRequired[list[str]]


class EdgeAnswer(TypedDict):
    source: str
    target: str
    type: str
    weight: float


class OtherPath(TypedDict):
    """A path to the node `to`, its nodes in order. It costs at most 1 more than the cheapest path, which must be whole
    in the answer."""

    cost: float
    nodes: list[Reached]
    edges: list[EdgeAnswer]


class CutAnswer(TypedDict):
    """A limit left out at least `count` nodes; `at` is the first node where it applied. ``alternatives`` left out paths
    to this node, for lack of room."""

    limit: str
    at: str
    count: int


class TraverseResult(TypedDict):
    """`other_types`: no path leads to `unreached`, because the relations of the starts have only these types."""

    workspace: str
    nodes: list[Reached]
    edges: NotRequired[list[EdgeAnswer]]
    cut: list[CutAnswer]
    broken_links: list[Broken]
    conflicts: list[ConflictAnswer]
    alternatives: NotRequired[list[OtherPath]]
    resolved: NotRequired[list[Resolved]]
    context_id: NotRequired[str]
    hint: NotRequired[Hint]
    unreached: NotRequired[str]
    other_types: NotRequired[list[str]]
    missing: NotRequired[list[str]]
    absent: NotRequired[list[Absent]]
    as_of: NotRequired[str]
    cursor: NotRequired[str]


def traverse(session: Session, params: TraverseParams) -> TraverseResult:
    """Walk from nodes, in order of cost, hops and URI; a cursor continues after the last returned node."""
    room = Room(params.budget)
    asked, answer = _walked(session, params, room)
    if "alternatives" in params.include and asked.to is not None and params.cursor is None:
        _add_alternatives(session, params, answer, asked.to, room)
    shown: list[Uri] = [node["uri"] for node in answer["nodes"]]
    answer.update(enter_working_set(session, params.context_id, shown, starting=True))
    if asked.workspace is not None and not asked.commit:
        note_reads(session, asked.workspace, answer, asked.starts, _shown(answer))
    return cast("TraverseResult", answer)


def _add_alternatives(session: Session, params: TraverseParams, answer: dict[str, Any], to: Uri, room: Room) -> None:
    """Add further paths if the answer has the whole cheapest path; `cut` counts the paths that do not fit."""
    if not answer["nodes"] or answer["nodes"][-1]["uri"] != to:
        return
    found = _alternatives(session, params, answer)
    answer["alternatives"] = [one for one in found if room.take(one)]
    if left := len(found) - len(answer["alternatives"]):
        answer["cut"].append({"limit": "alternatives", "at": to, "count": left})


def _alternatives(session: Session, params: TraverseParams, best: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return further paths to the node `to`, and add the conflicts of their nodes to the answer.

    There are none if `to` is the start, or if the call hides types.
    """
    if len(best["nodes"]) < 2 or params.types:
        return ()
    conflicts: dict[str, ConflictAnswer] = {}

    def walk(start: str, cost: float, direction: Direction) -> Mapping[str, Any]:
        given = {"start": [start], "to": None, "max_cost": cost, "direction": direction, "max_nodes": MOST_AROUND}
        around = params.model_copy(update={**given, "cursor": None, "include": []})
        answer = _walked(session, around, Room(BOUNDLESS, limit=BOUNDLESS), MOST_NODES, edges=True)[1]
        conflicts.update((one["uri"], one) for one in answer["conflicts"])
        return answer

    most, direction = _limits(params)
    found = alternatives(best, direction, most, params.max_depth, walk)
    known = {node["uri"] for node in best["nodes"]}
    met = {node["uri"] for one in found for node in one["nodes"]} - known
    best["conflicts"] += [one for uri, one in conflicts.items() if uri in met]
    return found


def at_once(session: Session, params: TraverseParams) -> TraverseResult:
    """`traverse` in one answer of any length, for a picture. It does not affect a working set."""
    answer = _walked(session, params, Room(BOUNDLESS, limit=BOUNDLESS), MOST_NODES, edges=True)[1]
    return cast("TraverseResult", answer)


def _walked(
    session: Session, params: TraverseParams, room: Room, beside: int = BROKEN_SHOWN, *, edges: bool = False
) -> tuple[Asked, dict[str, Any]]:
    """Walk, and build the answer.

    Args:
        edges: Whether the answer contains the relations among its nodes even if the call did not request them.
        beside: Largest number of broken links of this workspace, and of conflicts, in the answer.
    """
    asked = Asked.of(session, params.workspace, params.start, params.as_of, params.to)
    filters = params.max_depth, params.edge_types, params.types
    question = [asked.home, asked.starts, *_limits(params), asked.commit, asked.to, *filters]
    behind = _Behind.read(question, params.cursor)
    sources = asked.sources(session, params.edge_types)
    crossing, why = _crossed(session, params, asked, sources, behind.count)
    found = crossing.walk
    # A hub always returns relations: clones with kgd 0.1.0 need them and cannot request them.
    edges = edges or "edges" in params.include or session.principal is not None
    page = _Page(
        crossing, behind, room, Sources(session, crossing), asked.also, path="path" in params.include, edges=edges
    )
    answered = {node.uri for node in page.nodes}
    ids = [] if asked.commit else [asked.home, *sorted(crossing.joined)]
    _mark(session, ids, page.answers)
    answer: dict[str, Any] = {
        "workspace": asked.home,
        "nodes": page.answers,
        **({"edges": page.edges} if edges else {}),
        "cut": page.cut,
        "broken_links": broken(crossing, answered, asked, beside),
        "conflicts": _conflicts(session, ids, answered, beside),
    }
    lacking = [absent(uri, told) for uri in found.missing if (told := why(uri)).reason != "missing"]
    is_barred = found.unreached and params.edge_types
    answer |= paging.present(
        unreached=found.unreached,
        other_types=_other_types(asked.starts, sources, params.edge_types) if is_barred else (),
        cursor=paging.write("traverse", question, page.cursor) if page.cursor else "",
        missing=[*found.missing, *(text[:300] for text in asked.refused)],
        absent=[*lacking, *refused(asked)],
        as_of=asked.commit,
    )
    return asked, answer


def _crossed(
    session: Session, params: TraverseParams, asked: Asked, sources: Sequence[EdgeSource], behind: int
) -> tuple[Crossing, Callable[[Uri], Absence]]:
    """Walk past `behind` nodes; returns the walk, and a function that says why a start is missing.

    Raises:
        KgdError: There is no node to start from, or none to end at.
    """
    if asked.to is not None and session.principal is None and asked.lacks(asked.to, sources):
        raise nowhere(session, asked, asked.to, Absence("missing"))
    max_cost, direction = _limits(params)
    crossing = walk_across(
        asked.inside,
        sources,
        asked.starts,
        session.daemon.elsewhere.world(session.principal),
        max_cost=max_cost,
        max_depth=params.max_depth,
        edge_types=params.edge_types,
        types=params.types,
        direction=direction,
        max_nodes=behind + params.max_nodes,
        to=asked.to,
    )
    found, why = crossing.walk, why_not(session, asked, crossing)
    if not found.nodes and found.missing:
        raise nowhere(session, asked, found.missing[0], why(found.missing[0]))
    if asked.to in found.missing:
        raise nowhere(session, asked, asked.to, why(asked.to))
    return crossing, why


def _limits(params: TraverseParams) -> tuple[float | None, Direction]:
    """The largest cost and the direction; a path to one node has by default any cost, in both directions."""
    given = params.model_fields_set if params.to else {"max_cost", "direction"}
    return params.max_cost if "max_cost" in given else None, params.direction if "direction" in given else "both"


def settling(session: Session, params: TraverseParams) -> TraverseResult:
    """`traverse`; with `conflicts: resolve`, a model first settles conflicts on the way, then the walk is repeated."""
    answer = traverse(session, params)
    if params.conflicts == "show" or not answer["conflicts"]:
        return answer
    opened = {one.id: one for one in session.daemon.opened()}
    resolved: list[Resolved] = []
    for id in sorted({workspace_of(one["uri"]) or answer["workspace"] for one in answer["conflicts"]} & opened.keys()):
        met = [Uri(one["uri"]) for one in answer["conflicts"] if workspace_of(one["uri"]) in (None, id)]
        resolved += on_the_way(session, opened[id], met)
    if resolved:
        answer = traverse(session, params)
        answer["resolved"] = resolved
    return answer


class _Behind:
    """The end of the last page: the number of nodes returned so far, and the order key of the last node.

    The key decides, not the number. If the graph changes between pages, nodes that stay in place are neither repeated
    nor omitted.
    """

    def __init__(self, count: int = 0, key: tuple[float, int, str] | None = None) -> None:
        self.count, self.key = count, key

    @classmethod
    def read(cls, question: Any, cursor: str | None) -> _Behind:
        if cursor is None:
            return cls()
        position = paging.read("traverse", question, cursor)
        if len(position) != 4 or not isinstance(position[1], int | float) or not isinstance(position[3], str):
            raise Invalid("this is not a cursor", at="cursor", next="Start without one.")
        count = min(paging.index(position, 0), 100_000)
        return cls(count, (float(position[1]), paging.index(position, 2), position[3]))

    def is_before(self, node: Visited) -> bool:
        return self.key is None or self.key < (node.cost, node.hops, node.uri)


class _Page:
    """The nodes of a walk that fit into the room, each with its relations to nodes returned before it."""

    def __init__(
        self,
        crossing: Crossing,
        behind: _Behind,
        room: Room,
        sources: Sources,
        also: Mapping[Uri, list[str]],
        *,
        path: bool,
        edges: bool,
    ) -> None:
        found = crossing.walk
        self.nodes: list[Visited] = []
        self.answers: list[Reached] = []
        self.edges: list[EdgeAnswer] = []
        self.cut: list[CutAnswer] = [
            {"limit": c.limit, "at": c.at, "count": c.count} for c in (*found.cut, *crossing.cut)
        ]
        self.cursor: list[Any] | None = None
        links = _by_later_end(found) if edges else {}
        listed = {node.uri: node.path for node in found.nodes}
        fresh = found.nodes if behind.key is None else [node for node in found.nodes if behind.is_before(node)]
        for node in fresh:
            answer = _reached(node, sources.of(node))
            if node.path:
                answer["via"] = _via(node, listed)
            if path:
                answer["path"] = [_step(step) for step in node.path]
            if node.uri in also:
                answer["asked"] = also[node.uri]
            joined = [_edge(link) for link in links.get(node.uri, ())]
            if not room.take([answer, joined], first=True):
                break
            self.nodes.append(node)
            self.answers.append(answer)
            self.edges += joined
        left = len(fresh) - len(self.nodes)
        if left:
            self.cut.append({"limit": "budget", "at": fresh[len(self.nodes)].uri, "count": left})
        if self.nodes and (left or any(c.limit == "max_nodes" for c in found.cut)):
            last = self.nodes[-1]
            self.cursor = [behind.count + len(self.nodes), last.cost, last.hops, last.uri]


def _by_later_end(found: Walk) -> dict[str, list[Link]]:
    rank = {node.uri: number for number, node in enumerate(found.nodes)}
    links: dict[str, list[Link]] = defaultdict(list)
    for link in found.edges:
        links[link.source if rank[link.source] > rank[link.target] else link.target].append(link)
    return links


def _reached(node: Visited, came_from: Sequence[Origin]) -> Reached:
    card = node.card
    answer: Reached = {
        "uri": node.uri,
        "type": card.type,
        "name": card.name or name_of(node.uri),
        "cost": plain_weight(node.cost),
    }
    if card.summary:
        answer["summary"] = card.summary
    if card.blob is None:
        answer["stored"] = False
    if came_from:
        answer["origin"] = came_from[0]
        if len(came_from) > 1:
            answer["origins"] = list(came_from)
        if any(origin["trust"] == "remote" for origin in came_from):
            answer["type"], answer["name"] = fenced(answer["type"]), fenced(answer["name"])
            if "summary" in answer:
                answer["summary"] = fenced(answer["summary"])
    return answer


def _step(step: Step) -> PathStep:
    answer: PathStep = {"from": step.uri, "type": step.type}
    if step.direction == "in":
        answer["direction"] = "in"
    return answer


def _via(node: Visited, listed: Mapping[Uri, tuple[Step, ...]]) -> Via:
    """The end of a node's path, from the last node whose own path is a prefix of this path."""
    path = node.path
    at = last = len(path) - 1
    # `types` may hide a predecessor, or the answer may list it with a cheaper path that is too long for `max_depth`.
    while at and not (len(known := listed.get(path[at].uri, ())) == at and known[-1] is path[at - 1]):
        at -= 1
    uri, type, direction = path[last]
    answer: Via = {"from": uri, "type": type}
    if direction == "in":
        answer["direction"] = "in"
    if at < last:
        answer["through"] = [_step(step) for step in path[at:last]]
    return answer


def _edge(link: Link) -> EdgeAnswer:
    return {"source": link.source, "target": link.target, "type": link.type, "weight": plain_weight(link.weight)}


def _shown(answer: Mapping[str, Any]) -> list[Counted]:
    """The relations that the answer shows."""
    if "edges" in answer:
        return [(edge["source"], edge["target"], edge["type"]) for edge in answer["edges"]]
    return [
        (node["uri"], via["from"], via["type"]) if "direction" in via else (via["from"], node["uri"], via["type"])
        for node in answer["nodes"]
        if (via := node.get("via"))
    ]


def _other_types(starts: Sequence[Uri], sources: Sequence[EdgeSource], wanted: Collection[str]) -> list[str]:
    """The types of the nodes' relations, if none is wanted; none if a node has too many relations to examine."""
    sides = [
        edges
        for source in sources
        for start in map(source.resolve, starts)
        for edges in (source.out(start), source.into(start))
    ]
    if any(len(edges) > EXAMINED for edges in sides):
        return []
    found = {edge.type for edges in sides for edge in edges}
    return sorted(found) if found.isdisjoint(wanted) else []


def _conflicts(session: Session, ids: Sequence[str], answered: Collection[Uri], most: int) -> list[ConflictAnswer]:
    opened = {one.id: one for one in session.daemon.opened(ids)}
    shown: list[ConflictAnswer] = []
    for workspace in (opened[id] for id in ids if id in opened):
        sees = session.sight(workspace.id)
        shown += [clip(nodes.conflict(one), LONGEST_SIDE) for one in workspace.conflicts.of(answered, about=sees)]
    return shown[:most]


def _mark(session: Session, ids: Sequence[str], answers: Sequence[Reached]) -> None:
    """Mark the unverified nodes of this machine's workspaces that the walk visited."""
    opened = {one.id: one for one in session.daemon.opened(ids)}
    for id in ids:
        if id in opened:
            mark(opened[id], answers, session.sight(id))


def from_memory(session: Session, params: TraverseParams) -> bool:
    return (
        params.as_of is None
        and params.conflicts == "show"
        and MENTIONS not in params.edge_types
        and addressing.at_hand(session, params.workspace, params.start)
    )


TRAVERSE = Operation(
    name="traverse",
    title="Nodes nearby",
    description=(
        "Nodes near one or more nodes or paths, cheapest first, each with its cost and last relation (`via`); broken "
        "links and open conflicts. A relation's weight is its cost: 0 belongs together, 1 is a full step. direction "
        "in finds dependents. `cut` counts the nodes that a limit left out."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=settling,
    from_memory=from_memory,
    computes=True,
    text=as_markdown.walk,
    offered=USUAL,
    place=30,
    scope=Verb.READ,
    commands=(
        Command(
            "Reading",
            "walk from nodes along the cheapest paths",
            (
                option("start", "a URI, or in short: services/auth, ./src/main.py, insight:a-fact", "START", nargs="+"),
                option("--to", "only the cheapest path to this node", "URI"),
                option("--max-cost", "largest cost of a path; 'none' for no limit", "COST", type=None),
                option("--max-depth", "relations on a path"),
                EDGE_TYPES,
                TYPES,
                option("--direction", "along relations, against them, or both"),
                option("--max-nodes", "nodes in the answer"),
                option(
                    "--include", "edges: relations among the nodes; path: each node's whole path; for --json", "PART"
                ),
                AS_OF,
                BUDGET,
                CURSOR,
                CONTEXT_ID,
            ),
            place=40,
            print="printing.traverse",
            examples=(("kgd traverse services/auth --max-cost 1", "everything within a cost of 1, cheapest first"),),
        ),
        Command(
            "Reading",
            "show the cheapest path between two nodes, and up to two others; relations count in both directions",
            (
                option("start", ADDRESS, "FROM"),
                option("to", "the last node of the path", "TO"),
                option(
                    "--max-cost", "largest cost of the path; 'none' for no limit (default: none)", "COST", type=None
                ),
                option("--max-depth", "maximum number of relations on the path"),
                EDGE_TYPES,
                option("--direction", "along relations, against them, or both (default: both)"),
                AS_OF,
                BUDGET,
                CURSOR,
            ),
            name="path",
            place=42,
            print="printing.path",
            examples=(("kgd path services/auth src/auth/session.py", "how two nodes are connected"),),
        ),
    ),
)
