"""The `graph_view` tool: a walk or the whole workspace, as a picture and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import Atlas
from kgd.drawing.scene import scene_of_groups, scene_of_walk
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

MOLECULES, ATOMS = 24, 120
"""Largest number of areas in a picture of the whole workspace; the first by name are shown."""
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
        Field(max_length=100, description="URIs or paths; none: the newest of `types`, or the whole workspace by area"),
    ] = Field(default_factory=list)
    group: Annotated[
        Grouping | Literal["auto"] | None,
        Field(
            description="without start: the whole workspace in groups, and relations between them; `auto`: by the "
            "first of these in which no group has more than 80 % of the nodes, beginning with `area` if there are areas"
        ),
    ] = None
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


class AreaShown(TypedDict):
    """An area. `count` is the number of atoms of a molecule, or of nodes that lead to an atom."""

    uri: str
    name: str
    count: NotRequired[int]
    molecule: NotRequired[str]


class GraphViewResult(TraverseResult):
    """The answer of `traverse`. For a whole workspace it has `areas`, and the number of nodes of each of `types`; or,
    with `group`, `groups` by `grouping` and the `links` between them. If `is_sample`, counts are estimates from
    `looked_at` nodes. With `colour`, `tones` has the class of each node.

    `drawing` is an SVG for hosts that can show it.
    """

    grouping: NotRequired[Grouping]
    groups: NotRequired[list[GroupShown]]
    links: NotRequired[list[GroupLink]]
    nodes_in_all: NotRequired[int]
    looked_at: NotRequired[int]
    is_sample: NotRequired[bool]
    areas: NotRequired[list[AreaShown]]
    types: NotRequired[dict[str, int]]
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
    if params.group and not params.types:
        return _grouped(workspace, params, sees)
    if not params.types:
        return _whole(workspace, sees)
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
    by: list[Grouping] = [params.group] if params.group and params.group != "auto" else list(get_args(Grouping))
    if Atlas.of(workspace).atoms():
        by.sort(key=lambda grouping: grouping != "area")
    found = groups.groups(workspace, by, params.opened, sees, params.colour)
    answer: Any = {**_nothing(workspace), **found}
    if not found["groups"]:
        answer["next"] = NOTHING_KNOWN
    title = f"The workspace {workspace.id} by {found['grouping']}"
    answer["drawing"] = draw(scene_of_groups(answer), title=title, alone=True)
    return cast("GraphViewResult", answer)


def _whole(workspace: Workspace, sees: Sees | None) -> GraphViewResult:
    """Areas, and cached counts: the cost depends on the answer, not on the size of the workspace."""
    areas = list(_areas(workspace, sees))
    types = dict(list(workspace.graph.types().items())[:TYPES]) if sees is None else {}
    answer: GraphViewResult = {**_nothing(workspace), "areas": areas, "types": types}
    if not areas and not types:
        answer["next"] = NOTHING_KNOWN
    atlas = Atlas.of(workspace)
    for limit, most, there in (("molecules", MOLECULES, len(atlas.molecules())), ("atoms", ATOMS, len(atlas.atoms()))):
        if there > most and sees is None:
            answer["cut"].append({"limit": limit, "at": "", "count": there - most})
    title = f"The workspace {workspace.id}"
    answer["drawing"] = draw(scene_of_groups(_as_groups(areas, types)), title=title, alone=True)
    return answer


def _as_groups(areas: list[AreaShown], types: dict[str, int]) -> dict[str, Any]:
    """Areas and types as the groups of a picture."""
    of_areas = [
        {"id": one["uri"], "name": one["name"], "count": one.get("count", 0), "inside": one.get("molecule")}
        for one in areas
    ]
    of_types = [{"id": f"type:{type}", "name": type, "count": count} for type, count in types.items()]
    return {"groups": [*of_areas, *of_types], "links": [], "edges": []}


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


def _areas(workspace: Workspace, sees: Sees | None) -> Iterator[AreaShown]:
    atlas = Atlas.of(workspace)
    molecules = [one for one in atlas.molecules() if sees is None or sees(one.uri)][:MOLECULES]
    for molecule in molecules:
        count = sum(1 for atom in atlas.atoms_of(molecule.uri) if sees is None or sees(atom.uri))
        yield {"uri": molecule.uri, "name": molecule.name, "count": count}
    shown = {molecule.uri for molecule in molecules}
    for atom in [one for one in atlas.atoms() if sees is None or sees(one.uri)][:ATOMS]:
        area: AreaShown = {"uri": atom.uri, "name": atom.name}
        if sees is None:
            area["count"] = workspace.graph.sources_of(atom.uri)
        if atom.molecule in shown:
            area["molecule"] = str(atom.molecule)
        yield area


def _in_words(answer: Any) -> str:
    """The answer without the picture."""
    return as_json({name: value for name, value in answer.items() if name != DRAWING})


GRAPH_VIEW = Operation(
    name="graph_view",
    title="Show the graph",
    description=(
        "A picture for a person: the nodes near one or more nodes, by cost; without a start the workspace by area, "
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
