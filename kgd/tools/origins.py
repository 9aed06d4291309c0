"""This file is where it is said of an answered node where it came from, and where its text is fenced as data.

`local`: a workspace of this machine that is shared with nobody. `team`: one of this machine that others write to as
well. `remote`: somebody else's, read from a hub or from a read-only clone. Content never says this of itself, and a
merge never raises it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.model.fence import fenced, fenced_value
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
    """How near whoever wrote into an open workspace is."""
    return session.daemon.elsewhere.trust(workspace)


def of_stored(workspace: Workspace, uri: Uri, trust: Trust) -> Origin:
    """The origin of a node of an open workspace: its last change, or nothing of it where it is not stored."""
    origin: Origin = {"workspace": workspace.id, "trust": trust}
    card = workspace.graph.card(uri)
    version = workspace.node_version(uri) if card is not None and card.blob is not None else None
    if version is not None:
        origin["commit"], origin["author"] = version.updated_commit, version.updated_by
    return origin


def of_remote(workspace: str, stamp: tuple[str, str] = ("", "")) -> Origin:
    """The origin of what a hub said, with the commit and author that it names."""
    origin: Origin = {"workspace": workspace, "trust": "remote"}
    if stamp[0]:
        origin["commit"] = stamp[0]
    if stamp[1]:
        origin["author"] = stamp[1]
    return origin


def fence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer about what others wrote, with every character of their text shown that would not show."""
    shown: dict[str, Any] = fenced_value(dict(answer))
    return shown


def fence_all(items: Sequence[Any]) -> list[Any]:
    return [fenced_value(item) for item in items]


def fence_text(text: str) -> str:
    return fenced(text)
