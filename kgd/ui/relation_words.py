"""Types of relations in words, in both directions."""

from __future__ import annotations

INCOMING = {
    "about": "is the subject of",
    "calls": "is called by",
    "cites": "is cited by",
    "contains": "is in",
    "depends_on": "is needed by",
    "explains": "is explained by",
    "has": "belongs to",
    "imports": "is imported by",
    "made": "was made by",
    "owns": "is owned by",
    "part_of": "consists of",
    "related_to": "is related to",
    "replaces": "is replaced by",
    "summarised_by": "summarises",
    "summarises": "is summarised by",
    "superseded_by": "supersedes",
    "supersedes": "is superseded by",
    "uses": "is used by",
    "works_on": "is worked on by",
}
"""Phrases for incoming relations, from the target's point of view."""


VERBS = {
    "about": "is about",
    "explained_by": "is explained by",
    "implemented_in": "is implemented in",
    "part_of": "is part of",
    "related_to": "is related to",
    "signed_with": "is signed with",
    "summarised_by": "is summarised by",
    "superseded_by": "is superseded by",
}
"""Phrases for relations whose words have no verb."""


def verb_of(type: str, is_incoming: bool) -> str:
    """Return a type of relation as the verb of a sentence about this node: ``is about``, ``is used by``."""
    return words_of(type, is_incoming) if is_incoming else VERBS.get(type, words_of(type))


def words_of(type: str, is_incoming: bool = False) -> str:
    """Return a type of relation as a phrase between this node and the other nodes: ``depends on``, ``is used by``.

    The incoming phrase of any other type names the type: ``needs`` becomes ``“needs” from``.
    """
    words = " ".join(type.replace("_", " ").split()) or type
    return INCOMING.get(type, f"“{words}” from") if is_incoming else words
