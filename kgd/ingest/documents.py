"""Ingest of documents: a node for the document, a chain of chunks for its text, and relations to the nodes, tags and
people that the text names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Any
from urllib.parse import unquote

from kgd.errors import KgdError
from kgd.ingest import document_diff, document_reader
from kgd.ingest.chunks import MOST, Chunk, chunks
from kgd.ingest.document_diff import FIRST, HASH, NEXT, PART_OF, STATUS, Stage, chunk_uri
from kgd.ingest.kind import Around, Given, Kind, Taken
from kgd.ingest.readers import Text, Unreadable
from kgd.model import wiki_links
from kgd.model.node import LABEL_LIMIT, NAME_LIMIT, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, from_path, is_owned, name_of, parse, scheme_of, uri_at, workspace_of
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
    nodes, trouble = _extracted(given, around)
    edits, counts = document_diff.replaced(around.workspace, nodes)
    yield Taken(nodes[0].uri, tuple(document_diff.in_commits(edits)), counts, trouble)


def _extracted(given: Given, around: Around) -> tuple[list[Node], tuple[str, ...]]:
    """A document and its chunks, numbered as in a new document; and a line for each part that could not be read.

    Raises:
        Unreadable: The source cannot be read, or has no text.
    """
    read = around.reading.read(_format_name(given), given.data)
    text, trouble = _without_secrets(read)
    if not given.name:
        given = _named(given, read.title or name_from(text))
    uri = home(given, around)
    title = read.title or name_of(uri)
    pieces = chunks(text, read.kind, title) if len(text) <= MOST_CHUNKS * MOST else []
    if len(pieces) > MOST_CHUNKS or len(text) > MOST_CHUNKS * MOST:
        raise Unreadable(f"it has more than {MOST_CHUNKS:,} chunks", next="Ingest only part of it.")
    if not pieces:
        raise Unreadable("it has no text")
    made = [_chunk(piece, number, len(pieces), uri, given, around) for number, piece in enumerate(pieces, 1)]
    document = _document(read, uri, given, title, made, text)
    return [document, *made], (*read.trouble, *trouble)


def name_from(text: str) -> str:
    """The beginning of a text as the name of its document."""
    return cut_at_word(text, NAMELESS).rstrip("….")


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
    return document_diff.is_complete(stored, given.digest)


def _document(read: Text, uri: Uri, given: Given, title: str, made: list[Node], text: str) -> Node:
    tags = tuple(dict.fromkeys((*read.tags, *(tags_of(text) if read.kind == "markdown" else ()))))[:TAGS]
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
    return text, [f"lines that look like a secret were left out: {count}"]


LINKS_TO = "links_to"
MOST_LINKS = 30
"""Largest number of links of one chunk."""
TAGS = 32
"""Largest number of tags of one document."""
WEIGHT = 0.5

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
    return [tag for tag in wiki_links.tags(wiki_links.prose(text)) if len(tag) <= LABEL_LIMIT][:TAGS]


def relations(text: str, name: str, own: Uri, around: Around) -> tuple[Relation, ...]:
    """A relation to each existing node or web page that the text names; at most 30.

    `name` is the document's name, to which links are relative.
    """
    found: dict[Uri, None] = {}
    for uri in _targets(text, name, around):
        if uri != own and around.sees(uri):
            found[uri] = None
        if len(found) == MOST_LINKS:
            break
    return tuple(Relation(LINKS_TO, uri, WEIGHT, document_diff.IN_TEXT) for uri in found)


def _targets(text: str, name: str, around: Around) -> Iterator[Uri]:
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
    overlay, uri = around.workspace.overlay, uri_at("file", around.workspace.id, path.removeprefix("./"))
    return uri if overlay is not None and uri is not None and overlay.card(uri) is not None else None


def _there(scheme: str, path: str, around: Around) -> Uri | None:
    named = uri_at(scheme, around.workspace.id, path.strip("/"))
    uri = around.workspace.resolve(named) if named is not None else None
    return uri if uri is not None and around.workspace.graph.card(uri) is not None else None


DOCUMENT = Kind(
    name="document",
    about="a text, a page, a PDF, an office file or source code: a document node and its chunks",
    recognises=lambda name, head: True,
    take=take,
    is_current=is_current,
    from_tree=False,
)
