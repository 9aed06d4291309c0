"""Operations on complete nodes: pages by URI, by namespace or by source, the whole graph as a file, and writes.

`get` shortens its answers to the size of a conversation. Programs need every byte, so a page here may have megabytes,
and no field is shortened. Writes follow the definition of the unified graph: a created node must be new.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.graph import live_graph
from kgd.model import uri as uris
from kgd.model.change import ChangeSet, Delete, Edit
from kgd.model.node import SETS
from kgd.model.uri import OWNED, Uri, is_of_types
from kgd.tools import addressing, nodes, origins, paging
from kgd.tools.nodes import NodeAnswer
from kgd.tools.operation import Hints, Operation, Reflects
from kgd.tools.paging import size_of
from kgd.tools.parameters import JsonObject, Many, Message, Paged, Params, RequestId, WorkspaceParams, read_object
from kgd.tools.session import Session
from kgd.tools.write import changes
from kgd.tools.write.put import written
from kgd.workspace.answers import Outcome
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


class NodesParams(Paged):
    uris: Annotated[Many[str] | None, Field(max_length=MOST_NAMED)] = None
    namespace: str | None = None
    source: SourceParam = None
    types: Annotated[Many[str], Field(description="node types")] = Field(default_factory=list)
    content: Annotated[bool, Field(description="with the full text")] = True
    limit: Annotated[int, Field(ge=1, le=2_000)] = 500


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


class SnapshotParams(WorkspaceParams):
    anew: Annotated[bool, Field(description="rewrite the file first, because the current one cannot be read")] = False


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


MOST = 2_000
"""Edits of one ChangeSet."""
MOST_EQUAL = 100_000
TRIES = 100
"""Largest number of attempts for a write that concurrent changes overtake."""


class NewNode(changes.Upsert):
    """A new node: with its URI, or with a type and name from which an unused URI is made."""

    op: Literal["upsert"] = "upsert"
    namespace: str = ""


class WriteParams(WorkspaceParams):
    """The parameters of every write: the subject of its commit, and the id of the request."""

    message: Message = ""
    request_id: RequestId = ""


class CreateParams(WriteParams):
    nodes: Annotated[
        Many[NewNode],
        Field(min_length=1, max_length=MOST),
        WithJsonSchema({"type": "array", "items": {"type": "object"}, "description": "as an upsert, with `namespace`"}),
    ]


class WriteResult(TypedDict):
    """A write in one commit; `commit` is None if nothing changed."""

    workspace: str
    commit: str | None
    warnings: list[str]


class CreateResult(WriteResult):
    nodes: list[NodeAnswer]


def create(session: Session, params: CreateParams) -> CreateResult:
    """Create all nodes as one commit, or none. A node with only a type and name gets an unused URI."""
    workspace = addressing.choose(session, params.workspace, [n.uri for n in params.nodes if n.uri], writing=True)
    for tries_left in reversed(range(TRIES)):
        done = workspace.repeated(params.request_id)
        places = _each_placed(session, workspace, params.nodes, {uri for uri, _ in done.nodes} if done else None)
        upserts = [_upsert(node, uri) for node, uri in zip(params.nodes, places, strict=True)]
        try:
            with placing("nodes"):
                outcome = submitted(session, workspace, changes.edits(session, workspace, upserts), params)
        except Stale:
            if not tries_left:
                raise
            continue  # a concurrent change took one of the names: choose another
        made = [whole(session, workspace, uri) for uri in places]
        return {
            "workspace": workspace.id,
            "commit": outcome.commit,
            "nodes": [node for node in made if node],
            "warnings": list(outcome.warnings),
        }
    raise AssertionError("unreachable")


def submitted(
    session: Session, workspace: Workspace, edits: tuple[Edit, ...], params: WriteParams, *, is_part: bool = False
) -> Outcome:
    """Submit edits as `put` does. The request id of a call belongs to its only commit, so a part of many has none."""
    request_id = "" if is_part else params.request_id
    changeset = ChangeSet(edits, session.author(workspace), params.message, request_id)
    return written(session, workspace, changeset)[0]


def remove(
    session: Session,
    workspace: Workspace,
    params: WriteParams,
    edits: Iterable[Edit],
    answer: DeleteResult,
    where: str,
    *,
    is_part: bool = False,
) -> Outcome:
    """Submit deletions, and add their commit and warnings to an answer."""
    with placing(where):
        outcome = submitted(session, workspace, tuple(edits), params, is_part=is_part)
    answer["commits"] += [outcome.commit] if outcome.commit else []
    answer["warnings"] += outcome.warnings
    return outcome


@contextmanager
def placing(where: str) -> Iterator[None]:
    """Let an error name the caller's list instead of ``changes``; an empty name omits the list."""
    try:
        yield
    except KgdError as error:
        error.at = re.sub(r"^changes(\[\d+\]\.?\s*)", lambda found: where and where + found[1], error.at)
        raise


