"""Texts of nodes that the index leaves in git, for a daemon and for its child processes."""

from __future__ import annotations

from pathlib import Path

from kgd.codec import documents, fast_reader
from kgd.git.store import ObjectStore
from kgd.index.change_feed import Feed
from kgd.index.database import Database
from kgd.index.doc_texts import Read, Text
from kgd.model.uri import Uri
from kgd.workspace.derived import search_words

Place = tuple[str, str, str]
"""Git directory, work tree (empty if there is none) and text index, as arguments of a child process."""


def place_of(store: ObjectStore, index: Path) -> Place:
    return str(store.git_dir), str(store.work_tree or ""), str(index)


def opened_store(git_dir: str, work_tree: str) -> ObjectStore:
    """The repository of a `Place`."""
    return ObjectStore(Path(git_dir), Path(work_tree) if work_tree else None)


def opened_feed(git_dir: str, work_tree: str, index: str) -> Feed:
    """The feed of the index at a `Place`."""
    return Feed(Database(Path(index)), read_by(opened_store(git_dir, work_tree)))


def read_by(store: ObjectStore) -> Read:
    """A function that reads the text of a node from its blob; only for nodes without a detail file."""

    def read(uri: Uri, blob: bytes) -> Text:
        data = store.read(blob)
        node = fast_reader.whole(data, with_relations=False) or documents.decode(data, at=uri)
        return search_words.doc(node, "", 0).text

    return read
