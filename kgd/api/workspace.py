"""`kgd.open`, and the workspace it returns."""

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
    """One graph, opened by `kgd.open`. Safe for threads.

    Answers are values, which do not change with the graph. Every change is one commit, durable when the call returns;
    after an error nothing was written. Errors are subclasses of `kgd.KgdError` with `code`,
    `message`, `at` and `next`.

    Attributes:
        id: The workspace's id, which each of its URIs contains.
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
        """Close the connections. A second call does nothing."""
        self._connections.close()

    def put(
        self,
        *changes: Change,
        message: str = "",
        request_id: str | None = None,
        dry_run: bool = False,
    ) -> Written:
        """Apply changes of any kind in one commit, or none; at most 1,000. docs/mcp.md describes each `op`.

        Args:
            message: The reason in one line: the commit's subject.
            request_id: A repeat with the same id is applied once. Generated if left out.
            dry_run: Report the changes and write nothing.

        Raises:
            KgdError: Its `at` names the wrong change, as ``changes[2].weight``.
        """
        return self.put_many(changes, message=message, request_id=request_id, dry_run=dry_run)

    def put_many(
        self,
        changes: Iterable[Change],
        *,
        message: str = "",
        request_id: str | None = None,
        dry_run: bool = False,
    ) -> Written:
        """`put` for a list."""
        given: dict[str, Any] = {"request_id": request_id} if request_id else {}
        answer = self._write(
            "put",
            changes=[dict(one) for one in changes],
            message=message,
            conflicts="show",
            **({"dry_run": True} if dry_run else {}),
            **given,
        )
        return reading.written(answer)

    def status(self) -> dict[str, Any]:
        """The health of the workspace, as in `kgd status`: stages, counts, conflicts, problems."""
        return self._call("status")


def open(
    directory: str | os.PathLike[str] = ".",
    *,
    workspace: str | None = None,
    create: bool = False,
    client: str = "python",
) -> Workspace:
    """Open the workspace of a directory or of one above it.

    Calls go to your kgd daemon, which is started if none runs.

    Args:
        directory: The base of relative paths such as ``./src/a.py``.
        workspace: The id of a workspace, instead of the directory's.
        create: Whether to create a missing workspace, as `kgd up` does.
        client: The program's name, noted beside yours as the author of its changes.

    Raises:
        NotFound: The directory has no workspace.
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
