"""Operations that read, create and delete edges: by node and direction, by ends, or by id.

An edge's id is a hash of its ends and type. The id does not show which node stores the edge, so an index in memory maps
ids to nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, NotFound
from kgd.graph.edges import Edge
from kgd.graph.live_graph import LiveGraph
from kgd.model import change as model
from kgd.model.change import Unrelate
from kgd.model.fields import plain_weight
from kgd.model.node import edge_id
from kgd.model.uri import Uri
from kgd.tools import addressing, paging
from kgd.tools.graph.nodes import (
    MOST,
    PAGE_BYTES,
    DeleteResult,
    WriteParams,
    WriteResult,
    placing,
    remove,
    submitted,
)
from kgd.tools.operation import Hints, Operation
from kgd.tools.paging import size_of
from kgd.tools.parameters import EdgeTypes, Many, Paged, Params
from kgd.tools.session import Session
from kgd.tools.visibility import walked
from kgd.tools.write import changes
from kgd.workspace.served import Beside, Changed
from kgd.workspace.workspace import Workspace

KEY = 16
"""Number of hex digits of an id that the index keeps; a match is then compared in full."""


class EdgeIds(Beside):
    """The sources of all edges by id. The first look-up costs O(edges), a later one O(changes since the last look-up).

    Deleted edges stay in the index, so each result is checked against the graph.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._sources: dict[int, Uri] = {}
        self._changed = Changed(workspace)

    def ends(self, id: str) -> tuple[Uri, Uri, str] | None:
        """Source, target and type of the edge with this id; None if there is no such edge."""
        key = _key(id)
        if key is None:
            return None
        with self._lock:
            self._add(self._changed.unread())
            source = self._sources.get(key)
        if source is None:
            return None
        leaving = self._workspace.graph.out(source)
        return next(((source, e.target, e.type) for e in leaving if edge_id(source, e.target, e.type) == id), None)

    def _add(self, uris: Iterable[Uri]) -> None:
        graph = self._workspace.graph
        for uri in uris:
            for edge in graph.out(uri):
                key = _key(edge_id(uri, edge.target, edge.type))
                if key is not None:
                    self._sources[key] = uri


def _key(id: str) -> int | None:
    try:
        return int(id.removeprefix("edge-")[:KEY], 16) if id.startswith("edge-") else None
    except ValueError:
        return None


class EdgesParams(Paged):
    uri: str
    direction: Literal["in", "out", "both"] = "both"
    edge_types: EdgeTypes = Field(default_factory=list)
    limit: Annotated[int, Field(ge=1, le=10_000)] = 2_000


class EdgeAnswer(TypedDict):
    """`broken`: the target does not exist, here or in the code tree. `derived`: the edge follows from texts or code."""

    id: str
    source: str
    target: str
    type: str
    weight: float
    data: NotRequired[dict[str, Any]]
    broken: NotRequired[bool]
    derived: NotRequired[bool]


class EdgesResult(TypedDict):
    workspace: str
    edges: list[EdgeAnswer]
    cursor: NotRequired[str]


class Ends(NamedTuple):
    """The identity of an edge: two nodes have at most one edge of each type in each direction."""

    source: Uri
    target: Uri
    type: str


def read(session: Session, params: EdgesParams) -> EdgesResult:
    """List the edges that leave a node, then the edges that lead to it, both sorted by weight, other end and type.

    Mentions are included only if their type is requested.
    """
    workspace = addressing.choose(session, params.workspace, [params.uri])
    asked = addressing.resolve(session, workspace, params.uri)
    owner = addressing.owner_of(session, workspace, asked)
    uri = owner.resolve(asked)
    question = [owner.id, uri, params.direction, params.edge_types]
    behind = tuple(paging.read("edges", question, params.cursor)) if params.cursor else ()
    answer: EdgesResult = {"workspace": workspace.id, "edges": []}
    used, last = 0, tuple[Any, ...]()
    try:
        for place, edge, weight, derived in _around(owner, uri, params):
            if place <= behind:
                continue
            if len(answer["edges"]) == params.limit or used > PAGE_BYTES:
                answer["cursor"] = paging.write("edges", question, list(last))
                break
            last, found = place, answer_of(owner, edge, weight, derived=derived)
            used += size_of(found)
            answer["edges"].append(found)
    except TypeError:  # the cursor is not from this operation: its positions cannot be compared
        raise Invalid("this is not a cursor", at="cursor", next="Start without one.") from None
    if not answer["edges"] and not owner.exists(uri):
        raise addressing.missing_node(owner, uri, None)
    return answer


