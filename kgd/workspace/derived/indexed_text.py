"""The text index in step with the served graph: the words of nodes, the nodes to index, and the process that writes.

The text is written by `TextWriter`, in a child process if there is much to write. Orders to it are values of JSON. They
name nodes by their blobs, so that no text passes through the daemon. The index records the tree that it reflects, so
the difference of two trees brings it up to date from any state.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import length_hint
from pathlib import Path

from kgd.codec import documents
from kgd.errors import Unavailable
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.live_graph import LiveGraph
from kgd.graph.succession import predecessors
from kgd.index.change_feed import Feed
from kgd.index.database import Database, IndexDamaged
from kgd.index.doc_texts import Read, Text
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.index.words import name_words
from kgd.model.dates import validity_in, written
from kgd.model.node import NODE_FIELDS, PLAIN, Json, Node
from kgd.model.uri import Uri
from kgd.workspace import child_process, memory_files, parts
from kgd.workspace.answers import Similar
from kgd.workspace.child_process import Answer, Order, Worker
from kgd.workspace.derived.version_cache import VersionCache
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
        self.text = TextIndex(database, read_by(store))
        self.work: Work = ("", 0, 0)
        """The current work; read by other threads."""
        place = place_of(store, database.path)
        self.worker = Worker(
            TextWriter(store, self.text), lambda: (*PROGRAM, *place, database.ticket()), MUCH, "the text index"
        )

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
        # A change of the detail file is treated as a change of the node (`Served.follow`).
        found = memory_files.detail_of(node, lambda path: memory_files.read_blob(self._store, root, path))
        detail = found[1].text if found else ""
        return doc(node, detail, updated)._replace(blob=b"" if part or detail else id)


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
            opened_store(git_dir, work_tree),
            Database(Path(index), is_child=True, ticket=ticket),
        )
        return TextWriter(store, TextIndex(database, read_by(store)))

    child_process.serve(writer, nice=0)  # searches wait for it
    return 0


ASKED = 3
"""Maximum number of new nodes to compare per answer."""
SAID = 3
"""Maximum number of similar nodes to list for each."""
LOOKED_AT = 10
MOST_IDS = 40
"""Maximum number of addresses and ids in a node's data by which it can be found."""

Place = tuple[str, str, str]
"""Git directory, work tree (empty if there is none) and text index, as arguments of a child process."""


def doc(node: Node, detail: str, updated: int) -> Doc:
    """The node as a document for the text index.

    Args:
        detail: The text of the node's detail file; empty if there is none.
        updated: Unix seconds of its last change.
    """
    summary, content, data = _words_in(node, detail)
    authored = (content, node.relations, *(getattr(node, row.name) for row in NODE_FIELDS if row.words))
    return Doc(
        node.uri,
        node.type,
        node.title,
        summary,
        content,
        node.tags,
        data,
        updated,
        node.source,
        people=_people(node),
        aliases=_aliases(node.data),
        data_keys=(*node.data, *islice(_ids(node.data), MOST_IDS)),
        bare=not any(authored),
        dated=_dated(node),
        valid=validity_in(node.data),
    )


def _words_in(node: Node, detail: str) -> tuple[str, str, str]:
    """Summary, content and data of a node as text."""
    content = "\n".join(filter(None, (*_said(node, "content"), detail)))
    without_records = {key: value for key, value in node.data.items() if key not in _RECORDS}
    data = " ".join([*_people(node), *_said(node, "data"), *_texts(without_records)])
    return " ".join(_said(node, "summary")), content, data


def _said(node: Node, column: str) -> Iterator[str]:
    """The texts and labels whose words belong to a column of the index."""
    for row in PLAIN:
        if row.words == column and (value := getattr(node, row.name)):
            yield value if isinstance(value, str) else " ".join(value)


def _ids(value: Json, is_id: bool = False) -> Iterator[str]:
    """The texts that `_texts` omits."""
    if isinstance(value, str):
        if is_id or _is_address(value):
            yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _ids(inner, is_id or _IS_METADATA(key) is not None)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner, is_id)


