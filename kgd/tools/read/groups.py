"""Groups of a whole workspace: by namespace, type, area or community.

The work is bounded: a large workspace is read as a sample, whose counts are estimates. The groups are kept until the
tip moves, or more citations are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.areas.atlas import Atlas
from kgd.errors import Limit
from kgd.freshness.freshness import Freshness
from kgd.graph import communities
from kgd.memories.tasks import parsed
from kgd.model.escaping import fenced_line
from kgd.model.uri import CODE_TREE, Uri, name_of, scheme_of, uri_at
from kgd.retrieval.code import file_of
from kgd.tools.nodes import overlay_of
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

Grouping = Literal["namespace", "area", "type", "community"]

LOOKED_AT = 12_000
"""Largest number of nodes to read."""
SHOWN = 40
"""Largest number of groups in an answer; the others are one group."""
MEMBERS = 60
"""Largest number of nodes of an opened group in an answer: those with the most relations."""
LINKS = 150
OTHERS, TOP, OUTSIDE, ALONE = "~others", "~top", "~outside", "~alone"
NAMES = {OTHERS: "Smaller groups", TOP: "No namespace", OUTSIDE: "Outside areas", ALONE: "Without relations"}
LEAST = 3
"""Smallest number of nodes that are a community."""
LARGEST_SHARE = 0.8
"""Largest share of the nodes in one group of a grouping that `divided` prefers."""
CITED = 2_000
"""Largest number of files and folders whose imports are looked up."""
PLACED = 12_000
"""Largest number of files and folders whose areas are looked up."""
TASKS = 500
"""Largest number of tasks whose context files are read."""
MATCHING_STEPS = 600_000
"""Limit of steps for the areas of files: less than a second, during which other requests for areas wait."""


class Member(TypedDict):
    uri: str
    type: str
    name: str
    summary: NotRequired[str]


class GroupShown(TypedDict):
    """A group of nodes. `types` has its number of nodes by type, the most frequent first; `inside` is the group that
    contains it; `members` are the shown nodes of an opened group."""

    id: str
    name: str
    count: int
    types: NotRequired[dict[str, int]]
    inside: NotRequired[str]
    members: NotRequired[list[Member]]


class GroupLink(TypedDict):
    """The number of relations between the nodes of two groups. Between areas it includes relations to their files and
    folders, and imports by files that nodes are related to."""

    source: str
    target: str
    count: int


class GroupsResult(TypedDict):
    """`grouping` is the criterion of the groups; `nodes_in_all` is the number of nodes. If `is_sample`, `looked_at` of
    them were read, and counts are estimates."""

    grouping: Grouping
    groups: list[GroupShown]
    links: list[GroupLink]
    edges: list[dict[str, Any]]
    nodes_in_all: int
    looked_at: int
    is_sample: bool


@dataclass(frozen=True, slots=True)
class Read:
    """The nodes of a sample with their relations, and the number of all nodes; hidden nodes are left out."""

    targets: Mapping[Uri, Mapping[Uri, float]]
    degrees: Mapping[Uri, int]
    in_all: int
    is_sample: bool


class Groups:
    """The groups of one workspace at its tip; created with `of`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, Lock()
        self._state = "", 0
        self._read: Read | None = None
        self._found: dict[Grouping, dict[Uri, str]] = {}

    @classmethod
    def of(cls, workspace: Workspace) -> Groups:
        return workspace.beside(cls, cls)

    def divided(self, by: Sequence[Grouping], sees: Sees | None) -> tuple[Grouping, Read, dict[str, list[Uri]]]:
        """Divide the nodes that the caller may read by the first of these groupings that shows a structure: no group
        has more than `LARGEST_SHARE` of the nodes. Otherwise by the first with at least two groups with nodes, or by
        the first of all. Groups of a restricted caller are not kept.

        Returns:
            The grouping, the read nodes, and the nodes of each group. An area may have none.
        """
        read, found = self._latest()
        if sees is not None:
            read, found = _seen(read, sees), {}
        members: dict[Grouping, dict[str, list[Uri]]] = {}
        for grouping in by:
            with self._lock if sees is None else nullcontext():
                if grouping not in found:
                    found[grouping] = KINDS[grouping](self._workspace, read)
            members[grouping] = _members(self._workspace, grouping, found[grouping], sees)
            sizes = [len(nodes) for nodes in members[grouping].values() if nodes]
            if sizes and max(sizes) <= LARGEST_SHARE * sum(sizes):
                break
        else:
            grouping = next((one for one in by if sum(map(bool, members[one].values())) > 1), by[0])
        return grouping, read, members[grouping]

    def _latest(self) -> tuple[Read, dict[Grouping, dict[Uri, str]]]:
        """The nodes at the tip, and the group of each by the groupings so far."""
        state = self._workspace.tip, Freshness.of(self._workspace).citing_count
        with self._lock:
            if self._read is None or self._state != state:
                self._state, self._found = state, {}
                self._read = _read(self._workspace)
            return self._read, self._found


