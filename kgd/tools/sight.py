"""This file is where answers are cut to what their caller may read: nodes, relations, hits, lines of history.

What may not be read is as if it were not there: it is in no list, no count and no path of a walk, and a question about
it is refused alike whether it exists or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kgd.errors import Forbidden
from kgd.graph.edges import Card, Edge, EdgeSource
from kgd.model.access import Policy, Principal, Verb, may
from kgd.model.uri import Uri, workspace_of

if TYPE_CHECKING:
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

Sees = Callable[[Uri], bool]

_URI = re.compile(r"[a-z][a-z0-9+.-]*:[^\s]+")


def enter(session: Session, workspace: Workspace) -> None:
    """Return if the caller has any business in this workspace.

    Raises:
        Forbidden: No scope of theirs is about it.
    """
    principal = session.principal
    if principal is not None and not any(scope.workspace == workspace.id for scope in principal.scopes):
        raise Forbidden(
            f"'{principal.name}' has no scope in '{workspace.id}'", at="workspace",
            next="Name a workspace that the token is for; `whoami` lists them.",
        )  # fmt: skip


def sight(session: Session, workspace_id: str) -> Sees | None:
    """What tells whether the caller may read a node that this workspace holds or points to; None where they see all."""
    principal = session.principal
    if principal is None:
        return None
    if _sees_all(principal, workspace_id):
        return None
    known: dict[Uri, bool] = {}

    def sees(uri: Uri) -> bool:
        answer = known.get(uri)
        if answer is None:
            # Reading is the tokens' business alone, so the rules of another workspace's policy are not needed here.
            home = workspace_of(uri) or workspace_id
            answer = known[uri] = may(principal, Policy(home), Verb.READ, uri)
        return answer

    return sees


def sources(session: Session, workspace_id: str, found: Sequence[EdgeSource]) -> list[EdgeSource]:
    """The sources of a walk as the caller may see them."""
    sees = sight(session, workspace_id)
    return list(found) if sees is None else [Seen(source, sees) for source in found]


def warnings(sees: Sees | None, told: Iterable[str]) -> list[str]:
    """The warnings that name no node which the caller may not read."""
    if sees is None:
        return list(told)
    return [text for text in told if all(sees(Uri(uri.rstrip(".,:;"))) for uri in _URI.findall(text))]


class Seen:
    """An `EdgeSource` without what may not be read: neither nodes nor the relations that lead to them."""

    def __init__(self, source: EdgeSource, sees: Sees) -> None:
        self._source, self._sees = source, sees
        self.lock: AbstractContextManager[object] = getattr(source, "lock", None) or nullcontext()

    def card(self, uri: Uri) -> Card | None:
        return self._source.card(uri) if self._sees(uri) else None

    def out(self, uri: Uri) -> Sequence[Edge]:
        return [edge for edge in self._source.out(uri) if self._sees(edge.target)] if self._sees(uri) else ()

    def into(self, uri: Uri) -> Sequence[Edge]:
        return [edge for edge in self._source.into(uri) if self._sees(edge.target)] if self._sees(uri) else ()

    def resolve(self, uri: Uri) -> Uri:
        current = self._source.resolve(uri)
        return current if self._sees(current) else uri


def _sees_all(principal: Principal, workspace_id: str) -> bool:
    """Whether everything is readable in the workspaces that this principal has to do with, and in this one."""
    whole = {scope.workspace for scope in principal.scopes if scope.is_whole and Verb.READ in scope.verbs}
    return workspace_id in whole and len({scope.workspace for scope in principal.scopes}) == len(whole)
