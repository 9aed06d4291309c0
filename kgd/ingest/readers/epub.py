"""This file is where an electronic book becomes text: the pages of its archive, in the order of its spine."""

from __future__ import annotations

import posixpath
import zipfile
from urllib.parse import unquote
from xml.etree import ElementTree

from kgd.ingest.readers import archive, html
from kgd.ingest.readers.text import TEXT_LIMIT, Text, Unreadable, clean, one_line

CONTAINER = "META-INF/container.xml"
PAGE_LIMIT = 16 << 20


def read(data: bytes) -> Text:
    """The text of a book.

    Raises:
        Unreadable: It is broken, or a bomb.
    """
    with archive.opened(data) as book:
        try:
            place = _root(book, CONTAINER).find(".//{*}rootfile")
            package_path = place.get("full-path", "") if place is not None else ""
            package = _root(book, package_path)
        except (*archive.BROKEN, KeyError, ElementTree.ParseError, RecursionError):
            raise Unreadable("it is no sound book: its list of pages cannot be read") from None
        named = package.find(".//{http://purl.org/dc/elements/1.1/}title")
        pages = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}manifest/{*}item")}
        out: list[str] = []
        broken = length = 0
        for step in package.iterfind(".//{*}spine/{*}itemref"):
            path = posixpath.normpath(
                posixpath.join(posixpath.dirname(package_path), unquote(pages.get(step.get("idref")) or ""))
            )
            try:
                text, _ = html.markdown(clean(_bytes(book, path).decode("utf-8", "replace")))
            except (*archive.BROKEN, KeyError):
                broken += 1
                continue
            out.append(text)
            length += len(text)
            if length > TEXT_LIMIT:
                break
    trouble = (f"{broken} of its pages could not be read",) if broken else ()
    title = one_line(named.text or "") if named is not None else ""
    return Text("epub", "markdown", title, "\n".join(out), trouble=trouble)


def _root(book: zipfile.ZipFile, path: str) -> ElementTree.Element:
    return ElementTree.fromstring(_bytes(book, path))


def _bytes(book: zipfile.ZipFile, path: str) -> bytes:
    with book.open(path) as file:
        return file.read(PAGE_LIMIT)
