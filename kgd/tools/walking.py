"""This file is where `traverse` is: everything near a node, cheapest first, and a reason for whatever is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, NotFound
from kgd.graph.traverse import Link, Visited, Walk
from kgd.graph.traverse import traverse as walk
from kgd.model.fields import plain_weight
from kgd.model.uri import name_of
from kgd.tools import addressing, cursors, nodes
from kgd.tools.budget import Room, clip
from kgd.tools.contexts import Hint, enter
from kgd.tools.nodes import ConflictAnswer
from kgd.tools.parameters import Many, Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool

MOST_NODES = 2_000
LONGEST_SIDE = 600
BROKEN_SHOWN = 20


class TraverseParams(Params):
    start: Annotated[Many[str], Field(min_length=1, max_length=100, description="URIs or paths")]
    max_cost: Annotated[
        float | None, Field(ge=0, description="null: no limit", json_schema_extra={"type": ["number", "null"]})
    ] = 1.0
    max_depth: Annotated[int | None, Field(ge=0)] = None
    edge_types: Many[str] = Field(default_factory=list)
    types: Annotated[Many[str], Field(description="node types; file and dir too")] = Field(default_factory=list)
    direction: Literal["out", "in", "both"] = "out"
    max_nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] = 50
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000
    as_of: Annotated[str | None, Field(description="a commit")] = None
    conflicts: Literal["show", "resolve"] = "show"
    cursor: str | None = None
    context_id: str | None = None
    workspace: str | None = None


PathStep = TypedDict("PathStep", {"from": str, "type": str, "direction": NotRequired[Literal["in"]]})
"""One relation of a path: leaving `from`; `direction` is given where it was walked against its arrow."""


class Reached(TypedDict):
    uri: str
    type: str
    name: str
    cost: float
    path: list[PathStep]
    summary: NotRequired[str]
    stored: NotRequired[bool]


class EdgeAnswer(TypedDict):
    source: str
    target: str
    type: str
    weight: float


class CutAnswer(TypedDict):
    """What a limit left out; `count` is how many at least, `at` where it was met first."""

    limit: str
    at: str
    count: int


class Broken(TypedDict):
    source: str
    type: str
    target: str
    reason: str


class TraverseResult(TypedDict):
    workspace: str
    nodes: list[Reached]
    edges: list[EdgeAnswer]
    cut: list[CutAnswer]
    broken_links: list[Broken]
    conflicts: list[ConflictAnswer]
    context_id: NotRequired[str]
    hint: NotRequired[Hint]
    missing: NotRequired[list[str]]
    as_of: NotRequired[str]
    cursor: NotRequired[str]


def traverse(session: Session, params: TraverseParams) -> TraverseResult:
    """What can be reached, in order of cost, hops and URI; a cursor goes on behind the last one answered."""
    workspace = addressing.choose(session, params.workspace, params.start)
    starts = [addressing.resolve(session, workspace, s, at=f"start[{n}]") for n, s in enumerate(params.start)]
    commit = workspace.commit_id(params.as_of) if params.as_of else None
    question = [workspace.id, starts, params.max_cost, params.max_depth, params.edge_types, params.types,
                params.direction, commit]  # fmt: skip
    behind = _Behind.read(question, params.cursor)
    found = walk(
        [workspace.graph_at(commit)] if commit else workspace.sources(), starts, max_cost=params.max_cost,
        max_depth=params.max_depth, edge_types=params.edge_types, types=params.types, direction=params.direction,
        max_nodes=behind.count + params.max_nodes,
    )  # fmt: skip
    if not found.nodes and found.missing:
        raise _nowhere(workspace, found)
    page = _Page(found, behind, Room(params.budget))
    answered = {node.uri for node in page.nodes}
    answer: dict[str, Any] = {
        "workspace": workspace.id,
        "nodes": page.answers,
        "edges": page.edges,
        "cut": page.cut,
        "broken_links": [
            {"source": b.source, "type": b.type, "target": b.target, "reason": "missing"}
            for b in found.broken
            if b.source in answered and not (commit and workspace.in_overlay(b.target))  # the tree has no past here
        ][:BROKEN_SHOWN],
        "conflicts": _conflicts(workspace, answered) if workspace.conflict_count and not commit else [],
    }  # fmt: skip
    if page.cursor:
        answer["cursor"] = cursors.write("traverse", question, page.cursor)
    if found.missing:
        answer["missing"] = list(found.missing)
    if commit:
        answer["as_of"] = commit
    answer.update(enter(session, params.context_id, [node.uri for node in page.nodes], starting=True))
    return answer  # type: ignore[return-value]


class _Behind:
    """Where the last answer ended: how many nodes were given, and the order key of the last of them.

    The key and not the number decides what is skipped, so that a graph that changed meanwhile repeats and omits
    nothing that stayed where it was.
    """

    def __init__(self, count: int = 0, key: tuple[float, int, str] | None = None) -> None:
        self.count, self.key = count, key

    @classmethod
    def read(cls, question: Any, cursor: str | None) -> _Behind:
        if cursor is None:
            return cls()
        position = cursors.read("traverse", question, cursor)
        if len(position) != 4 or not isinstance(position[1], int | float) or not isinstance(position[3], str):
            raise Invalid("this is not a cursor", at="cursor", next="Start without one.")
        count = min(cursors.index(position, 0), 100_000)
        return cls(count, (float(position[1]), cursors.index(position, 2), position[3]))

    def hides(self, node: Visited) -> bool:
        return self.key is not None and (node.cost, node.hops, node.uri) <= self.key


class _Page:
    """The nodes of a walk that fit into the room, each with the relations to those answered before it."""

    def __init__(self, found: Walk, behind: _Behind, room: Room) -> None:
        self.nodes: list[Visited] = []
        self.answers: list[Reached] = []
        self.edges: list[EdgeAnswer] = []
        self.cut: list[CutAnswer] = [{"limit": c.limit, "at": c.at, "count": c.count} for c in found.cut]
        self.cursor: list[Any] | None = None
        links = _by_later_end(found)
        fresh = [node for node in found.nodes if not behind.hides(node)]
        for node in fresh:
            answer, edges = _reached(node), [_edge(link) for link in links.get(node.uri, ())]
            if not room.take([answer, edges], first=True):
                break
            self.nodes.append(node)
            self.answers.append(answer)
            self.edges += edges
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


def _reached(node: Visited) -> Reached:
    card = node.card
    answer: Reached = {
        "uri": node.uri,
        "type": card.type,
        "name": card.name or name_of(node.uri),
        "cost": plain_weight(node.cost),
        "path": [
            {"from": step.uri, "type": step.type}
            if step.direction == "out"
            else {"from": step.uri, "type": step.type, "direction": "in"}
            for step in node.path
        ],
    }
    if card.summary:
        answer["summary"] = card.summary
    if card.blob is None:
        answer["stored"] = False
    return answer


def _edge(link: Link) -> EdgeAnswer:
    return {"source": link.source, "target": link.target, "type": link.type, "weight": plain_weight(link.weight)}


def _conflicts(workspace: Any, answered: set[Any]) -> list[ConflictAnswer]:
    shown: list[ConflictAnswer] = [
        clip(nodes.conflict(one), LONGEST_SIDE) for one in workspace.conflicts() if one.uri in answered
    ]
    return shown[:BROKEN_SHOWN]


def _nowhere(workspace: Any, found: Walk) -> NotFound:
    like: Sequence[str] = nodes.similar(workspace, found.missing[0])
    advice = f"Close to it: {', '.join(like)}." if like else "Find a start with search."
    return NotFound("there is no such node", at=found.missing[0], next=advice)


def from_memory(session: Session, params: TraverseParams) -> bool:
    return params.as_of is None and addressing.at_hand(session, params.workspace, params.start)


TRAVERSE = Tool(
    name="traverse",
    title="What is near",
    description=(
        "Everything near one or more nodes or paths, cheapest first: each node with its cost and path, the relations "
        "among them, broken links, open conflicts. A node is in when its cheapest path costs at most max_cost (a "
        "relation's weight is its cost; 0 = always together). `cut` says what was left out and why."
    ),
    Params=TraverseParams,
    Result=TraverseResult,
    hints=Hints(read_only=True, idempotent=True),
    run=traverse,
    from_memory=from_memory,
)
