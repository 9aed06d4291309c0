"""The bounds of atoms and molecules, which hold on every way into a workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgd.errors import Limit
from kgd.model.node import Node, Relation
from kgd.model.uri import scheme_of

AREAS = frozenset({"atom", "molecule"})
MAX_KNOWLEDGE = 32 * 1024
"""Bytes of the content of an area."""
MAX_PATTERNS, MAX_PATTERN = 20, 512
"""Patterns of an area, and characters of each."""
MAX_RELATED = 50
"""Relations of an area to other areas of its kind."""
RELATED = "related_to"


def admit(area: Node, before: Node | None, place: Callable[[str, None], str] | None = None) -> None:
    """Return if an area is within the bounds, or exceeds them no further than `before`.

    Args:
        place: Where a field is, if a file was read; else errors name the node.

    Raises:
        Limit: It exceeds one.
    """

    def at(field: str) -> str:
        return place(field, None) if place else area.uri

    size = len(area.content.strip().encode("utf-8", "surrogatepass"))
    if size > MAX_KNOWLEDGE and (before is None or before.content != area.content):
        raise Limit(
            f"the knowledge of an area has at most {MAX_KNOWLEDGE >> 10} KiB, this one has {size >> 10}",
            at=at("content"),
            next="Keep only knowledge that is not in the code; move the rest to another atom.",
        )
    patterns, known = _patterns(area), _patterns(before) if before else []
    if len(patterns) > max(MAX_PATTERNS, len(known)):
        raise Limit(
            f"an area has at most {MAX_PATTERNS} patterns, this one has {len(patterns)}",
            at=at("data"),
            next="Use wider patterns, or make two atoms of it.",
        )
    if any(isinstance(one, str) and len(one) > MAX_PATTERN and one not in known for one in patterns):
        raise Limit(f"a pattern has at most {MAX_PATTERN} characters", at=at("data"), next="Use * and ** in it.")
    related = len(related_relations(area))
    if related > max(MAX_RELATED, len(related_relations(before)) if before else 0):
        raise Limit(
            f"an area has at most {MAX_RELATED} relations {RELATED} to areas of its kind, this one has {related}",
            at=at("relations"),
            next="Keep the ones that a reader needs.",
        )


def related_relations(area: Node) -> list[Relation]:
    """The relations of an atom or molecule to others of its kind."""
    kind = scheme_of(area.uri)
    return [one for one in area.relations if one.type == RELATED and scheme_of(one.target) == kind]


def _patterns(area: Node) -> list[Any]:
    found: Any = area.data.get("paths")
    return found if isinstance(found, list) else []
