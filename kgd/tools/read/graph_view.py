"""The `graph_view` tool: a walk, or the whole workspace in groups, as a picture and as text.

Each group shows some of its nodes; links count the relations between groups. The work is bounded: of a large
workspace a sample is read, and counts are estimates. Answers, except their links, are kept until nodes, citations or
stale nodes change. Answers with classes are kept for at most a minute, because classes change with time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import Atlas
from kgd.drawing import scene_of_groups, scene_of_walk
from kgd.drawing.svg import draw
from kgd.model.access import Verb
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, scheme_of
from kgd.tools import addressing
from kgd.tools.nodes import Brief, overlay_of, title_of
from kgd.tools.operation import Hints, Operation, as_json
from kgd.tools.paging import present
from kgd.tools.parameters import Many
from kgd.tools.read import traverse
from kgd.tools.read.grouping import (
    ALONE,
    MOST_TARGETS,
    OTHERS,
    OUTSIDE,
    TOP,
    UNKNOWN,
    Colour,
    Grouping,
    Groups,
    Read,
    disputed,
    doubted,
    every_area,
    first_areas,
    in_code,
    open_proposals,
    tones_of,
    tones_of_walk,
    type_of,
)
from kgd.tools.read.traverse import TraverseParams, TraverseResult
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.proposals.proposals import Marks
from kgd.workspace.workspace import Workspace

SHOWN = 40
"""Largest number of groups in an answer; the others are one group."""
FIRST, SAYING = 4, (12, 26)
"""Largest number of nodes that a closed group names, and the lengths of names that come first: they say something, and
a picture has room for them."""
MEMBERS, MEMBERS_IN_ALL = 60, 240
"""Largest number of nodes of an opened group in an answer, and of all opened groups: those with the most relations."""
LINKS = 150
NAMES = {OTHERS: "Smaller groups", TOP: "No namespace", OUTSIDE: "Outside areas", ALONE: "Without relations"}
KEPT_FOR = 60
"""Largest number of seconds for which an answer with classes is kept."""
CITED = 2_000
"""Largest number of files and folders whose imports are looked up."""


Mark = Literal["conflicts", "stale", "proposed"]
"""A mark of nodes; a group counts its nodes that have it."""


class Member(Brief):
    has_conflict: NotRequired[bool]
    is_stale: NotRequired[bool]
    is_proposed: NotRequired[bool]


class First(TypedDict):
    type: str
    name: str


class GroupShown(TypedDict):
    """A group of nodes; an area is one of the nodes of its group.

    `types` counts its nodes by type, the most frequent first, and `tones` by class. `conflicts`, `stale` and `proposed`
    count nodes too; open proposals change the `proposed` ones. `inside` is the group that contains this one, and
    `members` are the shown nodes of an opened group. Of another group, `first` has some of the nodes with the most
    relations.
    """

    id: str
    name: str
    count: int
    types: NotRequired[dict[str, int]]
    tones: NotRequired[dict[str, int]]
    conflicts: NotRequired[int]
    stale: NotRequired[int]
    proposed: NotRequired[int]
    inside: NotRequired[str]
    members: NotRequired[list[Member]]
    first: NotRequired[list[First]]


class GroupLink(TypedDict):
    """The number of relations between the nodes of two groups. Between areas it includes relations to their files and
    folders, and imports by files that nodes are related to."""

    source: str
    target: str
    count: int


class GroupsResult(TypedDict):
    """`grouping` is the criterion of the groups; `nodes_in_all` is the number of nodes. If `is_sample`, `looked_at` of
    them were read, and counts are estimates. `tones` has the class of each shown node."""

    grouping: Grouping
    groups: list[GroupShown]
    links: list[GroupLink]
    edges: list[dict[str, Any]]
    nodes_in_all: int
    looked_at: int
    is_sample: bool
    tones: NotRequired[dict[str, str]]


def groups(
    workspace: Workspace, by: Sequence[Grouping], opened: Sequence[str], sees: Sees | None, colour: Colour = "type"
) -> GroupsResult:
    """Group the nodes that the caller may read.

    Args:
        by: The groupings to choose from; see `Groups.divided`.
        opened: The groups whose members to show. Groups of areas are open at first, and their ids close them; while
            another group is opened, they are closed, and their ids open them. A closed one has the nodes of its areas.
        colour: The classes to count; see `tones_of`.
    """
    proposals = open_proposals(workspace, sees)
    ids = frozenset(id for id, _, _ in proposals.found)
    key = tuple(by), tuple(opened), colour, workspace.now() // KEPT_FOR if colour != "type" else 0, ids
    if sees is not None:
        found = _found(workspace, by, opened, sees, colour, proposals)
    else:
        found = Groups.of(workspace).kept(key, lambda: _found(workspace, by, opened, None, colour, proposals))
    files = _files(workspace, found, sees) if found.group_of else {}
    return {**found.answer, "links": _links(found, files)}


@dataclass(frozen=True, slots=True)
class _Found:
    """An answer without links. `among` has the number of relations between two groups, `cited` the number of relations
    of each group to each file and folder, `groups` the group of each node, and `group_of` the shown group of each area.
    """

    answer: GroupsResult
    among: Counter[tuple[str, str]]
    cited: Counter[tuple[str, Uri]]
    groups: Mapping[Uri, str]
    group_of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Division:
    """The shown groups with their nodes, in order. `places` has the name and the containing area of each area, `names`
    the known names of groups, and `group_of` the shown group of each area."""

    grouping: Grouping
    read: Read
    groups: Mapping[str, Sequence[Uri]]
    places: Mapping[str, tuple[str, str]]
    names: Mapping[str, str]
    group_of: Mapping[str, str]


def _divided(workspace: Workspace, by: Sequence[Grouping], opened: Sequence[str], sees: Sees | None) -> _Division:
    """The first `SHOWN` groups, with all others as one; the nodes of a closed area are in the area itself."""
    grouping, read, members = Groups.of(workspace).divided(by, sees)
    places = every_area(workspace, sees) if grouping == "area" else {}
    names = {id: name for id, (name, _) in places.items()} | NAMES
    closed = _closed({id: container for id, (_, container) in places.items()}, opened)
    group_of = {id: container if container in closed else id for id, (_, container) in places.items()}
    for id, container in group_of.items():
        if container != id:
            members.setdefault(container, []).extend(members.pop(id))
            names[container] = _title(workspace, Uri(container))
    order = sorted(members, key=lambda id: (id in NAMES, -len(members[id]), id))
    shown, rest = order[:SHOWN], order[SHOWN:]
    if rest:
        members[OTHERS] = [uri for id in rest for uri in members.pop(id)]
        shown.append(OTHERS)
        group_of |= {id: OTHERS for id, group in group_of.items() if group in rest}
    return _Division(grouping, read, {id: members[id] for id in shown}, places, names, group_of)


def _found(
    workspace: Workspace,
    by: Sequence[Grouping],
    opened: Sequence[str],
    sees: Sees | None,
    colour: Colour,
    proposals: Marks,
) -> _Found:
    division = _divided(workspace, by, opened, sees)
    grouping, read, places = division.grouping, division.read, division.places
    ids = {uri: id for id, uris in division.groups.items() for uri in uris}
    looked_at = len(read.targets)
    more = read.in_all / looked_at if looked_at else 1.0
    with_members = {id for id in division.groups if id in opened and not id.startswith("molecule:")}
    most = min(MEMBERS, MEMBERS_IN_ALL // max(1, len(with_members)))
    (conflicts, _), stale = disputed(workspace, sees), doubted(workspace, sees)
    own = {**division.group_of, **{container: container for _, container in places.values() if container}}
    owners = {**{Uri(id): group for id, group in own.items()}, **ids}
    proposed = proposals.changed(owners)
    marked: dict[Mark, Collection[Uri]] = {"conflicts": conflicts, "stale": stale, "proposed": proposed}
    counts = _marks(owners, marked)
    tones = tones_of(workspace, ids, colour, sees)
    answer: list[GroupShown] = []
    visible: list[Uri] = []

    def estimated(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
        return {name: max(1, round(count * more)) for name, count in counts}

    for id, uris in division.groups.items():
        ranked = sorted(uris, key=lambda uri: (-read.degrees[uri], uri))
        name = division.names.get(id) or _name(workspace, grouping, id, ranked)
        group: GroupShown = {"id": id, "name": name, "count": round(len(ranked) * more)}
        group |= present(types=estimated(_types(workspace, ranked)), inside=places.get(id, ("", ""))[1])
        if colour != "type":
            group["tones"] = estimated(Counter(tones.get(uri, UNKNOWN) for uri in ranked).items())
        for mark, count in counts[id].items():
            group[mark] = max(1, round(count * more))
        if id in with_members:
            group["members"] = [_member(workspace, uri, marked) for uri in ranked[:most]]
            visible += ranked[:most]
        else:
            group |= present(first=_first(workspace, ranked, name))
        answer.append(group)
    answer += _containers(answer, counts, workspace, sees) if grouping == "area" else []
    result: GroupsResult = {
        "grouping": grouping,
        "groups": answer,
        "links": [],
        "edges": _edges(workspace, visible),
        "nodes_in_all": read.in_all,
        "looked_at": looked_at,
        "is_sample": read.is_sample,
    }
    if colour != "type":
        result["tones"] = {uri: tones.get(uri, UNKNOWN) for uri in visible}
    return _Found(result, *_counted(read, ids), ids, division.group_of)


def _first(workspace: Workspace, ranked: Sequence[Uri], group: str) -> list[First]:
    """Up to `FIRST` of the nodes with the most relations, those with names of a suitable length first. A name that the
    name of the group has already says nothing."""
    found: list[First] = [
        {"type": type_of(workspace, uri), "name": name}
        for uri in ranked[: 4 * FIRST]
        if (name := _title(workspace, uri)).casefold() not in group.casefold()
    ]
    least, most = SAYING
    return sorted(found, key=lambda node: not least <= len(node["name"]) <= most)[:FIRST]


def _closed(containers: Mapping[str, str], opened: Sequence[str]) -> set[str]:
    """The groups of areas that are closed.

    Args:
        containers: The group of each area, or an empty string.
    """
    known = set(containers.values()) - {""}
    with_opened = {containers.get(id, "") for id in (*containers, OUTSIDE, OTHERS) if id in opened}
    return known - with_opened - set(opened) if with_opened else known.intersection(opened)


def _types(workspace: Workspace, uris: Iterable[Uri]) -> list[tuple[str, int]]:
    """The number of nodes of each type, the most frequent first."""
    return Counter(filter(None, (type_of(workspace, uri) for uri in uris))).most_common()


def _name(workspace: Workspace, grouping: Grouping, id: str, ranked: Sequence[Uri]) -> str:
    """A name by which a reader recognises a group. A community is named after a member that the caller may read."""
    if grouping != "community" or not ranked:
        return id
    return _title(workspace, ranked[0])


def _title(workspace: Workspace, uri: Uri) -> str:
    return fenced_line(title_of(workspace, uri), 200)


def _member(workspace: Workspace, uri: Uri, marked: Mapping[Mark, Collection[Uri]]) -> Member:
    card = workspace.graph.card(uri)
    member: Member = {"uri": uri, "type": type_of(workspace, uri), "name": _title(workspace, uri)}
    member |= present(
        summary=fenced_line(card.summary, 300) if card else "",
        has_conflict=uri in marked["conflicts"],
        is_stale=uri in marked["stale"],
        is_proposed=uri in marked["proposed"],
    )
    return member


def _marks(groups: Mapping[Uri, str], marked: Mapping[Mark, Collection[Uri]]) -> dict[str, dict[Mark, int]]:
    """Count the nodes of each group by mark. An area belongs to its own group."""
    counts: dict[str, dict[Mark, int]] = defaultdict(dict)
    for mark, uris in marked.items():
        for group, count in Counter(groups[uri] for uri in uris if uri in groups).items():
            counts[group][mark] = count
    return counts


def _containers(
    shown: Iterable[GroupShown], counts: Mapping[str, Mapping[Mark, int]], workspace: Workspace, sees: Sees | None
) -> list[GroupShown]:
    """The areas that contain shown areas, each with its own marks."""
    inside = Counter[str]()
    for group in shown:
        inside[group.get("inside", "")] += group["count"]
    found: list[GroupShown] = []
    for one in Atlas.of(workspace).molecules():
        id = str(one.uri)
        if id in inside and (sees is None or sees(one.uri)):
            found.append({"id": id, "name": one.name, "count": inside[id]})
            for mark, count in counts.get(id, {}).items():
                found[-1][mark] = count
    return found


def _counted(read: Read, ids: Mapping[Uri, str]) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, Uri]]]:
    """The number of relations between two groups, and of each group to files and folders."""
    among, cited = Counter[tuple[str, str]](), Counter[tuple[str, Uri]]()
    for uri, targets in read.targets.items():
        if (group := ids.get(uri)) is None:
            continue
        known = [other for target in targets if (other := ids.get(target))]
        among.update((min(group, other), max(group, other)) for other in known if other != group)
        cited.update((group, place) for place in in_code(target for target in targets if target not in ids))
    return among, cited


def _links(found: _Found, files: Mapping[Uri, tuple[str, Sequence[Uri]]]) -> list[GroupLink]:
    """The pairs of groups with the most relations between them, in either direction.

    Args:
        files: The group of each file, and the files that it imports.
    """
    counts = Counter(found.among)
    of_files = {uri: id for uri, (id, _) in files.items()}
    imported = ((group, target, 1) for group, targets in files.values() for target in targets)
    for group, target, count in chain(((group, uri, n) for (group, uri), n in found.cited.items()), imported):
        if (other := found.groups.get(target) or of_files.get(target, group)) != group:
            counts[min(group, other), max(group, other)] += count
    return [{"source": a, "target": b, "count": count} for (a, b), count in counts.most_common(LINKS)]


def _files(workspace: Workspace, found: _Found, sees: Sees | None) -> dict[Uri, tuple[str, list[Uri]]]:
    """The group and the imports of each file and folder that nodes are related to; and the group of each file that
    these files import."""
    overlay = overlay_of(workspace)
    imports: dict[Uri, list[Uri]] = {}
    used = Counter[Uri]()
    for (_, uri), count in found.cited.items():
        used[uri] += count
    for uri, _ in used.most_common(CITED):
        edges = overlay.out(uri) if overlay and scheme_of(uri) == "file" else ()
        imports[uri] = [edge.target for edge in edges if edge.type == "imports" and (sees is None or sees(edge.target))]
    files = dict.fromkeys([*imports, *(target for targets in imports.values() for target in targets)])
    areas = first_areas(workspace, list(files)[:CITED], sees)
    return {
        uri: (found.group_of[id], imports.get(uri, [])) for uri in files if (id := areas.get(uri, "")) in found.group_of
    }


def _edges(workspace: Workspace, uris: Sequence[Uri]) -> list[dict[str, Any]]:
    """The relations among shown nodes."""
    known = set(uris)
    return [
        {"source": uri, "target": edge.target, "type": edge.type, "weight": edge.weight}
        for uri in uris
        for edge in workspace.graph.out(uri)[:MOST_TARGETS]
        if edge.target in known
    ]


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
            description="ids of groups whose nodes to show. Groups of areas are open at first, and their ids close "
            "them. While another group is opened, they are closed, and their ids open them",
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
    sees = session.sight(workspace.id)
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
    found = groups(workspace, by, params.opened, sees, params.colour)
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
