"""The `graph_view` tool: a walk or the whole workspace, as a picture and as text."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from pydantic import Field

from kgd.areas.atlas import Atlas
from kgd.drawing import scene_of_groups, scene_of_walk
from kgd.drawing.svg import draw
from kgd.model.access import Verb
from kgd.model.uri import Uri
from kgd.tools import addressing, visibility
from kgd.tools.operation import Hints, Operation, as_json
from kgd.tools.parameters import Many
from kgd.tools.read import groups, traverse
from kgd.tools.read.grouping import Colour, Grouping, tones_of_walk
from kgd.tools.read.groups import GroupLink, GroupShown
from kgd.tools.read.traverse import TraverseParams, TraverseResult
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

TYPES = 20
NEWEST = 12
"""Largest number of start nodes in a picture of some types."""
LOOKED_THROUGH = 10_000
"""Number of newest nodes among which to look for nodes that the holder of a token may read."""
DRAWING = "drawing"
NOTHING_KNOWN = "Nothing is known here yet. Create a first node with put, or with `kgd remember`."
APP = "ui://kgd/graph.html"


class GraphViewParams(TraverseParams):
    start: Annotated[
        Many[str],
        Field(max_length=100, description="URIs or paths; none: the newest of `types`, or the workspace in groups"),
    ] = Field(default_factory=list)
    group: Annotated[
        Grouping | Literal["auto"],
        Field(
            description="without start: the whole workspace in groups, and relations between them; `auto`: by the "
            "first of these in which no group has more than 80 % of the nodes, beginning with `area` if there are areas"
        ),
    ] = "auto"
    opened: Annotated[
        Many[str],
        Field(
            max_length=20,
            description="ids of groups whose nodes to show. Groups of areas are open, and their ids close them; while "
            "another group is opened, they are closed, and their ids open them",
        ),
    ] = Field(default_factory=list)
    colour: Annotated[
        Colour,
        Field(description="colours of nodes: type, trouble (open conflict, stale, expired), or age of the last change"),
    ] = "type"


class GraphViewResult(TraverseResult):
    """The answer of `traverse`. For a whole workspace it has `groups` by `grouping` and the `links` between them. If
    `is_sample`, counts are estimates from `looked_at` nodes. With `colour`, `tones` has the class of each node.

    `drawing` is an SVG for hosts that can show it.
    """

    grouping: NotRequired[Grouping]
    groups: NotRequired[list[GroupShown]]
    links: NotRequired[list[GroupLink]]
    nodes_in_all: NotRequired[int]
    looked_at: NotRequired[int]
    is_sample: NotRequired[bool]
    tones: NotRequired[dict[str, str]]
    drawing: NotRequired[str]
    next: NotRequired[str]


def graph_view(session: Session, params: GraphViewParams) -> GraphViewResult:
    """Draw a walk from the given nodes; without nodes, a walk from the newest nodes of the given types, or the whole
    workspace in groups."""
    given = params.model_dump(exclude={"start", "group", "opened", "colour"}, exclude_unset=True)
    if params.start:
        return _near(session, TraverseParams(start=params.start, **given), params.colour)
    workspace = addressing.choose(session, params.workspace)
    sees = visibility.sight(session, workspace.id)
    if not params.types:
        return _grouped(workspace, params, sees)
    newest: list[str] = []
    for type in list(dict.fromkeys(params.types))[:TYPES]:
        newest += _newest(workspace, type, sees) if len(newest) < NEWEST else []
    if not newest:
        return {**_nothing(workspace), "next": f"No node of type {', '.join(params.types)[:100]} has been written yet."}
    given["workspace"] = params.workspace or workspace.id
    return _near(session, TraverseParams(start=list(dict.fromkeys(newest))[:NEWEST], **given), params.colour)


def _near(session: Session, params: TraverseParams, colour: Colour) -> GraphViewResult:
    """Walk with a picture. The answer keeps to the budget; the picture shows the complete walk."""
    params = params.model_copy(update={"include": ["edges", "path"]})
    answer: Any = traverse.settling(session, params)
    is_short = any(cut["limit"] == "budget" for cut in answer["cut"])
    whole: Any = traverse.at_once(session, params) if is_short else answer
    if colour != "type" and not params.as_of:
        answer["tones"] = whole["tones"] = tones_of_walk(session, whole, colour)
    scene = scene_of_walk(whole)
    begun = ", ".join(dot.name for dot in scene.dots if "start" in dot.marks)
    picture = draw(scene, title=f"Around {begun}"[:200], alone=True)
    return cast("GraphViewResult", {**answer, "drawing": picture})


def _grouped(workspace: Workspace, params: GraphViewParams, sees: Sees | None) -> GraphViewResult:
    by: list[Grouping] = list(get_args(Grouping)) if params.group == "auto" else [params.group]
    if Atlas.of(workspace).atoms():
        by.sort(key=lambda grouping: grouping != "area")
    found = groups.groups(workspace, by, params.opened, sees, params.colour)
    answer: Any = {**_nothing(workspace), **found}
    if not found["groups"]:
        answer["next"] = NOTHING_KNOWN
    title = f"The workspace {workspace.id} by {found['grouping']}"
    answer["drawing"] = draw(scene_of_groups(answer), title=title, alone=True)
    return cast("GraphViewResult", answer)


def _newest(workspace: Workspace, type: str, sees: Sees | None) -> list[Uri]:
    """The newest nodes of a type that the caller may read, searched in the newest `LOOKED_THROUGH`."""
    looked = NEWEST
    while True:
        found = workspace.text().newest(type, looked)
        seen = [uri for uri in found if sees is None or sees(uri)][:NEWEST]
        if len(seen) == NEWEST or len(found) < looked or looked >= LOOKED_THROUGH:
            return seen
        looked = min(LOOKED_THROUGH, 10 * looked)


def _nothing(workspace: Workspace) -> GraphViewResult:
    return {"workspace": workspace.id, "nodes": [], "edges": [], "cut": [], "broken_links": [], "conflicts": []}


def _in_words(answer: Any) -> str:
    """The answer without the picture."""
    return as_json({name: value for name, value in answer.items() if name != DRAWING})


GRAPH_VIEW = Operation(
    name="graph_view",
    title="Show the graph",
    description=(
        "A picture for a person: the nodes near one or more nodes, by cost; without a start the workspace in groups, "
        "with counts. The answer also has this as text, like traverse."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=graph_view,
    text=_in_words,
    app=APP,
    for_app=(DRAWING,),
    offered="apps",
    place=10,
    scope=Verb.READ,
)
