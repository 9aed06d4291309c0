"""The text index in step with the served graph: which nodes to index, in which order, and the process that writes it.

The text is written by `TextWriter`, in a child process if there is much to write. Orders to it are values of JSON. They
name nodes by their blobs, so that no text passes through the daemon. The index records the tree that it reflects, so
the difference of two trees brings it up to date from any state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import length_hint
from pathlib import Path

from kgd.codec import documents
from kgd.errors import Unavailable
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.index.database import Database
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order, Worker
from kgd.workspace.derived import search_words
from kgd.workspace.derived.version_cache import VersionCache
from kgd.workspace.files import memory_files, parts
from kgd.workspace.repository import give_memory_back
from kgd.workspace.served import Served

PROGRAM = ("-m", "kgd.workspace.derived.indexed_text")
CHUNK, MANY_CHUNK = 400, 1_000
"""Documents in one transaction, and in one of a new index, for which larger transactions save a tenth of the time."""
MUCH = 100
"""Documents in a second from which on the text is written by a child, which starts in a fifth of a second."""

Work = tuple[str, int, int]
"""The name of the running indexing, the number of finished items, and the number of all, or 0 if it is unknown."""


Placed = tuple[str, str, str, str, int]
"""A node to index: URI, blob, path and blob of its part (empty for a node with a file), and Unix seconds of its last
change."""


class Interrupted(Exception):
    """The workspace is closing; the next start continues."""


class IndexedText:
    """The text index of one workspace, written by one thread and read by any.

    Args:
        is_closing: Asked between transactions.
    """

    def __init__(
        self,
        store: ObjectStore,
        served: Served,
        database: Database,
        versions: VersionCache,
        is_closing: Callable[[], bool],
    ) -> None:
        self._store, self._served, self._versions, self._is_closing = store, served, versions, is_closing
        self.text = TextIndex(database, search_words.read_by(store))
        self._database = database
        self.work: Work = ("", 0, 0)
        """The current work; read by other threads."""
        self.worker = Worker(TextWriter(store, self.text), self._program, MUCH, "the text index")

    def _program(self) -> tuple[str, ...]:
        place = search_words.place_of(self._store, self._database.path)
        return *PROGRAM, *place, self._database.ticket()

    def bring_to(self, goal: ObjectId) -> None:
        """Update the index from any state to a tree.

        Raises:
            Interrupted: The workspace is closing.
            KgdError: The disk or the repository failed; finished work is kept.
        """
        tree = self.text.tree()
        start = bytes.fromhex(tree) if tree else None
        if start == goal:
            return
        if start is None or not self._store.exists(start):
            self.index(self._served.graph.uris(), goal, MANY_CHUNK)
        else:
            self.index(self._served.uris_between(start, goal), goal)
        give_memory_back()

    def index(self, uris: Iterable[Uri], goal: ObjectId, chunk: int = CHUNK) -> None:
        """Index nodes as they are served now, and remove missing ones; the index then reflects `goal`. Raises as
        `bring_to`."""
        rest = iter(uris)
        done, total = 0, len(self._served.graph)
        some = list(islice(rest, chunk))
        while more := list(islice(rest, chunk)):
            if self._is_closing():
                raise Interrupted
            self._index(some, None)
            some, done = more, done + len(some)
            self.work = ("indexing nodes", done, max(done, total))
        self._index(some, goal)

    def index_files(self, present: Sequence[FileDoc], gone: Sequence[Uri], complete: bool) -> None:
        """Index files of the code tree by their paths; with `complete`, `present` are all files of the tree."""
        if complete:
            known = self.text.file_uris()
            gone = sorted(known - {file.uri for file in present})
            present = [file for file in present if file.uri not in known]
        for start in range(0, max(len(present), 1), CHUNK):
            if start and self._is_closing():
                raise Interrupted
            some = present[start : start + CHUNK]
            self.work = ("indexing the names of files", start, len(present))
            self._carry_out(of_files(some, gone if not start else ()), len(some))

    def index_docs(self, docs: Iterable[tuple[Uri, Sequence[Doc]]]) -> None:
        """Replace the documents read from files of the code tree."""
        some, size, files = list[tuple[Uri, Sequence[Doc]]](), 0, length_hint(docs)
        for done, (file, found) in enumerate(docs, 1):
            some.append((file, found))
            size += 1 + len(found)
            if size >= CHUNK:
                self._carry_out(of_docs(some), size)
                self.work = ("indexing code and documents", done, files)
                some, size = [], 0
        if some:
            self._carry_out(of_docs(some), size)

    def _index(self, uris: Sequence[Uri], tree: ObjectId | None) -> None:
        root, places = self._served.places(uris)
        versions = self._versions.look([self._served.path_of(uri) for uri in places])
        nodes: list[Placed] = []
        for uri, (blob, part) in places.items():
            version = versions.get(self._served.path_of(uri))
            at, of = (part.path, part.blob.hex()) if part else ("", "")
            nodes.append((uri, blob.hex(), at, of, version.updated_at if version else 0))
        gone = [uri for uri in uris if uri not in places]
        self._carry_out(of_nodes(nodes, gone, root, tree), len(uris))
        self.text.outdate(len(uris))

    def _carry_out(self, order: Order, items: int) -> None:
        try:
            self.worker.carry_out(order, items)
        except Unavailable:
            if self._is_closing():  # it ended the child
                raise Interrupted from None
            raise


class TextWriter:
    """Carries out orders on the text index. One thread at a time; each order is one transaction."""

    def __init__(self, store: ObjectStore, text: TextIndex) -> None:
        self._store, self._text = store, text

    def __call__(self, order: Order, begin: Callable[[str], None] = lambda part: None) -> Answer:
        """Carry out an order of `nodes`, `files` or `docs`.

        Raises:
            IndexDamaged: The index is unsound.
            Unavailable: The index is locked by another process, or the disk is full.
            Damaged: An object cannot be read.
        """
        if "nodes" in order:
            root = bytes.fromhex(order["root"])
            docs = [self._doc(placed, root) for placed in order["nodes"]]
            self._text.apply(docs, order["gone"], tree=order["tree"] or None)
        elif "files" in order:
            self._text.apply_files([FileDoc(*file) for file in order["files"]], order["gone"])
        else:
            self._text.apply_trees({file: [Doc(*doc) for doc in docs] for file, docs in order["docs"]})
        return {}

    def _doc(self, placed: Placed, root: ObjectId) -> Doc:
        uri, blob, part, part_blob, updated = placed
        id = bytes.fromhex(blob)
        data = (
            parts.node_bytes(part, bytes.fromhex(part_blob), Uri(uri), id, self._store.read)
            if part
            else self._store.read(id)
        )
        node = documents.decode(data, at=uri)
        detail = self._detail(node, root)
        return search_words.doc(node, detail, updated)._replace(blob=b"" if part or detail else id)

    def _detail(self, node: Node, root: ObjectId) -> str:
        """The text of the node's detail file; a change to that file is treated as a change to the node
        (`Served.follow`)."""
        found = memory_files.detail_of(node, lambda path: memory_files.read_blob(self._store, root, path))
        return found[1].text if found else ""


def of_nodes(nodes: Iterable[Placed], gone: Iterable[Uri], root: ObjectId, tree: ObjectId | None) -> Order:
    """Index nodes of the tree `root` and remove other nodes; the index then reflects `tree`, if given."""
    return {"nodes": list(nodes), "gone": list(gone), "root": root.hex(), "tree": tree.hex() if tree else ""}


def of_files(present: Iterable[FileDoc], gone: Iterable[Uri]) -> Order:
    """Index files of the code tree by their paths, and remove other files."""
    return {"files": list(present), "gone": list(gone)}


def of_docs(docs: Iterable[tuple[Uri, Iterable[Doc]]]) -> Order:
    """Replace the documents that were read from files of the code tree. They have names and texts only."""
    return {"docs": [(file, [doc[:5] for doc in found]) for file, found in docs]}


def main(arguments: list[str]) -> int:
    """`arguments`: the repository's git directory, its work tree or nothing, the index, and its ticket."""
    git_dir, work_tree, index, ticket = arguments

    def writer() -> TextWriter:
        store, database = (
            search_words.opened_store(git_dir, work_tree),
            Database(Path(index), is_child=True, ticket=ticket),
        )
        return TextWriter(store, TextIndex(database, search_words.read_by(store)))

    child_process.serve(writer, nice=0)  # searches wait for it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
