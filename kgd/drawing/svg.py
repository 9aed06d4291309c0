"""SVG: a scene as a standalone file, or as part of a page.

Attributes define the appearance, so that a file needs nothing else; a page may override them with styles. All text is
escaped, and invisible characters are written out. Each dot is a group at its place, and each line names the numbers of
its dots, so that a script can move them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from math import cos, hypot, pi, sin, sqrt
from typing import Literal

from kgd.drawing import MEANINGS, Dot, Line, Mark, Scene, in_words
from kgd.drawing.labels import GAP, TITLE, Label, box, middle, occupied, place_labels, radius
from kgd.drawing.layout import CORNERS, Curve, Layout, Spot, along, layout_scene
from kgd.drawing.looks import CHARACTER, COLOURS, HEIGHT, OUTLINES, TEXT, Form, look_of, width
from kgd.drawing.packing import Place
from kgd.model.escaping import fenced

PAPER, INK, QUIET, FAINT, GROUP = "#ffffff", "#1d2320", "#565f59", "#c3c8c2", "#dfe9e3"
LINE = "#848d87"
Style = Literal["path", "other", "unusual"]
"""Colour of relations; outlines and rings, which carry no meaning of their own, are `FAINT`."""
RED, AMBER, BLUE = "#a3231b", "#7d5400", "#2f5c9e"
LARGEST_SHAPE = 7.0
"""Radius of the largest shape in the circle of a group, and of a shape in a legend."""
HUES: Mapping[Mark, str] = {"conflict": RED, "unverified": AMBER, "proposed": BLUE}
"""Fill colours of the marks that need attention."""
GOLDEN = pi * (3 - sqrt(5))
SIGNS: Mapping[Mark, str] = {"conflict": "!", "unverified": "?", "proposed": "+", "foreign": "↗"}
"""Signs next to a dot, so that a mark is not shown only by colour."""


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
    across, down = CORNERS[mark]
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


MARGIN = 24.0
ARROW, PATH_ARROW = 7.0, 10.0
MOST_SHAPES = 600
"""Largest number of shapes in the circles of all groups; if there are more nodes, a shape stands for several."""
BEND, LONGEST_BEND = 0.22, 320.0
"""Distance of the middle of a curve between groups, by the length of the line."""
SHARES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9)
"""Places of the number on a line between groups, the first with room."""
ABOVE = 11.0
"""Distance of the relations of a path above their line."""
EDGE = 0.76
"""Distance of the count of marks from the middle of a group, inwards and upwards, as a share of its radius."""

Link = Callable[[Dot], str]
"""Returns the address that a dot links to; empty if it has no link."""


def draw(scene: Scene, *, link: Link = lambda dot: "", title: str = "", alone: bool = False, selected: str = "") -> str:
    """The picture. Its units are pixels, and `viewBox` is the visible part.

    Args:
        alone: Whether it is a separate file, with a background.
        selected: The URI of the node that the page describes.
    """
    layout = layout_scene(scene)
    labels = place_labels(scene.dots, layout, scene.lines)
    left, top, wide, high = _frame(scene, layout, labels)
    name = f"<title>{escaped(title)}</title>" if title and alone else ""
    begin = (
        'xmlns="http://www.w3.org/2000/svg"'
        if alone
        else f'id="drawing" data-arrangement="{scene.arrangement}" data-usual="{escaped(scene.usual)}"'
    )
    said = f' aria-label="{escaped(title)}"' if title else ""
    paper = f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" fill="{PAPER}"/>' if alone else ""
    opened = [dot for dot in scene.dots if layout.is_box(dot.uri)]
    others = [dot for dot in scene.dots if not layout.is_box(dot.uri)]
    # A box with nodes hides the lines between groups that pass behind it.
    filled = {dot.parent for dot in others if dot.shape != "group"}
    lines = {is_inside: [line for line in scene.lines if line.has_arrow == is_inside] for is_inside in (False, True)}
    ends = {dot.uri: (number, dot) for number, dot in enumerate([*opened, *others])}
    tall = None if alone else layout_scene(scene, tall=True)
    arrow = PATH_ARROW if scene.arrangement == "path" else ARROW
    share = min(1.0, MOST_SHAPES / max(1, sum(count for dot in others for _, count in dot.parts)))
    return "".join(
        [
            f'<svg {begin} width="{wide:g}" height="{high:g}" viewBox="{left:g} {top:g} {wide:g} {high:g}" '
            f'role="group"{said} class="drawing" font-family="system-ui, sans-serif" font-size="{TEXT}">{name}{paper}',
            f"<defs>{_arrow('arrow', LINE, arrow)}{_arrow('arrow-path', QUIET, arrow)}</defs>",
            '<g class="rings" fill="none" aria-hidden="true">',
            *map(_ring, layout.rings),
            "</g>",
            _lines(lines[False], layout, ends, tall),
            *(_dot(dot, layout, labels[dot.uri], link(dot), tall, is_filled=dot.uri in filled) for dot in opened),
            _lines(lines[True], layout, ends, tall),
            *(_dot(dot, layout, labels[dot.uri], link(dot), tall, share, dot.uri == selected) for dot in others),
            _badges(scene.dots, layout, ends),
            *_names(scene, layout, labels, ends),
            "</svg>",
        ]
    )


def description(dot: Dot) -> str:
    """A dot in words: name, type, cost and marks."""
    kind = f", {in_words(dot.type)}" if dot.type else ""
    marks = "".join(f"; {MEANINGS[mark]}" for mark in dot.marks)
    return f"{dot.name or dot.uri}{kind}, {dot.told or f'at cost {dot.cost:g}'}{'' if dot.told else marks}"


def sample(type: str, marks: tuple[Mark, ...] = (), tone: str = "") -> str:
    """A single dot of a type or a class, for a legend."""
    missing = bool({"missing", "unreachable"} & set(marks))
    dot = Dot("", "", type, 0.0, "-", "missing" if missing else "node", "", marks, tone=tone)
    size = dot.size if marks else LARGEST_SHAPE
    return f'<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true">{figure(dot, size)}</svg>'


def badge_sample(mark: Mark, number: str = "") -> str:
    """The sign of a mark or, with a letter for the number of nodes, its badge on a group, for a legend."""
    half = 12 if number else 8
    return (
        f'<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true"><g class="mark {mark}">'
        f'<rect x="{-half}" y="-9" width="{2 * half}" height="18" rx="9" fill="{HUES[mark]}"/><text dy=".35em" '
        f'text-anchor="middle" font-size="{10 if number else 13}" font-weight="700" fill="{PAPER}">'
        f"{' '.join(filter(None, (SIGNS[mark], number)))}</text></g></svg>"
    )


def line_sample() -> str:
    """A line with a number, for a legend."""
    return (
        '<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true">'
        f'<path d="M-12 0h6M6 0h6" stroke="{LINE}" stroke-width="3"/>'
        f'<text class="amount" dy=".35em" text-anchor="middle" font-size="13" fill="{QUIET}">n</text></svg>'
    )


def style_sample(style: Style) -> str:
    """A line of a style, for a legend."""
    kind = {"path": "path", "other": "", "unusual": "path unusual"}[style]
    look = f'stroke="{QUIET}" stroke-width="1.6"' if style != "other" else f'stroke="{LINE}"'
    look += ' stroke-dasharray="6 3"' if style == "unusual" else ""
    return (
        '<svg viewBox="-12 -12 24 24" class="drawing sample" aria-hidden="true"><g class="lines">'
        f'<path class="{kind}" d="M-12 0h24" {look}/></g></svg>'
    )


def _frame(scene: Scene, layout: Layout, labels: Mapping[str, Label]) -> tuple[float, float, float, float]:
    """The visible area: dots, rings and the labels shown at first."""
    edges = [(-ring, -ring, ring, ring) for ring in layout.rings[-1:]]
    for dot in scene.dots:
        point, (across, down), label = layout.points[dot.uri], _half(dot, layout), labels[dot.uri]
        edges.append((point.x - across, point.y - down, point.x + across, point.y + down))
        if label.size == 1:
            edges.append(box(dot, layout, label.text, label.side))
    lefts, tops, rights, bottoms = zip(*edges or [(-60.0, -60.0, 60.0, 60.0)], strict=True)
    left, top = round(min(lefts) - MARGIN, 1), round(min(tops) - MARGIN, 1)
    return left, top, round(max(rights) + MARGIN - left, 1), round(max(bottoms) + MARGIN - top, 1)


def _arrow(name: str, colour: str, size: float) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size:g}" markerHeight="{size:g}" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 .5L8 4L0 7.5z" fill="{colour}"/></marker>'
    )


def _ring(radius: float) -> str:
    return f'<ellipse rx="{radius:g}" ry="{radius:g}" stroke="{FAINT}" stroke-dasharray="2 4"/>'


def _half(dot: Dot, layout: Layout) -> tuple[float, float]:
    """Half of the width and of the height of a figure."""
    if layout.is_box(dot.uri):
        return layout.places[dot.uri].wide / 2, layout.places[dot.uri].high / 2
    return radius(dot, layout), radius(dot, layout)


def _lines(lines: Sequence[Line], layout: Layout, numbers: Mapping[str, tuple[int, Dot]], tall: Layout | None) -> str:
    drawn = "".join(_line(line, layout, numbers, tall) for line in reversed(lines))
    return f'<g class="lines" fill="none" aria-hidden="true">{drawn}</g>' if drawn else ""


def _line(line: Line, layout: Layout, numbers: Mapping[str, tuple[int, Dot]], tall: Layout | None) -> str:
    """A line between the edges of two figures, with the names of its relations.

    Args:
        numbers: Each dot with its number.
        tall: The layout for a tall window.
    """
    begin, over, end = _curve(line, layout, numbers)
    look = f'stroke="{QUIET if line.is_path else LINE}"'
    look += f' stroke-width="{line.width:g}"' if line.width != 1 else ""
    look += "" if line.types else ' stroke-dasharray="4 3"'
    arrow = f' marker-end="url(#arrow{"-path" if line.is_path else ""})"' if line.has_arrow else ""
    kind = ' class="path"' if line.is_path else ""
    is_curve = layout.places or (line.source, line.target) in layout.curves
    curve = f"Q{over[0]:.1f} {over[1]:.1f} " if is_curve else "L"
    place = f"M{begin[0]:.1f} {begin[1]:.1f}{curve}{end[0]:.1f} {end[1]:.1f}"
    names = f"<title>{escaped(', '.join(line.types))}</title>" if line.types else ""
    data = f'data-ends="{numbers[line.source][0]} {numbers[line.target][0]}"'
    for window, found in (("wide", layout), ("tall", tall)):
        if found and (between := found.curves.get((line.source, line.target))):
            data += f' data-{window}="{_bend(between, *map(found.places.get, (line.source, line.target)))}"'
    return f'<path{kind} {data} d="{place}" {look}{arrow}>{names}</path>'


def _bend(curve: Curve, one: Place | None, other: Place | None) -> str:
    """A curve for scripts: the control point from the middle of the ends and, of a box, the ends from the centres."""
    (ax, ay), (x, y), (bx, by) = curve
    bend = x - (ax + bx) / 2, y - (ay + by) / 2
    ends = (ax - one.x, ay - one.y, bx - other.x, by - other.y) if one and other else ()
    return " ".join(f"{number:.1f}" for number in (*bend, *(ends if any(ends) else ())))


def _curve(line: Line, layout: Layout, numbers: Mapping[str, tuple[int, Dot]]) -> Curve:
    """The ends of a line, with the control point of its curve between them. A line between nodes ends at the edges of
    both; one between groups begins behind their circles."""
    ends = line.source, line.target
    curve = layout.curves.get(ends)
    if curve and layout.places:
        return curve
    a, b = ((layout.points[uri].x, layout.points[uri].y) for uri in ends)
    long = hypot(b[0] - a[0], b[1] - a[1]) or 1.0
    curved = BEND * min(1.0, LONGEST_BEND / long) if layout.places else 0.0
    over = (a[0] + b[0]) / 2 + (b[1] - a[1]) * curved, (a[1] + b[1]) / 2 + (a[0] - b[0]) * curved
    over = curve[1] if curve else over
    near, far = (radius(numbers[uri][1], layout) for uri in ends)
    return _towards(a, over, near), over, _towards(b, over, far + 2 * line.has_arrow)


def _towards(begin: Spot, end: Spot, distance: float) -> Spot:
    right, down = end[0] - begin[0], end[1] - begin[1]
    share = min(1.0, distance / (hypot(right, down) or 1.0))
    return begin[0] + right * share, begin[1] + down * share


def _names(
    scene: Scene, layout: Layout, labels: Mapping[str, Label], numbers: Mapping[str, tuple[int, Dot]]
) -> Iterator[str]:
    """The number of relations on each line between two groups, or the relations with their direction on each line of a
    path, where the text covers no figure or other text."""
    if scene.arrangement == "rings":
        return
    taken = occupied(scene.dots, layout, labels)
    for line in scene.lines:
        if line.has_arrow and scene.arrangement == "groups":
            continue
        text, curve = ", ".join(line.types), _curve(line, layout, numbers)
        if scene.arrangement == "groups":
            text = text.partition(" ")[0]
        elif text:
            text = f"{text} →" if curve[0] < curve[2] else f"← {text}"
        half = width(text) * CHARACTER / 2
        for share in SHARES if text else ():
            x, y = along(curve, share)
            y -= ABOVE if scene.arrangement == "path" else 0.0
            area = x - half, y - HEIGHT / 2, x + half, y + HEIGHT / 2
            if taken.has_room(area, ""):
                taken.take(area, "count")
                look = f'fill="{QUIET}" stroke="{PAPER}" stroke-width="4" paint-order="stroke" font-size="12"'
                yield f'<text class="relation" x="{x:.1f}" y="{y:.1f}" dy=".35em" text-anchor="middle" {look} '
                yield f'aria-hidden="true">{escaped(text)}</text>'
                break


def _dot(
    dot: Dot,
    layout: Layout,
    label: Label,
    link: str,
    tall: Layout | None,
    share: float = 1.0,
    is_selected: bool = False,
    *,
    is_filled: bool = False,
) -> str:
    """A figure with its label, as a link.

    Args:
        tall: The layout for a tall window.
        share: The share of a group's nodes that have a shape in its circle.
        is_filled: Whether its box covers the lines behind it.
    """
    said = escaped(description(dot))
    # Users of voice control say the visible text, so it is part of the name.
    cut = f", shown as {escaped(label.text.replace(chr(10), ' '))}" if "…" in label.text else ""
    href = f' href="{escaped(link)}" aria-label="{said}{cut}"' if link else ""
    tag = "a" if link else "g"
    more = f"\n{dot.summary[:200].replace('`', '')}" if dot.summary else ""
    point, half = layout.points[dot.uri], radius(dot, layout)
    kind = "dot group" if dot.shape == "group" else "dot"
    kind += (" open filled" if is_filled else " open") if layout.is_box(dot.uri) else ""
    name = f' data-name="{escaped(dot.name or dot.uri)}"' if {"…", "\n"} & set(label.text) else ""
    name += f' data-first="{"&#10;".join(map(escaped, dot.first))}"' if dot.first and tall else ""
    high = f' data-tall="{_place(dot, tall)}"' if tall else ""
    current = ' aria-current="true"' if is_selected else ""
    return (
        f'<{tag}{href} class="{kind}" data-uri="{escaped(dot.uri)}"{name} data-wide="{_place(dot, layout)}"{high}'
        f"{current} "
        f'transform="translate({point.x:g} {point.y:g})"><title>{said}{escaped(more)}</title>'
        f"{_box(dot, layout, is_filled) if layout.is_box(dot.uri) else figure(dot, half, share)}"
        f"{_label(dot, layout, label)}</{tag}>"
    )


def _place(dot: Dot, layout: Layout) -> str:
    """The place of a figure for scripts: centre and radius, or centre, width and height; of a member of a group also
    the width of its label and the height of its row."""
    point, (across, down) = layout.points[dot.uri], _half(dot, layout)
    size = f"{2 * across:g} {2 * down:g}" if layout.is_box(dot.uri) else f"{across:g}"
    if dot.uri in layout.places and (place := layout.places[dot.uri]).room:
        size += f" {place.room:g} {place.deep:g}"
    return f"{point.x:g} {point.y:g} {size}"


def _box(dot: Dot, layout: Layout, is_filled: bool) -> str:
    across, down = _half(dot, layout)
    look = f'class="figure bubble" fill="{GROUP}" stroke="{FAINT}"' + ("" if is_filled else ' fill-opacity=".35"')
    return f'<rect x="{-across:g}" y="{-down:g}" width="{2 * across:g}" height="{2 * down:g}" rx="12" {look}/>'


def _badges(dots: Sequence[Dot], layout: Layout, numbers: Mapping[str, tuple[int, Dot]]) -> str:
    """Draw how many nodes of each group have each mark: on the edge of its circle, or beside the title of its box.

    Screen readers find these numbers in the name of the group's link.
    """
    drawn = []
    for dot in dots:
        point, away, (across, down) = layout.points[dot.uri], radius(dot, layout) * EDGE, _half(dot, layout)
        free = point.x + across - TITLE[0]
        for mark, count in dot.counts:
            text = f"{SIGNS[mark]} {count:,}"
            half, (right, below) = width(text) * CHARACTER / 2 + 4, CORNERS[mark]
            x, y = point.x + right * (away + half), point.y + below * away
            if layout.is_box(dot.uri):
                x, y, free = free - half, point.y - down + TITLE[1], free - 2 * half - GAP
            drawn.append(
                f'<g class="mark {mark}" data-of="{numbers[dot.uri][0]}" transform="translate({x:.1f} {y:.1f})">'
                f'<rect x="{-half:g}" y="-9" width="{2 * half:g}" height="18" rx="9" fill="{HUES[mark]}" '
                f'stroke="{PAPER}"/><text dy=".35em" text-anchor="middle" font-size="12" font-weight="700" '
                f'fill="{PAPER}">{text}</text></g>'
            )
    return f'<g class="badges" aria-hidden="true">{"".join(drawn)}</g>' if drawn else ""


def _label(dot: Dot, layout: Layout, label: Label) -> str:
    point, at = layout.points[dot.uri], middle(dot, layout, label.side)
    anchor = {"left": ' text-anchor="end"', "right": "", "title": ""}.get(label.side, ' text-anchor="middle"')
    hidden = "" if label.size == 1 else ' display="none"'
    look = f'fill="{INK}"' + (' font-weight="600"' if "start" in dot.marks else "")
    place = f'x="{at.x - point.x:g}" y="{at.y - point.y:g}" dy=".35em"{anchor}'
    text, *lines = label.text.split("\n")
    name, _, count = text.rpartition(" ") if dot.shape == "group" else (text, "", "")
    more = f'<tspan class="amount" fill="{QUIET}" font-weight="400"> {escaped(count)}</tspan>' if count else ""
    more += "".join(f' <tspan x="{at.x - point.x:g}" dy="{HEIGHT:g}">{escaped(line)}</tspan>' for line in lines)
    return f'<text {place} class="label at{label.size}" {look}{hidden}>{escaped(name)}{more}</text>'
