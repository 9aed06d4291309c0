"""This file is where it is remembered which content went out under which version, as long as the process runs.

A version is a count: where history turned out to be another, the same number may stand for another content. So an
expectation is checked against what was read, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kgd.codec import documents
from kgd.git.objects import ObjectId, object_id
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.served import Served

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KEPT = 20_000
"""Answers, the newest."""


class _Commit(NamedTuple):
    """A commit that wrote a file; its blob is looked up when it is asked for."""

    id: str


class Sent:
    """What was read from a workspace, by path and version. Safe for any number of threads."""

    def __init__(self, workspace: Workspace, served: Served) -> None:
        self._workspace, self._served = workspace, served
        self._blobs: OrderedDict[tuple[str, int], ObjectId | _Commit] = OrderedDict()

    def note(self, uri: Uri, version: int) -> None:
        """The node goes out as it is served now, so that an expectation of the version is checked against that."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_written(self, commit: str, nodes: Iterable[tuple[Uri, int]]) -> None:
        """Remember which content a commit's author knows under the versions that it was answered with."""
        for uri, version in nodes:
            self._keep(self._served.path_of(uri), version, _Commit(commit))

    def note_detail(self, path: str, version: int) -> None:
        """The detail in this file goes out under a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._workspace.store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def blob(self, path: str, version: int) -> ObjectId | None:
        """What went out of a file; None where that is not remembered."""
        found = self._blobs.get((path, version))
        if not isinstance(found, _Commit):
            return found
        store = self._workspace.store
        return store.entry(store.tree_of(bytes.fromhex(found.id)), path)

    def node(self, uri: Uri, version: int) -> Node | None:
        """The node as it went out under a version; None where that is not remembered, or history has it otherwise.

        What is noted of a read may be newer than its version, if a writer came between. Raises as `Workspace.node`.
        """
        workspace, path = self._workspace, self._served.path_of(uri)
        if isinstance(written := self._blobs.get((path, version)), _Commit):
            return workspace.node(uri, as_of=written.id)
        blob = self.blob(path, version)
        before = workspace.version(path) - version
        if blob is None or before < 0:
            return None
        entries = workspace.history.entries(uri=uri, limit=before + 1)
        if len(entries) <= before:
            return None
        commit = entries[before].commit
        node = workspace.node(uri, as_of=commit)
        if not workspace.part_of(uri):
            store = workspace.store
            return node if store.entry(store.tree_of(bytes.fromhex(commit)), path) == blob else None
        return node if node and object_id("blob", documents.encode(node)) == blob else None  # it has no blob in a part

    def _keep(self, path: str, version: int, blob: ObjectId | _Commit) -> None:
        self._blobs[path, version] = blob
        while len(self._blobs) > KEPT:
            self._blobs.popitem(last=False)
