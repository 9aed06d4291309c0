"""The `retrieve` operation of the unified graph: the hits of `search` as complete nodes, each with its path."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, Limit
from kgd.freshness.freshness import Freshness
from kgd.retrieval.query import Question
from kgd.retrieval.retrieve import retrieve, tagged
from kgd.tools import addressing
from kgd.tools.graph.edges import EdgeAnswer, Ends, answer_of
from kgd.tools.graph.nodes import whole
from kgd.tools.nodes import NodeAnswer
from kgd.tools.operation import Hints, Operation
from kgd.tools.paging import size_of
from kgd.tools.parameters import EdgeTypes, Many, When, WorkspaceParams, period
from kgd.tools.session import Session
from kgd.tools.visibility import mentioned

LARGEST = 32 * 2**20
"""Largest size in bytes of all nodes of one answer together."""


class RetrieveParams(WorkspaceParams):
    query: Annotated[str, Field(description="words; optional with tags")] = ""
    namespace: str = ""
    types: Annotated[Many[str], Field(description="node types")] = Field(default_factory=list)
    tags: Annotated[Many[str], Field(description="any of them")] = Field(default_factory=list)
    edge_types: EdgeTypes = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=0, le=10, description="0: no edges are followed")] = 1
    limit: Annotated[int, Field(ge=1, le=1_000)] = 10
    min_similarity: Annotated[float, Field(ge=0, le=1, description="of the vectors only")] = 0.0
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    since: When = None
    until: When = None
    content: bool = False


class PathAnswer(TypedDict):
    """How a node was found: along edges from a seed, which matches by words or meaning."""

    uri: str
    uris: list[str]
    score: float
    why: list[str]
    snippet: str
    similarity: NotRequired[float]


class RetrieveResult(TypedDict):
    """`paths` are in the order of `nodes`, the best first."""

    workspace: str
    nodes: list[NodeAnswer]
    edges: list[EdgeAnswer]
    paths: list[PathAnswer]


def run(session: Session, params: RetrieveParams) -> RetrieveResult:
    """The nodes that match a question, the edges from and to these nodes, and a path to each of them."""
    if not params.query.strip() and not params.tags:
        raise Invalid("the query is empty", at="query", next="Give some text, or tags.")
    workspace = addressing.choose(session, params.workspace)
    sources = workspace.sources()
    since, until = period(params.since, params.until)
    question = Question(
        params.query,
        params.namespace.strip("/"),
        tuple(params.types),
        tuple(params.tags),
        tuple(params.edge_types),
        params.max_depth,
        params.limit,
        params.min_score,
        params.min_similarity,
        since=since,
        until=until,
        edges=params.max_depth > 0,
    )
    if params.query.strip():
        stale = Freshness.of(workspace).doubted
        found = retrieve(workspace, question, mentioned(session, workspace), stale=stale, sources=sources)
    else:
        found = tagged(workspace, question, sources=sources)
    answer: RetrieveResult = {"workspace": workspace.id, "nodes": [], "edges": [], "paths": []}
    size = 0
    for hit in (*found.hits, *found.code)[: params.limit]:
        node = whole(session, workspace, hit.uri, content=params.content)
        if node is None:  # deleted since it was indexed
            continue
        size += size_of(node)
        if size > LARGEST:
            raise Limit(
                f"these nodes are larger than {LARGEST // 2**20} MiB",
                at="limit",
                next="Ask for fewer nodes, or leave out their content.",
            )
        path: PathAnswer = {
            "uri": hit.uri,
            "uris": list(hit.path),
            "score": hit.score,
            "why": list(hit.why),
            "snippet": hit.snippet,
        }
        if hit.similarity is not None:
            path["similarity"] = float(hit.similarity)
        answer["nodes"].append(node)
        answer["paths"].append(path)
    for link in found.edges:
        ends = Ends(link.source, link.target, link.type)
        answer["edges"].append(answer_of(workspace, ends, link.weight, derived=link.derived))
    return answer


RETRIEVE = Operation(
    name="retrieve",
    title="Find complete nodes",
    description="The results of search for programs: complete nodes, their edges, and the path from a seed to each.",
    hints=Hints(read_only=True, idempotent=True),
    run=run,
)
