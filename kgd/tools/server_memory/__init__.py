"""The nine tools of the official memory server, over the entities of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgd.tools.operation import Hints, Operation
from kgd.tools.server_memory import parameters as given
from kgd.tools.server_memory import reading, writing
from kgd.tools.server_memory.parameters import refusal
from kgd.tools.server_memory.reading import GraphAnswer, indented

_READS = Hints(read_only=True, idempotent=True)
_ADDS = Hints()
_DELETES = Hints(destructive=True, idempotent=True)


def _part(name: str) -> Callable[[Any], str]:
    """An answer's text is the value of its only field."""
    return lambda answer: indented(answer[name])


def _message(answer: Any) -> str:
    return str(answer["message"])


def _tool(
    name: str,
    description: str,
    Params: type[given.MemoryParams],
    Result: Any,
    hints: Hints,
    run: Callable[[Any, Any], Any],
    text: Callable[[Any], str],
    place: int,
) -> Operation:
    title = name.replace("_", " ").title()
    return Operation(
        name,
        title,
        description,
        Params,
        Result,
        hints,
        run,
        commits={} if hints.read_only else {name: "wrote"},
        offered="server-memory",
        place=place,
        text=text,
        refusal=refusal,
    )


CREATE_ENTITIES = _tool(
    "create_entities",
    "Create multiple new entities in the knowledge graph",
    given.CreateEntities,
    writing.EntitiesAnswer,
    _ADDS,
    writing.create_entities,
    _part("entities"),
    10,
)
CREATE_RELATIONS = _tool(
    "create_relations",
    "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
    given.CreateRelations,
    writing.RelationsAnswer,
    _ADDS,
    writing.create_relations,
    _part("relations"),
    20,
)
ADD_OBSERVATIONS = _tool(
    "add_observations",
    "Add new observations to existing entities in the knowledge graph",
    given.AddObservations,
    writing.AddedAnswer,
    _ADDS,
    writing.add_observations,
    _part("results"),
    30,
)
DELETE_ENTITIES = _tool(
    "delete_entities",
    "Delete multiple entities and their associated relations from the knowledge graph",
    given.DeleteEntities,
    writing.DoneAnswer,
    _DELETES,
    writing.delete_entities,
    _message,
    40,
)
DELETE_OBSERVATIONS = _tool(
    "delete_observations",
    "Delete specific observations from entities in the knowledge graph",
    given.DeleteObservations,
    writing.DoneAnswer,
    _DELETES,
    writing.delete_observations,
    _message,
    50,
)
DELETE_RELATIONS = _tool(
    "delete_relations",
    "Delete multiple relations from the knowledge graph",
    given.DeleteRelations,
    writing.DoneAnswer,
    _DELETES,
    writing.delete_relations,
    _message,
    60,
)
READ_GRAPH = _tool(
    "read_graph",
    "Read the entire knowledge graph",
    given.ReadGraph,
    GraphAnswer,
    _READS,
    reading.read_graph,
    indented,
    70,
)
SEARCH_NODES = _tool(
    "search_nodes",
    "Search for nodes in the knowledge graph based on a query",
    given.SearchNodes,
    GraphAnswer,
    _READS,
    reading.search_nodes,
    indented,
    80,
)
OPEN_NODES = _tool(
    "open_nodes",
    "Open specific nodes in the knowledge graph by their names",
    given.OpenNodes,
    GraphAnswer,
    _READS,
    reading.open_nodes,
    indented,
    90,
)
