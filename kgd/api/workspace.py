"""This file is where the library begins: `kgd.open`, and the workspace that it gives."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kgd.api import reading
from kgd.api.calling import Change
from kgd.api.connections import Connections
from kgd.api.edges import EdgeOperations
from kgd.api.knowledge import KnowledgeOperations
from kgd.api.nodes import NodeOperations
from kgd.api.sources import SourceOperations
from kgd.api.values import Written
from kgd.config import Home, person_environment

if TYPE_CHECKING:
    from typing import Self


class Workspace(NodeOperations, EdgeOperations, KnowledgeOperations, SourceOperations):
    """One graph. Made by `kgd.open`; any number of threads may use it.

    What it answers are values: they do not change when the graph does. Every change is one commit, and is durable when
    the call returns; after an error nothing of it is in the graph. Errors are subclasses of `kgd.KgdError` with `code`,
    `message`, `at` and `next`.

    Attributes:
        id: The workspace's id, as it stands in every URI of it.
    """

    def __init__(self, connections: Connections, id: str) -> None:
        self._connections, self.id = connections, id

    def __repr__(self) -> str:
        return f"<kgd workspace {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it. A program that ends does so by itself; called twice it does nothing."""
        self._connections.close()

    def put(
        self, *changes: Change, message: str = "", request_id: str | None = None, dry_run: bool = False,
    ) -> Written:  # fmt: skip
        """Carry out changes of any kind as one commit, or none of them; at most 1,000. docs/mcp.md has each `op`.

        Args:
            message: Why, in one line: the commit's subject.
            request_id: Asked again with the same one, it is applied once. One is made if you give none.
            dry_run: Only say what would be.

        Raises:
            KgdError: Its `at` names the change that is wrong, as ``changes[2].weight``.
        """
        return self.put_many(changes, message=message, request_id=request_id, dry_run=dry_run)

    def put_many(
        self, changes: Iterable[Change], *, message: str = "", request_id: str | None = None, dry_run: bool = False,
    ) -> Written:  # fmt: skip
        """As `put`, of a list."""
        given: dict[str, Any] = {"request_id": request_id} if request_id else {}
        answer = self._write(
            "put", changes=[dict(one) for one in changes], message=message, conflicts="show",
            **({"dry_run": True} if dry_run else {}), **given,
        )  # fmt: skip
        return reading.written(answer)

    def status(self) -> dict[str, Any]:
        """How the workspace is, as `kgd status` says it: stages of its work, counts, conflicts, what is degraded."""
        return self._call("status")


def open(
    directory: str | os.PathLike[str] = ".", *, workspace: str | None = None, create: bool = False,
    client: str = "python",
) -> Workspace:  # fmt: skip
    """The workspace of a directory or of one above it.

    Calls go to your kgd daemon, which is started if none runs.

    Args:
        directory: Relative paths, such as ``./src/a.py``, are meant from here.
        workspace: An id, for another workspace than that of the directory.
        create: Whether one is made where there is none, as `kgd up` does.
        client: The program's name, which stands beside yours as the author of its changes.

    Raises:
        NotFound: There is no workspace.
        Unavailable: The daemon cannot be started.
    """
    place = os.path.abspath(directory)
    connections = Connections(Home.find(), place, client)
    try:
        if create and workspace is None:
            connections.call("up", {"directory": place, "environment": person_environment()})
        found = connections.call("nodes", {"workspace": workspace or place})
    except BaseException:
        connections.close()
        raise
    return Workspace(connections, str(found["workspace"]))
