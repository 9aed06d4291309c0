"""Conversations: working sets of the nodes in answers, hints about evicted nodes (E6, E7), and counts of reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from kgd.model.access import Verb
from kgd.model.uri import Uri, workspace_of
from kgd.model.usage import Link
from kgd.tools.paging import present
from kgd.tools.session import Session
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace

NAMED = 8
"""Number of evicted nodes that a hint names; the others are only counted."""


class Hint(TypedDict):
    """A hint to record what the conversation learned, with a `put` that needs only the text."""

    message: str
    evicted: NotRequired[list[str]]
    more_evicted: NotRequired[int]
    put: dict[str, Any]


def enter_working_set(
    session: Session, context_id: str | None, uris: Sequence[Uri], *, starting: bool = False
) -> dict[str, Any]:
    """Add nodes to the caller's working set; returns ``context_id``, and ``hint`` after evictions or on a first walk.

    Returns nothing for a caller without a conversation.

    Args:
        uris: Cheapest first. The cheapest is touched last, so that the nodes nearest to the question stay longest.
        starting: Whether the call is a walk. Only a walk uses up the single hint of a new working set.
    """
    if context_id is None and session.context_id is None:
        return {}
    session.daemon.contexts.resize(session.daemon.registry.current().settings.context_size)
    known, context = session.daemon.contexts.open(context_id or session.context_id or None)
    evicted = context.touch(reversed(uris))
    hint = _evicted(evicted) if evicted else _empty() if starting and context.take_started_empty() else None
    return {"context_id": known, **present(hint=hint)}


def note_reads(
    session: Session, workspace: Workspace, answer: Any, read: Sequence[Uri], shown: Sequence[Link] = ()
) -> None:
    """Count the nodes that a local conversation read by name, and the relations shown with them."""
    if session.principal is None and (conversation := answer.get("context_id")):
        here = [workspace.graph.resolve(uri) for uri in read if workspace_of(uri) in (None, workspace.id)]
        Usage.of(workspace).note(conversation, here, shown)


def working_set(session: Session, workspace: Workspace, context_id: str) -> list[Uri]:
    """The nodes that a conversation saw last, most recent first.

    The holder of a token gets only readable nodes of this workspace.
    """
    seen = session.daemon.contexts.seen(context_id)
    if session.principal is None:
        return seen
    return [uri for uri in seen if workspace_of(uri) == workspace.id and session.may(workspace, uri, Verb.READ)]


def _evicted(uris: Sequence[Uri]) -> Hint:
    hint: Hint = {
        "message": f"{len(uris)} nodes left your working set. Record what you learned about them before it is lost.",
        "evicted": list(uris[:NAMED]),
        "put": _ready(uris[:NAMED]),
    }
    hint |= present(more_evicted=len(uris[NAMED:]))
    return hint


def _empty() -> Hint:
    return {
        "message": "Your working set starts empty. If you learned something in earlier work, record it now.",
        "put": _ready(()),
    }


def _ready(uris: Sequence[Uri]) -> dict[str, Any]:
    relations = [{"type": "about", "target": uri, "weight": 0.5} for uri in uris]
    change = {"op": "upsert", "type": "insight", "name": "<what you learned>", "summary": "<in one sentence>"}
    return {"changes": [{**change, **present(relations=relations)}], "message": "<why it matters>"}
