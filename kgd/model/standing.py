"""This file is where it is named by which relations and tags a node says that another one speaks for it now."""

from __future__ import annotations

SUPERSEDES = "supersedes"
SUPERSEDED = "superseded"
"""The tag of what is not true any more and is kept."""
SUPERSEDED_BY = "superseded_by"
SUMMARISES = "summarises"
SUMMARISED_BY = "summarised_by"
_STANDS_BACK = frozenset([SUPERSEDED_BY, SUMMARISED_BY])


def stands_back(type: str) -> bool:
    """Whether a node with a relation of this type ranks behind its equals; it is found as before otherwise."""
    return type.lower() in _STANDS_BACK
