"""The picture of ARCHITECTURE.md, drawn from the import contracts in pyproject.toml.

Each box is a room with the third-party libraries that only this room imports. A wide box, or the tooltip of a narrow
one, shows the first sentence of the room's docstring.

Usage: python scripts/architecture.py > docs/pictures/architecture.svg
"""

import ast
import math
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
WIDTH, MARGIN, LEFT, GAP, PAD = 1080, 16, 44, 8, 8
IN_A_ROW = 5
WIDE = 300
"""Least width in pixels of a box that shows its purpose."""
NAME_HEIGHT, LINE_HEIGHT = 28, 15
LETTER = 6.3
"""Width in pixels of a letter of the small text."""
STYLE = """
  .paper { fill: #fbfaf7; } .band { fill: #eceee9; } .room { fill: #ffffff; stroke: #c3c9c1; }
  text { font: 600 14px system-ui, sans-serif; fill: #1d2320; text-anchor: middle; }
  .package { font: 11px ui-monospace, monospace; fill: #1a634a; } .purpose { font: 12px system-ui, sans-serif; }
  .down { font-weight: 400; } .down, .purpose { fill: #565f59; }
  .arrow { stroke: #565f59; stroke-width: 1.5; fill: none; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #141816; } .band { fill: #1f2623; } .room { fill: #2a322e; stroke: #4a554f; }
    text { fill: #e6e9e5; } .package { fill: #7fd1b0; } .down, .purpose { fill: #a7b0aa; } .arrow { stroke: #a7b0aa; }
  }
"""


def main() -> None:
    sys.stdout.write(picture())


def picture() -> str:
    """Return the SVG."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "Layers")
    libraries = _libraries(contracts)
    drawn, top = list[str](), MARGIN
    for layer in layers:
        rooms = sorted(room.strip(" ()") for room in layer.split("|"))
        lines, height = _band(rooms, libraries, top)
        drawn += lines
        top += height + GAP
    height = top - GAP + MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The rooms of kgd, in layers; imports point down</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
            f'<path class="arrow" d="M24 {MARGIN} V{height - MARGIN} m-5 -7 l5 7 l5 -7"/>',
            f'<text class="down" transform="translate(14 {height // 2}) rotate(-90)">imports point down</text>',
            *drawn,
            "</svg>\n",
        )
    )


def _band(rooms: list[str], libraries: Mapping[str, list[str]], top: int) -> tuple[list[str], int]:
    """Draw one layer; return its elements and its height."""
    in_a_row = math.ceil(len(rooms) / math.ceil(len(rooms) / IN_A_ROW))
    width = (WIDTH - LEFT - MARGIN - 2 * PAD - (in_a_row - 1) * GAP) / in_a_row
    drawn, y = list[str](), top + PAD
    for start in range(0, len(rooms), in_a_row):
        row = rooms[start : start + in_a_row]
        texts = [_lines(room, libraries.get(room, []), width) for room in row]
        height = NAME_HEIGHT + LINE_HEIGHT * max(map(len, texts)) + 4 * any(texts)
        for at, (room, lines) in enumerate(zip(row, texts, strict=True)):
            drawn += _room(room, lines, LEFT + PAD + at * (width + GAP), y, width, height)
        y += height + GAP
    height = y - top
    band = f'<rect class="band" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - MARGIN}" height="{height}" rx="8"/>'
    return [band, *drawn], height


def _lines(room: str, libraries: list[str], width: float) -> list[tuple[str, str]]:
    """Return the lines of a box below its name, each with its class."""
    letters = int((width - 12) / LETTER)
    purpose = textwrap.wrap(_purpose(room), letters) if width >= WIDE else []
    listed = textwrap.wrap(", ".join(libraries), letters, break_long_words=False)
    return [("purpose", line) for line in purpose] + [("package", line) for line in listed]


def _room(name: str, lines: list[tuple[str, str]], x: float, y: int, width: float, height: int) -> Iterator[str]:
    middle = f"{x + width / 2:.1f}"
    yield f"<g><title>{escape(_purpose(name))}</title>"
    yield f'<rect class="room" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="5"/>'
    yield f'<text x="{middle}" y="{y + 19}">{escape(name)}</text>'
    for number, (kind, line) in enumerate(lines):
        yield f'<text class="{kind}" x="{middle}" y="{y + 36 + number * LINE_HEIGHT}">{escape(line)}</text>'
    yield "</g>"


def _libraries(contracts: list[dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return the libraries that only one room may import."""
    found: dict[str, list[str]] = {}
    for contract in contracts:
        for importer in contract.get("allowed_importers", []):
            found.setdefault(importer.split(".")[1], []).extend(contract["protected_modules"])
    return {room: sorted(set(names)) for room, names in found.items()}


def _purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    place = ROOT / "kgd" / room / "__init__.py"
    text = (
        ast.get_docstring(ast.parse((place if place.exists() else place.parent.with_suffix(".py")).read_text())) or room
    )
    return " ".join(text.replace("`", "").split()).partition(". ")[0].rstrip(".")


if __name__ == "__main__":
    main()
