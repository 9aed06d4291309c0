"""The content that was sent to clients under each version, for the lifetime of the process.

A version is a count. If history is rewritten, the same number may stand for other content, so an expected version is
checked against the content that was read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.model.uri import Uri
from kgd.workspace.served import Served

KEPT = 20_000
"""Answers kept, the newest."""


class Written(NamedTuple):
    """A commit that wrote a file; its blob is looked up on demand."""

    commit: str


class SentVersions:
    """The content sent from a workspace, by path and version. Safe for any number of threads."""

    def __init__(self, store: ObjectStore, served: Served) -> None:
        self._store, self._served = store, served
        self._blobs: OrderedDict[tuple[str, int], ObjectId | Written] = OrderedDict()

    def note(self, uri: Uri, version: int) -> None:
        """Record that the node is sent in its present state, under this version."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_written(self, commit: str, nodes: Iterable[tuple[Uri, int]]) -> None:
        """Record the content that the author of a commit knows under the versions in the answer."""
        for uri, version in nodes:
            self._keep(self._served.path_of(uri), version, Written(commit))

    def note_detail(self, path: str, version: int) -> None:
        """Record that a detail file is sent under a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def get(self, path: str, version: int) -> ObjectId | Written | None:
        """The recorded blob, or the commit that wrote it; None if nothing is recorded."""
        return self._blobs.get((path, version))

    def blob(self, path: str, version: int) -> ObjectId | None:
        """The blob sent for a file; None if nothing is recorded."""
        found = self.get(path, version)
        if not isinstance(found, Written):
            return found
        return self._store.entry(self._store.tree_of(bytes.fromhex(found.commit)), path)

    def _keep(self, path: str, version: int, blob: ObjectId | Written) -> None:
        self._blobs[path, version] = blob
        while len(self._blobs) > KEPT:
            self._blobs.popitem(last=False)
