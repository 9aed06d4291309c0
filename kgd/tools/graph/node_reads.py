"""Operations that read complete nodes in pages: by URI, by namespace, or by source; and the whole graph as a file.

`get` shortens its answers to the size of a conversation. Programs need every byte, so a page here may have megabytes,
and no field is shortened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from kgd.errors import Invalid
from kgd.graph import live_graph
from kgd.model.uri import OWNED, Uri, is_of_types
from kgd.tools import addressing, nodes, origins, paging
from kgd.tools.nodes import NodeAnswer
from kgd.tools.operation import Hints, Operation, Reflects
from kgd.tools.paging import size_of
from kgd.tools.parameters import Many, Params, read_object
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

PAGE_BYTES = 4 * 2**20
LISTED = 500
"""Number of URIs per request to the index."""
MOST_NAMED = 2_000
LAST = "\U0010ffff"
"""Sorts after every URI."""


class SourceFilter(Params):
    type: str
    id: str | None = None


SourceParam = Annotated[
    SourceFilter | None,
    BeforeValidator(read_object),
    WithJsonSchema({"type": "object", "description": "{type, id}; without id, all sources of the type"}),
]


class NodesParams(Params):
    uris: Annotated[Many[str] | None, Field(max_length=MOST_NAMED)] = None
    namespace: str | None = None
    source: SourceParam = None
    types: Annotated[Many[str], Field(description="node types")] = Field(default_factory=list)
    content: Annotated[bool, Field(description="with the full text")] = True
    limit: Annotated[int, Field(ge=1, le=2_000)] = 500
    cursor: str | None = None
    workspace: str | None = None


class NodesResult(TypedDict):
    """`elsewhere` are requested URIs of nodes on a hub."""

    workspace: str
    nodes: list[NodeAnswer]
    missing: list[str]
    elsewhere: NotRequired[list[str]]
    cursor: NotRequired[str]


def read(session: Session, params: NodesParams) -> NodesResult:
    """The named nodes in the given order, or the nodes of a namespace or source in the order of their URIs."""
    workspace = addressing.choose(session, params.workspace, params.uris or ())
    asked = [params.uris, params.namespace, params.source and params.source.model_dump()]
    if sum(one is not None for one in asked) > 1:
        raise Invalid("give only one of URIs, a namespace and a source", at="uris", next="Leave the others out.")
    question = [workspace.id, *asked, params.types, params.content]
    place = paging.read("nodes", question, params.cursor) if params.cursor else []
    answer: NodesResult = {"workspace": workspace.id, "nodes": [], "missing": []}
    used, behind = 0, place[0] if place else None
    for number, (position, text) in enumerate(_asked(session, workspace, params, behind)):
        if number >= params.limit or used > PAGE_BYTES:
            answer["cursor"] = paging.write("nodes", question, [behind])
            break
        behind = position
        if params.uris is not None and addressing.on_hub(session, addressing.resolve(session, workspace, text)):
            answer.setdefault("elsewhere", []).append(text)
            continue
        found = whole(session, workspace, text, content=params.content)
        if found is None:
            if params.uris is not None:
                answer["missing"].append(text)
        elif not params.types or is_of_types(found["uri"], found["type"], params.types):
            used += size_of(found)
            answer["nodes"].append(found)
    return answer


def _asked(session: Session, workspace: Workspace, params: NodesParams, behind: Any) -> Iterator[tuple[Any, str]]:
    """The requested URIs after a position, each with its own position."""
    if params.uris is not None:
        first = paging.index([behind], 0) if behind is not None else 0
        yield from ((number, text) for number, text in enumerate(params.uris[first:], first + 1))
    elif params.source is not None:
        listed = workspace.text().by_source(params.source.type, params.source.id)
        yield from ((uri, uri) for uri in listed if uri > str(behind or ""))
    elif params.namespace is not None:
        yield from ((uri, uri) for uri in in_namespace(workspace, params.namespace, str(behind or "")))


def in_namespace(workspace: Workspace, namespace: str, behind: str = "") -> Iterator[Uri]:
    """Stored URIs in or below a namespace, of every owned scheme, in order, after `behind`. Costs O(answer).

    The empty namespace is the whole workspace, with external resources.
    """
    inside = namespace.strip("/")
    places = [f"{scheme}://{workspace.id}/{inside}" for scheme in sorted(OWNED)]
    # `0` is the character after `/`.
    for begin, end in [(f"{place}/", f"{place}0") for place in places] if inside else [("", LAST)]:
        last = max(begin, behind)
        while last < end and (listed := workspace.text().between(last, end, LISTED)):
            for uri in dict.fromkeys(listed):
                last = uri
                if uri in workspace.graph:
                    yield uri


def whole(session: Session, workspace: Workspace, text: str, *, content: bool = True) -> NodeAnswer | None:
    """One node with all its fields; None if it is absent.

    Raises:
        Unavailable: The node's workspace is on a hub.
    """
    asked = addressing.resolve(session, workspace, text)
    owner = addressing.owner_of(session, workspace, asked)
    found = nodes.find(owner, asked)
    if found is None:
        return None
    answer = nodes.head(found, asked)
    answer["origin"]["trust"] = origins.trust_in(session, owner)
    if content:
        answer["content"] = found.content
        if detail := found.detail():
            answer["detail"] = detail
    return answer  # type: ignore[return-value]


NODES = Operation(
    name="nodes",
    title="Read complete nodes",
    description=(
        "Complete nodes by URI, by namespace or by source, for programs. `cursor` continues. With none of these, "
        "the answer only names the workspace."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=read,
)


class SnapshotParams(Params):
    anew: Annotated[bool, Field(description="rewrite the file first, because the current one cannot be read")] = False
    workspace: str | None = None


class SnapshotResult(TypedDict):
    """`tree` is the root tree that the file describes; the file with `changes` is the graph at `commit`."""

    workspace: str
    commit: str
    file: str
    tree: str
    changes: live_graph.Changes


def snapshot(session: Session, params: SnapshotParams) -> SnapshotResult:
    workspace = addressing.choose(session, params.workspace)
    commit, moment = workspace.graph_moment(anew=params.anew)
    return {
        "workspace": workspace.id,
        "commit": commit,
        "file": str(moment.file),
        "tree": moment.tree,
        "changes": live_graph.changes(moment.graph),
    }


GRAPH_SNAPSHOT = Operation(
    name="graph_snapshot",
    title="Map the graph",
    description="A file with the graph for programs on this machine, and the changes since it was written.",
    hints=Hints(read_only=True, idempotent=True),
    run=snapshot,
    reflects=Reflects.WORKSPACE | Reflects.NOW,
)
