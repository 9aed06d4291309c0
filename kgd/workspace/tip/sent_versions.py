"""The content that was sent to clients under each version, for the lifetime of the process.

A version is a count. After history is rewritten, the same number may stand for different content, so an expected
version is checked against the content that was read.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.model.uri import Uri
from kgd.workspace.tip.served import Served

KEPT, KEPT_OF_ONE = 20_000, 500
"""Maximum number of answers kept, in total and per file; the newest are kept."""
_VERSION = struct.Struct("<I")
_ANSWER = struct.Struct("<I?20s")
"""The version, whether the id is the id of the commit that wrote the file (otherwise of the blob), and the id."""


class Written(NamedTuple):
    """A commit that wrote a file; its blob is looked up on demand."""

    commit: ObjectId


class SentVersions:
    """The content sent from a workspace, by path and version. Safe for any number of threads."""

    def __init__(self, store: ObjectStore, served: Served) -> None:
        self._store, self._served = store, served
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, bytearray] = OrderedDict()
        """Answers by path, packed: as separate objects they would take 400 bytes each, 8 MB in total."""
        self._count = 0

    def note(self, uri: Uri, version: int) -> None:
        """Record that the node is sent in its current state with this version."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_written(self, commit: str, nodes: Iterable[tuple[Uri, int]]) -> None:
        """Record that the author of a commit knows its content under the versions in the answer."""
        for uri, version in nodes:
            self._keep(self._served.path_of(uri), version, bytes.fromhex(commit), is_commit=True)

    def note_detail(self, path: str, version: int) -> None:
        """Record that a detail file is sent with a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def get(self, path: str, version: int) -> ObjectId | Written | None:
        """The recorded blob, or the commit that wrote it; None if nothing is recorded."""
        with self._lock:
            answers = self._answers.get(path, b"")
            at = _find(answers, version)
            if at < 0:
                return None
            _, is_commit, id = _ANSWER.unpack_from(answers, at)
        return Written(id) if is_commit else id

    def blob(self, path: str, version: int) -> ObjectId | None:
        """The blob sent for a file; None if nothing is recorded."""
        found = self.get(path, version)
        if not isinstance(found, Written):
            return found
        return self._store.entry(self._store.tree_of(found.commit), path)

    def _keep(self, path: str, version: int, id: ObjectId, *, is_commit: bool = False) -> None:
        answer = _ANSWER.pack(version, is_commit, id)
        with self._lock:
            answers = self._answers.setdefault(path, bytearray())
            self._answers.move_to_end(path)
            if (at := _find(answers, version)) >= 0:
                answers[at : at + _ANSWER.size] = answer
                return
            answers += answer
            self._count += 1
            if len(answers) > KEPT_OF_ONE * _ANSWER.size:
                del answers[: _ANSWER.size]
                self._count -= 1
            while self._count > KEPT:
                self._count -= len(self._answers.popitem(last=False)[1]) // _ANSWER.size


def _find(answers: bytes | bytearray, version: int) -> int:
    """The offset of the answer for a version; -1 if there is no answer."""
    if version >> 32:  # an expected version may be any number
        return -1
    number = _VERSION.pack(version)
    at = answers.find(number)
    while at >= 0 and at % _ANSWER.size:
        at = answers.find(number, at + 1)
    return at
