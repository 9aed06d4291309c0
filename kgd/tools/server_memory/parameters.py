"""Arguments and errors of the memory server's tools, as the official server reads and writes them.

Unknown fields are ignored, and nothing is converted: a JSON string is not accepted as a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kgd.errors import Invalid, KgdError
from kgd.tools.operation import Refusal
from kgd.tools.parameters import Params


class Told(Invalid):
    """A refusal in the exact words of the official server."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def refusal(error: KgdError) -> Refusal:
    """A refusal as the official server sends it: text only."""
    return Refusal(error.text if isinstance(error, Told) else f"{error.code}: {error}", None)


class MemoryParams(Params):
    """Arguments of one tool, which is named after the class: ``create_entities`` for `CreateEntities`."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, str_max_length=None)

    @classmethod
    def tool(cls) -> str:
        return "_".join(re.findall("[A-Z][a-z]+", cls.__name__)).lower()

    @classmethod
    def refusal_of(cls, error: ValidationError) -> KgdError:
        said = "\n".join(
            f"Invalid input: expected {_expected(cls, one['loc'])}, received {_received(one)} at {_place(one['loc'])}"
            for one in error.errors(include_url=False, include_context=False)
        )
        return Told(f"MCP error -32602: Input validation error: Invalid arguments for tool {cls.tool()}: {said}")

    @classmethod
    def correction(cls, at: str) -> str:
        return ""  # the official server gives none


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class EntityGiven(Part):
    name: Annotated[str, Field(description="The name of the entity")]
    entityType: Annotated[str, Field(description="The type of the entity")]
    observations: Annotated[list[str], Field(description="An array of observation contents associated with the entity")]


class RelationGiven(Part):
    source: Annotated[str, Field(alias="from", description="The name of the entity where the relation starts")]
    to: Annotated[str, Field(description="The name of the entity where the relation ends")]
    relationType: Annotated[str, Field(description="The type of the relation")]


class ObservationsGiven(Part):
    entityName: Annotated[str, Field(description="The name of the entity to add the observations to")]
    contents: Annotated[list[str], Field(description="An array of observation contents to add")]


class DeletionGiven(Part):
    entityName: Annotated[str, Field(description="The name of the entity containing the observations")]
    observations: Annotated[list[str], Field(description="An array of observations to delete")]


class CreateEntities(MemoryParams):
    entities: list[EntityGiven]


class CreateRelations(MemoryParams):
    relations: list[RelationGiven]


class AddObservations(MemoryParams):
    observations: list[ObservationsGiven]


class DeleteEntities(MemoryParams):
    entityNames: Annotated[list[str], Field(description="An array of entity names to delete")]


class DeleteObservations(MemoryParams):
    deletions: list[DeletionGiven]


class DeleteRelations(MemoryParams):
    relations: Annotated[list[RelationGiven], Field(description="An array of relations to delete")]


class ReadGraph(MemoryParams):
    pass


class SearchNodes(MemoryParams):
    query: Annotated[
        str, Field(description="The search query to match against entity names, types, and observation content")
    ]


class OpenNodes(MemoryParams):
    names: Annotated[list[str], Field(description="An array of entity names to retrieve")]


_RECEIVED = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def _received(one: Any) -> str:
    if one["type"] == "missing":
        return "undefined"
    return _RECEIVED.get(type(one["input"]), "null")


def _expected(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """The JSON type expected at a place."""
    kind: Any = model
    for part in location:
        if isinstance(part, int):
            kind = get_args(kind)[0]
        else:
            fields = kind.model_fields
            kind = next(field.annotation for name, field in fields.items() if part in (name, field.alias))
    return "string" if kind is str else "array" if get_origin(kind) is list else "object"


def _place(location: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")
