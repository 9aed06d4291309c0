"""Links, tags and people in a text, resolved to nodes of the graph."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kgd.errors import KgdError
from kgd.model import wiki_links
from kgd.model.node import LABEL_LIMIT, Relation
from kgd.model.uri import Uri, from_path, is_owned, parse, workspace_of
from kgd.model.wiki_links import Link

if TYPE_CHECKING:
    from kgd.ingest.kind import Around

LINKS_TO = "links_to"
MOST = 30
"""Largest number of links of one chunk."""
TAGS = 32
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
    return [tag for tag in wiki_links.tags(wiki_links.prose(text)) if len(tag) <= LABEL_LIMIT][:TAGS]


def relations(text: str, name: str, own: Uri, around: Around) -> tuple[Relation, ...]:
    """A relation to each existing node or web page that the text names; at most 30.

    `name` is the document's name, to which links are relative.
    """
    found: dict[Uri, None] = {}
    for uri in _named(text, name, around):
        if uri != own and around.sees(uri):
            found[uri] = None
        if len(found) == MOST:
            break
    return tuple(Relation(LINKS_TO, uri, WEIGHT, IN_TEXT) for uri in found)


def _named(text: str, name: str, around: Around) -> Iterator[Uri]:
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