_IS_METADATA = re.compile(
    r"(?:.*(?:_|-|[a-z](?=[A-Z])))?(?:[Ii]ds?|ID|[Uu]r[il]|UR[IL]|hash|sha|commit|etag|token|workspace|[Aa]t)\Z"
).match
"""Keys whose values are identifiers, not text."""
_RECORDS = frozenset({"implied", "imported", "renamed_code", "senderType", "submitted_from", "verified", "written"})
"""Keys of a node's data in which kgd keeps its own records."""


def _is_address(text: str) -> bool:
    """Whether a text is an address alone. A sentence with an address in it is not."""
    return "://" in text and len(text.split()) == 1


def _dated(node: Node) -> int | None:
    """The time of a message, taken from its name after the kind of sender: ``user:2026-11-20T10:00:00Z``."""
    span = written(node.name.partition(":")[2].removeprefix("~")) if node.type == "message" else None
    return span.begin if span else None


def _people(node: Node) -> tuple[str, ...]:
    """The sender of a message."""
    found = [node.data.get(key) for key in ("senderId", "senderName")] if node.type == "message" else []
    return tuple(name for name in found if isinstance(name, str))


def _aliases(data: Mapping[str, Json]) -> tuple[str, ...]:
    """Additional names in a node's data, each on one line."""
    given = data.get("aliases")
    found = (" ".join(text.split()) for text in given if isinstance(text, str)) if isinstance(given, list) else ()
    return tuple(filter(None, found))


def _texts(value: Json, are_said: bool = False) -> Iterator[str]:
    """The words in a node's data, without metadata: keys, addresses, ids of tasks, commits and other systems, and the
    values true and false. Observations are words even if they are addresses, since agents look for any part of them."""
    if isinstance(value, str):
        if are_said or not _is_address(value):
            yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not _IS_METADATA(key):
                yield from _texts(inner, key == "observations")
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, are_said)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def similar(
    named: Mapping[Uri, str], replaced: Mapping[Uri, Collection[Uri]], graph: LiveGraph, text: TextIndex
) -> tuple[Similar, ...]:
    """For the first few new nodes, the older nodes that share half of the words of their names, the largest share
    first, without those that they supersede. Identifiers count as their parts.

    Args:
        replaced: Nodes that they supersede by relations that are not stored.
    """
    found = list[Similar]()
    for uri, name in islice(named.items(), ASKED):
        if alike := _like(uri, name, graph, text):
            superseded = predecessors(graph, uri, replaced.get(uri, ()))
            alike = [one for one in alike if one not in superseded]
        if alike:
            found.append(Similar(uri, tuple(alike[:SAID])))
    return tuple(found)


def _like(uri: Uri, name: str, graph: LiveGraph, text: TextIndex) -> list[Uri]:
    """The other nodes that share half of the words of the names, the largest share first."""
    words, shares = set(name_words(name)), dict[Uri, float]()
    for found in text.named_like(name, LOOKED_AT) if words else ():
        others = set(name_words(other.name)) if found != uri and (other := graph.card(found)) else set()
        if 2 * len(words & others) >= len(words | others):
            shares[found] = len(words & others) / len(words | others)
    return sorted(shares, key=lambda one: -shares[one])


def place_of(store: ObjectStore, index: Path) -> Place:
    return str(store.git_dir), str(store.work_tree or ""), str(index)


def opened_store(git_dir: str, work_tree: str) -> ObjectStore:
    """The repository of a `Place`."""
    return ObjectStore(Path(git_dir), Path(work_tree) if work_tree else None)


def opened_feed(git_dir: str, work_tree: str, index: str) -> Feed:
    """The feed of the index at a `Place`, for a child. Raises Unavailable if the index cannot be used."""
    try:
        database = Database(Path(index), is_child=True)
    except IndexDamaged as error:  # the child's own file is not damaged
        raise Unavailable(
            "the text index is being rebuilt", next="Nothing to do: the work resumes when the index is ready."
        ) from error
    return Feed(database, read_by(opened_store(git_dir, work_tree)))


def read_by(store: ObjectStore) -> Read:
    """A function that reads the text of a node from its blob; only for nodes without a detail file."""

    def read(uri: Uri, blob: bytes) -> Text:
        data = store.read(blob)
        node = documents.ordinary(data, with_relations=False) or documents.decode(data, at=uri)
        return Text.of(node.title, node.tags, *_words_in(node, ""))

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
