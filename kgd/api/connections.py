"""Connections of the library to the daemon of a home, which the first call starts if none runs."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kgd.client.connection import LINE_LIMIT, Connection, Gone
from kgd.config import Home
from kgd.errors import Invalid, Limit

CONNECTIONS = 16
"""Concurrent calls of one workspace object; further calls wait."""
MOST_LOST = 2
"""Number of daemons that may end during one call before the call fails."""

Progress = Callable[[int, int | None, str], None]

_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """A pool of connections to one daemon. Safe for threads.

    Args:
        directory: The base of relative paths.
        client: The program's name, which becomes part of a change's author.
    """

    def __init__(self, home: Home, directory: str, client: str) -> None:
        self._home, self._directory, self._client = home, directory, client
        self._closed = False
        self.reset()
        _pools.add(self)

    def reset(self) -> None:
        """Drop all connections without closing them: in a forked process they belong to the parent."""
        self._lock, self._slots = threading.Lock(), threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    def call(self, name: str, args: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """The answer of an operation. A call whose answer was lost is sent again; its request id applies it once.

        Raises:
            KgdError: The operation refused, or the daemon cannot be started.
        """
        given = _as_json(name, args)
        for lost in range(MOST_LOST + 1):
            if self._closed:
                raise Invalid("this workspace object was closed", next="Open it again with kgd.open.")
            try:
                with self._slots, self._lent() as connection:
                    return connection.call(name, given, progress)
            except Gone:
                if lost == MOST_LOST:
                    raise
        raise AssertionError

    def close(self) -> None:
        """Close the idle connections. Calls in flight finish; a second call does nothing."""
        self._closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or Connection(self._home, self._client, cwd=self._directory)
        keep = False
        try:
            yield connection
            keep = True
        except Gone:
            self._drop_idle()  # they lead to the same daemon
            raise
        except Exception:
            keep = True
            raise
        finally:  # an interrupted call's answer may still arrive, so its connection is not used again
            with self._lock:
                keep = keep and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()


def _as_json(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain data.

    Raises:
        Invalid: They contain something that JSON cannot hold.
        Limit: They are longer than the daemon accepts.
    """
    try:
        text = json.dumps(args, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("a text holds half of a character", at=name, next="Leave it out.") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"this cannot be written as JSON: {error}"[:200],
            at=name,
            next="data holds text, numbers, booleans, None, lists, and dicts with text as keys.",
        ) from None
    if size > LINE_LIMIT - 1_000:
        raise Limit(f"a call has at most {LINE_LIMIT // 2**20} MiB", at=name, next="Send it in parts.")
    plain: dict[str, Any] = json.loads(text)
    return plain


def _in_child() -> None:
    for pool in list(_pools):
        pool.reset()


os.register_at_fork(after_in_child=_in_child)
