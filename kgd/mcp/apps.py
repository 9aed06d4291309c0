"""MCP Apps (SEP-1865): pages in which hosts display answers.

A page is a static file that loads no other resource; its data comes with the answer. Hosts without support for pages
receive the answer without the fields for the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.context import ServerRequestContext
from mcp.types import Resource, TextResourceContents

from kgd.tools.tool import Tool
from kgd.tools.viewing import APP

PAGES: Mapping[str, tuple[str, str]] = {APP: ("graph.html", "The graph, drawn outward by cost")}
"""File and title of each page by its URI."""
UI = {"ui": {"csp": {}, "prefersBorder": True}}
"""Metadata of every page: it makes no requests."""


def extensions(tools: Mapping[str, Tool]) -> dict[str, dict[str, Any]]:
    """The capabilities of a server with these tools."""
    return {EXTENSION_ID: {}} if any(tool.app for tool in tools.values()) else {}


def listed(tools: Mapping[str, Tool]) -> list[Resource]:
    """The pages of these tools."""
    return [
        Resource(uri=uri, name=uri.partition("://")[2], title=PAGES[uri][1], mime_type=APP_MIME_TYPE, _meta=UI)
        for uri in dict.fromkeys(tool.app for tool in tools.values() if tool.app)
    ]


def read(tools: Mapping[str, Tool], uri: str) -> TextResourceContents | None:
    """A page of one of these tools; None for other URIs."""
    if not any(tool.app == uri for tool in tools.values() if tool.app):
        return None
    text = files("kgd.mcp").joinpath(PAGES[uri][0]).read_text(encoding="utf-8")
    return TextResourceContents(uri=uri, mime_type=APP_MIME_TYPE, text=text, _meta=UI)


def meta(tool: Tool) -> dict[str, Any] | None:
    """The metadata that names a tool's page."""
    return {"ui": {"resourceUri": tool.app}} if tool.app else None


def for_host(ctx: ServerRequestContext[Any], tool: Tool | None, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer for this host: without the page's fields if it shows no pages."""
    if tool is None or not tool.for_app or client_supports_apps(ctx):
        return answer
    return {name: value for name, value in answer.items() if name not in tool.for_app}
