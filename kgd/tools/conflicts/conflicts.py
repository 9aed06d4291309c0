"""The `conflicts` tool: a list of open conflicts, or one conflict in full, open or settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NotRequired
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import TypedDict

from kgd.codec.paths import conflict_path
from kgd.errors import KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.uri import Uri, is_settings_uri, parse_subject, settings_uri
from kgd.tools import addressing, nodes, paging, visibility
from kgd.tools.conflicts import authors
from kgd.tools.model_decisions import PROVIDER, Resolved, askable
from kgd.tools.nodes import ConflictAnswer
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation, Reflects, option
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.suggestions import suggestions
from kgd.tools.suggestions.suggestions import SuggestionAnswer
from kgd.workspace.answers import Entry, OpenConflict
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import LIST_CONFLICTS


class ConflictsParams(WorkspaceParams):
    uri: str | None = None
    id: Annotated[str | None, Field(description="only this one, with the authors of its sides; or its resolution")] = (
        None
    )
    suggestions: bool = False
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str | None = None


class ModelAnswer(TypedDict):
    """The model at `host` that `resolve_conflicts` asks with ``via="provider"``, and any reason not to ask it."""

    name: str
    at: str
    why_not: NotRequired[str]


class ConflictsResult(TypedDict):
    """`settled` is set if the requested `id` is no longer open; `goes_on` lists open conflicts of the same field."""

    workspace: str
    total: int
    conflicts: list[ConflictAnswer]
    suggestions: NotRequired[list[SuggestionAnswer]]
    settled: NotRequired[Resolved]
    model: NotRequired[ModelAnswer]
    cursor: NotRequired[str]


def conflicts(session: Session, params: ConflictsParams) -> ConflictsResult:
    """List open conflicts with both sides of each field, or return the conflict with the given `id`.

    Raises:
        NotFound: The node or conflict does not exist, or the caller may not read it.
        KgdError: The address is wrong, or the cursor belongs to another call.
    """
    about = params.uri or (params.id or "").rpartition("#")[0]
    workspace = addressing.choose(session, params.workspace, [about] if about else [])
    if params.id is not None:
        return _one(session, workspace, params.id)
    uri = subject_of(session, workspace, params.uri) if params.uri else None
    after = str(paging.read("conflicts", uri, params.cursor)[0]) if params.cursor else ""
    sees = visibility.sight(session, workspace.id)
    found = workspace.conflicts.find(uri, limit=params.limit + 1, after=after, about=sees)
    if uri is not None and not found:
        check_subject(workspace, uri, sees)
    answer: ConflictsResult = {
        "workspace": workspace.id,
        "total": workspace.conflicts.count(uri, about=sees),
        "conflicts": _with_authors(workspace, found[: params.limit], sees),
    }
    if params.suggestions:
        answer["suggestions"] = suggestions.listed(session, workspace)
    if len(found) > params.limit:
        answer["cursor"] = paging.write("conflicts", uri, [found[params.limit - 1].path])
    return answer


def check_subject(workspace: Workspace, uri: Uri, sees: visibility.Sees | None) -> None:
    """Raise NotFound unless there is a node at the URI that the caller may read; it may have moved to a hidden URI."""
    here = workspace.graph.resolve(uri)
    if not (is_settings_uri(uri) or ((sees is None or sees(here)) and workspace.exists(here))):
        raise addressing.missing_node(workspace, uri, sees)


def subject_of(session: Session, workspace: Workspace, text: str, *, at: str = "uri") -> Uri:
    """The subject of a conflict: a node in any spelling, or this workspace's settings. Raises as `resolve` does."""
    return Uri(text) if text == settings_uri(workspace.id) else addressing.resolve(session, workspace, text, at=at)


