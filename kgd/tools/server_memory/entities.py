"""The index of a workspace's entities by name.

It is kept in memory with the workspace. The writer notes changed entities; the next call reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from kgd.exchange.entities import (
    SCHEME,
    Entity,
    Link,
    entity_in,
    is_entity,
    is_implied,
    is_usual,
    link_in,
    literal_uri,
    name_in,
    spelt_name,
    uris_of,
)
from kgd.git.objects import ObjectId
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.served import Beside, Changed
from kgd.workspace.workspace import Workspace

KEPT = 8 * 2**20
"""Largest number of characters of cached entities, as many as an answer can have: about 20 MB of memory."""
TURNS = 64
"""Number of locks for writers, by name: enough for writers of different names to wait rarely for each other."""


def texts_of(entity: Entity) -> tuple[str, ...]:
    return entity.name, entity.type, *entity.observations


@dataclass(frozen=True, slots=True)
class Stored:
    """An entity as read from its node.

    Attributes:
        blob: The stored version.
        links: Target and relation, for each relation to another entity. The relation has the target's name at the time
            of reading, unless it stores the name itself.
    """

    uri: Uri
    blob: ObjectId
    entity: Entity
    is_implied: bool
    links: tuple[tuple[Uri, Link, bool], ...]

    @property
    def size(self) -> int:
        return sum(map(len, texts_of(self.entity))) + 100 * len(self.links)


class Catalogue(Beside):
    """The entities of one workspace. Thread-safe. The first look-up reads the name of each: 0.3 s for 100,000."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._last = 0
        self._changed = Changed(workspace, SCHEME)
        self._elsewhere: dict[str, set[Uri]] = {}
        """Entities whose URI does not follow from their name, by name."""
        self._names: dict[Uri, str] = {}
        self._kept: dict[Uri, Stored] = {}
        self._kept_size = 0

    # ---- by name

    def places(self, name: str) -> tuple[Uri, ...]:
        """Every URI that an entity of this name may have, or that a relation to it may use; the usual URIs come
        first."""
        usual = uris_of(self._workspace.id, name)
        with self._lock:
            self._note_names(uri for uri in self._changed.unread() if is_entity(uri, self._workspace.id))
            more = self._elsewhere.get(name, ())
        return (*usual, *sorted(uri for uri in more if uri not in usual))

    def nodes(self, name: str) -> list[Node]:
        """The nodes with this name, including implied nodes. There are two if two clones created the entity
        separately."""
        found = (self._workspace.node(uri) for uri in self.places(name) if self._workspace.graph.card(uri))
        return [node for node in found if node is not None and name_in(node) == name]

    def stored(self, uri: Uri) -> Stored | None:
        """The entity or implied node at a URI; None if there is no such node. Each version is read only once."""
        card = self._workspace.graph.card(uri)
        if card is None or card.blob is None:
            return None
        kept = self._kept.get(uri)
        if kept is not None and kept.blob == card.blob:
            return kept
        node = self._workspace.node(uri)
        if node is None:
            return None
        links = tuple(self._links_in(node))
        found = Stored(uri, card.blob, entity_in(node), is_implied(node), links)
        if self._workspace.graph.card(uri) == card:  # else the node may be newer than the blob
            self._keep(found)
        return found

    def _links_in(self, node: Node) -> Iterator[tuple[Uri, Link, bool]]:
        name = name_in(node)
        for relation in node.relations:
            if is_entity(relation.target, self._workspace.id):
                target = relation.target
                link = link_in(name, self.name_of(target), relation.type, relation.data)
                yield target, link, isinstance(relation.data.get("to"), str)

    def _keep(self, found: Stored) -> None:
        with self._lock:
            old = self._kept.pop(found.uri, None)
            self._kept[found.uri] = found
            self._kept_size += found.size - (old.size if old else 0)
            while self._kept_size > KEPT:
                self._kept_size -= self._kept.pop(next(iter(self._kept))).size

    def links_from(self, found: Stored) -> Iterator[Link]:
        """The relations to other entities."""
        for target, link, has_name in found.links:
            name = link.target if has_name else self.name_of(target)
            yield link if name == link.target else replace(link, target=name)

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
        """All entities, including implied entities, in no particular order."""
        return list(self._workspace.graph.uris(scheme=SCHEME))

    # ---- writing

    @contextmanager
    def turn(self, names: Iterable[str]) -> Iterator[None]:
        """Hold the locks of these names, so that a call's answer describes its own commit.

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

    def _note_names(self, uris: Iterable[Uri]) -> None:
        graph, home = self._workspace.graph, self._workspace.id
        for uri in uris:
            card = graph.card(uri)
            if (old := self._names.pop(uri, None)) is not None:
                self._elsewhere[old].discard(uri)
            if card and card.name and not is_usual(uri, home, card.name):
                self._names[uri] = card.name
                self._elsewhere.setdefault(card.name, set()).add(uri)
