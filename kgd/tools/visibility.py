"""Visibility: answers without nodes, relations, mentions, hits and history that the caller may not read.

A hidden node is treated as absent: no list, count or walk includes it. A question about a node is refused in the same
way whether the node is hidden or missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kgd.errors import Forbidden, InvariantViolation, KgdError, Unavailable
from kgd.graph.edges import Card, Edge, EdgeSource
from kgd.mentions.mentions import MENTIONS, strength_of
from kgd.mentions.mentions import Mentions as TextMentions
from kgd.model.access import Policy, Principal, Verb, may, sees_all
from kgd.model.node import strings_in
from kgd.model.uri import Uri, workspace_of
from kgd.retrieval.query import Mentions
from kgd.workspace.writing.broken_links import BrokenLinks

if TYPE_CHECKING:
    from kgd.tools.nodes import MentionsAnswer
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

Sees = Callable[[Uri], bool]

LISTED = 20
"""Mentions per direction in an answer about a node. A walk can follow all mentions."""

_URI = re.compile(r"[a-z][a-z0-9+.-]*:[^\s]+")
_PLACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:/|(?:nodes|conflicts|log|bulk|memories|kept)/)[^\s'\"]+")
"""A URI, or the path of a file that belongs to nodes, in the text of a refusal."""


def sources(session: Session, workspace_id: str, found: Sequence[EdgeSource]) -> list[EdgeSource]:
    """The sources of a walk, without nodes that the caller may not read."""
    sees = session.sight(workspace_id)
    return list(found) if sees is None else [Seen(source, sees) for source in found]


def warnings(sees: Sees, told: Iterable[str]) -> list[str]:
    """The warnings that do not name a node hidden from the caller.

    Counts of relations to a deleted node include only those of readable nodes. A sum over several deleted nodes is left
    out.
    """
    counted = (text.seen_by(sees) if isinstance(text, BrokenLinks) else text for text in told)
    return [text for text in counted if text and all(sees(Uri(uri.rstrip(".,:;"))) for uri in _URI.findall(text))]


def refusal(session: Session, error: KgdError, arguments: Mapping[str, Any]) -> KgdError:
    """The error without names that the caller may not read and did not send.

    A change can reach such a node by an alias, by a revert, or by a name that differs only in case.
    """
    principal = session.principal
    if principal is None:
        return error
    words = [word.rstrip(".,:;)?") for text in (error.message, error.at, error.next) for word in _PLACE.findall(text)]
    named = [word for word in words if "<" not in word]  # a URI cannot contain `<`, but a pattern for URIs can
    given = [text.strip("/") for text in strings_in(arguments)]
    if all(_may_read(principal, word) or _is_given(word, given) for word in named):
        return error
    if isinstance(error, InvariantViolation):
        return InvariantViolation(
            "this name conflicts with a node that the token may not read", next="Choose another name."
        )
    return Forbidden(
        f"'{principal.name}' may not do that: the change affects nodes that the token may not read",
        next="Leave that part out, or ask for a token that covers it.",
    )


def _may_read(principal: Principal, place: str) -> bool:
    if "://" not in place:
        return any(sees_all(principal, scope.workspace) for scope in principal.scopes)
    uri = Uri(place)
    home = workspace_of(uri)
    homes = {home} if home else {scope.workspace for scope in principal.scopes}
    return any(may(principal, Policy(one), Verb.READ, uri) for one in homes)


def _is_given(place: str, given: Iterable[str]) -> bool:
    """Whether the caller sent this URI or path, whole or without its first segments; errors shorten long URIs and
    paths."""
    return any(
        place == text
        or place.endswith(f"/{text}")
        or (len(place) > 70 and text.startswith(place))
        or unquote(place).endswith(f"/{text}")
        for text in given
    )


class Seen:
    """An `EdgeSource` without unreadable nodes and the relations to them."""

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


def mentioned(session: Session, workspace: Workspace) -> Mentions | None:
    """The mentions of nodes in texts that the caller may see; None if the index is unavailable."""
    try:
        found = TextMentions.of(workspace)
    except Unavailable:  # the index cannot be opened: search without mentions
        return None
    sees = session.sight(workspace.id)
    found.catch_up()
    return found if sees is None else SeenMentions(found, sees)


class SeenMentions(Seen):
    """Mentions without nodes that the caller may not read."""

    def __init__(self, found: TextMentions, sees: Sees) -> None:
        super().__init__(found, sees)
        self._found = found

    def look_up(self, out: Collection[Uri], into: Collection[Uri]) -> None:
        self._found.look_up(out, into)

    def mentioned(self, uri: Uri) -> Mapping[Uri, float]:
        return {other: self._strength(other) for other in self._seen(uri, self._found.mentioned(uri))}

    def mentioning(self, uri: Uri) -> Mapping[Uri, float]:
        seen = self._seen(uri, self._found.mentioning(uri))
        return dict.fromkeys(seen, strength_of(len(seen)))

    def _seen(self, uri: Uri, found: Iterable[Uri]) -> list[Uri]:
        return [other for other in found if self._sees(other)] if self._sees(uri) else []

    def _strength(self, uri: Uri) -> float:
        """A mention's strength, from readable texts only, so that it does not reveal the number of hidden texts."""
        return strength_of(sum(map(self._sees, self._found.mentioning(uri))))


def walked(workspace: Workspace, edge_types: Collection[str]) -> list[EdgeSource]:
    """The edges of a walk: stored relations, the code tree's, and mentions if `edge_types` names their type."""
    if MENTIONS not in edge_types:
        return workspace.sources()
    found = TextMentions.of(workspace)
    found.catch_up()
    return [*workspace.sources(), found]


def mentions_of(workspace: Workspace, uri: Uri, sees: Sees | None) -> MentionsAnswer:
    """The mentions in a node's text, and the mentions of the node, `LISTED` of each. `sees` is None if unrestricted."""
    derived = TextMentions.of(workspace)
    derived.catch_up()
    out = [one for one in derived.mentioned(uri) if sees is None or sees(one)]
    into = [one for one in derived.mentioning(uri) if sees is None or sees(one)]
    more = len(out[LISTED:]) + len(into[LISTED:])
    return {"out": list(out[:LISTED]), "into": list(into[:LISTED]), "more": more}
