"""The nine tools of the official memory server, over the entities of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kgd.tools.operation import Hints, Operation
from kgd.tools.server_memory import calls
from kgd.tools.server_memory.calls import indented
from kgd.tools.server_memory.parameters import refusal

_READS = Hints(read_only=True, idempotent=True)
_ADDS = Hints()
_DELETES = Hints(destructive=True, idempotent=True)
_places = count(10, 10)
"""The tools are offered in the order of their declarations."""


def _part(name: str) -> Callable[[Any], str]:
    """An answer's text is the value of its only field."""
    return lambda answer: indented(answer[name])


def _message(answer: Any) -> str:
    return str(answer["message"])


def _tool(description: str, run: Callable[[Any, Any], Any], hints: Hints, text: Callable[[Any], str]) -> Operation:
    """A tool of the official server, with the name of the function."""
    name = run.__name__
    return Operation(
        name,
        name.replace("_", " ").title(),
        description,
        hints,
        run,
        commits={} if hints.read_only else {name: "wrote"},
        offered="server-memory",
        place=next(_places),
        text=text,
        refusal=refusal,
    )


CREATE_ENTITIES = _tool(
    "Create multiple new entities in the knowledge graph", calls.create_entities, _ADDS, _part("entities")
)
CREATE_RELATIONS = _tool(
    "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
    calls.create_relations,
    _ADDS,
    _part("relations"),
)
ADD_OBSERVATIONS = _tool(
    "Add new observations to existing entities in the knowledge graph",
    calls.add_observations,
    _ADDS,
    _part("results"),
)
DELETE_ENTITIES = _tool(
    "Delete multiple entities and their associated relations from the knowledge graph",
    calls.delete_entities,
    _DELETES,
    _message,
)
DELETE_OBSERVATIONS = _tool(
    "Delete specific observations from entities in the knowledge graph", calls.delete_observations, _DELETES, _message
)
DELETE_RELATIONS = _tool(
    "Delete multiple relations from the knowledge graph", calls.delete_relations, _DELETES, _message
)
READ_GRAPH = _tool("Read the entire knowledge graph", calls.read_graph, _READS, indented)
SEARCH_NODES = _tool("Search for nodes in the knowledge graph based on a query", calls.search_nodes, _READS, indented)
OPEN_NODES = _tool("Open specific nodes in the knowledge graph by their names", calls.open_nodes, _READS, indented)
