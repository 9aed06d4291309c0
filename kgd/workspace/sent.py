"""This file is where it is remembered which content went out under which version, as long as the process runs.

A version is a count: where history turned out to be another, the same number may stand for another content. So an
expectation is checked against what was read, too.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgd.codec import documents
from kgd.git.objects import ObjectId, object_id
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.served import Served

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KEPT, KEPT_OF_ONE = 20_000, 500
"""Answers, of all files and of one file, the newest."""
_VERSION = struct.Struct("<I")
_ANSWER = struct.Struct("<I?20s")
"""Version, whether the id is of the commit that wrote the file (else of its blob), and the id."""


class Sent:
    """What was read from a workspace, by path and version. Safe for any number of threads."""

    def __init__(self, workspace: Workspace, served: Served) -> None:
        self._workspace, self._served = workspace, served
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, bytearray] = OrderedDict()
        """By path, packed: an object for each answer would take 400 bytes, 8 MB in all."""
        self._count = 0

    def note(self, uri: Uri, version: int) -> None:
        """The node goes out as it is served now, so that an expectation of the version is checked against that."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_written(self, commit: str, nodes: Iterable[tuple[Uri, int]]) -> None:
        """Remember which content a commit's author knows under the versions that it was answered with."""
        for uri, version in nodes:
            self._keep(self._served.path_of(uri), version, bytes.fromhex(commit), is_commit=True)

    def note_detail(self, path: str, version: int) -> None:
        """The detail in this file goes out under a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._workspace.store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def blob(self, path: str, version: int) -> ObjectId | None:
        """What went out of a file; None where that is not remembered."""
        is_commit, id = self._answer(path, version)
        store = self._workspace.store
        return store.entry(store.tree_of(id), path) if id and is_commit else id

    def node(self, uri: Uri, version: int) -> Node | None:
        """The node as it went out under a version; None where that is not remembered, or history has it otherwise.

        What is noted of a read may be newer than its version, if a writer came between. Raises as `Workspace.node`.
        """
        workspace, path = self._workspace, self._served.path_of(uri)
        is_commit, blob = self._answer(path, version)
        if blob and is_commit:
            return workspace.node(uri, as_of=blob.hex())
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

    def _answer(self, path: str, version: int) -> tuple[bool, ObjectId | None]:
        """Whether the id is of a commit, and the id; None where it is not remembered."""
        with self._lock:
            answers = self._answers.get(path, b"")
            at = _find(answers, version)
            if at < 0:
                return False, None
            _, is_commit, id = _ANSWER.unpack_from(answers, at)
            return is_commit, id

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
    """Where the answer of a version begins; -1 where there is none."""
    if version >> 32:  # an expectation may be any number
        return -1
    number = _VERSION.pack(version)
    at = answers.find(number)
    while at >= 0 and at % _ANSWER.size:
        at = answers.find(number, at + 1)
    return at
