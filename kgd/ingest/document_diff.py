"""Difference between an ingested document and the stored one.

An unchanged chunk keeps its URI and its bytes, even if it moved in the document. An edited chunk is recognised by its
neighbours, and also keeps its URI, with the relations that users added. A new chunk gets a number that the document has
never used.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

from kgd.model.change import Delete, Edit, Unrelate, Untag, Upsert, upsert_of
from kgd.model.node import Json, Node, Source
from kgd.model.uri import Uri, build, scheme_of, segments_of, workspace_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

COMMIT_EDITS = 1_900
"""Number of edits per commit: one fewer than allowed, since the first commit also marks the document as incomplete."""
FIRST, NEXT, PART_OF = "has_chunk", "NEXT_CHUNK", "part_of"
"""Relations from a document to its first chunk, between chunks, and from a chunk to its document."""
HASH, STATUS = "hash", "status"
LAST = "last"
"""Data key for the highest chunk number ever used, if it differs from the number of chunks."""
WRITTEN = "written"
"""Data key for a digest of the ingested name and summary, to recognise a user's changes."""
IN_TEXT = {"in": "text"}
"""Marks a relation that was found in the text, not added by a user."""
TAGS = "tags"
"""Data key for the tags found in the text."""
OWN = frozenset({"kind", "bytes", "chunks", "date", "author", HASH, STATUS, LAST, WRITTEN, TAGS})
"""Data keys that an ingest sets; other keys, and a URL, stay."""


class Stage(StrEnum):
    """Progress of a document. An incomplete document is ingested again, even if its hash matches."""

    READING = "reading"
    COMPLETE = "complete"


def chunk_uri(document: Uri, number: int) -> Uri:
    return build("chunk", workspace_of(document) or "", [*segments_of(document), f"{number:04d}".encode()])


def number_of(chunk: Uri) -> int:
    """The number in a chunk's URI; 0 if it has none."""
    last = chunk.rpartition("/")[2]
    return int(last) if last.isascii() and last.isdigit() else 0


def is_complete(stored: Node | None, digest: str) -> bool:
    """Whether the document with this digest is stored completely."""
    return stored is not None and stored.data.get(HASH) == digest and stored.data.get(STATUS) == Stage.COMPLETE


def replaced(workspace: Workspace, nodes: Sequence[Node]) -> tuple[tuple[Edit, ...], dict[str, int]]:
    """The edits that replace the stored document of a source, and counts of new, changed and gone nodes. Without edits,
    the document is already stored; the last edit is the document's.

    Args:
        nodes: A document and its chunks in order, with their source. The document has the digest of the source.
    """
    wanted, *pieces = nodes
    assert wanted.source is not None
    stored = workspace.node(wanted.uri)
    if is_complete(stored, str(wanted.data[HASH])):
        return (), _counts("unchanged")
    old = _stored_chunks(workspace, stored, wanted.source)
    highest = max([_int(stored.data.get(LAST)) if stored else 0, *(number_of(one.uri) for one in old)], default=0)
    places = _aligned(wanted.uri, pieces, old, highest)
    renamed = {piece.uri: uri for piece, uri in zip(pieces, places, strict=True)}
    known = {one.uri: one for one in old}
    out: list[Edit] = []
    new = changed = 0
    for piece in pieces:
        node = _moved(piece, renamed)
        there = known.get(node.uri)
        out += _difference(workspace, there, node)
        new += there is None
        changed += there is not None and (there.name, there.content) != (node.name, node.content)
    kept = set(places)
    gone = [one.uri for one in old if one.uri not in kept]
    last = max([highest, *map(number_of, places)])
    document = _moved(wanted, renamed)
    if last != len(pieces):
        document = replace(document, data={**document.data, LAST: last})
    edits = (*out, *(Delete(uri) for uri in gone), *_of_document(stored, document))
    return edits, _counts("changed" if stored else "new", new, changed, len(gone))


def _counts(became: str, new: int = 0, changed: int = 0, gone: int = 0) -> dict[str, int]:
    return {f"documents_{became}": 1, "chunks_new": new, "chunks_changed": changed, "chunks_gone": gone}


