"""Lanes: kinds of text that search ranks separately, so that many texts of one kind never crowd out another kind."""

from __future__ import annotations

from enum import IntEnum

from kgd.model.uri import Uri, scheme_of


class Lane(IntEnum):
    """Notes are nodes that people and agents wrote; sources are ingested documents and conversations; code is the text
    of the code tree. A stored node without any text is not in a lane."""

    NOTES = 0
    SOURCES = 1
    CODE = 2
    NONE = 3


KNOWLEDGE = (Lane.NOTES, Lane.SOURCES)
"""The lanes in the first list of an answer, in order."""
LANES = (*KNOWLEDGE, Lane.CODE)

_SOURCES = frozenset({"document", "chunk", "thread", "message"})


def lane_of(uri: Uri, origin: str = "") -> Lane:
    """The lane of a text. `origin` is the file of the code tree that the text was read from; it is empty for a stored
    node."""
    if origin:
        return Lane.CODE
    return Lane.SOURCES if scheme_of(uri) in _SOURCES else Lane.NOTES