def _around(workspace: Workspace, uri: Uri, params: EdgesParams) -> Iterator[tuple[tuple[Any, ...], Ends, float, bool]]:
    """For each edge of a node: its position in the answer, its ends, its weight, and whether it is derived."""
    sources = walked(workspace, params.edge_types)
    for number, direction in enumerate(("out", "in")):
        if params.direction not in (direction, "both"):
            continue
        found: dict[tuple[Uri, str], tuple[Edge, bool]] = {}
        for rank, source in enumerate(sources):  # stored edges first: their weight overrides that of a derived edge
            for edge in source.out(uri) if direction == "out" else source.into(uri):
                found.setdefault((edge.target, edge.type), (edge, rank > 0))
        for edge, derived in sorted(found.values()):
            if params.edge_types and edge.type not in params.edge_types:
                continue
            if direction == "in" and edge.target == uri and params.direction == "both":
                continue  # a loop, listed among the leaving edges
            ends = Ends(uri, edge.target, edge.type) if direction == "out" else Ends(edge.target, uri, edge.type)
            yield (number, *edge), ends, edge.weight, derived


def answer_of(workspace: Workspace, edge: Ends, weight: float, *, derived: bool = False) -> EdgeAnswer:
    answer: EdgeAnswer = {
        "id": edge_id(*edge),
        "source": edge.source,
        "target": edge.target,
        "type": edge.type,
        "weight": plain_weight(weight),
    }
    for name in names(workspace.graph, edge.target):
        if data := workspace.graph.relation_data(edge.source, name, edge.type):
            answer["data"] = dict(data)
            break
    answer |= paging.present(broken=workspace.is_broken(edge.target), derived=derived)
    return answer


def names(graph: LiveGraph, uri: Uri) -> tuple[Uri, ...]:
    """The URIs by which relations may refer to a node: its current URI and its former URIs."""
    return (uri, *graph.aliases(uri))


class NewEdge(changes.Relate):
    op: Literal["relate"] = "relate"


class CreateParams(WriteParams):
    edges: Annotated[Many[NewEdge], Field(min_length=1, max_length=MOST)]


class CreateResult(WriteResult):
    edges: list[EdgeAnswer]


def create(session: Session, params: CreateParams) -> CreateResult:
    """Create all edges as one commit, or none. An existing edge gets the given weight and data."""
    workspace = addressing.choose(session, params.workspace, [edge.source for edge in params.edges], writing=True)
    with placing("edges"):
        edits = changes.edits(session, workspace, params.edges)
        outcome = submitted(session, workspace, edits, params)
    made = [
        Ends(workspace.resolve(edit.source), workspace.resolve(edit.relation.target), edit.relation.type)
        for edit in edits
        if isinstance(edit, model.Relate)
    ]
    weights = {
        Ends(source, edge.target, edge.type): edge.weight
        for source in {one.source for one in made}
        for edge in workspace.graph.out(source)
    }
    return {
        "workspace": workspace.id,
        "commit": outcome.commit,
        "edges": [answer_of(workspace, one, weights[one]) for one in made if one in weights],
        "warnings": list(outcome.warnings),
    }


class EndsParams(Params):
    source: str
    target: str
    type: str


class DeleteParams(WriteParams):
    edges: Annotated[Many[EndsParams], Field(max_length=MOST)] = Field(default_factory=list)
    ids: Annotated[Many[str], Field(max_length=MOST)] = Field(default_factory=list)
    uri: Annotated[str | None, Field(description="all edges of this node, in both directions")] = None


