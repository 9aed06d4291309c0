"""The limits of atoms and molecules, which apply to every way into a workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgd.errors import Limit, whole
from kgd.model.node import Node, Relation
from kgd.model.uri import scheme_of

AREAS = frozenset({"atom", "molecule"})
MAX_KNOWLEDGE = 32 * 1024
"""Maximum bytes of an area's content."""
MAX_PATTERNS, MAX_PATTERN = 20, 512
"""Maximum number of an area's patterns, and of characters in each."""
MAX_RELATED = 50
"""Maximum number of relations of an area to other areas of its kind."""
RELATED = "related_to"


def admit(area: Node, before: Node | None, place: Callable[[str, None], str] | None = None) -> None:
    """Check that an area is within the limits, or exceeds them by at most as much as `before` did.

    Args:
        place: Returns the place of a field, if a file was read; without it, errors name the node.

    Raises:
        Limit: The area exceeds a limit.
    """

    def at(field: str) -> str:
        return place(field, None) if place else area.uri

    size = len(area.content.strip().encode("utf-8", "surrogatepass"))
    if size > MAX_KNOWLEDGE and (before is None or before.content != area.content):
        raise Limit(
            f"the knowledge of an area has at most {MAX_KNOWLEDGE >> 10} KiB; this one has {whole(size, 1024)} KiB",
            at=at("content"),
            next="Keep only knowledge that is not in the code; move other knowledge to another atom.",
        )
    patterns, known = _patterns(area), _patterns(before) if before else []
    if len(patterns) > max(MAX_PATTERNS, len(known)):
        raise Limit(
            f"an area has at most {MAX_PATTERNS} patterns; this one has {len(patterns)}",
            at=at("data"),
            next="Use broader patterns, or split it into two atoms.",
        )
    if any(isinstance(one, str) and len(one) > MAX_PATTERN and one not in known for one in patterns):
        raise Limit(f"a pattern has at most {MAX_PATTERN} characters", at=at("data"), next="Use * and ** in it.")
    related = len(related_relations(area))
    if related > max(MAX_RELATED, len(related_relations(before)) if before else 0):
        raise Limit(
            f"an area has at most {MAX_RELATED} relations {RELATED} to areas of its kind; this one has {related}",
            at=at("relations"),
            next="Keep only the relations that a reader needs.",
        )


def related_relations(area: Node) -> list[Relation]:
    """The relations of an atom or molecule to others of its kind."""
    kind = scheme_of(area.uri)
    return [one for one in area.relations if one.type == RELATED and scheme_of(one.target) == kind]


def _patterns(area: Node) -> list[Any]:
    found: Any = area.data.get("paths")
    return found if isinstance(found, list) else []
