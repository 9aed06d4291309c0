"""This file is where it is remembered which content went out under which version, as long as the process runs.

A version is a count: where history turned out to be another, the same number may stand for another content. So an
expectation is checked against what was read, too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kgd.codec import documents
from kgd.git.objects import ObjectId, object_id
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.served import Served

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KEPT = 5_000
"""Answers, the newest."""


class Sent:
    """What was read from a workspace, by path and version. Safe for any number of threads."""

    def __init__(self, workspace: Workspace, served: Served) -> None:
        self._workspace, self._served = workspace, served
        self._blobs: OrderedDict[tuple[str, int], ObjectId] = OrderedDict()

    def note(self, uri: Uri, version: int) -> None:
        """The node goes out as it is served now, so that an expectation of the version is checked against that."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_detail(self, path: str, version: int) -> None:
        """The detail in this file goes out under a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._workspace.store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def blob(self, path: str, version: int) -> ObjectId | None:
        """What went out of a file; None where that is not remembered."""
        return self._blobs.get((path, version))

    def node(self, uri: Uri, version: int) -> Node | None:
        """The node as it went out; None where that is not remembered. Raises as `Workspace.node`."""
        workspace, path = self._workspace, self._served.path_of(uri)
        blob = self.blob(path, version)
        if blob is None or not workspace.part_of(uri):
            return documents.decode(workspace.store.read(blob), at=uri) if blob else None
        count = workspace.version(path)  # of a node in a part the blob is nowhere, but a commit made that version
        entries = workspace.history.entries(uri=uri, limit=count)
        if not 0 <= count - version < len(entries):
            return None
        node = workspace.node(uri, as_of=entries[count - version].commit)
        return node if node and object_id("blob", documents.encode(node)) == blob else None

    def _keep(self, path: str, version: int, blob: ObjectId) -> None:
        self._blobs[path, version] = blob
        while len(self._blobs) > KEPT:
            self._blobs.popitem(last=False)
