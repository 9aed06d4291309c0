"""This file is where the value is defined that every reader gives, and where plain bytes become characters."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from kgd.errors import Invalid

HEAD = 8_192
"""Bytes in which a NUL tells what is no text."""
TEXT_LIMIT = 32 << 20
"""Characters that one document may have."""

_WIDE = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF32_LE: "utf-32",
         codecs.BOM_UTF32_BE: "utf-32"}  # fmt: skip
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Text:
    """What is in a document. `kind` is what `kgd.ingest.chunks` takes: markdown, code or text.

    `title` is empty where the document says none. `tags` and `about` (date, author) are what it says of itself.
    `trouble` has a line for each part that could not be read.
    """

    format: str
    kind: str
    title: str
    text: str
    tags: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    trouble: tuple[str, ...] = ()


class Unreadable(Invalid):
    """A document cannot be taken in; the message says why, in words for a line of a report."""


def characters(data: bytes) -> str:
    """The text of bytes, without what no text holds: controls, half characters, a mark of byte order.

    Raises:
        Unreadable: They are no text.
    """
    wide = next((name for mark, name in _WIDE.items() if data.startswith(mark)), "")
    if not wide and b"\0" in data[:HEAD]:
        raise Unreadable("it is binary and no text, whatever its name says")
    try:
        text = data.decode(wide or "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"it is no UTF-8 text (line {line})", next="Save it as UTF-8.") from None
    return clean(text)


def clean(text: str) -> str:
    """The text with plain line ends, and without controls: a form feed ends a paragraph, others are left out."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text.replace("\f", "\n\n"))


def one_line(text: str, limit: int = 200) -> str:
    """A title on one line, without what is not seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())[:limit].strip()
