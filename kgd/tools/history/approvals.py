"""Approvals: the changes that a person approved in a review.

Each person has one file in the folder of derived data. Without the file, no change counts as approved.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kgd.git import files
from kgd.model.uri import Uri
from kgd.tools.history.last_review import reviewer
from kgd.workspace.workspace import Workspace

MOST = 10_000
"""Largest number of nodes in a file; the oldest approvals are dropped first."""


class _Lock:
    """Lock of the approval files of a workspace."""

    def __init__(self, _: Workspace) -> None:
        self.held = threading.Lock()


class Approvals:
    """The approved commits of each node, by one person. Costs one read of a small file. Thread-safe."""

    def __init__(self, workspace: Workspace, person: str) -> None:
        self._path: Path = workspace.layout.derived_dir / f"approved-{reviewer(person)}.json"
        self._lock = workspace.beside(_Lock, _Lock).held
        self._nodes = self._read()

    def covers(self, uri: Uri, commits: Iterable[str]) -> bool:
        """Whether all of these commits of a node are approved."""
        return set(commits) <= set(self._nodes.get(uri, ()))

    def add(self, nodes: Mapping[str, Sequence[Uri]]) -> None:
        """Approve the changes to these nodes, durably.

        Args:
            nodes: For each commit, the nodes whose change in it is approved.
        """
        with self._lock:
            self._nodes = self._read()  # another call may have added to it
            for commit, uris in nodes.items():
                for uri in uris:
                    self._nodes[uri] = list(dict.fromkeys([*self._nodes.pop(uri, ()), commit]))
            newest = dict(islice(self._nodes.items(), max(0, len(self._nodes) - MOST), None))
            files.replace(self._path, json.dumps(newest).encode())

    def clear(self) -> None:
        """Drop all approvals, because a later review covers them."""
        with self._lock:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, list[str]]:
        return files.read_state(self._path, _parse) or {}


def _parse(found: Any) -> dict[str, list[str]]:
    return {uri: [str(commit) for commit in commits] for uri, commits in found.items()}