def delete(session: Session, params: DeleteParams) -> DeleteResult:
    """Delete edges by ends or ids in one commit, or all edges of a node in commits of up to 2,000."""
    if bool(params.edges or params.ids) == (params.uri is not None):
        raise Invalid("give either edges or a node", at="edges", next="Leave one out.")
    texts = [params.uri] if params.uri is not None else [edge.source for edge in params.edges]
    workspace = addressing.choose(session, params.workspace, texts, writing=True)
    answer: DeleteResult = {"workspace": workspace.id, "deleted": 0, "commits": [], "warnings": []}
    if params.uri is None:
        if done := workspace.repeated(params.request_id):
            return {**answer, "deleted": len(params.edges) + len(params.ids), "commits": [done.commit or ""]}
        named = dict.fromkeys(_named(session, workspace, params))
        remove(session, workspace, params, named, answer, "edges")
        return {**answer, "deleted": len(named)}
    uri = workspace.resolve(addressing.resolve(session, workspace, params.uri))
    if not workspace.exists(uri) and not workspace.graph.into(uri):
        raise addressing.missing_node(workspace, uri, None)
    while found := _of_node(workspace, uri):
        batch = found[:MOST]
        remove(session, workspace, params, batch, answer, "edges", is_part=True)
        answer["deleted"] += len(batch)
        if len(found) <= MOST:
            break
    return answer


def _named(session: Session, workspace: Workspace, params: DeleteParams) -> list[Unrelate]:
    """The stored relations of the named edges.

    Raises:
        NotFound: An edge is missing, or only the code tree has it.
    """
    found: list[Unrelate] = []
    for number, edge in enumerate(params.edges):
        source = workspace.resolve(addressing.resolve(session, workspace, edge.source, at=f"edges[{number}].source"))
        target = workspace.resolve(addressing.spell(session, workspace, edge.target, at=f"edges[{number}].target"))
        stored = _stored(workspace, Ends(source, target, edge.type))
        if not stored:
            raise NotFound(
                "there is no such edge in the workspace",
                at=f"edges[{number}]",
                next="`get_edges` lists the edges of a node. Edges of the code tree cannot be deleted.",
            )
        found += stored
    for number, id in enumerate(params.ids):
        ends = EdgeIds.of(workspace).ends(id)
        stored = _stored(workspace, Ends(*ends)) if ends else []
        if not stored:
            raise NotFound("no edge has this id", at=f"ids[{number}]", next="`get_edges` lists the edges of a node.")
        found += stored
    return found


def _of_node(workspace: Workspace, uri: Uri) -> list[Unrelate]:
    leaving = [Ends(uri, edge.target, edge.type) for edge in workspace.graph.out(uri)]
    arriving = [Ends(edge.target, uri, edge.type) for edge in workspace.graph.into(uri) if edge.target != uri]
    return [one for ends in (*leaving, *arriving) for one in _stored(workspace, ends)]


def _stored(workspace: Workspace, edge: Ends) -> list[Unrelate]:
    """The relations as stored, which may use former URIs of the target."""
    node = workspace.node(edge.source)
    if node is None:
        return []
    return [
        Unrelate(edge.source, name, edge.type)
        for name in names(workspace.graph, edge.target)
        if node.relation(edge.type, name)
    ]


EDGES = Operation(
    name="edges",
    title="Read edges",
    description="The edges of a node with their data: outgoing, incoming, or both.",
    hints=Hints(read_only=True, idempotent=True),
    run=read,
)
CREATE_EDGES = Operation(
    name="create_edges",
    title="Create edges",
    description="Creates edges in one commit. Two nodes have at most one edge of a type; creating it again changes it.",
    hints=Hints(idempotent=True),
    run=create,
    commits={"put": "wrote"},
)
DELETE_EDGES = Operation(
    name="delete_edges",
    title="Delete edges",
    description="Deletes edges by their ends or ids, or all edges of one node.",
    hints=Hints(destructive=True),
    run=delete,
    commits={"put": "wrote"},
)
