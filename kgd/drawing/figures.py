"""Figures: the form of a node with its marks, and the circle of a group with its composition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from html import escape
from math import cos, pi, sin, sqrt

from kgd.drawing.looks import COLOURS, OUTLINES, Form, look_of
from kgd.drawing.scene import Dot, Mark
from kgd.model.escaping import fenced

PAPER, INK, QUIET, FAINT, GROUP = "#ffffff", "#1d2320", "#565f59", "#c3c8c2", "#dfe9e3"
RED, AMBER, BLUE = "#a3231b", "#7d5400", "#2f5c9e"
LARGEST_SHAPE = 7.0
"""Radius of the largest shape in the circle of a group, and of a shape in a legend."""
HUES: Mapping[Mark, str] = {"conflict": RED, "unverified": AMBER, "proposed": BLUE}
"""Fill colours of the marks that need attention."""
GOLDEN = pi * (3 - sqrt(5))
SIGNS: Mapping[Mark, str] = {"conflict": "!", "unverified": "?", "proposed": "+", "foreign": "↗"}
"""Signs next to a dot, so that a mark is not shown only by colour."""
PLACES: Mapping[Mark, tuple[int, int]] = {
    "conflict": (1, -1),
    "unverified": (-1, -1),
    "proposed": (-1, 1),
    "foreign": (1, 1),
}
"""The corner of a dot that has the sign: steps to the right and down."""


def figure(dot: Dot, size: float, share: float = 1.0) -> str:
    """The form of the dot's type, with its marks."""
    marks = "".join(_sign(mark, size) for mark in dot.marks)
    if dot.shape == "missing":
        colour = RED if "missing" in dot.marks else AMBER
        kind = "missing" if "missing" in dot.marks else "unreachable"
        look = f'class="figure {kind}" fill="{PAPER}" stroke="{colour}" stroke-width="1.8" stroke-dasharray="3 1.5"'
        return f'<path d="M0 -7l7 7l-7 7l-7 -7z" {look}/>{marks}'
    if dot.shape == "group":
        look = f'class="figure bubble" fill="{PAPER}" stroke="{FAINT}"'
        return f'<circle r="{size:g}" {look}/>{_parts(dot, size, share)}'
    form = look_of(dot.type, dot.tone)
    look = f'class="figure {form.hue}" {_kind(dot.type, dot.tone)}'
    if form.form == "circle":
        return f'<circle r="{size:g}" {look}/>{marks}'
    corners = " ".join(f"{size * right:.1f},{size * down:.1f}" for right, down in OUTLINES[form.form])
    return f'<polygon points="{corners}" {look}/>{marks}'


def _parts(dot: Dot, size: float, share: float) -> str:
    """A shape for each node of a group, or for some of each type, from the centre outward; circles for classes. A group
    of areas also has a second ring."""
    counts = [(kind, max(1, round(count * share))) for kind, count in dot.parts]
    step = (size - LARGEST_SHAPE - 3) / sqrt(max(3, sum(count for _, count in counts)))
    drawn, number = [], 0
    for kind, count in counts:
        places = [(step * sqrt(n + 0.5), n * GOLDEN) for n in range(number, number + count)]
        number += count
        type, tone = ("", kind) if dot.tone else (kind, "")
        look = look_of(type, tone)
        shape = partial(_outline, look.form, min(LARGEST_SHAPE, step * 0.55))
        outlines = "".join(shape(away * cos(angle), away * sin(angle)) for away, angle in places)
        drawn.append(f'<path class="{look.hue}" {_kind(type, tone)} d="{outlines}"/>')
    if dot.type == "molecule":
        drawn.insert(0, f'<circle class="ring" r="{size - 4:g}" fill="none" stroke="{FAINT}"/>')
    return f'<g class="parts">{"".join(drawn)}</g>' if drawn else ""


def _outline(form: Form, size: float, x: float, y: float) -> str:
    """The path of a form."""
    if form == "circle":
        half = f"a{size:.1f} {size:.1f} 0 0 0"
        return f"M{x - size:.1f} {y:.1f}{half} {2 * round(size, 1):g} 0{half} {-2 * round(size, 1):g} 0"
    return f"M{'L'.join(f'{x + size * right:.1f} {y + size * down:.1f}' for right, down in OUTLINES[form])}z"


def _kind(type: str, tone: str) -> str:
    """The attributes of a shape that depend on its type, or on its class."""
    return f'fill="{COLOURS[look_of(type, tone).hue]}" data-type="{escaped(tone or type)}"'


def _sign(mark: Mark, size: float) -> str:
    if mark in ("start", "foreign"):
        dashed = ' stroke-dasharray="2 2"' if mark == "foreign" else ""
        away = 4 if mark == "start" else 6
        ring = f'<circle r="{size + away:g}" fill="none" stroke="{INK}"{dashed} class="mark"/>'
    else:
        ring = ""
    if mark not in SIGNS:
        return ring
    fill, ink = (HUES[mark], PAPER) if mark in HUES else (PAPER, INK)
    off = max(7.0, size * 0.8)
    across, down = PLACES[mark]
    x, y = across * (off + 1), down * off
    return (
        f'{ring}<g class="mark {mark}"><circle cx="{x:g}" cy="{y:g}" r="5.5" fill="{fill}" stroke="{ink}"/>'
        f'<text x="{x:g}" y="{y + 3.5:g}" text-anchor="middle" font-size="10" font-weight="700" '
        f'fill="{ink}">{SIGNS[mark]}</text></g>'
    )


def escaped(text: str) -> str:
    """Escape text for any place in a file: XML does not allow most invisible characters."""
    shown = fenced(text)
    return escape(
        "".join("\ufffd" if ord(c) in (0xFFFE, 0xFFFF) else c for c in shown) if not shown.isascii() else shown
    )
