"""The unanswered requests of a pump, and the messages that a new daemon must receive again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONG_LIVED = "subscriptions/listen"
REPLAY = "kgd-replay-"
"""Prefix of the ids of repeated requests, whose answers are not passed on."""
EARLY = f"{REPLAY}first-"
"""Prefix of the ids of requests whose answers the host already has."""


class Ledger:
    """The messages between host and daemon. Parsing is deferred to `settle`, so that it does not delay forwarding."""

    def __init__(self) -> None:
        self._unread: list[tuple[bool, bytes]] = []
        self._open: dict[str | int, tuple[str, bytes]] = {}
        self._initialize = b""
        self._initialized = b""
        self._watched: dict[str, bytes] = {}
        """Requests that last until the connection ends: subscriptions by resource, and the log level."""

    def up(self, lines: bytes) -> None:
        """Note whole lines from the host, before they are sent."""
        self._unread.append((True, lines))

    def down(self, lines: bytes) -> None:
        """Note whole lines from the daemon."""
        self._unread.append((False, lines))

    @property
    def behind(self) -> int:
        """The number of unparsed notes."""
        return len(self._unread)

    def settle(self) -> None:
        """Parse the notes. Lines that are not JSON objects are ignored."""
        import json  # the import takes 7 ms, which should not delay the first message

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
        """The id and line of each request without an answer, in order."""
        self.settle()
        return [(key, line) for key, (_, line) in self._open.items()]

    def is_waiting(self) -> bool:
        """Whether an answer is due, except to long-lived subscriptions."""
        self.settle()
        return any(method != LONG_LIVED for method, _ in self._open.values())

    def forget_unanswered(self) -> None:
        self._open.clear()

    def replay(self) -> tuple[list[bytes], bytes, list[bytes]]:
        """The first messages for a new daemon: `initialize`; `initialized`, which has no answer; subscriptions and the
        log level.

        Empty for a host of the modern protocol, or if `initialize` is unanswered, because this request is then sent
        again anyway.
        """
        self.settle()
        if not self._initialize or any(method == "initialize" for method, _ in self._open.values()):
            return [], b"", []
        again = [renamed(line, f"{REPLAY}{n}") for n, line in enumerate([self._initialize, *self._watched.values()])]
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


def renamed(line: bytes, key: str) -> bytes:
    """The request under another id."""
    import json

    return json.dumps({**json.loads(line), "id": key}).encode() + b"\n"
