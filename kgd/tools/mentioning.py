"""This file is where a caller is shown which texts mention which nodes, as far as they may read both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgd.graph.edges import EdgeSource
from kgd.mentions.mentions import MENTIONS, Mentions
from kgd.tools import sight
from kgd.tools.nodes import MentionsAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kgd.model.uri import Uri
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

__all__ = ["MENTIONS", "mentions", "of_node", "walked"]

LISTED = 20
"""Mentions of one node that an answer about it lists, each way; all of them can be walked along."""


def mentions(session: Session, workspace: Workspace) -> EdgeSource:
    """The mentions of a workspace as the caller may see them, with what was acknowledged before the call."""
    found = Mentions.of(workspace)
    found.catch_up()
    sees = sight.sight(session, workspace.id)
    return found if sees is None else sight.Seen(found, sees)


def walked(workspace: Workspace, edge_types: Collection[str]) -> list[EdgeSource]:
    """What a walk goes through: what is stored and the code tree; mentions where they are asked for by their type."""
    if MENTIONS not in edge_types:
        return workspace.sources()
    found = Mentions.of(workspace)
    found.catch_up()
    return [*workspace.sources(), found]


def of_node(workspace: Workspace, uri: Uri, sees: Callable[[Uri], bool] | None) -> MentionsAnswer:
    derived = Mentions.of(workspace)
    derived.catch_up()
    out = [one for one in derived.mentioned(uri) if sees is None or sees(one)]
    into = [one for one in derived.mentioning(uri) if sees is None or sees(one)]
    more = len(out[LISTED:]) + len(into[LISTED:])
    return {"out": list(out[:LISTED]), "into": list(into[:LISTED]), "more": more}
