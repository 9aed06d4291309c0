"""Pictures of the documents, taken by the tests of the pages: ``make pictures`` renews them.

An ordinary run writes nothing, so that no test changes the clone; it checks that the picture can be taken. `PAGES` is
the table of the pages of the realistic workspace, each taken in light, in dark and 390 pixels wide.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from math import dist
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Page
from rich.console import Console
from rich.text import Text

from tests.conftest import ROOT

FOLDER = Path(os.environ.get("KGD_PICTURES_IN", ROOT / "docs/pictures"))
WANTED = bool(os.environ.get("KGD_PICTURES"))
"""Pictures are written to `FOLDER`. Read now, because tests do not see the user's environment."""
SIZE_LIMIT = 150_000
TOTAL_LIMIT = 4_000_000
LEAST_ROWS = 8
"""Least number of different lines of pixels; an empty page has one or two."""
COLOURS, CELL = 128, 32
"""Size of a palette, and the width of a range of red, green or blue whose colours look alike."""
LOOKS = (("light", 1280, 800, "light"), ("dark", 1280, 800, "dark"), ("phone", 390, 844, "light"))
"""Name, width, height and colour scheme of each picture of a page."""


class Pictured(NamedTuple):
    """A page with pictures.

    `place` is its address below the workspace, or from the root if it begins with ``/``; ``{conflict}``, ``{proposal}``
    and ``{commit}`` stand for ids. Once it is open, `keys` are pressed, then `typed` is typed. `shows` is a text
    that is visible in an element of `within`.
    """

    name: str
    place: str
    shows: str
    keys: str = ""
    typed: str = ""
    within: str = "body"
    workspace: str = "shop"
    signed_in: bool = True


NODE = "gotcha://shop/the-provider-answers-503-after-it-has-charged"
VERSIONS = "decision://shop/round-half-to-even"
"""A fact whose lines are of three versions by three people."""
GONE = "gone"
"""A workspace that is registered just before its page is opened, and is at no place."""
PAGES = (
    Pictured("overview", "overview", "attention"),
    Pictured("search", "search?q=refund", "Refunds"),
    Pictured("palette", "overview", "Refunds", keys="Control+k", typed="refund", within="#palette-list [role=option]"),
    Pictured("file", "node?uri=file://shop/shop/payments/provider.py", "provider.py"),
    Pictured("areas", "areas", "Payments"),
    Pictured("area", "area?uri=atom://shop/payments", "The provider repeats its messages"),
    Pictured("node", f"node?uri={NODE}", "repeat with the same key"),
    Pictured("node-history", "node/history?uri=decision://shop/one-retry-with-an-idempotency-key", "third"),
    Pictured("edit", f"node/edit?uri={NODE}", "Cited code"),
    Pictured("new", "node/new?summary=Vouchers+end+at+midnight", "Similar facts"),
    Pictured("blame", f"node/lines?uri={VERSIONS}#knows-2", "Author of each line"),
    Pictured("change", "change?commit={commit}", "Revert…"),
    Pictured("broken", "broken", "Broken links"),
    Pictured("areas-folders", "areas/folders", "no area"),
    Pictured("tokens", "workspaces/tokens/mint", "Create"),
    Pictured("keys", "overview", "Next, previous row", keys="?"),
    Pictured("graph-around", "graph?from=atom://shop/payments", "Payments"),
    Pictured("graph-whole", "graph", "shop"),
    Pictured("path", f"graph?from={NODE}&to=decision://shop/one-retry-with-an-idempotency-key", "Path"),
    Pictured("conflicts", "conflicts", "One retry"),
    Pictured("conflict", "conflict?id={conflict}", "third charged"),
    Pictured("review", "review?since=2026-11-01", "Dmitri Volkov"),
    Pictured("author", "author?name=Carla+Moreno", "Carla Moreno"),
    Pictured("proposals", "proposals", "audit log"),
    Pictured("proposal", "proposal?id={proposal}", "Every movement of money"),
    Pictured("decided", "proposals?decided=1", "several orders"),
    Pictured("stale", "stale", "changed"),
    Pictured("workspaces", "workspaces", "Signed-in browsers"),
    Pictured("start", "/ui/", "136 facts"),
    Pictured("first-minute", "overview", "bookshop", workspace="bookshop"),
    Pictured("manual", "/ui/manual/concepts", "Concepts"),
    Pictured("sign-in", "overview", "Sign in", signed_in=False),
    Pictured("gone", "overview", "gone cannot be opened", workspace=GONE),
)
"""Pages of the realistic workspace. A page added to kgd needs a row here and in docs/ui.md."""

