"""The list of kinds that can be ingested."""

from __future__ import annotations

from collections.abc import Mapping

from kgd.ingest import conversation, dated_documents, documents
from kgd.ingest.kind import Kind

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (conversation.CONVERSATION, conversation.TRANSCRIPT, dated_documents.MESSAGES, documents.DOCUMENT)
}
"""By name. The first kind that recognises a file counts, so documents come last."""


def recognised(name: str, head: bytes) -> Kind:
    """The kind of a file, by its name and its first bytes."""
    return next(kind for kind in KINDS.values() if kind.recognises(name, head))
