"""This file is where calls are answered in this process, while no daemon runs: with the same tools over the same code.

What is open is shared by all objects of the process, since a workspace has one owner. As soon as a daemon of the same
home takes its lock, everything here is closed, so that the daemon finds the workspaces free.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from kgd.client.start import running
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, of_defect
from kgd.git.layout import locate
from kgd.tools import call as call_tool
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

WAITING = ("ingest", "job")
"""Calls that wait for something which goes on without them: they do not keep a daemon waiting."""
LOOK_SECONDS = 0.1
"""How often it is looked whether a daemon has come."""

Progress = Callable[[int, int | None, str], None]

for _name in ("kgd", "watchdog"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # a library leaves it to the program what is shown


class GaveWay(Exception):
    """Nothing is done here any more: a daemon runs."""


class Host:
    """What this process has open of one home, until a daemon comes or `close`."""

    def __init__(self, home: Home) -> None:
        self._home = home
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        home.prepare()
        self._daemon = Daemon(
            home, since=since, locate=locate, open_workspace=partial(Workspace.open, gives_way=True), syncs=False
        )
        self._calls, self._leaving = 0, False
        self._changed = threading.Condition()
        self.closed = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="kgd-give-way", daemon=True)
        self._watching.start()

    def call(
        self, directory: str, client: str, name: str, args: dict[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        """
        Raises:
            GaveWay: It is being closed; nothing was begun, or the call was waiting for a job, which goes on elsewhere.
            KgdError: What the tool refused.
        """
        with self._counted():
            session = Session(self._daemon, cwd=Path(directory), client=client, context_id=None)

            def told(done: int, total: int | None, message: str) -> None:
                if self._leaving and name in WAITING:
                    raise GaveWay
                if progress is not None:
                    progress(done, total, message)

            session.progress = told
            try:
                with self._daemon.counted():
                    answer = call_tool(session, name, args)
            except KgdError as error:  # a refusal, and no defect: where in kgd it was said is nobody's business
                raise error.with_traceback(None) from None
            except GaveWay:
                raise
            except Exception as error:  # the edge of a request, as in the daemon
                raise of_defect(error, at=name, next="Its cause says where.") from error
        # As it would come over the socket: a copy, with nothing in it that the graph holds too.
        plain: dict[str, Any] = orjson.loads(orjson.dumps(answer))
        return plain

    def close(self) -> None:
        """Finish what is under way and let go. May be called by several threads; all return when it is done."""
        with self._changed:
            first, self._leaving = not self._leaving, True
            while first and self._calls:
                self._changed.wait()
        if first:
            try:
                self._daemon.close()
            finally:
                self.closed.set()
        self.closed.wait()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            if self._leaving and not is_inside():
                raise GaveWay
            self._calls += 1
        _inside.depth = getattr(_inside, "depth", 0) + 1
        try:
            yield
        finally:
            _inside.depth -= 1
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def _watch(self) -> None:
        while not self.closed.wait(LOOK_SECONDS):
            if running(self._home):
                leave(self._home)


_inside = threading.local()


def is_inside() -> bool:
    """Whether this thread is in the middle of a call that is done here, as whoever is told of progress is."""
    return getattr(_inside, "depth", 0) > 0


_hosts: dict[str, Host] = {}
_lock = threading.Lock()


def call(
    home: Home, directory: str, client: str, name: str, args: dict[str, Any], progress: Progress | None
) -> dict[str, Any]:
    """The answer of a tool, done here.

    Raises:
        GaveWay: A daemon runs now.
        KgdError: What the tool refused.
    """
    with _lock:
        host = _hosts.get(home.state)
        if host is None:
            host = _hosts[home.state] = Host(home)
    return host.call(directory, client, name, args, progress)


def leave(home: Home) -> None:
    """Close what is open of this home; returns when others can have it."""
    with _lock:
        host = _hosts.get(home.state)
    if host is None:
        return
    try:
        host.close()
    finally:
        with _lock:
            if _hosts.get(home.state) is host:
                del _hosts[home.state]


def _leave_all() -> None:
    with _lock:
        hosts = list(_hosts.values())
    for host in hosts:
        host.close()


_of_parents: list[object] = []


def _in_child() -> None:
    """What the parent has open stays the parent's. Its locks on files are given back by itself (`workspace.owner`).

    Nothing of it is taken apart here: a thread of the parent's may have been in the middle of it, and what that held
    within SQLite nobody gives back in this process.
    """
    global _lock
    _lock = threading.Lock()
    _of_parents.append(dict(_hosts))
    _hosts.clear()


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_in_child)