def _each_placed(
    session: Session, workspace: Workspace, asked: Sequence[NewNode], theirs: Collection[Uri] | None
) -> list[Uri]:
    places, found = _Places(session, workspace, theirs), list[Uri]()
    for number, node in enumerate(asked):
        try:
            found.append(places.of(node))
        except KgdError as error:
            error.at = f"nodes[{number}] {error.at}".rstrip()
            raise
    return found


def _upsert(node: NewNode, uri: Uri) -> changes.Upsert:
    given = node.model_dump(exclude_unset=True, exclude={"namespace", "op", "uri", "expect_version"})
    return changes.Upsert.model_validate({**given, "op": "upsert", "uri": uri, "expect_version": 0})


class _Places:
    """The URI of each new node of one call.

    Args:
        theirs: The nodes that an earlier run of the same request made: each node gets its earlier URI again. None for a
            new request.
    """

    def __init__(self, session: Session, workspace: Workspace, theirs: Collection[Uri] | None) -> None:
        self._session, self._workspace, self._theirs = session, workspace, theirs
        self._used, self._numbers = set[str](), dict[Uri, Iterator[int]]()

    def of(self, node: NewNode) -> Uri:
        """The URI of a new node.

        Raises:
            Stale: The requested URI already has a node.
            Invalid: Two nodes have the URI, or the node has neither URI nor type and name.
        """
        found = self._asked(node.uri) if node.uri is not None else self._free(node)
        self._used.add(uris.collision_key(found))
        return found

    def _asked(self, text: str) -> Uri:
        uri = addressing.resolve(self._session, self._workspace, text)
        if uris.collision_key(uri) in self._used:
            raise Invalid("two nodes have this URI", at="uri", next="Give each node once.")
        current = self._workspace.resolve(uri)
        if self._theirs is None and current in self._workspace.graph:
            version = self._workspace.node_version(current)
            raise Stale(
                "the node already exists",
                current=version.count if version else 0,
                at=uri,
                next="Change it with `update_node`, or give only a type and a name to get an unused URI.",
            )
        return uri

    def _free(self, node: NewNode) -> Uri:
        """A URI with the name as its last segment; if that URI is in use, the first unused number from 2 is added."""
        base = self._called(node)
        for number in self._numbers.setdefault(base, count(1)):
            uri = base if number == 1 else self._called(node, f"-{number}")
            if uris.collision_key(uri) not in self._used and self._is_free(uri):
                return uri
            if self._theirs is not None and number > MOST_EQUAL:
                break
        raise Invalid("this request_id was used for other nodes", at="request_id", next="Use a new one.")

    def _called(self, node: NewNode, suffix: str = "") -> Uri:
        if not node.type or not node.name or not node.name.strip():
            raise Invalid("a node needs `uri`, or `type` and `name`", at="name", next="Give them.")
        scheme = uris.scheme_of_type(node.type)
        within = node.namespace.strip("/")
        above = uris.segments_of(uris.from_path(scheme, self._workspace.id, within)) if within else []
        name = node.name.strip().encode("utf-8", "surrogatepass")
        return uris.build(scheme, self._workspace.id, [*above, name + suffix.encode()])

    def _is_free(self, uri: Uri) -> bool:
        if self._theirs is not None:
            return uri in self._theirs
        known = self._workspace
        return not known.exists(uri) and known.resolve(uri) == uri and known.graph.twin(uri) is None


class UpdateParams(WriteParams, changes.PlainParams):
    uri: str
    detail: str | None = None
    tags: Annotated[Many[str] | None, Field(description="all tags after the change")] = None
    data: JsonObject = Field(default_factory=dict)
    source: Annotated[changes.SourceParams | None, BeforeValidator(read_object), WithJsonSchema({"type": "object"})] = (
        None
    )
    unset: Many[str] = Field(default_factory=list)
    expect_version: int | None = Field(default=None, ge=0)


class UpdateResult(WriteResult):
    node: NodeAnswer


