"""Writing the text index from git objects, and the process that does this for a daemon.

Orders are values of JSON. They name nodes by their blobs, so that no text passes through the daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from kgd.codec import documents
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.index.database import Database
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order
from kgd.workspace.derived import search_words
from kgd.workspace.files import memory_files, parts

PROGRAM = ("-m", "kgd.workspace.derived.text_writer")

Placed = tuple[str, str, str, str, int]
"""A node to index: URI, blob, path and blob of its part (empty for a node with a file), and Unix seconds of its last
change."""


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
