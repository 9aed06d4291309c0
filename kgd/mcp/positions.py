"""Positions in MCP: `_meta` of a request names commits that the answer must include, and `_meta` of a result the commit
that it includes. Only hubs use them; see `kgd.sync.positions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgd.errors import Invalid
from kgd.sync.positions import META, split
from kgd.tools.session import Session


def answered_at(
    session: Session, asked: Any, workspace: Any, answer: Callable[[], Mapping[str, Any]], *, reads: bool = True
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The answer of a call, and the `_meta` of its result. Blocks.

    Args:
        asked: The `_meta` of the request.
        workspace: The requested workspace, if the request names one.
        reads: Whether the call only reads. It then fails without the positions in `asked`; a write waits for them
            and goes on.

    Raises:
        Invalid: The positions are malformed.
        Unavailable: This hub does not have them yet.
        KgdError: Raised by `answer`.
    """
    if session.principal is None:
        return answer(), {}
    daemon, own = session.daemon, {scope.workspace for scope in session.principal.scopes}
    for id, positions in _positions(asked).items():
        if id in own:
            daemon.reach(id, positions, required=reads)
    before = {one.id: one.tip for one in daemon.opened() if reads and one.id in own}
    found = answer()
    named = (found.get("workspace"), workspace, *(own if len(own) == 1 else ()))
    id = next((one for one in named if isinstance(one, str)), "")
    if id not in own:
        return found, {}
    opened = daemon.opened_as(id)
    position = before.get(id) if reads else opened.tip if opened else None
    return found, {META: {id: position}} if position else {}


def _positions(asked: Any) -> dict[str, list[str]]:
    given = asked.get(META, {}) if isinstance(asked, Mapping) else {}
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given.values()):
        raise Invalid("positions must be an object of strings by workspace", at=META, next="Send what a hub returned.")
    return {str(id): split(one) for id, one in given.items()}
