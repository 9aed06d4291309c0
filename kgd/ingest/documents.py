"""Ingest of documents: a node for the document, and a chain of chunks for its text.

After an edit of the document, an unchanged chunk keeps its URI and its bytes, even if it moved in the document. An
edited chunk is recognised by its neighbours, and also keeps its URI, with the relations that users added. A new chunk
gets a number that the document has never used. Links, tags and people in a text are resolved to nodes of the graph.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import dropwhile, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kgd.errors import KgdError
from kgd.ingest import document_reader
from kgd.ingest.chunks import MOST, Chunk, chunks
from kgd.ingest.kind import Around, Given, Kind, Taken
from kgd.ingest.readers.result import Text, Unreadable
from kgd.model import wiki_links
from kgd.model.change import Delete, Edit, Unrelate, Untag, Upsert, upsert_of
from kgd.model.node import LABEL_LIMIT, NAME_LIMIT, Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, build, from_path, is_owned, name_of, parse, scheme_of, segments_of, workspace_of
from kgd.model.wiki_links import Link
from kgd.workspace.writing.secrets import secret_in

SEPARATOR = " › "
"""Separates the headings in a chunk's name."""
LEFT_OUT = "[a line that looks like a secret was left out]"
MOST_CHUNKS = 20_000
FILE = "file"
"""Source type of text from a file."""
NAMELESS = 60
"""Number of characters of a name that is taken from the beginning of a text."""

