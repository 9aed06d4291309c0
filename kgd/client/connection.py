"""Calls to the daemon over one connection, one after the other, with progress; and the refusal of
oversized MCP messages, which keeps the connection.
"""

from __future__ import annotations

import _socket as socket
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kgd.client import start
from kgd.errors import Advice, Invalid, KgdError, Limit, Unavailable, from_dict

if TYPE_CHECKING:
    from kgd.config import Home

LINE_LIMIT = 8 * 2**20
"""The daemon's limit for one line."""

OnProgress = Callable[[int, int | None, str], None]


class Absent(Unavailable):
    """No daemon is running, and this connection does not start one. The call was not sent."""


class Gone(Unavailable):
    """The daemon ended before it answered; the call may or may not have been executed."""


class Connection:
    """A connection to the daemon of a home, opened by the first call.

    Args:
        client: The program's name, which becomes part of a change's author.
        start: Whether to start a missing daemon.
        cwd: The base of relative paths; by default this process's directory.
    """

    def __init__(self, home: Home, client: str = "kgd-cli", *, start: bool = True, cwd: str | None = None) -> None:
        self._home, self._client, self._starts, self._cwd = home, client, start, cwd
        self._sock: socket.socket | None = None
        self.older_hub = ""
        """The version of the daemon if it is a hub that is older than this program."""
        self._buffer = b""
        self._last = 0

    def call(self, name: str, args: Mapping[str, Any], on_progress: OnProgress | None = None) -> dict[str, Any]:
        """The answer to one call. If a newer daemon replaces the current daemon during the call, the call is sent to
        the newer daemon.

        Raises:
            Absent: No daemon is running, and this connection does not start one.
            Gone: The daemon ended before it answered. The call may have been executed; repeating it with the same
                request_id is safe.
            Invalid: JSON has no form for an argument.
            KgdError: The daemon's error.
        """
        self._last += 1
        try:
            line = json.dumps({"id": self._last, "call": name, "args": dict(args)}, ensure_ascii=False, allow_nan=False)
            request = line.encode() + b"\n"
        except UnicodeEncodeError as error:
            advice = "Write it in UTF-8, without unpaired surrogates."
            raise Invalid("an argument is not valid UTF-8", next=advice) from error
        except (TypeError, ValueError, RecursionError) as error:
            if str(error).startswith("Out of range float"):
                raise Invalid("an argument is not a finite number", next="Give a finite number.") from error
            advice = "Data may contain text, numbers, booleans, None, lists, and dicts whose keys are text."
            raise Invalid(f"this cannot be written as JSON: {error}"[:200], at=name, next=advice) from None
        if len(request) > LINE_LIMIT:
            raise Limit(f"a call has at most {LINE_LIMIT // 2**20} MiB", at=name, next="Send it in parts.")
        while (answer := self._exchange(request, on_progress)) is None:
            self.close()
        given = {str(one): one for one in map(Advice.of, answer.get("advice", ()))}
        if "error" in answer:
            raise from_dict(_advised(answer["error"], given))
        return _advised(answer["result"], given)

    def close(self) -> None:
        if self._sock:
            self._sock.close()
        self._sock, self._buffer = None, b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: bytes, on_progress: OnProgress | None) -> dict[str, Any] | None:
        """Send and wait; None if the daemon retired without starting the call."""
        sock = self._sock = self._sock or self._connect()
        with contextlib.suppress(OSError):  # the daemon's last messages can still be read
            sock.sendall(request)
        while True:
            message = self._line(sock)
            if message.get("kgd") == "retired":
                return None
            if progress := message.get("progress"):
                if on_progress and message.get("id") == self._last:
                    on_progress(progress["done"], progress.get("total"), progress.get("message", ""))
            elif message.get("id") in (self._last, None):
                return message

    def _connect(self) -> socket.socket:
        try:
            greeting = start.hello("call", self._client, cwd=self._cwd)
            sock = start.connect(self._home, greeting, self._starts, self._note_older_hub)
        except start.Refused as refused:
            raise from_dict(refused.answer) from None
        if sock is None:
            raise Absent("no kgd daemon is running", next="`kgd up` starts one.")
        return sock

    def _note_older_hub(self, version: str) -> None:
        self.older_hub = version

    def _line(self, sock: socket.socket) -> dict[str, Any]:
        parts = [self._buffer]
        while b"\n" not in parts[-1]:
            try:
                chunk = sock.recv(262144)
            except OSError:
                chunk = b""
            if not chunk:
                self.close()
                raise _gone()
            parts.append(chunk)
        line, _, self._buffer = b"".join(parts).partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def _advised(answer: dict[str, Any], advice: dict[str, Advice]) -> dict[str, Any]:
    """The answer, with its next steps and warnings turned back into the values that the daemon had."""
    if advice:
        rows = [row for rows in answer.values() if isinstance(rows, list) for row in rows if isinstance(row, dict)]
        for told in (answer, *rows):
            if isinstance(told.get("next"), str):
                told["next"] = advice.get(told["next"], told["next"])
        if isinstance(warnings := answer.get("warnings"), list):
            answer["warnings"] = [advice.get(one, one) for one in warnings]
    return answer


def _gone() -> KgdError:
    return Gone(
        "the kgd daemon ended before it answered",
        next="Repeat the call; a change with the same request_id is applied only once.",
    )


OVERSIZED_ENDS = 4096
"""Number of bytes examined at each end of a message: hosts write the id before `params`, or last."""
OVERSIZED_CODE = -32600
OVERSIZED_REASON = (
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