def _one(session: Session, workspace: Workspace, id: str) -> ConflictsResult:
    """One conflict with the author of each side, or the settlement of a conflict that is no longer open.

    Raises:
        NotFound: There never was such a conflict, or the caller may not read its node.
    """
    subject, _, digest = id.rpartition("#")
    if not subject or not authors.is_digest(digest):
        raise _none(id)
    uri, sees = parse_subject(subject), visibility.sight(session, workspace.id)
    answer: ConflictsResult = {"workspace": workspace.id, "total": 0, "conflicts": []}
    if sees is not None and not sees(uri):
        raise _none(id)
    found = workspace.conflicts.find(uri, digest=digest, limit=1, about=sees)
    if found:
        answer |= {"total": 1, "conflicts": [_whole(workspace, found[0], sees)]}
        answer |= paging.present(model=_model(session, workspace, found[0]))
        return answer
    settled = settled_before(workspace, id)
    if settled is None:
        raise _none(id)
    answer["settled"] = settled
    here = workspace.graph.resolve(uri)
    if sees is None or sees(here):
        answer["conflicts"] = [nodes.conflict(one) for one in workspace.conflicts.find(here, limit=20, about=sees)]
        answer["total"] = len(answer["conflicts"])
    return answer


def _none(id: str) -> NotFound:
    return NotFound("there is no such conflict", at=id[-80:], next=LIST_CONFLICTS)


def _whole(workspace: Workspace, found: OpenConflict, sees: visibility.Sees | None) -> ConflictAnswer:
    (answer,) = _with_authors(workspace, [found], sees)
    if _is_seen(workspace, found, sees):
        for name, field in answer["fields"].items():
            field["now"] = authors.present(workspace, found, name)
    return answer


def _is_seen(workspace: Workspace, found: OpenConflict, sees: visibility.Sees | None) -> bool:
    """Whether the caller may read the node, which may have moved to a hidden URI since."""
    return sees is None or sees(workspace.graph.resolve(found.uri))


def _with_authors(
    workspace: Workspace, found: Sequence[OpenConflict], sees: visibility.Sees | None
) -> list[ConflictAnswer]:
    fields = authors.with_authors(workspace, found, sees=sees)
    for one, named in zip(found, fields, strict=True):
        for name, field in named.items():
            if _is_seen(workspace, one, sees) and authors.is_written_since(workspace, one, name):
                field["shown"] = ""
    return [{**nodes.conflict(one), "fields": named} for one, named in zip(found, fields, strict=True)]


def _model(session: Session, workspace: Workspace, found: OpenConflict) -> ModelAnswer | None:
    """The model of the user's settings, with any reason not to ask it; None if the settings have no model."""
    settings = session.daemon.registry.current().settings
    if not settings.resolver_url or not settings.resolver_model:
        return None
    answer: ModelAnswer = {"name": settings.resolver_model, "at": urlsplit(settings.resolver_url).netloc}
    _, left = askable(workspace, [found])
    why_not = left.get(found.id) or session.daemon.attempts.why_not(found.conflict.digest, PROVIDER)
    answer |= paging.present(why_not=why_not)
    return answer


def settled_before(workspace: Workspace, id: str) -> Resolved | None:
    """The settlement of a conflict that is no longer open; None if no conflict of that id was ever settled."""
    entry = settled_in(workspace, id)
    if entry is None:
        return None
    return {
        "id": id,
        "uri": id.rpartition("#")[0],
        "already": True,
        "commit": entry.commit,
        "author": entry.author,
        "at": nodes.moment(entry.at),
    }


def settled_in(workspace: Workspace, id: str) -> Entry | None:
    """The commit that settled a conflict, or moved it with its node to another URI; None if there is no such commit."""
    uri, _, digest = id.rpartition("#")
    if not uri or not authors.is_digest(digest):
        return None
    try:
        record = conflict_path(parse_subject(uri), digest, workspace.sharded)
    except KgdError:
        return None
    return workspace.past.removal_of(record, bytes.fromhex(workspace.tip))


CONFLICTS = Operation(
    name="conflicts",
    page="the page Conflicts",
    title="Open conflicts",
    description="Conflicting values from two people: each side with its letter, author and commit.",
    hints=Hints(read_only=True, idempotent=True),
    run=conflicts,
    scope=Verb.READ,
    reflects=Reflects.NOW,
    commands=(
        Command(
            "Care",
            "list the open conflicts, with both sides",
            (
                option("uri", "only conflicts of this node", "URI", nargs="?"),
                option("--suggestions", "list suggestions too: new nodes, duplicates, relations and weights"),
                LIMIT,
                CURSOR,
            ),
            place=100,
            examples=(("kgd conflicts services/auth", "the sides of the conflicts of one node"),),
            print="printing_history.conflicts",
        ),
    ),
)
