"""This file is where a pump knows which requests are unanswered and what a new daemon must be told again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONG_LIVED = "subscriptions/listen"
REPLAY = "kgd-replay-"
"""Ids of our own repetitions; their answers are ours too and go no further."""


class Ledger:
    """What passed between host and daemon. Parsing is put off until `settle`, so that forwarding never waits for it."""

    def __init__(self) -> None:
        self._unread: list[tuple[bool, bytes]] = []
        self._open: dict[str | int, tuple[str, bytes]] = {}
        self._initialize = b""
        self._initialized = b""
        self._watched: dict[str, bytes] = {}
        """Requests that hold until the connection ends: subscriptions by resource, and the log level."""

    def up(self, lines: bytes) -> None:
        """Whole lines from the host; to be noted before they are sent."""
        self._unread.append((True, lines))

    def down(self, lines: bytes) -> None:
        """Whole lines from the daemon."""
        self._unread.append((False, lines))

    @property
    def behind(self) -> int:
        """How many notes have not been read."""
        return len(self._unread)

    def settle(self) -> None:
        """Read what has been noted. Lines that are no JSON object are nobody's request."""
        import json  # 7 ms that no first message waits for

        unread, self._unread = self._unread, []
        for upward, lines in unread:
            for line in lines.splitlines():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    (self._note_up if upward else self._note_down)(message, line + b"\n")

    def unanswered(self) -> list[tuple[str | int, bytes]]:
        """(id, line) of each request without an answer, in the order in which they came."""
        self.settle()
        return [(key, line) for key, (_, line) in self._open.items()]

    def is_waiting(self) -> bool:
        """Whether an answer is due; a subscription's end is not waited for."""
        self.settle()
        return any(method != LONG_LIVED for method, _ in self._open.values())

    def forget_unanswered(self) -> None:
        self._open.clear()

    def replay(self) -> tuple[list[bytes], bytes, list[bytes]]:
        """What a new daemon is told first: `initialize`, then without an answer `initialized`, then
        subscriptions and the log level.

        Nothing of that for a host of the modern protocol, or while `initialize` itself is unanswered: that is resent.
        """
        self.settle()
        if not self._initialize or any(method == "initialize" for method, _ in self._open.values()):
            return [], b"", []
        again = [_renamed(line, f"{REPLAY}{n}") for n, line in enumerate([self._initialize, *self._watched.values()])]
        return again[:1], self._initialized, again[1:]

    def _note_up(self, message: dict[str, Any], line: bytes) -> None:
        method, key = message.get("method"), message.get("id")
        if not isinstance(method, str):
            return
        parameters = message.get("params")
        target = parameters if isinstance(parameters, dict) else {}
        if isinstance(key, str | int):
            self._open[key] = (method, line)
        if method == "initialize":
            self._initialize = line
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "resources/subscribe":
            self._watched[str(target.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._watched.pop(str(target.get("uri")), None)
        elif method == "logging/setLevel":
            self._watched[method] = line
        elif method == "notifications/cancelled":
            self._open.pop(target.get("requestId"), None)  # type: ignore[arg-type]

    def _note_down(self, message: dict[str, Any], line: bytes) -> None:
        if "method" not in message and isinstance(key := message.get("id"), str | int):
            self._open.pop(key, None)


def _renamed(line: bytes, key: str) -> bytes:
    import json

    return json.dumps({**json.loads(line), "id": key}).encode() + b"\n"
