"""Origins of answered nodes, and fencing of text that others wrote.

`local`: a workspace of this machine that is not shared. `team`: a workspace of this machine with other writers.
`remote`: another owner's workspace, read from a hub or from a read-only clone. kgd sets the origin; content never does,
and a merge never raises the trust level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.model.escaping import fenced, fenced_value
from kgd.model.uri import Uri

if TYPE_CHECKING:
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

Trust = Literal["local", "team", "remote"]


class Origin(TypedDict):
    """Where a piece of knowledge came from; set by kgd, never by content."""

    workspace: str
    commit: NotRequired[str]
    author: NotRequired[str]
    trust: Trust


def trust_in(session: Session, workspace: Workspace) -> Trust:
    """Trust level of an open workspace."""
    return session.daemon.elsewhere.trust(workspace)


def of_stored(workspace: Workspace, uri: Uri, trust: Trust) -> Origin:
    """Origin of a node of an open workspace, with its last change if the node is stored."""
    origin: Origin = {"workspace": workspace.id, "trust": trust}
    card = workspace.graph.card(uri)
    version = workspace.node_version(uri) if card is not None and card.blob is not None else None
    if version is not None:
        origin["commit"], origin["author"] = version.updated_commit, version.updated_by
    return origin


def of_remote(workspace: str, stamp: tuple[str, str] = ("", "")) -> Origin:
    """Origin of a hub's answer; `stamp` is the commit and author that the hub names, empty if unknown."""
    origin: Origin = {"workspace": workspace, "trust": "remote"}
    if stamp[0]:
        origin["commit"] = stamp[0]
    if stamp[1]:
        origin["author"] = stamp[1]
    return origin


def fence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Escape every invisible character in an answer that contains text by others."""
    shown: dict[str, Any] = fenced_value(dict(answer))
    return shown


def fence_all(items: Sequence[Any]) -> list[Any]:
    return [fenced_value(item) for item in items]


def fence_text(text: str) -> str:
    return fenced(text)
