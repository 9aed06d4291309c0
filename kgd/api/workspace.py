"""`kgd.open`, and the workspace it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from kgd.api import values
from kgd.api.calling import Change, Connections
from kgd.api.knowledge import KnowledgeOperations, SourceOperations
from kgd.api.nodes import EdgeOperations, NodeOperations
from kgd.api.values import Written
from kgd.config import Home, person_environment

if TYPE_CHECKING:
    from typing import Self

    import networkx as nx

    from kgd.api.mapped_graph import MappedGraph


class Workspace(NodeOperations, EdgeOperations, KnowledgeOperations, SourceOperations):
    """One graph, opened by `kgd.open`. Thread-safe.

    Answers are values, which do not change with the graph. Every change is one commit, durable when the call returns;
    if a call fails, nothing was written. Errors are subclasses of `kgd.KgdError` with `code`, `message`, `at` and
    `next`.

    Attributes:
        id: The workspace's id, which each of its URIs contains.
    """

    def __init__(self, connections: Connections, id: str) -> None:
        self._connections, self.id = connections, id
        self._mapped: MappedGraph | None = None

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

    def put(self, *changes: Change, message: str = "", request_id: str | None = None, dry_run: bool = False) -> Written:
        """Apply changes of any kind in one commit, or none; at most 1,000. docs/mcp.md describes each `op`.

        Args:
            message: The reason in one line: the commit's subject.
            request_id: A call repeated with the same id is applied only once. Generated if left out.
            dry_run: Report the changes and write nothing.

        Raises:
            KgdError: Its `at` names the wrong change, as ``changes[2].weight``.
        """
        return self.put_many(changes, message=message, request_id=request_id, dry_run=dry_run)

    def put_many(
        self, changes: Iterable[Change], *, message: str = "", request_id: str | None = None, dry_run: bool = False
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
        return values.written(answer)

    @property
    def graph(self) -> nx.MultiDiGraph[str]:
        """The stored nodes and edges as a read-only `networkx.MultiDiGraph`, as of the commit `graph.graph["commit"]`.

        Later changes do not affect it; the next access returns the current graph. A node is its URI. Its attribute
        `card` has the fields `type`, `name` and `summary`; the target of a broken link has no attributes. The key of an
        edge is its type; an edge has `weight` and, if the relation has any, `data`. To change a graph, make a copy with
        `graph.copy()`.

        The memory is mapped from a file of the daemon and shared with it.

        Raises:
            Unavailable: The file cannot be read by this program.
        """
        # Imported here because networkx takes longer to import than the rest of the library.
        from kgd.api.mapped_graph import MappedGraph

        mapped = self._mapped = self._mapped or MappedGraph(self._call)
        return cast("nx.MultiDiGraph[str]", mapped.now())

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
    """Open the workspace of a directory or of one of its parents.

    Calls go to your kgd daemon. If no daemon is running, one is started.

    Args:
        directory: The base of relative paths such as ``./src/a.py``.
        workspace: The id of the workspace to open instead of the directory's.
        create: Whether to create a missing workspace, as `kgd up` does.
        client: The program's name, recorded next to your own as the author of its changes.

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