_HEADING = re.compile(r"#{1,6}\s").match
_SENTENCE = re.compile(r".{20,}?[.!?](?=\s)")
_MARKS = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,1000}\)|[`*]+")


def take(given: Given, around: Around) -> Iterator[Taken]:
    """The changes to the document that a file or text contains.

    Raises:
        Unreadable: The source cannot be read, or has no text.
    """
    extracted = extract(given, around)
    found = replaced(around.workspace, extracted)
    became = "unchanged" if not found.edits else "changed" if found.was_there else "new"
    counts = {f"documents_{became}": 1, "chunks_new": found.new, "chunks_changed": found.changed}
    counts["chunks_gone"] = found.gone
    yield Taken(extracted.nodes[0].uri, tuple(in_commits(found.edits)), counts, extracted.trouble)


def extract(given: Given, around: Around) -> Extracted:
    """A document and its chunks, numbered as in a new document.

    Raises:
        Unreadable: The source cannot be read, or has no text.
    """
    read = around.reading.read(_format_name(given), given.data)
    text, trouble = _without_secrets(read)
    if not given.name:
        given = _named(given, read.title or cut_at_word(text, NAMELESS).rstrip("…."))
    uri = home(given, around)
    title = read.title or name_of(uri)
    pieces = chunks(text, read.kind, title) if len(text) <= MOST_CHUNKS * MOST else []
    if len(pieces) > MOST_CHUNKS or len(text) > MOST_CHUNKS * MOST:
        raise Unreadable(f"it has more than {MOST_CHUNKS:,} chunks", next="Ingest only part of it.")
    if not pieces:
        raise Unreadable("it has no text")
    made = [_chunk(piece, number, len(pieces), uri, given, around) for number, piece in enumerate(pieces, 1)]
    document = _document(read, uri, given, title, made, text)
    return Extracted(given.source, given.digest, (document, *made), (*read.trouble, *trouble))


def _format_name(given: Given) -> str:
    """The name that determines the format. Text that is not from a file is Markdown, unless its name has the ending of
    another format."""
    suffix = document_reader.suffix_of(given.name)
    if given.source.type == FILE or suffix in document_reader.FORMATS or suffix in document_reader.CODE:
        return given.name
    return f"{given.name or 'text'}.md"


def _named(given: Given, title: str) -> Given:
    """Name a text by its beginning; a later text with the same beginning replaces it."""
    name = title.replace("/", "-").strip()
    if name in ("", ".", ".."):
        raise Unreadable("a text needs a name", next="Give its `uri`, such as document://<workspace>/<name>.")
    return replace(given, name=name, source=Source(given.source.type, name))


def home(given: Given, around: Around) -> Uri:
    """The URI of the document: as requested, as stored before, or from its name."""
    workspace = around.workspace
    if given.uri is not None:
        if scheme_of(given.uri) != "document":
            raise Unreadable("the URI of a document must begin with document://", at=given.uri)
        return workspace.resolve(given.uri)
    usual = workspace.resolve(from_path("document", workspace.id, given.name))
    stored = workspace.readable(usual) if around.sees(usual) else None
    if stored is not None and stored.source == given.source:
        return usual
    elsewhere = workspace.text().by_source(given.source.type, given.source.id)
    found = next((uri for uri in elsewhere if scheme_of(uri) == "document" and around.sees(uri)), None)
    if found is not None:
        return found
    if stored is not None and not stored.is_bare:
        raise Unreadable(
            f"{usual} exists and comes from another source", next="Give the document another URI with --uri."
        )
    return usual


def is_current(given: Given, around: Around) -> bool:
    """Whether exactly these bytes have been stored completely."""
    if not given.name:
        return False
    try:
        uri = home(given, around)
    except Unreadable:
        return False
    stored = around.workspace.readable(uri) if around.sees(uri) else None
    return is_complete(stored, given.digest)


def _document(read: Text, uri: Uri, given: Given, title: str, made: list[Node], text: str) -> Node:
    tags = tuple(dict.fromkeys((*read.tags, *(tags_of(text) if read.kind == "markdown" else ()))))[:MOST_TAGS]
    data: dict[str, Any] = {
        "kind": read.format,
        STATUS: Stage.COMPLETE,
        HASH: given.digest,
        "bytes": len(given.data),
        "chunks": len(made),
    }
    data |= dict(read.about)
    if given.url:
        data["url"] = given.url
    first = (Relation(FIRST, made[0].uri, 0.5),)
    name = title if title != name_of(uri) else ""
    return Node(
        uri,
        name=name[:NAME_LIMIT],
        summary=_summary(made, title),
        tags=tags,
        data=data,
        source=given.source,
        relations=first,
    )


def _chunk(piece: Chunk, number: int, last: int, document: Uri, given: Given, around: Around) -> Node:
    uri = chunk_uri(document, number)
    chain = [Relation(PART_OF, document, 0.5)]
    if number < last:
        chain.append(Relation(NEXT, chunk_uri(document, number + 1), 0.5))
    found = relations(piece.text, given.name, document, around)
    name = cut_at_word(SEPARATOR.join(piece.heading_path), NAME_LIMIT)
    return Node(uri, name=name, content=piece.text + "\n", source=given.source, relations=(*chain, *found))


def _summary(made: list[Node], title: str) -> str:
    """The first sentence of the first text, skipping headings, tables, lists and code."""
    for node in made[:5]:
        fence = False
        for paragraph in re.split(r"\n\s*\n", node.content):
            fence ^= paragraph.count("```") % 2 == 1
            lines = dropwhile(_HEADING, paragraph.strip().split("\n"))  # text may directly follow its heading
            line = " ".join(" ".join(takewhile(lambda one: not _HEADING(one), lines)).split())
            if fence or not line or line[0] in "#|>-*+`~.:<=!{/" or line == title or not line[0].isalnum():
                continue
            line = _MARKS.sub(lambda m: m[1] or "", line)
            if len(line) < 20:
                continue
            sentence = _SENTENCE.match(line)
            first = sentence[0] if sentence else line
            return cut_at_word("".join(c if c.isprintable() else " " for c in first))
    return ""


def _without_secrets(read: Text) -> tuple[str, list[str]]:
    """The text without lines that look like secrets, which git must never contain, and a line that reports them, if
    there are any."""
    if not secret_in(read.text):
        return read.text, []
    lines = read.text.split("\n")
    count = 0
    for number, line in enumerate(lines):
        pair = "\n".join(lines[number : number + 2])
        if secret_in(line) or (secret_in(pair) and not secret_in("".join(lines[number + 1 : number + 2]))):
            lines[number] = LEFT_OUT
            count += 1
    text = "\n".join(lines)
    if secret_in(text):
        raise Unreadable("it contains text that looks like a secret", next="Remove it; git never forgets.")
    return text, [f"{count} line(s) that look like a secret were left out"]


DOCUMENT = Kind(
    name="document",
    about="a text, a page, a PDF, an office file or source code: a document node and its chunks",
    recognises=lambda name, head: True,
    take=take,
    is_current=is_current,
    from_tree=False,
)


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
TAGS = "tags"
"""Data key for the tags found in the text."""
URL = "url"
OWN = frozenset({"kind", "bytes", "chunks", "date", "author", HASH, STATUS, LAST, WRITTEN, TAGS})
"""Data keys that an ingest sets; other keys, and a URL, stay."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The nodes of one source, a document and its chunks in order. They replace the nodes of the same `source`.

    Every node carries `source`. `digest` is the SHA-256 (hex) of the bytes: if it is equal, nothing has changed.
    `trouble` has a line for each part that could not be read.
    """

    source: Source
    digest: str
    nodes: tuple[Node, ...]
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replaced:
    """The changes of a document. Without `edits` the document is already stored; the last edit is the document's."""

    edits: tuple[Edit, ...] = ()
    was_there: bool = True
    new: int = 0
    changed: int = 0
    gone: int = 0


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


def replaced(workspace: Workspace, extracted: Extracted) -> Replaced:
    """The edits that replace a stored document, and how many chunks are new, changed or gone."""
    wanted, *pieces = extracted.nodes
    stored = workspace.node(wanted.uri)
    if is_complete(stored, extracted.digest):
        return Replaced()
    old = _stored_chunks(workspace, stored, extracted.source)
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
    return Replaced(edits, stored is not None, new, changed, len(gone))


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


LINKS_TO = "links_to"
MOST_LINKS = 30
"""Largest number of links of one chunk."""
MOST_TAGS = 32
"""Largest number of tags of one document."""
WEIGHT = 0.5
IN_TEXT = {"in": "text"}
"""Marks a relation that was found in the text, not added by a user."""

# Each of these takes linear time even on hostile text.
_MARKDOWN = re.compile(r"\[[^\[\]\n]{0,500}\]\(<?([^()\s<>]{1,2000})>?(?:\s+\"[^\"\n]{0,500}\")?\)")
_URL = re.compile(r"(?<![\w:/])([a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`\[\]{}|\\^]{2,2000})")
_PATH = re.compile(
    r"(?<![\w/.:@-])((?:[\w.@+-]{1,100}/){1,20}[\w.@+-]{1,100}|[\w@+-]{1,100}\.[a-z][a-z0-9]{0,7})(?![\w/])"
)
_PERSON = re.compile(r"(?<![\w./@])@([A-Za-z][\w-]{1,38})(?![\w@]|\.\w)")
_END = ".,;:!?)'\""


def tags_of(text: str) -> list[str]:
    """The ``#tags`` of a Markdown text, each once."""
    return [tag for tag in wiki_links.tags(wiki_links.prose(text)) if len(tag) <= LABEL_LIMIT][:MOST_TAGS]


def relations(text: str, name: str, own: Uri, around: Around) -> tuple[Relation, ...]:
    """A relation to each existing node or web page that the text names; at most 30.

    `name` is the document's name, to which links are relative.
    """
    found: dict[Uri, None] = {}
    for uri in _named_in(text, name, around):
        if uri != own and around.sees(uri):
            found[uri] = None
        if len(found) == MOST_LINKS:
            break
    return tuple(Relation(LINKS_TO, uri, WEIGHT, IN_TEXT) for uri in found)


def _named_in(text: str, name: str, around: Around) -> Iterator[Uri]:
    prose = wiki_links.prose(text)
    for link in wiki_links.links(prose):
        if (target := _linked(link, name, around)) is not None:
            yield target
    for found in _MARKDOWN.finditer(prose):
        path = unquote(found[1].partition("#")[0])
        if path and "://" not in path and (uri := _beside(path, name, around)) is not None:
            yield uri
    for found in _URL.finditer(prose):
        if (uri := _uri(found[1].rstrip(_END), around)) is not None:
            yield uri
    for found in _PATH.finditer(text):  # paths in code are links too
        if (uri := _file(found[1].rstrip("."), around)) is not None:
            yield uri
    for found in _PERSON.finditer(prose):
        if (uri := _there("entity", found[1], around)) is not None:
            yield uri


def _linked(link: Link, name: str, around: Around) -> Uri | None:
    """The target of a wiki link: a document of the same run, otherwise a node with that name or path."""
    path = around.names.find(link, name)
    if path is not None:
        for ending in ("", wiki_links.NOTE):
            if path + ending in around.paths:
                return from_path("document", around.workspace.id, path + ending)
    if link.is_path:
        return None
    for scheme in ("concept", "entity", "document", "decision"):
        if (uri := _there(scheme, link.target, around)) is not None:
            return uri
    return None


def _beside(target: str, name: str, around: Around) -> Uri | None:
    """The target of a relative link: a source of the same run, a stored document, or a file of the code tree."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target)).lstrip("/")
    if path.startswith(".."):
        return None
    if path in around.paths:
        return from_path("document", around.workspace.id, path)
    return _there("document", path, around) or _file(target, around)


def _uri(text: str, around: Around) -> Uri | None:
    """A URI in the text: a web page, or an existing node."""
    try:
        uri = parse(text)
    except KgdError:
        return None
    if not is_owned(uri):
        return uri if uri.startswith(("https://", "http://")) else None
    return uri if workspace_of(uri) == around.workspace.id and around.workspace.exists(uri) else None


def _file(path: str, around: Around) -> Uri | None:
    overlay = around.workspace.overlay
    if overlay is None:
        return None
    try:
        uri = from_path("file", around.workspace.id, path.removeprefix("./"))
    except KgdError:
        return None
    return uri if overlay.card(uri) is not None else None


def _there(scheme: str, path: str, around: Around) -> Uri | None:
    try:
        uri = around.workspace.resolve(from_path(scheme, around.workspace.id, path.strip("/")))
    except KgdError:
        return None
    return uri if around.workspace.graph.card(uri) is not None else None
