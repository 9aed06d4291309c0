"""This file is where a call of the library finds who answers it: the daemon where one runs, else this very process.

The lock of the home decides before each call, so a daemon that is started or stopped in between changes nothing but
who does the work. None is ever started. A call that a daemon did not answer is asked again: reads may be, and a change
carries a request id by which it is applied once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kgd.client import start
from kgd.client.connection import LINE_LIMIT, Absent, Connection, Gone
from kgd.config import Home
from kgd.errors import Invalid, Limit, Unavailable

CONNECTIONS = 16
"""Calls of one workspace object that are under way at a time; more wait for their turn."""
PATIENCE = 15.0
"""Seconds until a daemon that starts or leaves has to be through with it."""
MOST_LOST = 2
"""How often a daemon may go away under one call."""
PAUSE = 0.01

Progress = Callable[[int, int | None, str], None]

_doors: weakref.WeakSet[Door] = weakref.WeakSet()
_doors_lock = threading.Lock()


class Door:
    """The way to all workspaces of one home. Safe for threads.

    Args:
        directory: Where relative paths are meant from.
        client: The program's name, which becomes part of a change's author.
    """

    def __init__(self, home: Home, directory: str, client: str) -> None:
        self._home, self._directory, self._client = home, directory, client
        self._closed = False
        self._begin()
        with _doors_lock:
            _doors.add(self)

    def _begin(self) -> None:
        """Without connections: in a process that was forked off, those that there are belong to its parent."""
        self._lock, self._slots = threading.Lock(), threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    def call(self, name: str, args: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """The answer of a tool.

        Raises:
            KgdError: What the tool refused; or Unavailable where neither a daemon nor this process can serve.
        """
        given = _as_json(name, args)
        deadline, lost = time.monotonic() + PATIENCE, 0
        while True:
            if self._closed:
                raise Invalid("this workspace object was closed", next="Open it again with kgd.open.")
            try:
                if not _is_inside() and start.running(self._home):
                    _leave(self._home)
                    return self._asked(name, given, progress)
                return self._done_here(name, given, progress)
            except Gone:
                lost += 1
                if lost > MOST_LOST:
                    raise
                deadline = time.monotonic() + PATIENCE
            except (Absent, _Elsewhere):
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "the kgd daemon of this home does not answer", at=self._home.socket,
                        next="`kgd down` stops it; then this program does the work itself.",
                    ) from None  # fmt: skip
                time.sleep(PAUSE)

    def close(self) -> None:
        """Let go of connections and, with the last object of this home, of what this process has open.

        Calls that are under way are finished. Called twice it does nothing.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with _doors_lock:
            others = [door for door in _doors if door._home.state == self._home.state and not door._closed]
        if first and not others and not _is_inside():
            _leave(self._home)

    def _asked(self, name: str, given: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        with self._slots, self._lent() as connection:
            return connection.call(name, given, progress)

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or Connection(self._home, self._client, start=False, cwd=self._directory)
        try:
            yield connection
        except (Absent, Gone):
            connection.close()
            with self._lock:  # those that are idle lead to the same daemon
                idle, self._idle = self._idle, []
            for one in idle:
                one.close()
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # interrupted: the answer to this call may still come
                connection.close()
                raise
            self._give_back(connection)
            raise
        else:
            self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _done_here(self, name: str, given: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        from kgd.api import process

        try:
            return process.call(self._home, self._directory, self._client, name, given, progress)
        except process.GaveWay:
            raise _Elsewhere from None
        except Unavailable:
            if start.running(self._home):  # a daemon came first, and has the workspace open
                raise _Elsewhere from None
            raise


class _Elsewhere(Exception):
    """Who answers has changed since we looked."""


def _leave(home: Home) -> None:
    """Let a daemon have what this process has open; costs nothing where that is nothing."""
    process = sys.modules.get("kgd.api.process")
    if process is not None:
        process.leave(home)


def _is_inside() -> bool:
    """Whether this is asked by what a call of ours tells of its progress: then what is open here cannot be closed."""
    process = sys.modules.get("kgd.api.process")
    return process is not None and process.is_inside()


def _as_json(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they travel, so that they mean the same whoever answers.

    Raises:
        Invalid: Something in them is no JSON.
        Limit: They are longer than a daemon takes.
    """
    try:
        text = json.dumps(args, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("a text holds half of a character", at=name, next="Leave it out.") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"this cannot be written as JSON: {error}"[:200], at=name,
            next="data holds text, numbers, booleans, None, lists, and dicts with text as keys.",
        ) from None  # fmt: skip
    if size > LINE_LIMIT - 1_000:
        raise Limit(f"a call has at most {LINE_LIMIT // 2**20} MiB", at=name, next="Send it in parts.")
    plain: dict[str, Any] = json.loads(text)
    return plain


def _in_child() -> None:
    global _doors_lock
    _doors_lock = threading.Lock()
    for door in list(_doors):
        door._begin()


os.register_at_fork(after_in_child=_in_child)
