"""Text of office documents and e-books, which are zip archives, and of PDFs.

The office libraries are the extra `docs`. A library is imported only for a document of its format.
"""

from __future__ import annotations

import importlib.util
import logging
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from kgd.ingest.readers import TEXT_LIMIT, Text, Unreadable, clean, html, one_line

LIBRARIES = {"docx": "mammoth", "xlsx": "openpyxl", "pptx": "pptx"}
CONTAINER = "META-INF/container.xml"
PAGE_LIMIT = 16 << 20
MOST_FILES = 10_000
MOST_BYTES = 256 << 20
"""Largest unpacked size of all files of an archive together."""
MOST_PAGES = 5_000
MOST_ROWS, MOST_COLUMNS = 20_000, 100
"""Limits of one sheet."""

_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_INVALID = (
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
"""Other errors that the library for PDFs raises for invalid files."""
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


def require(format: str) -> None:
    """Check that the libraries for documents of this format are installed.

    Raises:
        Unreadable: The extra is not installed.
    """
    if importlib.util.find_spec(LIBRARIES[format]) is None:
        raise Unreadable(
            f".{format} needs the extra `docs`", next="Install it: `uv tool install '.[docs]'` in the clone of kgd."
        )


def read(format: str, data: bytes) -> Text:
    """The text of a document, a workbook or a presentation.

    Raises:
        Unreadable: The file is not an archive or is too large, or the extra is missing. Other errors come from the
            library.
    """
    require(format)
    _opened(data).close()
    return {"docx": _document, "xlsx": _workbook, "pptx": _slides}[format](data)


def _document(data: bytes) -> Text:
    import mammoth

    without_pictures = mammoth.images.img_element(lambda image: {"src": ""})
    found = mammoth.convert_to_html(BytesIO(data), convert_image=without_pictures)
    text, heading = html.markdown(clean(found.value))
    return Text("docx", "markdown", heading, text)


def _workbook(data: bytes) -> Text:
    import openpyxl

    book = openpyxl.load_workbook(BytesIO(data), read_only=True, data_only=True)
    out: list[str] = []
    trouble: list[str] = []
    length = 0
    for sheet in book.worksheets:
        rows: list[str] = []
        for number, row in enumerate(sheet.iter_rows(values_only=True, max_col=MOST_COLUMNS), 1):
            if number > MOST_ROWS or length > TEXT_LIMIT:
                trouble.append(f"only the first {number - 1} rows of the sheet '{one_line(sheet.title)}' were read")
                break
            if line := _row(row):
                rows.append(line)
                length += len(line)
        if rows:
            out.append(f"## {one_line(sheet.title)}\n\n" + "\n".join(rows) + "\n")
    return Text(
        "xlsx", "markdown", one_line(book.properties.title or ""), clean("\n".join(out)), trouble=tuple(trouble)
    )


def _row(values: Iterable[Any]) -> str:
    cells = ["" if value is None else " ".join(str(value).split()).replace("|", "/") for value in values]
    while cells and not cells[-1]:
        cells.pop()
    return f"| {' | '.join(cells)} |" if cells else ""


def _slides(data: bytes) -> Text:
    import pptx

    show = pptx.Presentation(BytesIO(data))
    out: list[str] = []
    called = one_line(show.core_properties.title or "")
    for number, slide in enumerate(show.slides, 1):
        shape = slide.shapes.title
        title = one_line(shape.text_frame.text) if shape is not None and shape.has_text_frame else ""
        called = called or title
        texts = [text for one in slide.shapes if one != shape for text in _of_shape(one)]
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
            texts.append(f"Notes: {frame.text.strip()}")
        out.append(f"## Slide {number}{f': {title}' if title else ''}\n\n" + "\n\n".join(texts) + "\n")
    text = clean("\n".join(out)[: 2 * TEXT_LIMIT])
    return Text("pptx", "markdown", called, text)


def _of_shape(shape: Any) -> Iterator[str]:
    if shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text.strip()
    elif getattr(shape, "has_table", False) and shape.has_table:
        yield "\n".join(filter(None, (_row(cell.text for cell in row.cells) for row in shape.table.rows)))


def read_book(data: bytes) -> Text:
    """The text of an EPUB: its pages in the order of the spine.

    Raises:
        Unreadable: The book is broken or too large.
    """
    with _opened(data) as book:
        try:
            place = _root(book, CONTAINER).find(".//{*}rootfile")
            package_path = place.get("full-path", "") if place is not None else ""
            package = _root(book, package_path)
        except (*_BROKEN, KeyError, ElementTree.ParseError, RecursionError):
            raise Unreadable("it is not a valid book: its list of pages cannot be read") from None
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
            except (*_BROKEN, KeyError):
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


def _opened(data: bytes) -> zipfile.ZipFile:
    """The archive, if its list of files stays within the limits. The library reads no file beyond its listed size.

    Raises:
        Unreadable: The file is not an archive, or is too large.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        files = archive.infolist()
    except _BROKEN:
        raise Unreadable("it is not a valid archive") from None
    if len(files) > MOST_FILES:
        raise Unreadable(f"it contains more than {MOST_FILES:,} files")
    if sum(file.file_size for file in files) > MOST_BYTES:
        raise Unreadable(f"its unpacked size is more than {MOST_BYTES >> 20} MiB")
    return archive


def read_pdf(data: bytes) -> Text:
    """The text of all pages of a PDF, under a heading for each.

    Raises:
        Unreadable: The file is broken, has a password, or contains no text.
    """
    import pypdf
    from pypdf.errors import PyPdfError

    errors = (PyPdfError, *_INVALID)
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it has a password")
        count = len(reader.pages)
        stated = reader.metadata.title if reader.metadata else None
    except errors:
        raise Unreadable("it is not a valid PDF") from None
    pages: list[str] = []
    trouble: list[str] = []
    length = broken = 0
    for number in range(min(count, MOST_PAGES)):
        try:
            text = clean(reader.pages[number].extract_text()).strip()
        except errors:
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