def in_commits(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    """The edits of one document in batches. Until the last batch, the document is marked as incomplete."""
    if len(edits) <= COMMIT_EDITS:
        if edits:
            yield tuple(edits)
        return
    container = next(edit for edit in reversed(edits) if isinstance(edit, Upsert))
    begun = Upsert(container.uri, source=container.source, data={STATUS: Stage.READING})
    for start in range(0, len(edits), COMMIT_EDITS):
        part = tuple(edits[start : start + COMMIT_EDITS])
        yield (begun, *part) if start == 0 else part


def _stored_chunks(workspace: Workspace, document: Node | None, source: Source) -> list[Node]:
    """The stored chunks of a source, in text order."""
    if document is None:
        return []
    uris = [uri for uri in workspace.text().by_source(source.type, source.id) if scheme_of(uri) == "chunk"]
    found = {uri: node for uri in uris if (node := workspace.readable(uri)) is not None}
    follows = {uri: next((r.target for r in node.relations if r.type == NEXT), None) for uri, node in found.items()}
    at = next((r.target for r in document.relations if r.type == FIRST), None)
    ordered: dict[Uri, Node] = {}
    while at in found and at not in ordered:
        ordered[at] = found[at]
        at = follows[at]
    return [*ordered.values(), *(found[uri] for uri in sorted(found) if uri not in ordered)]


def _aligned(document: Uri, pieces: Sequence[Node], old: Sequence[Node], highest: int) -> list[Uri]:
    """The URI of each piece: the URI of a chunk with the same text; otherwise of a changed chunk under the same
    heading; otherwise of the chunk in its place; otherwise a new URI. O(pieces + old).
    """
    places: list[int | None] = [None] * len(pieces)
    taken: set[int] = set()
    for mark in (attrgetter("name", "content"), attrgetter("name")):
        left: defaultdict[object, deque[int]] = defaultdict(deque)
        for number, one in enumerate(old):
            if number not in taken:
                left[mark(one)].append(number)
        for number, piece in enumerate(pieces):
            if places[number] is None and (found := left[mark(piece)]):
                places[number] = found.popleft()
        taken = {place for place in places if place is not None}
    before = -1
    for number, place in enumerate(places):
        if place is None and before + 1 < len(old) and before + 1 not in taken:
            place = places[number] = before + 1
            taken.add(place)
        if place is not None:
            before = place
    out = []
    for place in places:
        if place is None:
            highest += 1
        out.append(old[place].uri if place is not None else chunk_uri(document, highest))
    return out


def _moved(node: Node, renamed: Mapping[Uri, Uri]) -> Node:
    """The node under its new URI, with its relations to chunks updated."""
    relations = tuple(replace(one, target=renamed.get(one.target, one.target)) for one in node.relations)
    return replace(node, uri=renamed.get(node.uri, node.uri), relations=relations)


def _difference(workspace: Workspace, stored: Node | None, node: Node) -> list[Edit]:
    """The edits that update the stored node; relations that users added stay."""
    if stored is None:
        return [replace(upsert_of(node), expect_version=0)]
    out = _dropped(stored, node)
    new = tuple(one for one in node.relations if stored.relation(one.type, one.target) is None)
    name = node.name if node.name != stored.name else None
    content = node.content if node.content != stored.content else None
    if new or name is not None or content is not None or stored.source != node.source:
        version = workspace.node_version(stored.uri)
        count = version.count if version else 0
        out.append(
            Upsert(stored.uri, name=name, content=content, source=node.source, relations=new, expect_version=count)
        )
    return out


def _of_document(stored: Node | None, node: Node) -> list[Edit]:
    """The last edits, which complete the document. A user's changes to name, summary and tags stay."""
    data: dict[str, Json] = {**node.data, WRITTEN: _written(node.name, node.summary)}
    if node.tags:
        data[TAGS] = list(node.tags)
    if stored is None:
        return [replace(upsert_of(replace(node, data=data)), expect_version=0)]
    found = stored.data.get(TAGS)
    gone = tuple(
        tag for tag in (found if isinstance(found, list) else ()) if tag in stored.tags and tag not in node.tags
    )
    out: list[Edit] = [Untag(stored.uri, gone)] if gone else []
    out += _dropped(stored, node)
    name, summary, unset = node.name, node.summary, []
    if stored.data.get(WRITTEN) not in (None, _written(stored.name, stored.summary)):
        name = summary = ""
        data[WRITTEN] = stored.data[WRITTEN]
    else:
        unset = [field for field in ("name", "summary") if getattr(stored, field) and not getattr(node, field)]
    data |= {key: None for key in OWN if key not in data and key in stored.data}
    relations = tuple(one for one in node.relations if stored.relation(one.type, one.target) is None)
    out.append(
        Upsert(
            stored.uri,
            name=name or None,
            summary=summary or None,
            tags=node.tags,
            data=data,
            source=node.source,
            relations=relations,
            unset=tuple(unset),
        )
    )
    return out


def _dropped(stored: Node, node: Node) -> list[Edit]:
    """The edits that remove ingested relations that the text no longer has."""
    wanted = {relation.key for relation in node.relations}
    return [
        Unrelate(stored.uri, one.target, one.type)
        for one in stored.relations
        if one.key not in wanted and (one.type in (FIRST, NEXT, PART_OF) or one.data == IN_TEXT)
    ]


def _written(name: str, summary: str) -> str:
    return hashlib.sha256(f"{name}\n{summary}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _int(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