def _members(
    workspace: Workspace, grouping: Grouping, ids: Mapping[Uri, str], sees: Sees | None
) -> dict[str, list[Uri]]:
    """The nodes of each group."""
    is_area = grouping == "area"
    members: dict[str, list[Uri]] = {id: [] for id in _areas(workspace, sees)} if is_area else {}
    areas = frozenset(members)
    for uri, id in ids.items():
        members.setdefault(OUTSIDE if is_area and id not in areas else id, []).append(uri)
    return members


def groups(workspace: Workspace, by: Sequence[Grouping], opened: Sequence[str], sees: Sees | None) -> GroupsResult:
    """Group the nodes that the caller may read.

    Args:
        by: The groupings to choose from; see `Groups.divided`.
        opened: The groups whose members to show. A group of areas is open, and its id closes it; a closed one has the
            nodes of its areas. While a group outside of it is opened, it is closed, and its id opens it.
    """
    grouping, read, members = Groups.of(workspace).divided(by, sees)
    places = _areas(workspace, sees) if grouping == "area" else {}
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
    ids = {uri: id for id in shown for uri in members[id]}
    looked_at = len(read.targets)
    more = read.in_all / looked_at if looked_at else 1.0
    answer: list[GroupShown] = []
    visible: list[Uri] = []
    for id in shown:
        ranked = sorted(members[id], key=lambda uri: (-read.degrees[uri], uri))
        name = names.get(id) or _name(workspace, grouping, id, ranked)
        group: GroupShown = {"id": id, "name": name, "count": round(len(ranked) * more)}
        if types := _types(workspace, ranked):
            group["types"] = {type: max(1, round(count * more)) for type, count in types}
        if id in places and places[id][1]:
            group["inside"] = places[id][1]
        if id in opened and not id.startswith("molecule:"):
            group["members"] = [_member(workspace, uri) for uri in ranked[:MEMBERS]]
            visible += ranked[:MEMBERS]
        answer.append(group)
    answer += _containers(answer, workspace, sees) if grouping == "area" else []
    return {
        "grouping": grouping,
        "groups": answer,
        "links": _links(read, ids, _files(workspace, read, group_of, sees) if group_of else {}),
        "edges": _edges(workspace, visible),
        "nodes_in_all": read.in_all,
        "looked_at": looked_at,
        "is_sample": read.is_sample,
    }


def _closed(containers: Mapping[str, str], opened: Sequence[str]) -> set[str]:
    """The groups of areas that are closed.

    Args:
        containers: The group of each area, or an empty string.
    """
    known = set(containers.values()) - {""}
    with_opened = {containers.get(id, "") for id in (*containers, OUTSIDE, OTHERS) if id in opened}
    return known - with_opened - set(opened) if with_opened else known.intersection(opened)


def _read(workspace: Workspace) -> Read:
    graph = workspace.graph
    targets = communities.relations(graph, communities.sample(graph.freeze().layers, LOOKED_AT))
    degrees = {uri: len(found) + graph.sources_of(uri) for uri, found in targets.items()}
    return Read(targets, degrees, max(len(graph), len(targets)), len(graph) > len(targets))


def _seen(read: Read, sees: Sees) -> Read:
    """The nodes that a caller may read. Hidden nodes and relations affect no group, order or count."""
    targets = {
        uri: {to: weight for to, weight in found.items() if sees(to)}
        for uri, found in read.targets.items()
        if sees(uri)
    }
    degrees = Counter({uri: len(found) for uri, found in targets.items()})
    degrees.update(to for found in targets.values() for to in found if to in targets)
    return Read(targets, degrees, len(targets), read.is_sample)


