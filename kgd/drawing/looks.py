"""Looks: the form and the colour of a node's type, the same in every picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

Form = Literal["circle", "square", "diamond", "triangle", "wedge", "pentagon", "hexagon"]
Hue = Literal["green", "amber", "purple", "rose", "teal", "orange", "blue", "grey", "brown"]

COLOURS: Mapping[Hue, str] = {
    "green": "#1a634a",
    "amber": "#8a5a00",
    "purple": "#6b46b8",
    "rose": "#b0266b",
    "teal": "#0f7285",
    "orange": "#b8430f",
    "blue": "#2f5c9e",
    "grey": "#69736d",
    "brown": "#7a4f2b",
}
"""Colours on white paper; a page with a theme sets its own for the classes of the same names."""


@dataclass(frozen=True, slots=True)
class Look:
    form: Form
    hue: Hue


CODE, AREA = Look("square", "grey"), Look("hexagon", "blue")
KNOWN: Mapping[str, Look] = {
    "concept": Look("circle", "green"),
    "insight": Look("triangle", "amber"),
    "decision": Look("diamond", "purple"),
    "gotcha": Look("wedge", "rose"),
    "pattern": Look("pentagon", "teal"),
    "task": Look("square", "orange"),
    "entity": Look("circle", "brown"),
    "document": Look("square", "teal"),
    "chunk": Look("square", "brown"),
    "thread": Look("hexagon", "purple"),
    "message": Look("circle", "purple"),
    "resource": Look("pentagon", "brown"),
    "tag": Look("wedge", "teal"),
    "file": CODE,
    "dir": CODE,
    "symbol": CODE,
    "atom": AREA,
    "molecule": AREA,
}
OTHERS = tuple(
    Look(form, hue)
    for hue in ("rose", "teal", "orange", "purple", "amber", "brown", "green")
    for form in ("pentagon", "triangle", "diamond", "wedge", "hexagon")
    if Look(form, hue) not in KNOWN.values()
)


def look_of(type: str) -> Look:
    """The look of a type. A type that kgd does not define gets one of `OTHERS` by a hash of its name."""
    return KNOWN.get(type) or OTHERS[crc32(type.encode()) % len(OTHERS)]
