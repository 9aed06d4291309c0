"""Reads of entities and relations for clients of the memory server: all, by name, or by substring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from typing_extensions import TypedDict

from kgd.errors import Limit, NotFound
from kgd.exchange.entities import Entity, Link, order
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.server_memory.entities import Catalogue, Stored, texts_of
from kgd.tools.server_memory.parameters import OpenNodes, ReadGraph, SearchNodes
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

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