WITHOUT_FOLDER = """(folder) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "~");
}"""


def pictures_of(one: Pictured, page: Page, folder: Path) -> Iterator[Path]:
    """Take the three pictures of an open page, with ``~`` for the test's own folder, and yield their paths.

    If pictures are not wanted, only the first is taken: the tests of all pages have both themes and a phone.
    """
    for look, width, height, scheme in LOOKS if WANTED else LOOKS[:1]:
        page.evaluate(WITHOUT_FOLDER, str(folder))
        yield picture(page, f"{one.name}-{look}", width, height, scheme)


def picture(page: Page, name: str, width: int = 1200, height: int = 800, scheme: str = "light") -> Path:
    """Take a picture of a page from its top, and restore the page's size.

    Returns:
        Its path, even if nothing is written.
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
    if WANTED:
        small = with_few_colours(taken)
        assert len(small) <= SIZE_LIMIT, f"the picture {name} has {len(small)} bytes"
        FOLDER.mkdir(exist_ok=True)
        place.write_bytes(small)
    return place


TERMINAL = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font: {char_height}px monospace; white-space: pre }} {styles}</style>
<rect width="100%" height="100%" rx="8" fill="#292929"/>
<g transform="translate(16, 12)"><defs>{lines}</defs>{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def terminal_picture(printed: str, name: str, columns: int) -> str:
    """Take a picture of the text that a program printed on a terminal, and return it as SVG."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed))
    taken = console.export_svg(code_format=TERMINAL, unique_id=name)
    if WANTED:
        (FOLDER / f"{name}.svg").write_text(taken)
    return taken


def with_few_colours(png: bytes) -> bytes:
    """Return the picture with a palette of `COLOURS` of its colours; all others become the nearest one.

    Half of the palette has one colour of each hue and lightness, so that a small badge keeps its colour; the other half
    has the most frequent colours. Pillow's own reduction compares rounded colours, and would change nearly all pixels.
    """
    with Image.open(io.BytesIO(png)) as opened:
        whole = opened.convert("RGB")
    pixels = list(zip(*[iter(whole.tobytes())] * 3, strict=True))
    frequent = [colour for colour, _ in Counter(pixels).most_common()]
    distinct = {tuple(part // CELL for part in colour): colour for colour in reversed(frequent)}
    rarest_last = sorted(distinct.values(), key=frequent.index)
    palette = list(dict.fromkeys([*rarest_last[: COLOURS // 2], *frequent]))[:COLOURS]
    nearest = {colour: min(range(len(palette)), key=lambda at: dist(colour, palette[at])) for colour in frequent}
    reduced, made = Image.new("P", whole.size), io.BytesIO()
    reduced.putpalette([part for colour in palette for part in colour])
    reduced.putdata([nearest[pixel] for pixel in pixels])
    reduced.save(made, "PNG", optimize=True)
    return made.getvalue()


def size(png: bytes) -> tuple[int, int]:
    """Width and height."""
    width, height = struct.unpack_from(">II", png, 16)
    return int(width), int(height)


def rows(png: bytes) -> int:
    """Return the number of different lines of pixels."""
    data, offset = bytearray(), 8
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        if kind == b"IDAT":
            data += png[offset + 8 : offset + 8 + length]
        offset += length + 12
    pixels = zlib.decompress(data)
    width = len(pixels) // size(png)[1]
    return len({pixels[at + 1 : at + width] for at in range(0, len(pixels), width)})
