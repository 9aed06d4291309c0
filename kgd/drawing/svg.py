"""SVG: a scene as a standalone file, or as part of a page.

Attributes define the appearance, so that a file needs nothing else; a page may override them with styles. All text is
escaped, and invisible characters are written out. Each dot is a group at its place, and each line names the numbers of
its dots, so that a script can move them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from math import cos, hypot, pi, sin

from kgd.drawing.labels import TEXT, Label, box, middle, place_labels, radius
from kgd.drawing.layout import Layout, Ring, layout_scene
from kgd.drawing.looks import COLOURS, Form, look_of
from kgd.drawing.scene import MEANINGS, Dot, Line, Mark, Scene
from kgd.model.escaping import fenced

PAPER, INK, QUIET, FAINT, GROUP = "#ffffff", "#1d2320", "#565f59", "#c3c8c2", "#dfe9e3"
RED, AMBER = "#a3231b", "#7d5400"
MARGIN = 24.0
ARROW = 7.0
CORNERS: Mapping[Form, tuple[int, float, float]] = {
    "triangle": (3, -pi / 2, 1.35),
    "wedge": (3, pi / 2, 1.35),
    "square": (4, pi / 4, 1.3),
    "diamond": (4, 0.0, 1.3),
    "pentagon": (5, -pi / 2, 1.2),
    "hexagon": (6, 0.0, 1.2),
}
"""For each form with corners: their number, the angle of the first one, and its distance by the radius of a circle that
looks equally large."""
SIGNS: Mapping[Mark, str] = {"conflict": "!", "unverified": "?", "foreign": "↗"}
"""Signs next to a dot, so that a mark is not shown only by colour."""

Leads = Callable[[Dot], str]
"""Returns the address that a dot links to; empty if it has no link."""


def draw(
    scene: Scene, *, leads: Leads = lambda dot: "", title: str = "", alone: bool = False, selected: str = ""
) -> str:
    """The picture. Its units are pixels, and `viewBox` is the visible part.

    Args:
        alone: Whether it is a separate file, with a background.
        selected: The URI of the node that the page describes.
    """
    layout = layout_scene(scene)
    labels = place_labels(scene.dots, layout)
    left, top, wide, high = _frame(scene, layout, labels)
    name = f"<title>{_text(title)}</title>" if title and alone else ""
    begin = 'xmlns="http://www.w3.org/2000/svg"' if alone else f'id="drawing" data-arrangement="{scene.arrangement}"'
    said = f' aria-label="{_text(title)}"' if title else ""
    paper = f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" fill="{PAPER}"/>' if alone else ""
    opened = [dot for dot in scene.dots if layout.sizes.get(dot.uri, 0) > dot.size]
    others = [dot for dot in scene.dots if layout.sizes.get(dot.uri, 0) <= dot.size]
    ends = {dot.uri: (number, radius(dot, layout)) for number, dot in enumerate([*opened, *others])}
    return "".join(
        [
            f'<svg {begin} width="{wide:g}" height="{high:g}" viewBox="{left:g} {top:g} {wide:g} {high:g}" '
            f'role="group"{said} class="drawing" font-family="system-ui, sans-serif" font-size="{TEXT}">{name}{paper}',
            f"<defs>{_arrow('arrow', FAINT)}{_arrow('arrow-path', QUIET)}</defs>",
            '<g class="rings" fill="none" aria-hidden="true">',
            *map(_ring, layout.rings),
            "</g>",
            *(_dot(dot, layout, labels[dot.uri], leads(dot), is_open=True) for dot in opened),
            '<g class="lines" fill="none" aria-hidden="true">',
            *(_line(line, layout, ends) for line in reversed(scene.lines)),
            "</g>",
            *(_dot(dot, layout, labels[dot.uri], leads(dot), is_selected=dot.uri == selected) for dot in others),
            "</svg>",
        ]
    )


def description(dot: Dot) -> str:
    """A dot in words: name, type, distance and marks."""
    kind = f", {dot.type}" if dot.type else ""
    marks = "".join(f"; {MEANINGS[mark]}" for mark in dot.marks)
    return f"{dot.name or dot.uri}{kind}, {dot.told or f'at cost {dot.cost:g}'}{'' if dot.told else marks}"


def sample(type: str, marks: tuple[Mark, ...] = ()) -> str:
    """A single dot of a type, for a legend."""
    missing = bool({"missing", "unreachable"} & set(marks))
    dot = Dot("", "", type, 0.0, "-", "missing" if missing else "node", "", marks)
    return f'<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true">{_figure(dot, dot.size)}</svg>'


def _frame(scene: Scene, layout: Layout, labels: Mapping[str, Label]) -> tuple[float, float, float, float]:
    """The visible area: dots, rings and the labels shown at first."""
    edges = [(-ring.radius, -ring.radius, ring.radius, ring.radius) for ring in layout.rings[-1:]]
    for dot in scene.dots:
        point, half, label = layout.points[dot.uri], radius(dot, layout), labels[dot.uri]
        edges.append((point.x - half, point.y - half, point.x + half, point.y + half))
        if label.size == 1:
            edges.append(box(dot, layout, label.text, label.side))
    lefts, tops, rights, bottoms = zip(*edges or [(-60.0, -60.0, 60.0, 60.0)], strict=True)
    left, top = round(min(lefts) - MARGIN, 1), round(min(tops) - MARGIN, 1)
    return left, top, round(max(rights) + MARGIN - left, 1), round(max(bottoms) + MARGIN - top, 1)


def _arrow(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{ARROW:g}" markerHeight="{ARROW:g}" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 .5L8 4L0 7.5z" fill="{colour}"/></marker>'
    )


def _ring(ring: Ring) -> str:
    return (
        f'<ellipse rx="{ring.radius:g}" ry="{ring.radius:g}" stroke="{FAINT}" stroke-dasharray="2 4"/>'
        f'<text y="{-ring.radius - 4:g}" text-anchor="middle" fill="{QUIET}" stroke="none" font-size="12">'
        f"{ring.label}</text>"
    )


def _line(line: Line, layout: Layout, ends: Mapping[str, tuple[int, float]]) -> str:
    """A line between the edges of two figures, with the names of its relations.

    Args:
        ends: The number of each dot, and the radius of its figure.
    """
    a, b = layout.points[line.source], layout.points[line.target]
    (source, near), (target, far) = ends[line.source], ends[line.target]
    long = hypot(b.x - a.x, b.y - a.y) or 1.0
    near, far = min(near, long / 2), min(far + 2, long / 2)
    right, down = (b.x - a.x) / long, (b.y - a.y) / long
    look = f'stroke="{QUIET}" stroke-opacity=".7"' if line.is_path else f'stroke="{FAINT}"'
    look += f' stroke-width="{line.width:g}"' if line.width != 1 else ""
    look += "" if line.types else ' stroke-dasharray="4 3"'
    arrow = f' marker-end="url(#arrow{"-path" if line.is_path else ""})"' if line.has_arrow else ""
    kind = ' class="path"' if line.is_path else ""
    place = f"M{a.x + right * near:.1f} {a.y + down * near:.1f}L{b.x - right * far:.1f} {b.y - down * far:.1f}"
    names = f"<title>{_text(', '.join(line.types))}</title>" if line.types else ""
    return f'<path{kind} data-ends="{source} {target}" d="{place}" {look}{arrow}>{names}</path>'


def _dot(
    dot: Dot, layout: Layout, label: Label, leads: str, *, is_open: bool = False, is_selected: bool = False
) -> str:
    said = _text(description(dot))
    # Users of voice control say the visible text, so it is part of the name.
    cut = f", shown as {_text(label.text)}" if label.text.endswith("…") else ""
    href = f' href="{_text(leads)}" aria-label="{said}{cut}"' if leads else ""
    tag = "a" if leads else "g"
    more = f"\n{dot.summary[:200]}" if dot.summary else ""
    point, half = layout.points[dot.uri], radius(dot, layout)
    kind = "dot group" if dot.shape == "group" else "dot"
    kind += " open" if is_open else ""
    current = ' aria-current="true"' if is_selected else ""
    return (
        f'<{tag}{href} class="{kind}" data-uri="{_text(dot.uri)}" data-size="{half:g}"{current} '
        f'transform="translate({point.x:g} {point.y:g})"><title>{said}{_text(more)}</title>'
        f"{_figure(dot, half, is_open=is_open)}{_label(dot, layout, label)}</{tag}>"
    )


def _figure(dot: Dot, size: float, *, is_open: bool = False) -> str:
    """The form of the dot's type, with its marks."""
    marks = "".join(_sign(mark, size) for mark in dot.marks)
    if dot.shape == "missing":
        colour = RED if "missing" in dot.marks else AMBER
        kind = "missing" if "missing" in dot.marks else "unreachable"
        look = f'class="figure {kind}" fill="{PAPER}" stroke="{colour}" stroke-width="1.8" stroke-dasharray="3 1.5"'
        return f'<path d="M0 -7l7 7l-7 7l-7 -7z" {look}/>{marks}'
    if dot.shape == "group":
        opacity = ' fill-opacity=".25"' if is_open else ""
        look = f'class="figure bubble" fill="{GROUP}" stroke="{COLOURS["green"]}"{opacity}'
        return f'<circle r="{size:g}" {look}/>'
    form = look_of(dot.type)
    look = f'class="figure {form.hue}" fill="{COLOURS[form.hue]}"'
    if form.form == "circle":
        return f'<circle r="{size:g}" {look}/>{marks}'
    count, first, reach = CORNERS[form.form]
    angles = [first + n * 2 * pi / count for n in range(count)]
    corners = " ".join(f"{reach * size * cos(angle):.1f},{reach * size * sin(angle):.1f}" for angle in angles)
    return f'<polygon points="{corners}" {look}/>{marks}'


