"""SVG: a scene as a standalone file, or as part of a page.

Attributes define the appearance, so that a file needs nothing else; a page may override them with styles. All text is
escaped, and invisible characters are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from math import cos, pi, sin

from kgd.drawing.layout import LONGEST, OFF, Label, Layout, Point, Ring, layout_dots, place_labels
from kgd.drawing.scene import MEANINGS, Dot, Line, Mark, Scene, Shape
from kgd.model.escaping import fenced

PAPER, INK, QUIET, FAINT = "#ffffff", "#1d2320", "#565f59", "#d5d8d2"
FILL: Mapping[Shape, str] = {"knowledge": "#1a634a", "code": "#69736d", "area": "#2f5c9e", "group": "#b7c9bf"}
RED, AMBER = "#a3231b", "#7d5400"
MARGIN = 24.0
SIGNS: Mapping[Mark, str] = {"conflict": "!", "unverified": "?", "foreign": "↗"}
"""Signs next to a dot, so that a mark is not shown only by colour."""

Leads = Callable[[Dot], str]
"""Returns the address that a dot links to; empty if it has no link."""


def draw(scene: Scene, *, leads: Leads = lambda dot: "", title: str = "", alone: bool = False) -> str:
    """The picture. Its size depends on its dots; `viewBox` is the visible part.

    Args:
        alone: Whether it is a separate file, with a background.
    """
    layout = layout_dots(scene.dots)
    labels = place_labels(scene.dots, layout)
    left, top, wide, high = _frame(layout, labels)
    view = f"{left:g} {top:g} {wide:g} {high:g}"
    name = f"<title>{_text(title)}</title>" if title and alone else ""
    begin = f'xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}"' if alone else 'id="drawing"'
    said = f' aria-label="{_text(title)}"' if title else ""
    paper = f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" fill="{PAPER}"/>' if alone else ""
    return "".join(
        [
            f'<svg {begin} viewBox="{view}" role="group"{said} class="drawing" font-family="system-ui, sans-serif" '
            f'font-size="12">{name}{paper}',
            '<g class="rings" fill="none" aria-hidden="true">',
            *(_ring(ring, scene.is_measured) for ring in layout.rings),
            "</g>",
            '<g class="lines" fill="none" aria-hidden="true">',
            *(_line(line, layout) for line in reversed(scene.lines)),
            "</g>",
            *(_dot(dot, layout.points[dot.uri], labels[dot.uri], leads(dot)) for dot in scene.dots),
            "</svg>",
        ]
    )


def description(dot: Dot) -> str:
    """A dot in words: name, type, distance and marks."""
    kind = f", {dot.type}" if dot.type else ""
    marks = "".join(f"; {MEANINGS[mark]}" for mark in dot.marks)
    return f"{dot.name or dot.uri}{kind}, {dot.told or f'at cost {dot.cost:g}'}{'' if dot.told else marks}"


def sample(shape: Shape, marks: tuple[Mark, ...] = ()) -> str:
    """A single dot, for a legend."""
    dot = Dot("", "", "", 0.0, "-", shape, "", marks)
    return (
        f'<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true">{_figure(dot, Point(0, 0, 0))}</svg>'
    )


def _frame(layout: Layout, labels: Mapping[str, Label]) -> tuple[float, float, float, float]:
    """The visible area: dots, rings and the labels shown at first."""
    sides = [ring.radius for ring in layout.rings[-1:]] or [60.0]
    far = max(sides[0], layout.radius)
    left, right = -far, far
    for uri, label in labels.items():
        if label.size == 1:
            x = layout.points[uri].x
            reach = min(len(label.text), LONGEST) * 6.8 + OFF
            left, right = min(left, x - reach * label.on_left), max(right, x + reach * (not label.on_left))
    return left - MARGIN, -far - MARGIN, right - left + 2 * MARGIN, 2 * (far + MARGIN)


def _ring(ring: Ring, is_measured: bool) -> str:
    circle = f'<circle r="{ring.radius:g}" stroke="{FAINT}" stroke-dasharray="2 4"/>'
    if not is_measured:
        return circle
    return (
        f'{circle}<text y="{-ring.radius - 4:g}" text-anchor="middle" fill="{QUIET}" stroke="none" font-size="11">'
        f"{ring.label}</text>"
    )


def _line(line: Line, layout: Layout) -> str:
    a, b = layout.points[line.source], layout.points[line.target]
    look = f'stroke="{QUIET}" stroke-opacity=".6"' if line.is_path else f'stroke="{FAINT}"'
    dashed = "" if line.types else ' stroke-dasharray="4 3"'
    kind = ' class="path"' if line.is_path else ""
    return f'<path{kind} d="M{a.x:g} {a.y:g}L{b.x:g} {b.y:g}" {look}{dashed}/>'


def _dot(dot: Dot, point: Point, label: Label, leads: str) -> str:
    said = _text(description(dot))
    # Users of voice control say the visible text, so it is part of the name.
    cut = f", shown as {_text(label.text)}" if label.text.endswith("…") else ""
    href = f' href="{_text(leads)}" aria-label="{said}{cut}"' if leads else ""
    tag = "a" if leads else "g"
    more = f"\n{dot.summary[:200]}" if dot.summary else ""
    return (
        f'<{tag}{href} class="dot" data-uri="{_text(dot.uri)}"><title>{said}{_text(more)}</title>'
        f"{_figure(dot, point)}{_label(dot, point, label)}</{tag}>"
    )


def _figure(dot: Dot, point: Point) -> str:
    """A circle, square, hexagon or diamond, depending on the shape, with its marks."""
    x, y, size = point.x, point.y, 8.0 if "start" in dot.marks else dot.size
    marks = "".join(_sign(mark, x, y, size) for mark in dot.marks)
    if dot.shape == "missing":
        colour = RED if "missing" in dot.marks else AMBER
        kind = "missing" if "missing" in dot.marks else "unreachable"
        look = f'class="figure {kind}" fill="{PAPER}" stroke="{colour}" stroke-width="1.8" stroke-dasharray="3 1.5"'
        return f'<path d="M{x:g} {y - 7:g}l7 7l-7 7l-7 -7z" {look}/>{marks}'
    look = f'class="figure {dot.shape}" fill="{FILL[dot.shape]}"'
    if dot.shape == "code":
        side = f'width="{2 * size:g}" height="{2 * size:g}"'
        return f'<rect x="{x - size:g}" y="{y - size:g}" {side} rx="1.5" {look}/>{marks}'
    if dot.shape == "area":
        corners = " ".join(
            f"{x + 1.25 * size * cos(n * pi / 3):.1f},{y + 1.25 * size * sin(n * pi / 3):.1f}" for n in range(6)
        )
        return f'<polygon points="{corners}" {look}/>{marks}'
    return f'<circle cx="{x:g}" cy="{y:g}" r="{size:g}" {look}/>{marks}'


def _sign(mark: Mark, x: float, y: float, size: float) -> str:
    if mark in ("start", "foreign"):
        dashed = ' stroke-dasharray="2 2"' if mark == "foreign" else ""
        away = 4 if mark == "start" else 6
        ring = f'<circle cx="{x:g}" cy="{y:g}" r="{size + away:g}" fill="none" stroke="{INK}"{dashed} class="mark"/>'
    else:
        ring = ""
    if mark not in SIGNS:
        return ring
    colour = RED if mark == "conflict" else AMBER if mark == "unverified" else INK
    right, down = {"conflict": (7, -6), "unverified": (-7, -6), "foreign": (7, 7)}[mark]
    x, y = x + right, y + down
    return (
        f'{ring}<g class="mark {mark}"><circle cx="{x:g}" cy="{y:g}" r="5" fill="{PAPER}" stroke="{colour}"/>'
        f'<text x="{x:g}" y="{y + 3.2:g}" text-anchor="middle" font-size="9" font-weight="700" '
        f'fill="{colour}">{SIGNS[mark]}</text></g>'
    )


def _label(dot: Dot, point: Point, label: Label) -> str:
    away = OFF + max(dot.size - 5.5, 4 if dot.marks else 0)
    x = point.x - away if label.on_left else point.x + away
    anchor = ' text-anchor="end"' if label.on_left else ""
    hidden = "" if label.size == 1 else ' display="none"'
    look = f'fill="{INK}"' + (' font-weight="600"' if "start" in dot.marks else "")
    place = f'x="{x:g}" y="{point.y:g}" dy=".35em"{anchor}'
    return f'<text {place} class="at{label.size}" {look}{hidden}>{_text(label.text)}</text>'


def _text(text: str) -> str:
    """Escape text for any place in a file: XML does not allow most invisible characters."""
    shown = fenced(text)
    return escape(
        "".join("\ufffd" if ord(c) in (0xFFFE, 0xFFFF) else c for c in shown) if not shown.isascii() else shown
    )
