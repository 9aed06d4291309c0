"""Pictures of the documents, taken by the tests of the pages: ``make pictures`` renews them.

An ordinary run writes nothing, so that no test changes the clone; it checks that the picture can be taken.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from playwright.sync_api import Page

from tests.conftest import ROOT

FOLDER = ROOT / "docs/pictures"
WANTED = bool(os.environ.get("KGD_PICTURES"))
"""Pictures are written to `FOLDER`. Read now, because tests do not see the user's environment."""
SIZE_LIMIT = 150_000
LEAST_ROWS = 8
"""Least number of different lines of pixels; an empty page has one or two."""


def picture(page: Page, name: str, width: int = 1200, height: int = 800, scheme: str = "light") -> Path:
    """Take a picture of a page from its top, and restore the page's size.

    Returns:
        Where it is, or would be.
    """
    place = FOLDER / f"{name}.png"
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.evaluate("document.fonts.ready")
    taken = page.screenshot(animations="disabled", caret="hide", scale="css")
    if before:
        page.set_viewport_size(before)
    assert size(taken) == (width, height)
    assert rows(taken) >= LEAST_ROWS, f"the picture {name} shows nothing"
    assert len(taken) <= SIZE_LIMIT, f"the picture {name} has {len(taken)} bytes"
    if WANTED:
        FOLDER.mkdir(exist_ok=True)
        place.write_bytes(taken)
    return place


def size(png: bytes) -> tuple[int, int]:
    """Width and height."""
    width, height = struct.unpack_from(">II", png, 16)
    return int(width), int(height)


def rows(png: bytes) -> int:
    """Return the number of different compressed lines of pixels; they are equal in a picture of one colour."""
    data, offset = bytearray(), 8
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        if kind == b"IDAT":
            data += png[offset + 8 : offset + 8 + length]
        offset += length + 12
    pixels = zlib.decompress(data)
    width = len(pixels) // size(png)[1]
    return len({pixels[at + 1 : at + width] for at in range(0, len(pixels), width)})
