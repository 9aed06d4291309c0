"""Readers: the bytes of one format as text, Markdown if the format has headings; the result of every reader, and the
decoding of plain text.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from kgd.errors import Invalid
from kgd.model import escaping

HEAD = 8_192
"""Number of first bytes of a file in which a NUL marks a binary file."""
TEXT_LIMIT = 32 << 20
"""Largest number of characters of one document."""

_WIDE = {
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a document. `kind` is for `kgd.ingest.chunks`: markdown, code or text.

    `title`, `tags` and `about` (date, author) come from the document itself, or are empty. `trouble` has a line for
    each part that could not be read.
    """

    format: str
    kind: str
    title: str
    text: str
    tags: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    trouble: tuple[str, ...] = ()


class Unreadable(Invalid):
    """A document cannot be ingested. The message is one line for a report."""


def characters(data: bytes) -> str:
    """The text in these bytes, without control characters, lone surrogates and byte order mark.

    Raises:
        Unreadable: The bytes are not text.
    """
    wide = next((name for mark, name in _WIDE.items() if data.startswith(mark)), "")
    if not wide and b"\0" in data[:HEAD]:
        raise Unreadable("it is a binary file, despite its name")
    try:
        text = data.decode(wide or "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"it is not UTF-8 text (line {line})", next="Save it as UTF-8.") from None
    return clean(text)


def clean(text: str) -> str:
    """The text with LF line ends and without control characters; a form feed ends a paragraph."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text.replace("\f", "\n\n"))


def one_line(text: str) -> str:
    """A title on one line of at most 200 characters, without unprintable characters."""
    return escaping.one_line(text[:800])[:200].strip()
