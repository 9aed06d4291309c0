"""The OpenAPI 3.1 document of the HTTP API, made from the schemas of the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd import __version__
from kgd.errors import BY_CODE, Stale
from kgd.hub import MEDIA_TYPE, TITLE
from kgd.tools import SERVED
from kgd.tools.hubs.tokens import ChildParams, MintResult, TokenAnswer
from kgd.tools.operation import Operation
from kgd.tools.parameters import full_schema, input_schema
from kgd.tools.session import LONGEST_REQUEST

_REFUSALS = (400, 401, 403, 404, 409, 413, 422, 429, 503)
_WORKSPACE = {
    "name": "workspace",
    "in": "path",
    "required": True,
    "description": "id of the workspace",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
}
_REQUEST_ID = {
    "name": "X-Request-Id",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": LONGEST_REQUEST},
    "description": "echoed in the response; for writes, also the request_id if the body has none",
}
_VALIDATOR = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "the ETag of an earlier answer to the same request; an unchanged answer is 304 without a body",
}
_POSITION = {
    "name": "X-Kgd-At",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "commits that the answer must include, as X-Kgd-At of earlier answers; separated by commas",
}
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem details; code is kgd's own",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"enum": sorted([*BY_CODE, Stale.code])},
        "at": {"type": "string", "description": "place of the error"},
        "next": {"type": "string", "description": "next step"},
        "advice": {"type": "array", "description": "next in parts: texts, and [operation, arguments]", "items": {}},
        "current_version": {"type": "integer", "description": "with CONFLICT"},
    },
    "additionalProperties": False,
}


def document(tools: Mapping[str, Operation] = SERVED) -> dict[str, Any]:
    """The OpenAPI document of a hub. It is the same for all callers; a token's permissions are checked at each call."""
    paths = {"/v1/tokens": {"post": _child()}, "/v1/links": {"post": _link()}}
    return _document("kgd hub", "The token's scopes decide what it can read and write.", tools, paths)


def own_document(tools: Mapping[str, Operation]) -> dict[str, Any]:
    """The document of a user's own daemon, whose only token stands for the user and may call every tool."""
    return _document("kgd", "The token has all permissions of this user.", tools, {})


def _document(title: str, rights: str, tools: Mapping[str, Operation], more: Mapping[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {
        "/health": {"get": _operation("health", "Liveness probe", _HEALTH) | {"security": []}},
        "/v1/openapi.json": {
            "get": _operation("openapi", "This document", {"type": "object", "required": ["openapi"]})
            | {"security": []}
        },
        "/v1/workspaces": {"get": _operation("workspaces", "The token's workspaces and holder", _WHO)},
        **more,
        **{f"/v1/{{workspace}}/{name}": {"post": _tool(tool)} for name, tool in tools.items()},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": f"Each kgd tool is one request. {rights}"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "kgd_..."}},
            "schemas": {"Problem": _PROBLEM},
        },
    }


def _tool(tool: Operation) -> dict[str, Any]:
    schema = input_schema(tool.Params)
    properties = {name: field for name, field in schema.get("properties", {}).items() if name != "workspace"}
    body = {**schema, "properties": properties}
    operation = _operation(tool.name, tool.title, full_schema(tool.Result), tool.description)
    operation["parameters"] = [_WORKSPACE, _REQUEST_ID, *([_VALIDATOR, _POSITION] if tool.hints.read_only else [])]
    operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    operation["responses"]["200"]["headers"] = {"X-Kgd-At": {"schema": {"type": "string"}}}
    if tool.hints.read_only:
        operation["responses"]["304"] = {"description": "Not modified"}
        operation["responses"]["200"]["headers"]["ETag"] = {"schema": {"type": "string"}}
    return operation


def _child() -> dict[str, Any]:
    schema = input_schema(ChildParams)
    properties = {name: field for name, field in schema["properties"].items() if name != "id"}
    body = {**schema, "properties": properties, "required": ["name"]}
    minted, described = full_schema(MintResult), full_schema(TokenAnswer)
    answer = {
        **described,
        "properties": {**described["properties"], "token": minted["properties"]["token"]},
        "required": [*described["required"], "token"],
    }
    operation = _operation("mint_child", "Create a token with at most the caller's permissions", answer, status="201")
    operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _link() -> dict[str, Any]:
    operation = _operation("link", "Create a link that signs in one browser as the caller", _LINK, status="201")
    body = {"type": "object", "properties": {"workspace": {"type": "string"}}, "additionalProperties": False}
    operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _operation(
    name: str, summary: str, answer: Mapping[str, Any], description: str = "", *, status: str = "200"
) -> dict[str, Any]:
    refusal = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {
        "operationId": name,
        "summary": summary,
        **({"description": description} if description else {}),
        "responses": {
            status: {"description": "The answer", "content": {"application/json": {"schema": dict(answer)}}},
            **{str(code): {"description": TITLE[code], **refusal} for code in _REFUSALS},
        },
    }


_HEALTH = {
    "type": "object",
    "required": ["status", "version"],
    "properties": {"status": {"const": "ok"}, "version": {"type": "string"}},
}
_LINK = {
    "type": "object",
    "required": ["path", "minutes"],
    "properties": {
        "path": {"type": "string", "description": "path below the hub's address; works once"},
        "minutes": {"type": "integer", "description": "lifetime of the link"},
    },
}
_WHO = {
    "type": "object",
    "required": ["workspaces", "principal", "version"],
    "properties": {
        "workspaces": {"type": "array", "items": {"type": "string"}},
        "principal": full_schema(TokenAnswer),
        "version": {"type": "string"},
    },
}
