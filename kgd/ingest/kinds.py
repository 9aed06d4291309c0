"""This file is where the kinds of things are listed that can be taken in."""

from __future__ import annotations

from collections.abc import Mapping

from kgd.ingest import conversation, dated, documents
from kgd.ingest.kind import Kind

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (conversation.CONVERSATION, conversation.TRANSCRIPT, dated.MESSAGES, documents.DOCUMENT)
}
"""By name; of those that recognise something the first is taken, so the one that takes anything stands last."""


def recognised(name: str, head: bytes) -> Kind:
    """The kind of a file, by its name and its first bytes."""
    return next(kind for kind in KINDS.values() if kind.recognises(name, head))
