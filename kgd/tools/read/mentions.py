"""Mentions of nodes in texts, limited to the nodes that the caller may read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kgd.graph.edges import EdgeSource
from kgd.mentions.mentions import MENTIONS, Mentions
from kgd.model.uri import Uri
from kgd.tools import visibility
from kgd.tools.nodes import MentionsAnswer
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

__all__ = ["MENTIONS", "mentions", "of_node", "walked"]

LISTED = 20
"""Mentions per direction in an answer about a node. A walk can follow all mentions."""


def mentions(session: Session, workspace: Workspace) -> EdgeSource:
    """The mentions that the caller may see. Waits a limited time until acknowledged texts are indexed."""
    found = Mentions.of(workspace)
    found.catch_up()
    sees = visibility.sight(session, workspace.id)
    return found if sees is None else visibility.Seen(found, sees)


def walked(workspace: Workspace, edge_types: Collection[str]) -> list[EdgeSource]:
    """The edges of a walk: stored relations, the code tree's, and mentions if `edge_types` names their type."""
    if MENTIONS not in edge_types:
        return workspace.sources()
    found = Mentions.of(workspace)
    found.catch_up()
    return [*workspace.sources(), found]


def of_node(workspace: Workspace, uri: Uri, sees: Callable[[Uri], bool] | None) -> MentionsAnswer:
    """The mentions in a node's text, and the mentions of the node, `LISTED` of each. `sees` is None if unrestricted."""
    derived = Mentions.of(workspace)
    derived.catch_up()
    out = [one for one in derived.mentioned(uri) if sees is None or sees(one)]
    into = [one for one in derived.mentioning(uri) if sees is None or sees(one)]
    more = len(out[LISTED:]) + len(into[LISTED:])
    return {"out": list(out[:LISTED]), "into": list(into[:LISTED]), "more": more}
