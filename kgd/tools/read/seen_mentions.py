"""Mentions of nodes in texts, as a caller may see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from kgd.errors import Unavailable
from kgd.mentions.mentions import Mentions as Found
from kgd.mentions.mentions import strength_of
from kgd.model.uri import Uri
from kgd.retrieval.query import Mentions
from kgd.tools import visibility
from kgd.tools.session import Session

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


def mentioned(session: Session, workspace: Workspace) -> Mentions | None:
    """The mentions of nodes in texts that the caller may see; None if the index is unavailable."""
    try:
        found = Found.of(workspace)
    except Unavailable:  # the index cannot be opened: search without mentions
        return None
    sees = visibility.sight(session, workspace.id)
    found.catch_up()
    return found if sees is None else SeenMentions(found, sees)


class SeenMentions(visibility.Seen):
    """Mentions without nodes that the caller may not read."""

    def __init__(self, found: Found, sees: visibility.Sees) -> None:
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