def _by_namespace(workspace: Workspace, read: Read) -> dict[Uri, str]:
    return {uri: _namespace(uri) for uri in read.targets}


def _namespace(uri: Uri) -> str:
    """The first segment of the path below the workspace."""
    first, slash, _ = uri.partition("://")[2].partition("/")[2].partition("/")
    return first if slash else TOP


def _by_type(workspace: Workspace, read: Read) -> dict[Uri, str]:
    return {uri: type for uri in read.targets if (type := _type(workspace, uri))}


def _type(workspace: Workspace, uri: Uri) -> str:
    """The type to show; empty if there is no such node. A file or folder is stored if it was not in the code tree."""
    card = workspace.graph.card(uri)
    return scheme_of(uri) if scheme_of(uri) in CODE_TREE else card.type if card else ""


def _types(workspace: Workspace, uris: Iterable[Uri]) -> list[tuple[str, int]]:
    """The number of nodes of each type, the most frequent first."""
    return Counter(filter(None, (_type(workspace, uri) for uri in uris))).most_common()


def _by_area(workspace: Workspace, read: Read) -> dict[Uri, str]:
    """The group of a node is the first area to which a relation leads. Otherwise it is the area of the first file or
    folder that it is related to or cites, or that a task lists, or else the area of a node that it is about."""
    known = {atom.uri for atom in Atlas.of(workspace).atoms()}
    found: dict[Uri, str] = {}
    for uri, targets in read.targets.items():
        if scheme_of(uri) not in ("atom", "molecule"):
            found[uri] = next((target for target in targets if target in known), OUTSIDE)
    others = [uri for uri, id in found.items() if id == OUTSIDE]
    places = _places(workspace, read, others) if known else {}
    most_used = Counter(chain.from_iterable(places.values())).most_common(PLACED)
    areas = _areas_of(workspace, [place for place, _ in most_used], None)
    found |= {uri: id for uri in others if (id := next(filter(None, map(areas.get, places.get(uri, ()))), ""))}
    return found | {uri: id for uri in others if found[uri] == OUTSIDE and (id := _of_subject(workspace, uri, found))}


def _places(workspace: Workspace, read: Read, uris: Sequence[Uri]) -> dict[Uri, list[str]]:
    """The files and folders that each node is, is related to, cites, or lists as the context of a task."""
    citing = Freshness.of(workspace).citing_among(uris)
    tasks = [uri for uri in uris if scheme_of(uri) == "task"][:TASKS]
    listed = {uri: parsed(node).files for uri in tasks if (node := workspace.readable(uri))}
    return {
        uri: [
            *_in_code((uri, *read.targets[uri])),
            *filter(None, (uri_at("file", workspace.id, one.path) for one in citing.get(uri, ()))),
            *listed.get(uri, ()),
        ]
        for uri in uris
    }


def _of_subject(workspace: Workspace, uri: Uri, groups: Mapping[Uri, str]) -> str:
    """The area of the first node that a node is about; empty if none has one."""
    subjects = (edge.target for edge in workspace.graph.out(uri)[: communities.MOST_TARGETS] if edge.type == "about")
    return next((id for one in subjects if (id := groups.get(one, OUTSIDE)) != OUTSIDE), "")


def _by_community(workspace: Workspace, read: Read) -> dict[Uri, str]:
    """The name of a community is its member with the most relations."""
    found: dict[Uri, str] = {}
    for members in communities.communities(read.targets):
        first = max(members, key=lambda uri: (read.degrees[uri], uri))
        group = ALONE if len(members) == 1 else OTHERS if len(members) < LEAST else first
        found |= dict.fromkeys(members, group)
    return found


KINDS: Mapping[Grouping, Callable[[Any, Read], dict[Uri, str]]] = {
    "namespace": _by_namespace,
    "type": _by_type,
    "area": _by_area,
    "community": _by_community,
}


def _name(workspace: Workspace, grouping: Grouping, id: str, ranked: Sequence[Uri]) -> str:
    """A name by which a reader recognises a group. A community is named after a member that the caller may read."""
    if grouping != "community" or not ranked:
        return id
    return _title(workspace, ranked[0])


def _title(workspace: Workspace, uri: Uri) -> str:
    card = workspace.graph.card(uri)
    return fenced_line((card and card.name) or name_of(uri), 200)