def _sign(mark: Mark, size: float) -> str:
    if mark in ("start", "foreign"):
        dashed = ' stroke-dasharray="2 2"' if mark == "foreign" else ""
        away = 4 if mark == "start" else 6
        ring = f'<circle r="{size + away:g}" fill="none" stroke="{INK}"{dashed} class="mark"/>'
    else:
        ring = ""
    if mark not in SIGNS:
        return ring
    colour = RED if mark == "conflict" else AMBER if mark == "unverified" else INK
    x, y = {"conflict": (7, -6), "unverified": (-7, -6), "foreign": (7, 7)}[mark]
    return (
        f'{ring}<g class="mark {mark}"><circle cx="{x:g}" cy="{y:g}" r="5" fill="{PAPER}" stroke="{colour}"/>'
        f'<text x="{x:g}" y="{y + 3.2:g}" text-anchor="middle" font-size="9" font-weight="700" '
        f'fill="{colour}">{SIGNS[mark]}</text></g>'
    )


def _label(dot: Dot, layout: Layout, label: Label) -> str:
    point, at = layout.points[dot.uri], middle(dot, layout, label.side)
    anchor = {"left": ' text-anchor="end"', "right": ""}.get(label.side, ' text-anchor="middle"')
    hidden = "" if label.size == 1 else ' display="none"'
    look = f'fill="{INK}"' + (' font-weight="600"' if "start" in dot.marks else "")
    place = f'x="{at.x - point.x:g}" y="{at.y - point.y:g}" dy=".35em"{anchor}'
    return f'<text {place} class="label at{label.size}" {look}{hidden}>{_text(label.text)}</text>'


def _text(text: str) -> str:
    """Escape text for any place in a file: XML does not allow most invisible characters."""
    shown = fenced(text)
    return escape(
        "".join("\ufffd" if ord(c) in (0xFFFE, 0xFFFF) else c for c in shown) if not shown.isascii() else shown
    )
