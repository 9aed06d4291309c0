"""The daemon's graph in this process: its snapshot, mapped from the file, and the changes since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kgd.errors import Unavailable
from kgd.graph import live_graph
from kgd.graph.arrays import Arrays, read_snapshot
from kgd.graph.live_graph import LiveGraph
from kgd.graph.stored_graph import StoredGraph

TRIES = 3
"""Number of attempts; the file may be replaced between the daemon's answer and its opening."""


class _Read(NamedTuple):
    tree: str
    arrays: Arrays
    commit: str
    graph: StoredGraph


class MappedGraph:
    """The graph of one workspace. Thread-safe.

    Args:
        call: Calls an operation of the workspace.
    """

    def __init__(self, call: Callable[..., dict[str, Any]]) -> None:
        self._call = call
        self._last: _Read | None = None

    def now(self) -> StoredGraph:
        """The graph at the tip; the same object until the next commit.

        O(changes since the file was written); after the file was replaced, also O(nodes) for its checksum.

        Raises:
            Unavailable: The file cannot be read.
        """
        file = ""
        for number in range(TRIES):
            answer = self._call("graph_snapshot", anew=number > 0)
            last, file = self._last, answer["file"]
            if last is not None and last.commit == answer["commit"]:
                return last.graph
            arrays = last.arrays if last is not None and last.tree == answer["tree"] else _mapped(file, answer["tree"])
            if arrays is not None:
                graph = _graph(arrays, answer)
                self._last = _Read(answer["tree"], arrays, answer["commit"], graph)
                return graph
        raise Unavailable(
            "the snapshot of the graph cannot be read",
            at=file,
            next="This program needs permission to read the file, and the same version of kgd as the daemon.",
        )


def _mapped(file: str, tree: str) -> Arrays | None:
    """The arrays in the file; None if it cannot be read or describes another tree."""
    found = read_snapshot(Path(file))
    return Arrays(found.arrays) if found is not None and found.tree == tree else None


def _graph(arrays: Arrays, answer: dict[str, Any]) -> StoredGraph:
    live = LiveGraph()
    live.load(arrays)
    live_graph.apply(live, answer["changes"])
    frozen = live.freeze()
    return StoredGraph.over(frozen.layers, frozen.aliases, workspace=answer["workspace"], commit=answer["commit"])