def _member(workspace: Workspace, uri: Uri) -> Member:
    card = workspace.graph.card(uri)
    member: Member = {"uri": uri, "type": _type(workspace, uri), "name": _title(workspace, uri)}
    if card and card.summary:
        member["summary"] = fenced_line(card.summary, 300)
    return member


def _areas(workspace: Workspace, sees: Sees | None) -> dict[str, tuple[str, str]]:
    """The name of each area, and the area that contains it."""
    atlas = Atlas.of(workspace)
    known = {one.uri for one in atlas.molecules() if sees is None or sees(one.uri)}
    return {
        str(atom.uri): (atom.name, str(atom.molecule) if atom.molecule in known else "")
        for atom in atlas.atoms()
        if sees is None or sees(atom.uri)
    }


def _containers(shown: Iterable[GroupShown], workspace: Workspace, sees: Sees | None) -> list[GroupShown]:
    """The areas that contain shown areas."""
    inside = Counter[str]()
    for group in shown:
        inside[group.get("inside", "")] += group["count"]
    return [
        {"id": str(one.uri), "name": one.name, "count": inside[str(one.uri)]}
        for one in Atlas.of(workspace).molecules()
        if str(one.uri) in inside and (sees is None or sees(one.uri))
    ]


def _links(read: Read, ids: Mapping[Uri, str], files: Mapping[Uri, tuple[str, Sequence[Uri]]]) -> list[GroupLink]:
    """The pairs of groups with the most relations between them, in either direction.

    Args:
        ids: The group of each node.
        files: The group of each file, and the files that it imports.
    """
    counts = Counter[tuple[str, str]]()
    of_files = {uri: id for uri, (id, _) in files.items()}
    relations = [(ids[uri], targets) for uri, targets in read.targets.items() if uri in ids]
    for source, targets in [*relations, *files.values()]:
        for target in targets:
            if (other := ids.get(target) or of_files.get(file_of(target), source)) != source:
                counts[min(source, other), max(source, other)] += 1
    return [{"source": a, "target": b, "count": count} for (a, b), count in counts.most_common(LINKS)]


def _files(
    workspace: Workspace, read: Read, group_of: Mapping[str, str], sees: Sees | None
) -> dict[Uri, tuple[str, list[Uri]]]:
    """The group and the imports of each file and folder that nodes are related to; and the group of each file that
    these files import."""
    overlay = overlay_of(workspace)
    imports: dict[Uri, list[Uri]] = {}
    most_used = Counter(chain.from_iterable(map(_in_code, read.targets.values()))).most_common(CITED)
    for uri, _ in most_used:
        found = overlay.out(uri) if overlay and scheme_of(uri) == "file" else ()
        imports[uri] = [edge.target for edge in found if edge.type == "imports" and (sees is None or sees(edge.target))]
    files = dict.fromkeys([*imports, *(target for targets in imports.values() for target in targets)])
    areas = _areas_of(workspace, list(files)[:CITED], sees)
    return {uri: (group_of[id], imports.get(uri, [])) for uri in files if (id := areas.get(uri, "")) in group_of}


def _in_code(targets: Iterable[Uri]) -> list[Uri]:
    """The files and folders among the targets of relations; a part of a file counts as the file."""
    return [uri for uri in map(file_of, targets) if scheme_of(uri) in CODE_TREE]


def _areas_of(workspace: Workspace, code: Sequence[str], sees: Sees | None) -> dict[str, str]:
    """The first area of each file and folder. If the areas have too many patterns for all of them, only the first tenth
    or hundredth has one."""
    found: dict[str, str] = {}
    for count in (len(code), len(code) // 10, len(code) // 100):
        try:
            matches = Atlas.of(workspace).matching(code[:count], sees=sees, most=MATCHING_STEPS)
        except Limit:
            continue
        for area, inside in matches.by_atom.items():
            for place in inside:
                found.setdefault(place, str(area))
        break
    return found


def _edges(workspace: Workspace, uris: Sequence[Uri]) -> list[dict[str, Any]]:
    """The relations among shown nodes."""
    known = set(uris)
    return [
        {"source": uri, "target": edge.target, "type": edge.type, "weight": edge.weight}
        for uri in uris
        for edge in workspace.graph.out(uri)[: communities.MOST_TARGETS]
        if edge.target in known
    ]