def update(session: Session, params: UpdateParams) -> UpdateResult:
    """Replace the given fields of a node and keep the others; `data` merges by key, where null deletes.

    Without `expect_version` the update is repeated on the newest node if concurrent writes overtake it.
    """
    workspace = addressing.choose(session, params.workspace, [params.uri], writing=True)
    asked, given = addressing.resolve(session, workspace, params.uri), _given(params)
    for tries_left in reversed(range(TRIES)):
        found = nodes.find(workspace, asked)
        if found is None:
            raise addressing.missing_node(workspace, asked, None)
        expected = params.expect_version
        if expected is None and not {"content", "detail", *SETS}.isdisjoint(given):  # these replace the stored value
            expected = found.version.count if found.version else 0
        upsert = changes.Upsert.model_validate({**given, "uri": found.uri, "expect_version": expected})
        try:
            with placing(""):
                outcome = submitted(session, workspace, changes.edits(session, workspace, [upsert]), params)
        except Stale:
            if params.expect_version is not None or not tries_left:
                raise
            continue
        now = whole(session, workspace, asked)
        if now is None:
            raise NotFound("another writer has deleted the node", at=asked)
        return {"workspace": workspace.id, "commit": outcome.commit, "node": now, "warnings": list(outcome.warnings)}
    raise AssertionError("unreachable")


def _given(params: UpdateParams) -> dict[str, Any]:
    """The given fields as an upsert. An upsert adds to a set, so a given set is cleared first."""
    dumped = params.model_dump(exclude_unset=True, exclude={"message", "request_id", "workspace"})
    given = {name: value for name, value in dumped.items() if value is not None}
    return {**given, "op": "upsert", "unset": [*params.unset, *(name for name in SETS if name in given)]}


class DeleteParams(WriteParams):
    uris: Annotated[Many[str], Field(max_length=MOST)] = Field(default_factory=list)
    source: SourceParam = None
    expect_version: int | None = Field(default=None, ge=0)


class DeleteResult(TypedDict):
    workspace: str
    deleted: int
    commits: list[str]
    warnings: list[str]


def delete(session: Session, params: DeleteParams) -> DeleteResult:
    """Delete nodes with the relations that leave them; relations that lead to them become broken links.

    Named nodes are one commit. The nodes of a source are deleted without a limit, 2,000 per commit: after an error,
    repeat the call to delete the remaining nodes.
    """
    if bool(params.uris) == (params.source is not None):
        raise Invalid("give either URIs or a source", at="uris", next="Leave one out.")
    workspace = addressing.choose(session, params.workspace, params.uris, writing=True)
    answer: DeleteResult = {"workspace": workspace.id, "deleted": 0, "commits": [], "warnings": []}
    if params.source is None:
        named = [addressing.resolve(session, workspace, text, at=f"uris[{n}]") for n, text in enumerate(params.uris)]
        edits = [Delete(uri, params.expect_version) for uri in dict.fromkeys(named)]
        outcome = remove(session, workspace, params, edits, answer, "uris")
        return {**answer, "deleted": len(outcome.nodes if outcome.repeated else outcome.deleted)}
    while found := [
        uri for uri in workspace.text().by_source(params.source.type, params.source.id) if uri in workspace.graph
    ]:
        edits = [Delete(uri, params.expect_version) for uri in found[:MOST]]
        try:
            outcome = remove(session, workspace, params, edits, answer, "uris", is_part=True)
        except NotFound:  # a concurrent call deletes these nodes too
            continue
        answer["deleted"] += len(outcome.deleted)
        session.progress(answer["deleted"], answer["deleted"] + len(found) - len(edits), "deleting")
        if not outcome.deleted:
            break
    return answer


CREATE_NODES = Operation(
    name="create_nodes",
    title="Create nodes",
    description="Creates nodes in one commit; a type and name in use get an unused URI.",
    hints=Hints(),
    run=create,
    commits={"put": "wrote"},
)
UPDATE_NODE = Operation(
    name="update_node",
    title="Change a node",
    description="Replaces the given fields: tags as a whole, data by key.",
    hints=Hints(destructive=True, idempotent=True),
    run=update,
    commits={"put": "wrote"},
)
DELETE_NODES = Operation(
    name="delete_nodes",
    title="Delete nodes",
    description="Deletes nodes by URI in one commit, or all nodes of a source.",
    hints=Hints(destructive=True),
    run=delete,
    commits={"put": "wrote"},
)
