"""Calls of operations over a pool of connections to a home's daemon. The first call starts the daemon if necessary.

Pages are joined into one answer. Callers may pass a node instead of its URI.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kgd.api import values
from kgd.api.values import Edge, NewEdge, NewNode, Node, Source
from kgd.client.connection import Connection, Gone
from kgd.config import Home
from kgd.errors import Invalid

CONNECTIONS = 16
"""Number of concurrent calls of one workspace object; further calls wait."""
MOST_LOST = 2
"""Number of daemons that may end during one call before the call fails."""

Progress = Callable[[int, int | None, str], None]

_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """A pool of connections to one daemon. Thread-safe.

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
        """Call an operation and return its answer. If the answer was lost, the call is sent again; because of its
        request id, it is applied only once.

        Raises:
            KgdError: The operation refused, or the daemon cannot be started.
        """
        for lost in range(MOST_LOST + 1):
            if self._closed:
                raise Invalid("this workspace object was closed", next="Open it again with kgd.open.")
            try:
                with self._slots, self._lent() as connection:
                    return connection.call(name, args, progress)
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
            self._drop_idle()  # the other connections lead to the same daemon
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


def _in_child() -> None:
    for pool in list(_pools):
        pool.reset()


os.register_at_fork(after_in_child=_in_child)


NodeRef = str | Node
"""A node, or its URI in any spelling: in full, ``concept:auth``, or a path."""

Change = Mapping[str, Any]
"""One change as `put` takes it: ``{"op": "upsert", "uri": ...}``."""


BATCH = 1_000
"""Number of nodes read in one call."""
NULLABLE = ("max_cost",)
"""Parameters for which null has a meaning. Elsewhere None means "not given"."""


class Calling:
    """The base of all groups of operations."""

    _connections: Connections
    id: str
    """The workspace's id, which every URI contains."""

    def _call(self, name: str, progress: Progress | None = None, /, **args: Any) -> dict[str, Any]:
        given = {key: value for key, value in args.items() if value is not None or key in NULLABLE}
        return self._connections.call(name, {**given, "workspace": self.id}, progress)

    def _write(self, name: str, /, **args: Any) -> dict[str, Any]:
        """A call with a request id: if the answer is lost, the call is sent again and still applied only once."""
        return self._call(name, **{"request_id": secrets.token_hex(12), **args})

    def _pages(self, name: str, /, **args: Any) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self._call(name, **args, cursor=cursor)
            yield page
            cursor = page.get("cursor")
            if cursor is None:
                return

    def _found(self, uris: Sequence[str], *, content: bool, elsewhere: list[str] | None = None) -> list[Node]:
        """The nodes that exist. URIs of nodes on a hub are appended to `elsewhere`."""
        found = list[Node]()
        for first in range(0, len(uris), BATCH):
            for page in self._pages("nodes", uris=uris[first : first + BATCH], content=content):
                found += map(values.node, page["nodes"])
                if elsewhere is not None:
                    elsewhere += page.get("elsewhere", ())
        return found

    def _listed(self, **args: Any) -> Iterator[Node]:
        for page in self._pages("nodes", **args):
            yield from map(values.node, page["nodes"])


def uri_of(node: NodeRef) -> str:
    return node.uri if isinstance(node, Node) else node


def texts(given: Sequence[str] | str) -> list[str]:
    """A list of texts; a single text becomes a list of one."""
    return [given] if isinstance(given, str) else list(given)


def source_of(source: Source | tuple[str, str] | None) -> dict[str, str] | None:
    if source is None:
        return None
    type, id = (source.type, source.id) if isinstance(source, Source) else source
    return {"type": type, "id": id}


def new_node(node: NewNode) -> dict[str, Any]:
    """The given fields."""
    given = {one.name: getattr(node, one.name) for one in fields(node)}
    given |= {"tags": texts(node.tags), "aliases": texts(node.aliases), "source": source_of(node.source)}
    return {name: value for name, value in given.items() if value not in (None, "", (), [], {})}


def new_edge(edge: NewEdge | Edge) -> dict[str, Any]:
    given = {one.name: getattr(edge, one.name) for one in fields(NewEdge)}
    return {name: value for name, value in given.items() if value is not None}
