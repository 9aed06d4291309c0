"""MCP messages beyond the size limit: finding the request's id without parsing the message, and the refusal."""

from __future__ import annotations

import json
import re

from kgd.client.connection import LINE_LIMIT

ENDS = 4096
"""Number of bytes examined at each end of a message: hosts write the id before `params`, or last."""
CODE = -32600
REASON = (
    f"Invalid request: a message has at most {LINE_LIMIT // 2**20} MiB. Send it in several calls with fewer changes "
    "each, or give the path of a file instead of its text."
)

_VALUE = rb'"(?:[^"\\]|\\.)*"|-?\d{1,18}'
_MEMBER = rb'\s*"(?:jsonrpc|method|id)"\s*:\s*(?:' + _VALUE + rb")\s*"
_HEAD = re.compile(rb"\s*\{((?:" + _MEMBER + rb",)*)")
_TAIL = re.compile(rb",((?:" + _MEMBER + rb",)*" + _MEMBER + rb")\}\s*$")


def request_id(head: bytes, tail: bytes) -> str | int | None:
    """The id of a request from the beginning and the end of its message, or None.

    Members after the opening brace or before the closing brace belong to the message itself. If none of these members
    is a method, the message may be an answer, whose id belongs to the other side.
    """
    start, end = _HEAD.match(head), _TAIL.search(tail)
    if start is None:
        return None  # not an object
    found = {**_members(start[1]), **_members(end[1] if end else b"")}
    key = found.get("id")
    return key if "method" in found and isinstance(key, str | int) else None


def _members(text: bytes) -> dict[str, str | int]:
    try:
        members: dict[str, str | int] = json.loads(b"{" + text.strip().rstrip(b",") + b"}")
    except ValueError:
        return {}
    return members
