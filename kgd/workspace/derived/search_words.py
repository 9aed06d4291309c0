"""The words by which full text finds a node, texts that the index leaves in git, and older nodes with similar names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from kgd.codec import documents
from kgd.errors import Unavailable
from kgd.git.store import ObjectStore
from kgd.graph.live_graph import LiveGraph
from kgd.graph.succession import predecessors
from kgd.index.change_feed import Feed
from kgd.index.database import Database, IndexDamaged
from kgd.index.doc_texts import Read, Text
from kgd.index.text import Doc, TextIndex
from kgd.model.dates import validity_in, written
from kgd.model.node import NODE_FIELDS, PLAIN, Json, Node
from kgd.model.uri import Uri
from kgd.workspace.answers import Similar

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
    content = "\n".join(filter(None, (*_said(node, "content"), detail)))
    authored = (content, node.relations, *(getattr(node, row.name) for row in NODE_FIELDS if row.words))
    return Doc(
        node.uri,
        node.type,
        node.title,
        " ".join(_said(node, "summary")),
        content,
        node.tags,
        " ".join([*_people(node), *_said(node, "data"), *_texts(_without_records(node.data))]),
        updated,
        node.source,
        people=_people(node),
        aliases=_aliases(node.data),
        data_keys=(*node.data, *islice(_ids(node.data), MOST_IDS)),
        bare=not any(authored),
        dated=_dated(node),
        valid=validity_in(node.data),
    )


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
_RECORDS = frozenset({"implied", "imported", "senderType", "submitted_from", "verified", "written"})
"""Keys of a node's data in which kgd keeps its own records."""


def _without_records(data: Mapping[str, Json]) -> Mapping[str, Json]:
    return {key: value for key, value in data.items() if key not in _RECORDS}


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
    """For the first few new nodes, the older nodes that share half of the words of their names, without those that they
    supersede. `replaced` has nodes that they supersede by relations that are not stored."""
    found = (
        (uri, _like(uri, name, predecessors(graph, uri, replaced.get(uri, ())), graph, text))
        for uri, name in islice(named.items(), ASKED)
        if name
    )
    return tuple(Similar(uri, like) for uri, like in found if like)


def _like(uri: Uri, name: str, replaced: Collection[Uri], graph: LiveGraph, text: TextIndex) -> tuple[Uri, ...]:
    words = _words(name)
    alike = []
    for found in text.named_like(name, LOOKED_AT):
        other = graph.card(found)
        if found in replaced or found == uri:
            continue
        if other and 2 * len(words & _words(other.name)) >= len(words | _words(other.name)):
            alike.append(found)
    return tuple(alike[:SAID])


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", name.casefold()))


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
        return doc(node, "", 0).text

    return read
