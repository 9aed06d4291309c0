"""Calls of the memory server's clients: reads of entities and relations, and writes.

Each call answers as the official server would. A write makes one commit, or several if it has more than 2,000 changes.
If another client changes the same entities between a call's read and its commit, the call reads them again; no write is
lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from typing_extensions import TypedDict

from kgd.errors import InvariantViolation, KgdError, Limit, NotFound, Stale
from kgd.exchange.entities import (
    Entity,
    Link,
    entity_fields,
    entity_in,
    hashed_uri,
    implied_fields,
    is_entity,
    is_implied,
    literal_uri,
    order,
    relation_to,
    stored_type,
)
from kgd.model.change import ChangeSet, Delete, Edit, Relate, Unrelate, Upsert, subject_from
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.tools import addressing
from kgd.tools.server_memory.entities import Catalogue, Stored, texts_of
from kgd.tools.server_memory.parameters import (
    AddObservations,
    CreateEntities,
    CreateRelations,
    DeleteEntities,
    DeleteObservations,
    DeleteRelations,
    OpenNodes,
    ReadGraph,
    SearchNodes,
    Told,
)
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.transaction import MAX_EDITS

WHOLE_LIMIT = 8 * 2**20
"""Largest size of an answer in bytes. These tools have no cursor, so a larger answer is refused."""


class EntityAnswer(TypedDict):
    name: str
    entityType: str
    observations: list[str]


RelationAnswer = TypedDict("RelationAnswer", {"from": str, "to": str, "relationType": str})


class GraphAnswer(TypedDict):
    entities: list[EntityAnswer]
    relations: list[RelationAnswer]


def indented(value: object) -> str:
    """JSON as the official server writes it.

    Raises:
        Limit: The text is larger than an answer may be.
    """
    written = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    if len(written) > WHOLE_LIMIT:
        raise _too_much()
    return written.decode()


def read_graph(session: Session, params: ReadGraph) -> GraphAnswer:
    catalogue, answer = Catalogue.of(workspace_of(session)), Answer()
    for found in _stored(catalogue, catalogue.all()):
        answer.take(None if found.is_implied else found.entity, catalogue.links_from(found))
    return answer.plain()


def search_nodes(session: Session, params: SearchNodes) -> GraphAnswer:
    """Entities with the query in their name, type or an observation, and every relation from or to one of them."""
    workspace, asked, answer = workspace_of(session), params.query.lower(), Answer()
    catalogue = Catalogue.of(workspace)
    for found in _stored(catalogue, workspace.text().containing(params.query)):
        if not found.is_implied and any(asked in text.lower() for text in texts_of(found.entity)):
            answer.take(found.entity, _links_of(catalogue, found))
    return answer.plain()


def open_nodes(session: Session, params: OpenNodes) -> GraphAnswer:
    catalogue, answer = Catalogue.of(workspace_of(session)), Answer()
    named = {node.uri for name in dict.fromkeys(params.names) for node in catalogue.nodes(name)}
    for found in _stored(catalogue, named):
        if not found.is_implied:
            answer.take(found.entity, _links_of(catalogue, found))
    return answer.plain()


def workspace_of(session: Session, *, writing: bool = False) -> Workspace:
    """The workspace of the client's directory; these tools cannot select another.

    Raises:
        NotFound: The directory has no workspace; suggests a remedy.
    """
    try:
        return addressing.choose(session, None, writing=writing)
    except NotFound:
        raise NotFound(
            "there is no workspace in the directory of this client",
            next="Name its folder in the client's settings, `kgd mcp -C FOLDER ...`; `kgd up` in a folder creates one.",
        ) from None


def _stored(catalogue: Catalogue, uris: Iterable[Uri]) -> Iterator[Stored]:
    """The entities at these URIs, including implied entities."""
    return filter(None, map(catalogue.stored, uris))


def _links_of(catalogue: Catalogue, found: Stored) -> Iterator[Link]:
    """Every relation that starts or ends at the entity, or at another URI that its name may have."""
    yield from catalogue.links_from(found)
    name = found.entity.name
    for place in dict.fromkeys((found.uri, *catalogue.places(name))):
        yield from (link for _, link in catalogue.links_to(place) if link.target == name)


class Answer:
    """A graph under construction, limited to the size of an answer."""

    def __init__(self) -> None:
        self._entities: list[Entity] = []
        self._links: dict[tuple[str, str, str], Link] = {}
        self._size = 0

    def take(self, entity: Entity | None, links: Iterable[Link]) -> None:
        """Add an entity, and those relations that are not in the graph yet.

        Raises:
            Limit: An estimate of the size is over the limit; `indented` checks the exact size.
        """
        if entity is not None:
            self._entities.append(entity)
            self._size += sum(map(len, texts_of(entity)))
        for link in links:
            key = link.source, link.target, link.type
            if key not in self._links:
                self._links[key] = link
                self._size += sum(map(len, key))
        if self._size > WHOLE_LIMIT:
            raise _too_much()

    def plain(self) -> GraphAnswer:
        """Entities and relations in the order of their creation."""
        answer: Any = {
            "entities": [one.plain() for one in sorted(self._entities, key=order)],
            "relations": [one.plain() for one in sorted(self._links.values(), key=lambda link: link.order)],
        }
        found: GraphAnswer = answer
        return found


def _too_much() -> Limit:
    return Limit(
        f"the answer is larger than {WHOLE_LIMIT // 2**20} MiB", next="Ask for less with search_nodes or open_nodes."
    )


ATTEMPTS = 50
"""Largest number of attempts of a call while other tools write the same entities."""

T = TypeVar("T")


class EntitiesAnswer(TypedDict):
    entities: list[EntityAnswer]


class RelationsAnswer(TypedDict):
    relations: list[RelationAnswer]


class Added(TypedDict):
    entityName: str
    addedObservations: list[str]


class AddedAnswer(TypedDict):
    results: list[Added]


class DoneAnswer(TypedDict):
    success: bool
    message: str


def create_entities(session: Session, params: CreateEntities) -> EntitiesAnswer:
    """Create the entities that do not exist yet, and return them."""

    def plan(draft: Draft) -> list[Entity]:
        made = []
        for given in params.entities:
            if draft.is_new(given.name):
                entity = Entity(given.name, given.entityType, tuple(given.observations), draft.catalogue.added())
                draft.make(entity)
                made.append(entity)
        return made

    made = carry_out(session, params.tool(), [one.name for one in params.entities], plan)
    return {"entities": [one.plain() for one in made]}  # type: ignore[misc]


def create_relations(session: Session, params: CreateRelations) -> RelationsAnswer:
    """Create the relations that do not exist yet, and return them. Neither end has to be an entity."""

    def plan(draft: Draft) -> list[Link]:
        made = []
        for given in params.relations:
            link = Link(given.source, given.to, given.relationType)
            if not draft.has(link):
                link = Link(link.source, link.target, link.type, draft.catalogue.added())
                draft.relate(link)
                made.append(link)
        return made

    made = carry_out(session, params.tool(), [one.source for one in params.relations], plan)
    return {"relations": [one.plain() for one in made]}  # type: ignore[misc]


def add_observations(session: Session, params: AddObservations) -> AddedAnswer:
    """Add the observations that do not exist yet, and return them. If an entity is missing, nothing is added."""

    def plan(draft: Draft) -> list[Added]:
        results: list[Added] = []
        for given in params.observations:
            before = draft.observations(given.entityName)
            if before is None:
                raise Told(f"Entity with name {given.entityName} not found")
            known = set(before)
            new = [text for text in given.contents if text not in known]
            draft.observe(given.entityName, [*before, *new])
            results.append({"entityName": given.entityName, "addedObservations": new})
        return results

    return {"results": carry_out(session, params.tool(), [one.entityName for one in params.observations], plan)}


def delete_entities(session: Session, params: DeleteEntities) -> DoneAnswer:
    """Delete entities with every relation from and to them. A missing entity is not an error."""

    def plan(draft: Draft) -> None:
        for name in dict.fromkeys(params.entityNames):
            draft.delete(name)

    carry_out(session, params.tool(), params.entityNames, plan)
    return {"success": True, "message": "Entities deleted successfully"}


def delete_observations(session: Session, params: DeleteObservations) -> DoneAnswer:
    def plan(draft: Draft) -> None:
        for given in params.deletions:
            before = draft.observations(given.entityName)
            if before is not None:
                gone = set(given.observations)
                draft.observe(given.entityName, [text for text in before if text not in gone])

    carry_out(session, params.tool(), [one.entityName for one in params.deletions], plan)
    return {"success": True, "message": "Observations deleted successfully"}


def delete_relations(session: Session, params: DeleteRelations) -> DoneAnswer:
    def plan(draft: Draft) -> None:
        for given in params.relations:
            draft.unrelate(Link(given.source, given.to, given.relationType))

    carry_out(session, params.tool(), [one.source for one in params.relations], plan)
    return {"success": True, "message": "Relations deleted successfully"}


def carry_out(session: Session, operation: str, names: Sequence[str], plan: Callable[[Draft], T]) -> T:
    """Plan on the current state and commit; start again if the state changed in between.

    Raises:
        KgdError: Nothing was written, except that part of a call with more than 2,000 changes may have been written.
    """
    workspace = workspace_of(session, writing=True)
    catalogue = Catalogue.of(workspace)
    author = session.author(workspace)
    with catalogue.turn(names):
        for attempt in range(ATTEMPTS):
            draft = Draft(workspace, catalogue)
            answer = plan(draft)
            edits = draft.edits()
            try:
                for start in range(0, len(edits), MAX_EDITS):
                    part = tuple(edits[start : start + MAX_EDITS])
                    session.submit(workspace, ChangeSet(part, author, _subject(operation, part), operation=operation))
            except (Stale, NotFound, InvariantViolation) as refusal:
                if attempt == ATTEMPTS - 1 or not _may_pass(refusal, attempt):
                    raise
            else:
                return answer
    raise AssertionError("unreachable")


def _subject(operation: str, edits: Sequence[Edit]) -> str:
    """The subject in `kgd log`. It names the tool, which says more than the kinds of the edits."""
    first, *others = dict.fromkeys(str(getattr(edit, "uri", "") or getattr(edit, "source", "")) for edit in edits)
    return subject_from(f"{operation.replace('_', ' ')}:", first, more=len(others))


def _may_pass(refusal: KgdError, attempt: int) -> bool:
    """Whether a retry may succeed: an entity may still find an unused URI, but a broken file stays broken."""
    return isinstance(refusal, Stale) or attempt < 3


@dataclass(slots=True)
class Draft:
    """The planned changes of a call, on top of the stored state."""

    workspace: Workspace
    catalogue: Catalogue
    _upserts: dict[Uri, Upsert] = field(default_factory=dict)
    _observed: dict[Uri, list[str]] = field(default_factory=dict)
    _made: dict[str, Uri] = field(default_factory=dict)
    _keys: dict[str, Uri] = field(default_factory=dict)
    _related: dict[tuple[str, str, str], Relate] = field(default_factory=dict)
    _unrelated: dict[tuple[Uri, Uri, str], Unrelate] = field(default_factory=dict)
    _deleted: dict[Uri, Delete] = field(default_factory=dict)
    _seen: dict[str, tuple[int, Node] | None] = field(default_factory=dict)

    def edits(self) -> list[Edit]:
        self._drop_what_is_left_empty()
        relates = [edit for edit in self._related.values() if edit.source not in self._deleted]
        unrelates = [edit for edit in self._unrelated.values() if edit.source not in self._deleted]
        return [*self._upserts.values(), *relates, *unrelates, *self._deleted.values()]

    # ---- entities

    def is_new(self, name: str) -> bool:
        return name not in self._made and self._entity(name) is None

    def make(self, entity: Entity) -> None:
        uri, version = self._place(entity.name)
        self._upserts[uri] = Upsert(uri, **entity_fields(entity), expect_version=version)
        self._made[entity.name] = uri

    def observations(self, name: str) -> list[str] | None:
        """The observations of an entity after the planned changes; None if there is no such entity."""
        seen = self._read(name)
        return None if seen is None else self._observed.get(seen[1].uri, list(entity_in(seen[1]).observations))

    def observe(self, name: str, observations: list[str]) -> None:
        seen = self._read(name)
        assert seen is not None
        version, node = seen
        self._observed[node.uri] = observations
        self._upserts.pop(node.uri, None)
        if observations != list(entity_in(node).observations):
            self._upserts[node.uri] = Upsert(node.uri, data={"observations": observations}, expect_version=version)

    def delete(self, name: str) -> None:
        for node in self.catalogue.nodes(name):
            self._deleted[node.uri] = Delete(node.uri)
        for place in self.catalogue.places(name):
            for source, link in self.catalogue.links_to(place):
                if link.target == name:
                    self._unrelate(source, place, link.type)
            for edge in self.workspace.graph.into(place):
                if place in self._deleted and not is_entity(edge.target, self.workspace.id):
                    self._unrelate(edge.target, place, edge.type)

    # ---- relations

    def has(self, link: Link) -> bool:
        return (link.source, link.target, link.type) in self._related or any(self._stored(link))

    def relate(self, link: Link) -> None:
        source, version = self._place(link.source)
        if version == 0 and source not in self._upserts:
            self._upserts[source] = Upsert(source, **implied_fields(link.source), expect_version=0)
            self._made[link.source] = source
        target = self._place(link.target)[0]
        relation = relation_to(target, link)
        self._related[link.source, link.target, link.type] = Relate(source, relation)

    def unrelate(self, link: Link) -> None:
        for source, target in list(self._stored(link)):
            self._unrelate(source, target, link.type)

    def _unrelate(self, source: Uri, target: Uri, type: str) -> None:
        stored = stored_type(type)
        self._unrelated[source, target, stored] = Unrelate(source, target, stored)

    def _stored(self, link: Link) -> Iterable[tuple[Uri, Uri]]:
        """Source and target of each stored relation that equals the link."""
        graph, type = self.workspace.graph, stored_type(link.type)
        for source in self.catalogue.places(link.source):
            for target in self.catalogue.places(link.target) if graph.card(source) else ():
                if any(edge.target == target and edge.type == type for edge in graph.out(source)):
                    yield source, target

    def _drop_what_is_left_empty(self) -> None:
        """Delete implied nodes that lose their last relation."""
        for source in {source for source, _, _ in self._unrelated} - set(self._deleted):
            version = self._version(source)
            node = self.workspace.node(source)
            if node is not None and is_implied(node):
                left = [one for one in node.relations if (source, one.target, one.type) not in self._unrelated]
                if not left:
                    self._deleted[source] = Delete(source, version)

    # ---- places of entities

    def _entity(self, name: str) -> Node | None:
        return next((node for node in self.catalogue.nodes(name) if not is_implied(node)), None)

    def _read(self, name: str) -> tuple[int, Node] | None:
        """An entity and its version. The version is read first, so that the commit detects a change in between."""
        if name not in self._seen:
            found = self._entity(name)
            version = self._version(found.uri) if found else 0
            node = self._entity(name) if found else None
            self._seen[name] = (version, node) if node and found and node.uri == found.uri else None
        return self._seen[name]

    def _version(self, uri: Uri) -> int:
        found = self.workspace.node_version(uri)
        return found.count if found else 0

    def _place(self, name: str) -> tuple[Uri, int]:
        """The URI and version of an entity; for a new entity, its future URI and version 0."""
        if name in self._made:
            return self._made[name], 0
        for node in self.catalogue.nodes(name):
            return node.uri, self._version(node.uri)
        literal = literal_uri(self.workspace.id, name)
        uri = literal if literal and not self._is_taken(literal) else hashed_uri(self.workspace.id, name)
        self._keys[collision_key(uri)] = uri
        return uri, 0

    def _is_taken(self, uri: Uri) -> bool:
        """Whether another existing or planned node has this URI, ignoring case."""
        graph = self.workspace.graph
        return uri in graph or graph.twin(uri) is not None or self._keys.get(collision_key(uri), uri) != uri
