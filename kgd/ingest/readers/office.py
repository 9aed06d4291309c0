"""This file is where documents of office programs become text. Their libraries are the extra `docs`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from kgd.ingest.readers import archive, html
from kgd.ingest.readers.text import TEXT_LIMIT, Text, Unreadable, clean, one_line

LIBRARIES = {"docx": "mammoth", "xlsx": "openpyxl", "pptx": "pptx"}
MOST_ROWS, MOST_COLUMNS = 20_000, 100
"""Of one sheet."""


def require(format: str) -> None:
    """Return if documents of this format can be read here.

    Raises:
        Unreadable: The extra is not installed.
    """
    if importlib.util.find_spec(LIBRARIES[format]) is None:
        raise Unreadable(
            f".{format} needs the extra `docs`", next="Install it: `uv tool install '.[docs]'` in the clone of kgd."
        )


def read(format: str, data: bytes) -> Text:
    """What is in a document, a workbook or a set of slides.

    Raises:
        Unreadable: It is no archive, a bomb, or the extra is not installed. What else is broken in it is raised as the
            library does.
    """
    require(format)
    archive.opened(data).close()
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
                trouble.append(f"of the sheet '{one_line(sheet.title)}' only the first {number - 1} rows were read")
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
