"""Flame graphs as SVG, from collapsed stacks.

Width is the share of the samples. Functions that called each other are stacked, the outermost at the bottom. Callers
of one function are beside each other in alphabetical order, so that pictures of two runs can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from zlib import crc32

import kgd

WIDTH, LINE, TOP, CHARACTER = 1200, 17, 34, 6.6
LEAST = 0.004
"""Share of the samples below which a function is not drawn."""
KGD = frozenset(path.parent.name for path in Path(kgd.__file__).parent.rglob("*.py"))
"""Folders of kgd; samples name a file by its folder."""
OURS, LOOP, OTHER = 0xF2A65A, 0x9FC5E8, 0xC9DDB4
IMPORTS = "<frozen_importlib"
WAITING = ("Derived._follow", "Writer._run")
"""Functions that wait for a queue of C, so that their file does not tell."""


@dataclass(slots=True)
class Frame:
    """A function on a stack, with the samples in it and in the functions that it called."""

    samples: int = 0
    called: dict[str, Frame] = field(default_factory=dict)

    def add(self, stack: Sequence[str], count: int) -> None:
        frame = self
        frame.samples += count
        for name in stack:
            frame = frame.called.setdefault(name, Frame())
            frame.samples += count

    def depth(self, least: float) -> int:
        return 1 + max((one.depth(least) for one in self.called.values() if one.samples >= least), default=0)


def read(lines: Iterable[str], *, below: str = "") -> Frame:
    """The samples of a file of collapsed stacks.

    Args:
        below: Part of a function's name. Stacks without it are left out, and the others begin with it.
    """
    root = Frame()
    for line in lines:
        joined, _, count = line.strip().rpartition(" ")
        thread, *stack = (name for name in joined.split(";") if not name.startswith(IMPORTS))
        if stack and stack[-1].endswith(WAITING):
            continue
        start = next((at for at, name in enumerate(stack) if below in name), None)
        if stack and start is not None:
            root.add(stack[start:] if below else [thread.rstrip("0123456789_-"), *stack], int(count))
    return root


def picture(root: Frame, title: str) -> str:
    """The SVG. Its text can be searched, and a pointer shows the full name and the share."""
    least = max(1.0, LEAST * root.samples)
    height = TOP + LINE * root.depth(least)
    box = f'viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="20" font-size="14">{escape(title)}: {root.samples:,} samples</text>',
    ]
    _draw(parts, root, root.samples, 0.0, height - LINE, least)
    return "\n".join([*parts, "</svg>", ""])


def _draw(parts: list[str], frame: Frame, total: int, x: float, y: int, least: float) -> None:
    for name, one in sorted(frame.called.items()):
        width = WIDTH * one.samples / max(total, 1)
        if one.samples >= least:
            share = f"{name}: {100 * one.samples / total:.1f} %"
            shown = name.removesuffix(":<module>") if name.endswith(":<module>") else name.rpartition(":")[2]
            room = int((width - 4) / CHARACTER)
            shown = shown if len(shown) <= room else shown[: room - 1] + "…" if room > 2 else ""
            parts.append(
                f'<g><title>{escape(share)}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.5):.1f}" '
                f'height="{LINE - 1}" fill="#{_colour(name)}"/>'
                + (f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else "")
                + "</g>"
            )
            _draw(parts, one, total, x, y - LINE, least)
        x += width


def _colour(name: str) -> str:
    """Orange for kgd, blue for the event loop, green for the rest; a little different for each function."""
    folder = name.partition("/")[0]
    base = OURS if folder in KGD else LOOP if folder == "asyncio" else OTHER
    shift = crc32(name.encode()) % 24
    return "".join(f"{max(0, (base >> at & 255) - shift):02x}" for at in (16, 8, 0))
