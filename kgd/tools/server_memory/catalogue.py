"""This file is where the entities of a workspace are found: by name, and by any piece of what is said of them.

Kept in memory beside the workspace. What a commit changed is noted by the writer and looked at when somebody asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kgd.exchange.entities import (
    SCHEME,
    Link,
    is_entity,
    is_usual,
    link_in,
    literal_uri,
    name_in,
    spelt_name,
    uris_of,
)
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.server_memory.said import Said
from kgd.workspace.changed import Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

TURNS = 64
"""Writers of entities of different names seldom wait for each other."""


class Catalogue:
    """The entities of one workspace. Any thread may ask; use `Catalogue.of`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._last = 0
        self._changed = Changed(workspace, SCHEME)
        self._elsewhere: dict[str, set[Uri]] = {}
        """Entities that are not where their name would have them, by name."""
        self._names: dict[Uri, str] = {}
        self._said = Said(workspace)
        self._note_names(workspace.graph.uris(scheme=SCHEME))

    @classmethod
    def of(cls, workspace: Workspace) -> Catalogue:
        """The one of this workspace. The first call looks at the name of every entity: 0.3 s for 100,000."""
        return workspace.beside(cls, cls)

    # ---- by name

    def places(self, name: str) -> tuple[Uri, ...]:
        """Every URI under which an entity of this name may be, or be pointed to, the usual ones first."""
        usual = uris_of(self._workspace.id, name)
        with self._lock:
            self._catch_up()
            more = self._elsewhere.get(name, ())
        return (*usual, *sorted(uri for uri in more if uri not in usual))

    def nodes(self, name: str) -> list[Node]:
        """The nodes of that name, those that are only implied among them. Two where two people made one apart."""
        found = (self._workspace.node(uri) for uri in self.places(name) if self._workspace.graph.card(uri))
        return [node for node in found if node is not None and name_in(node) == name]

    def name_of(self, uri: Uri) -> str:
        """The name of what a relation leads to, whether it is there or not."""
        card = self._workspace.graph.card(uri)
        if card is None or literal_uri(self._workspace.id, card.name) == uri:
            return card.name if card else spelt_name(uri)
        node = self._workspace.node(uri)
        return name_in(node) if node else spelt_name(uri)

    def links_to(self, uri: Uri) -> Iterator[tuple[Uri, Link]]:
        """The relations that other entities have to this place, each with the node it starts in."""
        graph, home = self._workspace.graph, self._workspace.id
        for edge in graph.into(uri):
            source = edge.target
            if is_entity(source, home):
                data = graph.relation_data(source, uri, edge.type)
                yield source, link_in(self.name_of(source), self.name_of(uri), edge.type, data)

    def all(self) -> list[Uri]:
        """Every entity, those that are only implied among them, in no order."""
        return list(self._workspace.graph.uris(scheme=SCHEME))

    # ---- by what is said

    def candidates(self, piece: str) -> list[Uri]:
        """The entities that may have the piece in their name, type or observations; whoever asks looks again."""
        with self._lock:
            self._catch_up()
        return self._said.candidates(piece)

    # ---- writing

    @contextmanager
    def turn(self, names: Iterable[str]) -> Iterator[None]:
        """Others who write entities of these names wait meanwhile, so that what is answered is what was done.

        Whoever writes in another way is met with the version they leave behind.
        """
        with ExitStack() as held:
            for number in sorted({hash(name) % TURNS for name in names}):
                held.enter_context(self._turns[number])
            yield

    def added(self) -> int:
        """The place of the next entity or relation: microseconds of Unix, never the same twice."""
        with self._lock:
            self._last = max(self._last + 1, self._workspace.now() * 1_000_000)
            return self._last

    # ---- in step

    def _catch_up(self) -> None:
        changed = {uri for uri in self._changed.take() if is_entity(uri, self._workspace.id)}
        self._note_names(changed)
        self._said.changed(changed)

    def _note_names(self, uris: Iterable[Uri]) -> None:
        graph, home = self._workspace.graph, self._workspace.id
        for uri in uris:
            card = graph.card(uri)
            if (old := self._names.pop(uri, None)) is not None:
                self._elsewhere[old].discard(uri)
            if card and card.name and not is_usual(uri, home, card.name):
                self._names[uri] = card.name
                self._elsewhere.setdefault(card.name, set()).add(uri)
