"""Parameters and answer of `submit_subgraph`, for both of its ends."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.tools.parameters import Many, Params
from kgd.tools.write.changes import ChangesAsInPut
from kgd.tools.write.put import Similar, Written


class SubmitParams(Params):
    remote: Annotated[str | None, Field(description="a registered workspace, or a remote of this one")] = None
    changes: ChangesAsInPut | None = None
    roots: Annotated[
        Many[str],
        Field(description="or these nodes and all within max_cost; neither: changes since the last submission"),
    ] = Field(default_factory=list)
    max_cost: Annotated[float, Field(ge=0)] = 0.0
    base: Annotated[str, Field(description="the commit you saw")] = ""
    message: Annotated[str, Field(max_length=4_000)] = ""
    request_id: Annotated[str, Field(max_length=200)] = ""
    workspace: str | None = None


What = Literal["merged", "proposed", "unchanged"]


class Became(TypedDict):
    """The outcome of one change, by its index in the list."""

    index: int
    uri: str
    outcome: What
    why: NotRequired[str]


class SubmitResult(TypedDict):
    """`look` names the next command; `conflicts` are the nodes that need a decision."""

    workspace: str
    outcome: What
    commit: str | None
    changes: list[Became]
    look: str
    remote: NotRequired[str]
    proposal: NotRequired[str]
    why: NotRequired[str]
    conflicts: NotRequired[list[str]]
    nodes: NotRequired[list[Written]]
    created: NotRequired[list[str]]
    deleted: NotRequired[list[str]]
    similar: NotRequired[list[Similar]]
    warnings: NotRequired[list[str]]
    repeated: NotRequired[bool]
