"""This file is where `search` is: full text with filters, ranked, each hit with the reason why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid
from kgd.freshness.freshness import Freshness
from kgd.graph.edges import Card, EdgeSource
from kgd.index.ranking import Hit
from kgd.model.fields import plain_weight
from kgd.model.uri import Uri, name_of
from kgd.tools import addressing, cursors, sight
from kgd.tools.budget import Room
from kgd.tools.nodes import UnverifiedAnswer
from kgd.tools.origins import Origin
from kgd.tools.parameters import Many, Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool
from kgd.tools.verifying import mark
from kgd.tools.walking import EdgeAnswer

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

EDGES_PER_HIT = 5
LOOKED_THROUGH = 2_000
"""Hits among which those are found that a caller who may not read everything may read."""
DEEPEST = 10_000
"""Hits that can be paged through; whoever needs more asks a narrower question."""


class SearchParams(Params):
    query: Annotated[str, Field(max_length=2_000, description="words; optional with tags")] = ""
    types: Annotated[Many[str], Field(description="node types; file and dir too")] = Field(default_factory=list)
    tags: Annotated[Many[str], Field(description="any of them")] = Field(default_factory=list)
    namespace: Annotated[str, Field(description="a path prefix")] = ""
    edge_types: Many[str] = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=0, le=10, description="0: no edges")] = 1
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    limit: Annotated[int, Field(ge=1, le=200)] = 10
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000
    cursor: str | None = None
    workspace: str | None = None


class HitAnswer(TypedDict):
    """`path` leads from the seed that was matched to the node; full text matches are seeds themselves."""

    uri: str
    type: str
    name: str
    score: float
    why: list[str]
    path: list[str]
    summary: NotRequired[str]
    snippet: NotRequired[str]
    stored: NotRequired[bool]
    unverified: NotRequired[UnverifiedAnswer]


class SearchResult(TypedDict):
    workspace: str
    hits: list[HitAnswer]
    edges: list[EdgeAnswer]
    cursor: NotRequired[str]
    origin: NotRequired[Origin]


def search(session: Session, params: SearchParams) -> SearchResult:
    """The best hits first, knowledge before bare files; `edges` are the cheapest relations of each hit."""
    if not params.query.strip() and not params.tags:
        of_type = " `types` alone lists nothing: traverse from a path with `types` does." if params.types else ""
        raise Invalid("there is nothing to look for", at="query", next=f"Give words, or tags.{of_type}")
    workspace = addressing.choose(session, params.workspace)
    question = [workspace.id, params.query, params.types, params.tags, params.namespace, params.min_score]
    start = offset = cursors.index(cursors.read("search", question, params.cursor), 0) if params.cursor else 0
    if offset > DEEPEST:
        raise Invalid(f"at most {DEEPEST} hits can be paged through", at="cursor", next="Ask a narrower question.")
    sees = sight.sight(session, workspace.id)
    sources = sight.sources(session, workspace.id, workspace.sources())
    found = _look_up(workspace, params, offset) if sees is None else _seen(workspace, params, offset, sees)
    room, hits = Room(params.budget), []
    edges: dict[tuple[str, str, str], EdgeAnswer] = {}
    for hit in found[: params.limit]:
        answer = _answer(sources, hit)
        if answer is not None and not room.take(answer, first=True):
            break
        offset += 1
        if answer is None:  # gone since it was indexed
            continue
        hits.append(answer)
        if params.max_depth > 0:
            for edge in _edges(sources, hit.uri, params.edge_types):
                key = (edge["source"], edge["target"], edge["type"])
                if key not in edges and room.take(edge):
                    edges[key] = edge
    mark(workspace, hits, sees)
    result: SearchResult = {"workspace": workspace.id, "hits": hits, "edges": list(edges.values())}
    if offset - start < len(found):
        result["cursor"] = cursors.write("search", question, [offset])
    return result


def _seen(workspace: Workspace, params: SearchParams, offset: int, sees: sight.Sees) -> list[Hit]:
    """As `_look_up`, for somebody who may not read everything: what they may not counts for nothing, not even for
    where a page begins, since that would tell whether a hidden node has the words."""
    found = [hit for hit in _look_up(workspace, params, 0, LOOKED_THROUGH, partly=True) if sees(hit.uri)]
    return found[offset : offset + params.limit + 1]


def _look_up(
    workspace: Workspace, params: SearchParams, offset: int, limit: int = 0, *, partly: bool = False
) -> list[Hit]:
    """One more than asked for, to know whether there are more. Below `min_score` nothing follows: scores fall."""
    filters: dict[str, Any] = {"types": params.types or None, "namespace": params.namespace.strip("/")}
    limit = limit or params.limit + 1
    if params.query.strip():
        filters["doubted"] = () if partly else Freshness.of(workspace).doubted
        found = workspace.search(params.query, tags=params.tags or None, limit=limit, offset=offset, **filters)
    else:
        found = workspace.search_tags(params.tags, limit=limit, offset=offset, **filters)
    return [hit for hit in found if hit.score >= params.min_score]


def _answer(sources: Sequence[EdgeSource], hit: Hit) -> HitAnswer | None:
    card = _card(sources, hit.uri)
    if card is None:
        return None
    answer: HitAnswer = {
        "uri": hit.uri, "type": card.type, "name": card.name or name_of(hit.uri), "score": hit.score,
        "why": list(hit.why), "path": [hit.uri],
    }  # fmt: skip
    if card.summary:
        answer["summary"] = card.summary
    if hit.snippet and hit.snippet != card.summary:
        answer["snippet"] = hit.snippet
    if card.blob is None:
        answer["stored"] = False
    return answer


def _card(sources: Sequence[EdgeSource], uri: Uri) -> Card | None:
    return next((card for source in sources if (card := source.card(uri)) is not None), None)


def _edges(sources: Sequence[EdgeSource], uri: Uri, wanted: Sequence[str]) -> list[EdgeAnswer]:
    """The cheapest relations from and to a hit, a few of each. Those of a bare file would only name its directory."""
    answers: list[EdgeAnswer] = []
    for source in sources[:1]:
        leaving = [edge for edge in source.out(uri) if not wanted or edge.type in wanted]
        arriving = [edge for edge in source.into(uri) if not wanted or edge.type in wanted]
        answers += [
            {"source": uri, "target": e.target, "type": e.type, "weight": plain_weight(e.weight)}
            for e in leaving[:EDGES_PER_HIT]
        ]
        answers += [
            {"source": e.target, "target": uri, "type": e.type, "weight": plain_weight(e.weight)}
            for e in arriving[:EDGES_PER_HIT]
        ]
    return answers


SEARCH = Tool(
    name="search",
    title="Find knowledge",
    description=(
        "Find nodes by words (full text, last word may be unfinished), tags, type or namespace. Start here. Each hit "
        "says why it matched; `edges` are the closest relations of the hits. Knowledge ranks before bare files."
    ),
    Params=SearchParams,
    Result=SearchResult,
    hints=Hints(read_only=True, idempotent=True),
    run=search,
    forwards=True,
)
