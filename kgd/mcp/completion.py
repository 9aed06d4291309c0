"""Completion of prompt arguments and resource templates: workspaces, nodes, paths, jobs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CompleteRequestParams, CompleteResult, Completion, PromptReference

from kgd.errors import KgdError
from kgd.mcp import prompts
from kgd.mcp.resources import TEMPLATES
from kgd.model.uri import Uri, path_of, scheme_of
from kgd.tools import addressing, visibility
from kgd.tools.nodes import overlay_of
from kgd.tools.session import Session

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

MOST = 100
"""Largest number of values in one answer, set by the protocol."""


class Completing:
    """Handler of `completion/complete`. Offers only readable nodes. O(nodes) for URIs and paths.

    An unknown workspace gives an empty list, not an error, since the input is incomplete.
    """

    def __init__(self, session_of: Callable[[ServerRequestContext[Session]], Session]) -> None:
        self._session_of = session_of

    async def __call__(self, ctx: ServerRequestContext[Session], params: CompleteRequestParams) -> CompleteResult:
        ref, argument = params.ref, params.argument
        known = prompts.arguments(ref.name) if isinstance(ref, PromptReference) else TEMPLATES.get(ref.uri)
        if known is None or argument.name not in known:
            raise MCPError(INVALID_PARAMS, f"there is no argument '{argument.name[:60]}' to complete here")
        named = (params.context.arguments or {}).get("workspace") if params.context else None
        session = self._session_of(ctx)
        values, total = await anyio.to_thread.run_sync(_found, session, argument.name, argument.value, named)
        return CompleteResult(completion=Completion(values=values, total=total, has_more=total > len(values)))


def _found(session: Session, name: str, typed: str, named: str | None) -> tuple[list[str], int]:
    try:
        found = set(_offers(session, name, typed, named))
    except KgdError:
        return [], 0
    return heapq.nsmallest(MOST, found), len(found)


def _offers(session: Session, name: str, typed: str, named: str | None) -> Iterable[str]:
    if name == "workspace":
        return (id for id in addressing.visible(session) if id.startswith(typed))
    workspace = addressing.choose(session, named or None)
    if name == "id":
        jobs = [] if session.principal else session.daemon.jobs(workspace).all()
        return (job.id for job in jobs if job.id.startswith(typed))
    if name == "paths":
        before, comma, last = typed.rpartition(",")
        start = before + comma + last[: len(last) - len(last.lstrip())]
        return (start + path for path in _paths(session, workspace) if path.startswith(last.strip()))
    tasks_only = name == "task"
    return (
        uri for uri in _nodes(session, workspace) if _fits(uri, typed) and (not tasks_only or scheme_of(uri) == "task")
    )


def _fits(uri: Uri, typed: str) -> bool:
    """Whether the URI, its path, or its short form (`task:name`) starts with the input."""
    if uri.startswith(typed):
        return True
    scheme, _, rest = uri.partition("://")
    path = rest.partition("/")[2]
    return bool(path) and (path.startswith(typed) or f"{scheme}:{path}".startswith(typed))


def _nodes(session: Session, workspace: Workspace) -> Iterator[Uri]:
    sees = visibility.sight(session, workspace.id)
    yield from (uri for uri in workspace.graph.uris() if sees is None or sees(uri))
    yield from _served(session, workspace)


def _paths(session: Session, workspace: Workspace) -> Iterator[str]:
    return (path_of(uri) for uri in _served(session, workspace) if scheme_of(uri) in ("file", "dir"))


def _served(session: Session, workspace: Workspace) -> Iterator[Uri]:
    sees = visibility.sight(session, workspace.id)
    if (tree := overlay_of(workspace)) is not None:
        yield from (uri for uri in tree.uris() if sees is None or sees(uri))
