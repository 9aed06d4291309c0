"""The tools, resources and prompts that the official conformance tool expects of a server under test.

Tools that report, log, ask a model or fail are kgd tools, so that the tests cover kgd's own wiring. Content that no
tool of kgd's has (pictures, sound) is answered before the handlers. None of it is released.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY

from kgd.errors import Invalid, Unavailable
from kgd.mcp.server import Surface
from kgd.resolution import Prompt
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
log = logging.getLogger("kgd.conformance")


class Question(Params):
    prompt: str = "What is the capital of France?"


def _text(session: Session, params: Params) -> dict[str, Any]:
    return {"text": "This is a simple text response for testing."}


def _error(session: Session, params: Params) -> dict[str, Any]:
    raise Invalid("this tool intentionally returns an error for testing")


def _progress(session: Session, params: Params) -> dict[str, Any]:
    for done in (0, 50, 100):
        session.progress(done, 100, "working")
        threading.Event().wait(0.3)  # longer than kgd's pause between two notifications
    return {"text": "done"}


def _logging(session: Session, params: Params) -> dict[str, Any]:
    for text in ("Tool execution started", "Operation processing data", "Operation execution completed"):
        log.info(text)
        threading.Event().wait(0.05)
    return {"text": "done"}


def _sampling(session: Session, params: Question) -> dict[str, Any]:
    if session.ask is None:
        raise Unavailable("the client offers no model")
    replies = session.ask({"capital_question": Prompt("", params.prompt, 100)})
    return {"text": f"LLM response: {replies['capital_question'].text}"}


def _tool(name: str, run: Any) -> Operation:
    return Operation(name, name, "For the conformance tool.", Hints(), run, text=_as_text)


def _as_text(answer: Any) -> str:
    return str(answer.get("text"))


TOOLSET = {
    tool.name: tool
    for tool in (
        _tool("test_simple_text", _text),
        _tool("test_error_handling", _error),
        _tool("test_tool_with_progress", _progress),
        _tool("test_tool_with_logging", _logging),
        _tool("test_logging_tool", _logging),
        _tool("test_sampling", _sampling),
        _tool("test_input_required_result_sampling", _sampling),
        _tool("test_input_required_result_tampered_state", _sampling),
        _tool("test_input_required_result_capabilities", _sampling),
    )
}


def _resource(
    uri: str, text: str = "This is an embedded resource content.", kind: str = "text/plain"
) -> dict[str, Any]:
    return {"uri": uri, "mimeType": kind, "text": text}


IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
MIXED = _resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
CONTENT: dict[str, list[dict[str, Any]]] = {
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}],
    "test_embedded_resource": [{"type": "resource", "resource": _resource("test://embedded-resource")}],
    "test_multiple_content_types": [
        {"type": "text", "text": "Multiple content types test:"},
        IMAGE,
        {"type": "resource", "resource": MIXED},
    ],
}
RESOURCES: dict[str, dict[str, Any]] = {
    "test://static-text": _resource("test://static-text", "This is the content of the static text resource."),
    "test://static-binary": {"uri": "test://static-binary", "mimeType": "image/png", "blob": PIXEL},
    "test://template/123/data": _resource("test://template/123/data", '{"id":"123"}', "application/json"),
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _prompt(name: str, given: dict[str, str]) -> list[dict[str, Any]]:
    known: dict[str, list[dict[str, Any]]] = {
        "test_simple_prompt": [{"type": "text", "text": "This is a simple prompt for testing."}],
        "test_prompt_with_arguments": [{"type": "text", "text": f"Prompt with arguments: {json.dumps(given)}"}],
        "test_prompt_with_embedded_resource": [
            {"type": "resource", "resource": _resource(given.get("resourceUri", "test://example-resource"))}
        ],
        "test_prompt_with_image": [IMAGE],
    }
    return known.get(name, [])


async def _answer(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    given = dict(ctx.params or {})
    name, uri = str(given.get("name")), str(given.get("uri"))
    if ctx.method == "tools/call" and name == "test_missing_capability":
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling", {"requiredCapabilities": {"sampling": {}}})
    if ctx.method == "tools/call" and name in CONTENT:
        return {"content": CONTENT[name], "resultType": "complete"}
    if ctx.method == "resources/read" and uri in RESOURCES:
        return {"contents": [RESOURCES[uri]], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if ctx.method == "prompts/get" and (content := _prompt(name, given.get("arguments") or {})):
        return {"messages": [{"role": "user", "content": one} for one in content], "resultType": "complete"}
    if ctx.method == "completion/complete" and str(given.get("ref", {}).get("name")).startswith("test_"):
        return {"completion": {"values": ["test"], "total": 1, "hasMore": False}, "resultType": "complete"}
    result = await call_next(ctx)
    if ctx.method == "tools/list" and isinstance(result, dict):
        schemas = {one: {"type": "object"} for one in [*CONTENT, "test_missing_capability"]}
        schemas["json_schema_2020_12_tool"] = SCHEMA
        extra = [{"name": name, "description": name, "inputSchema": schema} for name, schema in schemas.items()]
        return {**result, "tools": [*result["tools"], *extra]}
    return result


def add_to(surface: Surface) -> None:
    """Answer what kgd's own handlers have no fixture for."""
    surface.server.middleware.append(_answer)
