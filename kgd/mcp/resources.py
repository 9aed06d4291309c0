"""MCP resources: status, conflicts, nodes, jobs, working sets, and pages of MCP Apps.

A page is a static file that loads no other resource; its data comes with the answer. Hosts without support for pages
receive the answer without the fields for the page.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import anyio.lowlevel
import anyio.to_thread
import orjson
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from kgd.errors import KgdError, NotFound
from kgd.model.access import Policy, Principal, Verb, may
from kgd.model.uri import Uri
from kgd.tools import EVERY, addressing
from kgd.tools.hubs.token_calls import noted
from kgd.tools.operation import Operation
from kgd.tools.read.graph_view import APP
from kgd.tools.session import Session, answered_at, working_set

JSON = "application/json"
_TEMPLATES = tuple(
    ResourceTemplate(
        uri_template=f"kgd://{{workspace}}/{path}", name=name, title=title, mime_type=JSON, description=description
    )
    for path, name, title, description in (
        (
            "nodes/{+uri}",
            "node",
            "A node",
            "A node with content and relations; uri such as concept://infra/services/auth",
        ),
        ("jobs/{id}", "job", "A job", "Progress of an ingestion, and files that could not be ingested"),
        ("contexts/{id}", "context", "A working set", "The nodes that a conversation has seen, the most recent first"),
        ("status", "status", "Status", "Health of a workspace"),
        ("conflicts", "conflicts", "Conflicts", "Open conflicts of a workspace, both sides of each"),
    )
)
TEMPLATES = {
    one.uri_template: tuple(re.findall(r"{\+?(\w+)}", one.uri_template)) for one in _TEMPLATES if one.name != "context"
}
"""The variables of each template whose values can be completed."""
PAGES: Mapping[str, tuple[str, str]] = {APP: ("graph.html", "The graph, drawn outward by cost")}
"""File and title of each page by its URI."""
UI = {"ui": {"csp": {}, "prefersBorder": True}}
"""Metadata of every page: it makes no requests."""

log = logging.getLogger("kgd.mcp")


def may_watch(principal: Principal, resource: str) -> bool:
    """Whether a principal may subscribe to this resource; a node requires permission to read it."""
    workspace, kind, node = split(resource)
    if not any(scope.workspace == workspace for scope in principal.scopes):
        return False
    if kind != "nodes" or not node:
        return kind in ("status", "conflicts") and not node
    return may(principal, Policy(workspace), Verb.READ, Uri(node if "://" in node else unquote(node)))


def split(resource: str) -> tuple[str, str, str]:
    """The workspace, the kind and the rest of a resource's URI; no kind if the URI is not one of kgd's."""
    scheme, _, rest = resource.partition("://")
    workspace, _, what = rest.partition("/")
    kind, _, name = what.partition("/")
    return (workspace, kind, name) if scheme == "kgd" else (workspace, "", "")


class Resources:
    """Handlers of `resources/*`. Nodes are not listed, because there are too many; a template describes their URIs.

    Args:
        tools: The tools whose pages are also resources.
    """

    def __init__(
        self, session_of: Callable[[ServerRequestContext[Session]], Session], tools: Mapping[str, Operation]
    ) -> None:
        self._session_of, self._tools = session_of, tools

    async def list(
        self, ctx: ServerRequestContext[Session], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        ids = addressing.visible(self._session_of(ctx))
        told = [_listed(ws, what) for ws in ids for what in ("status", "conflicts")]
        return ListResourcesResult(resources=[*_pages(self._tools), *told])

    async def templates(
        self, ctx: ServerRequestContext[Session], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(_TEMPLATES))

    async def read(self, ctx: ServerRequestContext[Session], params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        if page := _page(self._tools, uri):
            return ReadResourceResult(contents=[page])
        session, asked = self._session_of(ctx), (ctx.params or {}).get("_meta")
        try:
            read = partial(_read, session, uri)
            answer, meta = await anyio.to_thread.run_sync(answered_at, session, asked, split(uri)[0], read)
        except KgdError as error:
            code = INVALID_PARAMS if error.code in ("NOT_FOUND", "VALIDATION_ERROR") else INTERNAL_ERROR
            raise MCPError(code, str(error), {"uri": uri, **error.as_dict()}) from None
        text = orjson.dumps(answer).decode()
        contents = TextResourceContents(uri=params.uri, mime_type=JSON, text=text)
        return ReadResourceResult(contents=[contents], _meta=meta or None)


def _listed(workspace: str, what: str) -> Resource:
    return Resource(
        uri=f"kgd://{workspace}/{what}",
        name=f"{workspace} {what}",
        title=f"{what.title()} of {workspace}",
        mime_type=JSON,
    )


def _read(session: Session, uri: str) -> Any:
    workspace, kind, name = split(uri)
    with session.daemon.open_workspaces.holding(), noted(session, session.principal, "resource", workspace):
        if kind in ("status", "conflicts") and not name:
            return EVERY[kind].call(session, {"workspace": workspace})
        if kind == "jobs" and name:
            return EVERY["job"].call(session, {"workspace": workspace, "id": name})
        if kind == "contexts" and name:
            chosen = addressing.choose(session, workspace)
            return {"context_id": name, "nodes": working_set(session, chosen, name)}
        if kind == "nodes" and name:
            asked = name if "://" in name else unquote(name)
            answer = EVERY["get"].call(session, {"workspace": workspace, "uris": [asked], "budget": 10_000})
            if answer["nodes"]:
                return answer["nodes"][0]
            raise NotFound("there is no such node", at=uri[:80])
        raise NotFound("there is no such resource", at=uri[:80], next="See resources/templates/list.")


# ---- MCP Apps (SEP-1865): pages in which hosts display answers


def extensions(tools: Mapping[str, Operation]) -> dict[str, dict[str, Any]]:
    """The capabilities of a server with these tools."""
    return {EXTENSION_ID: {}} if any(tool.app for tool in tools.values()) else {}


def _pages(tools: Mapping[str, Operation]) -> list[Resource]:
    """The pages of these tools."""
    return [
        Resource(uri=uri, name=uri.partition("://")[2], title=PAGES[uri][1], mime_type=APP_MIME_TYPE, _meta=UI)
        for uri in dict.fromkeys(tool.app for tool in tools.values() if tool.app)
    ]


def _page(tools: Mapping[str, Operation], uri: str) -> TextResourceContents | None:
    """A page of one of these tools; None for other URIs."""
    if not any(tool.app == uri for tool in tools.values() if tool.app):
        return None
    text = files("kgd.mcp").joinpath(PAGES[uri][0]).read_text(encoding="utf-8")
    return TextResourceContents(uri=uri, mime_type=APP_MIME_TYPE, text=text, _meta=UI)


def meta(tool: Operation) -> dict[str, Any] | None:
    """The metadata of a tool that names its page."""
    return {"ui": {"resourceUri": tool.app}} if tool.app else None
