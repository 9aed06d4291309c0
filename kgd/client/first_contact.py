"""The beginning of a host's conversation, before the daemon has started.

Requests with a known answer are answered from the file of `first_answers`. The daemon then receives the whole
conversation in order; these requests get other ids. Its answers to these requests are compared with those already
given, and dropped.
"""

from __future__ import annotations

import json

from kgd.client import first_answers
from kgd.client.ledger import EARLY, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kgd.config import Home

FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
CHANGED = {
    "prompts/list": "notifications/prompts/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
}
TOOLS_CHANGED = "notifications/tools/list_changed"


class FirstContact:
    """The messages between a host and a daemon that has not answered yet.

    If the first message has no known answer, no answer is given at all: that message decides the protocol.
    """

    def __init__(self, home: Home, toolsets: str) -> None:
        kept = first_answers.read(home, first_answers.installation())
        if kept and not toolsets and kept.registry != first_answers.registry_stamp(home):
            kept = None
        self._answers = kept.answers if kept else {}
        self._toolsets = first_answers.normal(toolsets) if toolsets or not kept else kept.usual
        self._version = ""
        """The version that `initialize` negotiated; empty in the modern protocol, whose requests name it."""
        self._has_begun = False
        self._due: dict[str, tuple[str, bytes]] = {}
        """Method and expected line of each repeated request, by its new id."""
        self._count = 0

    def split(self, lines: bytes) -> tuple[bytes, bytes]:
        """The answers for the host, and the lines for the daemon."""
        answers, onward = bytearray(), bytearray()
        for line in lines.splitlines(keepends=True):
            answer = self._answer(line) if self._answers else None
            if answer is None:
                if not self._has_begun:
                    self._answers = {}
                onward += line
                continue
            method, key, result = answer
            answers += _line(key, result)
            again = f"{EARLY}{self._count}"
            self._count += 1
            self._due[again] = method, _line(again, result)
            onward += renamed(line, again)
        return bytes(answers), bytes(onward)

    @property
    def is_checking(self) -> bool:
        """Whether the daemon has yet to send an answer that the host already has."""
        return bool(self._due)

    def check(self, lines: bytes) -> bytes:
        """The daemon's lines for the host. An answer that differs from the answer already given becomes a
        notification."""
        passed = bytearray()
        for line in lines.splitlines(keepends=True):
            key = json.loads(line).get("id") if EARLY.encode() in line else None
            if key not in self._due:
                passed += line
                continue
            method, expected = self._due.pop(key)
            if line != expected and self._version:
                notification = {"jsonrpc": "2.0", "method": CHANGED.get(method, TOOLS_CHANGED)}
                passed += json.dumps(notification).encode() + b"\n"
        return bytes(passed)

    def _answer(self, line: bytes) -> tuple[str, str | int, str] | None:
        """Method, id and result of a request with a known answer."""
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or not message.keys() <= FIELDS or message.get("jsonrpc") != "2.0":
            return None
        method, key, parameters = message.get("method"), message.get("id"), message.get("params")
        if not isinstance(method, str) or not isinstance(key, str | int) or not _is_plain(key):
            return None
        version = self._version_of(method, parameters)
        sought = None if version is None else first_answers.key_of(self._toolsets, version, method, parameters)
        result = self._answers.get(sought) if sought else None
        if result is None:
            return None
        if not self._has_begun and method == "initialize":
            self._version = json.loads(result)["protocolVersion"]
        self._has_begun = True
        return method, key, result

    def _version_of(self, method: str, parameters: Any) -> str | None:
        """The protocol version of a request; None if it has none."""
        if self._version:
            return self._version
        if method == "initialize":
            return None if self._has_begun else ""
        meta = parameters.get("_meta") if isinstance(parameters, dict) else None
        found = meta.get(first_answers.PROTOCOL_VERSION) if isinstance(meta, dict) else None
        return found if isinstance(found, str) else None


def _is_plain(key: str | int) -> bool:
    """Whether an id can be written in only one way, so that the answer has the same bytes as the daemon's."""
    if isinstance(key, str):
        return key.isascii() and key.isprintable()
    return not isinstance(key, bool) and abs(key) < 2**53


def _line(key: str | int, result: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (json.dumps(key).encode(), result.encode())
