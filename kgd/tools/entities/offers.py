"""This file is where it is worked out which names are suggested as nodes, and which nodes to be made one.

Nothing is made before somebody accepts it. An offer that was dismissed comes again when twice as much speaks for it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kgd.errors import KgdError, NotFound
from kgd.index.feed import Position
from kgd.mentions.candidates import Candidate, candidates
from kgd.mentions.doubles import NEAR, NOT_THINGS, Double, Named, doubles, may_be_double, merged
from kgd.mentions.mentions import COMMON, COMMON_SHARE, Mentions
from kgd.model.change import Edit, Upsert
from kgd.model.node import NAME_LIMIT
from kgd.model.uri import Uri, build
from kgd.workspace.usage import Usage

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

ENTITY = "entity"
TEXTS_READ = 5_000
"""The newest texts, which candidates are counted in."""
NODES_COMPARED = 20_000
"""The newest nodes, which are compared with each other by name; of those, some by meaning."""
COMPARED_BY_MEANING = 300
"""Of each type, the newest, each with all of its type."""
COMPARED_EACH = 3
OFFERED = 20
"""Of each kind, at a time."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A node to be made at `source`, or two nodes of which `source` stays. `count` is how much speaks for it."""

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
    """What is suggested now: names that recur, the most frequent first, then doubles, the most alike first.

    Reads at most the newest texts and names, once after something changed.
    """
    usage = Usage.of(workspace)
    decided = usage.decided()
    found = [one for one in _Offers.of(workspace).all() if not usage.is_decided(one, decided)]
    return [one for kind in (ENTITY, "merge") for one in [o for o in found if o.kind == kind][:OFFERED]]


def double(workspace: Workspace) -> list[Double]:
    """Pairs of nodes that may be one and that nobody dismissed, the most alike first; see `offered`."""
    usage = Usage.of(workspace)
    decided = usage.decided()
    return [one for one in _Offers.of(workspace).doubles() if not usage.is_decided(_merge(one), decided)]


def edits(workspace: Workspace, offer: Offer) -> tuple[Edit, ...]:
    """What accepting it does.

    Raises:
        NotFound: One of the two nodes is gone, or cannot be read.
    """
    if offer.kind == ENTITY:
        return (Upsert(offer.source, type=ENTITY, name=offer.more["name"], expect_version=0),)
    both = (offer.source, Uri(offer.more["target"]))
    # The versions first: a text may be newer than its version is said to be, never older.
    one, other = (workspace.version(workspace.path(uri), anew=True) for uri in both)
    keep, drop = (workspace.readable(uri) for uri in both)
    if keep is None or drop is None:
        raise NotFound("one of the two is not there any more", at=offer.source, next="List the suggestions again.")
    return merged(keep, [drop], (one, other))


class _Offers:
    """What was worked out, for as long as nothing changes."""

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
        """Pairs that mean the same, where there are vectors."""
        meaning = self._workspace.meaning
        if not meaning.share or len(nodes) < 2:
            return
        newest = [node.uri for node in nodes[:COMPARED_BY_MEANING] if self._says_something(node.uri)]
        yield from meaning.pairs(newest, [node.uri for node in nodes], NEAR, COMPARED_EACH)

    def _says_something(self, uri: Uri) -> bool:
        """Of a node without a text there is only its name to go by, which says nothing of what it means."""
        stored = self._workspace.readable(uri)
        return stored is not None and bool(stored.summary.strip() or stored.content.strip())


def _entity(workspace: Workspace, name: str) -> Uri | None:
    try:
        return build(ENTITY, workspace.id, [name.encode()]) if len(name) <= NAME_LIMIT else None
    except (KgdError, UnicodeEncodeError):
        return None


def _offer(uri: Uri, one: Candidate, of: int) -> Offer:
    reason = f"'{one.name}' is named in {one.count} of the {of} newest texts, and nothing goes by that name"
    return Offer("entity", uri, reason, one.count, {"name": one.name, "texts": list(one.texts)})


def _merge(one: Double) -> Offer:
    return Offer("merge", one.keep, one.reason, 1, {"target": one.drop})
