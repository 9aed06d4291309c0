"""This file is where pages are that hosts of agents show an answer with: MCP Apps (SEP-1865).

A page is a file of ours that loads nothing; what it shows comes with the answer. A host that shows no pages is given
the answer without what only a page has a use for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.context import ServerRequestContext
from mcp.types import Resource, TextResourceContents

from kgd.tools.tool import Operation
from kgd.tools.viewing import APP

PAGES: Mapping[str, tuple[str, str]] = {APP: ("graph.html", "The graph, drawn outward by cost")}
"""By their addresses: the file, and what it shows."""
UI = {"ui": {"csp": {}, "prefersBorder": True}}
"""What a host is told of every page: it asks nothing of any other place."""


def extensions(tools: Mapping[str, Operation]) -> dict[str, dict[str, Any]]:
    """What a server with these tools says it can do."""
    return {EXTENSION_ID: {}} if any(tool.app for tool in tools.values()) else {}


def listed(tools: Mapping[str, Operation]) -> list[Resource]:
    """The pages of these tools."""
    return [
        Resource(uri=uri, name=uri.partition("://")[2], title=PAGES[uri][1], mime_type=APP_MIME_TYPE, _meta=UI)
        for uri in dict.fromkeys(tool.app for tool in tools.values() if tool.app)
    ]


def read(tools: Mapping[str, Operation], uri: str) -> TextResourceContents | None:
    """A page of one of these tools; None for every other address."""
    if not any(tool.app == uri for tool in tools.values() if tool.app):
        return None
    text = files("kgd.mcp").joinpath(PAGES[uri][0]).read_text(encoding="utf-8")
    return TextResourceContents(uri=uri, mime_type=APP_MIME_TYPE, text=text, _meta=UI)


def meta(tool: Operation) -> dict[str, Any] | None:
    """What a tool's description says of its page."""
    return {"ui": {"resourceUri": tool.app}} if tool.app else None


def for_host(ctx: ServerRequestContext[Any], tool: Operation | None, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer as this host has a use for it."""
    if tool is None or not tool.for_app or client_supports_apps(ctx):
        return answer
    return {name: value for name, value in answer.items() if name not in tool.for_app}
