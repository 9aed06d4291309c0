"""Text of a PDF, page by page."""

from __future__ import annotations

import logging
import re
from io import BytesIO

import pypdf
from pypdf.errors import PyPdfError

from kgd.ingest.readers import TEXT_LIMIT, Text, Unreadable, clean, one_line

MOST_PAGES = 5_000
_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BROKEN = (
    PyPdfError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    ZeroDivisionError,
    OverflowError,
)
"""Errors that the library raises for invalid files."""


def read(data: bytes) -> Text:
    """The text of all pages, under a heading for each.

    Raises:
        Unreadable: The file is broken, has a password, or contains no text.
    """
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it has a password")
        count = len(reader.pages)
        stated = reader.metadata.title if reader.metadata else None
    except _BROKEN:
        raise Unreadable("it is not a valid PDF") from None
    pages: list[str] = []
    trouble: list[str] = []
    length = broken = 0
    for number in range(min(count, MOST_PAGES)):
        try:
            text = clean(reader.pages[number].extract_text()).strip()
        except _BROKEN:
            broken += 1
            continue
        if text:
            pages.append(f"## Page {number + 1}\n\n{_HYPHEN.sub('', text)}\n")
            length += len(text)
        if length > TEXT_LIMIT:
            trouble.append(
                f"only its first {number + 1} pages were read: it has more than {TEXT_LIMIT >> 20} MiB of text"
            )
            break
    if broken:
        trouble.append(f"{broken} of {count} pages could not be read")
    if count > MOST_PAGES:
        trouble.append(f"only the first {MOST_PAGES:,} of {count:,} pages were read")
    if not pages:
        raise Unreadable("it has no text; scanned pages are only pictures")
    title = one_line(stated) if isinstance(stated, str) else ""
    return Text("pdf", "markdown", title, "\n".join(pages), trouble=tuple(trouble))
