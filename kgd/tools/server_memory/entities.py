"""The index of a workspace's entities: by name, and by substrings of their texts.

It is kept in memory with the workspace. The writer notes changed entities; the next call reads them.
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
from kgd.tools.server_memory.text_search import Said
from kgd.workspace.changed_nodes import Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

TURNS = 64
"""Locks for writers, by name: enough that writers of different names rarely wait for each other."""


class Catalogue:
    """The entities of one workspace, by `Catalogue.of`. Thread-safe."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._last = 0
        self._changed = Changed(workspace, SCHEME)
        self._elsewhere: dict[str, set[Uri]] = {}
        """Entities at URIs other than their names imply, by name."""
        self._names: dict[Uri, str] = {}
        self._said = Said(workspace)
        self._note_names(workspace.graph.uris(scheme=SCHEME))

    @classmethod
    def of(cls, workspace: Workspace) -> Catalogue:
        """The catalogue of a workspace. The first call reads the name of every entity: 0.3 s for 100,000."""
        return workspace.beside(cls, cls)

    # ---- by name

    def places(self, name: str) -> tuple[Uri, ...]:
        """Every URI that an entity of this name, or a relation to it, may have; the usual ones first."""
        usual = uris_of(self._workspace.id, name)
        with self._lock:
            self._catch_up()
            more = self._elsewhere.get(name, ())
        return (*usual, *sorted(uri for uri in more if uri not in usual))

    def nodes(self, name: str) -> list[Node]:
        """The nodes of a name, with implied ones. There are two if two clones created the entity separately."""
        found = (self._workspace.node(uri) for uri in self.places(name) if self._workspace.graph.card(uri))
        return [node for node in found if node is not None and name_in(node) == name]

    def name_of(self, uri: Uri) -> str:
        """The name for the target of a relation, whether or not the target exists."""
        card = self._workspace.graph.card(uri)
        if card is None or literal_uri(self._workspace.id, card.name) == uri:
            return card.name if card else spelt_name(uri)
        node = self._workspace.node(uri)
        return name_in(node) if node else spelt_name(uri)

    def links_to(self, uri: Uri) -> Iterator[tuple[Uri, Link]]:
        """The relations of other entities to this URI, each with its source."""
        graph, home = self._workspace.graph, self._workspace.id
        for edge in graph.into(uri):
            source = edge.target
            if is_entity(source, home):
                data = graph.relation_data(source, uri, edge.type)
                yield source, link_in(self.name_of(source), self.name_of(uri), edge.type, data)

    def all(self) -> list[Uri]:
        """All entities, with implied ones, unordered."""
        return list(self._workspace.graph.uris(scheme=SCHEME))

    # ---- by substring

    def candidates(self, piece: str) -> list[Uri]:
        """A superset of the entities with the substring in their name, type or observations; the caller checks each."""
        with self._lock:
            self._catch_up()
        return self._said.candidates(piece)

    # ---- writing

    @contextmanager
    def turn(self, names: Iterable[str]) -> Iterator[None]:
        """Hold the locks of these names, so that the answer of a call describes its own commit.

        Writes by other tools take no lock; the expected versions of a commit detect them.
        """
        with ExitStack() as held:
            for number in sorted({hash(name) % TURNS for name in names}):
                held.enter_context(self._turns[number])
            yield

    def added(self) -> int:
        """The order key of the next entity or relation: microseconds since the epoch, unique and increasing."""
        with self._lock:
            self._last = max(self._last + 1, self._workspace.now() * 1_000_000)
            return self._last

    # ---- updates

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
