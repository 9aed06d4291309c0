"""Suggestions of nodes for recurring names, and of merges of duplicate nodes.

Nothing changes before a user accepts a suggestion. A dismissed suggestion returns when its evidence has doubled.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kgd.errors import KgdError, NotFound
from kgd.index.change_feed import Position
from kgd.mentions.candidates import Candidate, candidates
from kgd.mentions.duplicates import NEAR, NOT_THINGS, Double, Named, doubles, may_be_double, merged
from kgd.mentions.mentions import COMMON, COMMON_SHARE, Mentions
from kgd.model.change import Edit, Upsert
from kgd.model.node import NAME_LIMIT
from kgd.model.uri import Uri, build
from kgd.workspace.usage import Usage

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

ENTITY = "entity"
TEXTS_READ = 5_000
"""Newest texts in which candidates are counted."""
NODES_COMPARED = 20_000
"""Newest nodes compared with each other by name; some of them are also compared by meaning."""
COMPARED_BY_MEANING = 300
"""Newest nodes of each type that are compared by meaning with all nodes of their type."""
COMPARED_EACH = 3
OFFERED = 20
"""Suggestions of each kind that are shown at a time."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A node to create at `source`, or two nodes of which `source` stays. `count` is the amount of evidence."""

    kind: Literal["entity", "merge"]
    source: Uri
    reason: str
    count: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        named = f"{self.kind} {self.source} {self.more.get('target', '')}"
        return "suggestion-" + hashlib.sha256(named.encode()).hexdigest()[:16]


def offered(workspace: Workspace) -> list[Offer]:
    """The present suggestions: recurring names, most frequent first, then duplicates, most similar first.

    Reads the newest texts and names, up to a limit, once after each change of the workspace.
    """
    usage = Usage.of(workspace)
    decided = usage.decided()
    found = [one for one in _Offers.of(workspace).all() if not usage.is_decided(one, decided)]
    return [one for kind in (ENTITY, "merge") for one in [o for o in found if o.kind == kind][:OFFERED]]


def double(workspace: Workspace) -> list[Double]:
    """Pairs of nodes that may be duplicates and were not dismissed, most similar first; costs as `offered`."""
    usage = Usage.of(workspace)
    decided = usage.decided()
    return [one for one in _Offers.of(workspace).doubles() if not usage.is_decided(_merge(one), decided)]


def edits(workspace: Workspace, offer: Offer) -> tuple[Edit, ...]:
    """The edits of an accepted suggestion.

    Raises:
        NotFound: One of the two nodes is gone, or cannot be read.
    """
    if offer.kind == ENTITY:
        return (Upsert(offer.source, type=ENTITY, name=offer.more["name"], expect_version=0),)
    both = (offer.source, Uri(offer.more["target"]))
    # Read the versions first: a text may then be newer than its version, never older.
    one, other = (workspace.version(workspace.path(uri), anew=True) for uri in both)
    keep, drop = (workspace.readable(uri) for uri in both)
    if keep is None or drop is None:
        raise NotFound("one of the two nodes no longer exists", at=offer.source, next="List the suggestions again.")
    return merged(keep, [drop], (one, other))


class _Offers:
    """Suggestions of a workspace, cached until it changes."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._at: Position | None = None
        self._found: list[Offer] = []
        self._doubled: list[Double] = []
        self._doubled_at: Position | None = None

    @classmethod
    def of(cls, workspace: Workspace) -> _Offers:
        return workspace.beside(cls, cls)

    def all(self) -> Sequence[Offer]:
        with self._lock:
            end = self._workspace.feed().end()
            if end != self._at:
                self._found = [*self._entities(), *map(_merge, self._doubles())]
                self._at = end
            return self._found

    def doubles(self) -> Sequence[Double]:
        with self._lock:
            end = self._workspace.feed().end()
            if end != self._doubled_at:
                self._doubled, self._doubled_at = self._doubles(), end
            return self._doubled

    def _entities(self) -> Iterator[Offer]:
        workspace, derived = self._workspace, Mentions.of(self._workspace)
        derived.catch_up()
        texts = [text for text in workspace.feed().newest(TEXTS_READ) if text.type != "symbol"]
        said = ((text.uri, f"{text.summary}\n\n{text.content}") for text in texts)
        found = candidates(said, derived.known, most=max(COMMON, int(len(texts) * COMMON_SHARE)))
        for one in found:
            uri = _entity(workspace, one.name)
            if uri is not None and not workspace.exists(uri):
                yield _offer(uri, one, len(texts))

    def _doubles(self) -> list[Double]:
        found = self._workspace.feed().named(NODES_COMPARED, NOT_THINGS)
        nodes = [Named(uri, type, (name, *also)) for uri, type, name, also in found if may_be_double(uri, type)]
        return doubles(nodes, self._near)

    def _near(self, nodes: Sequence[Named]) -> Iterator[tuple[Uri, Uri, float]]:
        """Pairs of nodes with similar meaning; none without vectors."""
        meaning = self._workspace.meaning
        if not meaning.share or len(nodes) < 2:
            return
        newest = [node.uri for node in nodes[:COMPARED_BY_MEANING] if self._says_something(node.uri)]
        yield from meaning.pairs(newest, [node.uri for node in nodes], NEAR, COMPARED_EACH)

    def _says_something(self, uri: Uri) -> bool:
        """Whether a node has a text. A name alone does not show the meaning of a node."""
        stored = self._workspace.readable(uri)
        return stored is not None and bool(stored.summary.strip() or stored.content.strip())


def _entity(workspace: Workspace, name: str) -> Uri | None:
    try:
        return build(ENTITY, workspace.id, [name.encode()]) if len(name) <= NAME_LIMIT else None
    except (KgdError, UnicodeEncodeError):
        return None


def _offer(uri: Uri, one: Candidate, of: int) -> Offer:
    reason = f"'{one.name}' is named in {one.count} of the {of} newest texts, and no node has that name"
    return Offer("entity", uri, reason, one.count, {"name": one.name, "texts": list(one.texts)})


def _merge(one: Double) -> Offer:
    return Offer("merge", one.keep, one.reason, 1, {"target": one.drop})
