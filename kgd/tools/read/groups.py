"""Groups of a whole workspace: by namespace, type, area or community.

The work is bounded: a large workspace is read as a sample, whose counts are estimates. The groups are kept until the
tip moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NotRequired, get_args

from typing_extensions import TypedDict

from kgd.areas.atlas import Atlas
from kgd.graph import communities
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, name_of, scheme_of

if TYPE_CHECKING:
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


class Member(TypedDict):
    uri: str
    type: str
    name: str
    summary: NotRequired[str]


class GroupShown(TypedDict):
    """A group of nodes. `inside` is the group that contains it; `members` are the shown nodes of an opened group."""

    id: str
    name: str
    count: int
    inside: NotRequired[str]
    members: NotRequired[list[Member]]


class GroupLink(TypedDict):
    """The number of relations between the nodes of two groups."""

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
        self._tip = ""
        self._read: Read | None = None
        self._found: dict[Grouping, dict[Uri, str]] = {}

    @classmethod
    def of(cls, workspace: Workspace) -> Groups:
        return workspace.beside(cls, cls)

    def by(self, grouping: Grouping, sees: Sees | None) -> tuple[Read, Mapping[Uri, str]]:
        """The read nodes, and the group of each. Groups of a restricted caller are not kept."""
        with self._lock:
            if self._read is None or self._tip != self._workspace.tip:
                self._tip, self._found = self._workspace.tip, {}
                self._read = _read(self._workspace)
            read = self._read
            if sees is None:
                if grouping not in self._found:
                    self._found[grouping] = KINDS[grouping](self._workspace, read)
                return read, self._found[grouping]
        seen = _seen(read, sees)
        return seen, KINDS[grouping](self._workspace, seen)


def informative(workspace: Workspace, sees: Sees | None) -> Grouping:
    """Return the first grouping with at least two groups of nodes that the caller may read."""
    every: tuple[Grouping, ...] = get_args(Grouping)
    for grouping in every:
        if sum(map(bool, _members(workspace, grouping, sees).values())) > 1:
            return grouping
    return every[0]


def _members(workspace: Workspace, grouping: Grouping, sees: Sees | None) -> dict[str, list[Uri]]:
    """Return the nodes of each group that the caller may read; an area may have none."""
    is_area = grouping == "area"
    members: dict[str, list[Uri]] = {id: [] for id in _areas(workspace, sees)} if is_area else {}
    areas = frozenset(members)
    for uri, id in Groups.of(workspace).by(grouping, sees)[1].items():
        members.setdefault(OUTSIDE if is_area and id not in areas else id, []).append(uri)
    return members


def groups(workspace: Workspace, grouping: Grouping, opened: Sequence[str], sees: Sees | None) -> GroupsResult:
    """Group the nodes that the caller may read.

    Args:
        opened: The groups whose members to show.
    """
    read, _ = Groups.of(workspace).by(grouping, sees)
    places = _areas(workspace, sees) if grouping == "area" else {}
    members = _members(workspace, grouping, sees)
    order = sorted(members, key=lambda id: (id in NAMES, -len(members[id]), id))
    shown, rest = order[:SHOWN], order[SHOWN:]
    if rest:
        members[OTHERS] = [uri for id in rest for uri in members.pop(id)]
        shown.append(OTHERS)
    ids = {uri: id for id in shown for uri in members[id]}
    looked_at = len(read.targets)
    more = read.in_all / looked_at if looked_at else 1.0
    answer: list[GroupShown] = []
    visible: list[Uri] = []
    for id in shown:
        ranked = sorted(members[id], key=lambda uri: (-read.degrees[uri], uri))
        name = NAMES.get(id) or (places[id][0] if id in places else _name(workspace, grouping, id, ranked))
        group: GroupShown = {"id": id, "name": name, "count": round(len(ranked) * more)}
        if id in places and places[id][1]:
            group["inside"] = places[id][1]
        if id in opened:
            group["members"] = [_member(workspace, uri) for uri in ranked[:MEMBERS]]
            visible += ranked[:MEMBERS]
        answer.append(group)
    answer += _containers(answer, workspace, sees) if grouping == "area" else []
    return {
        "grouping": grouping,
        "groups": answer,
        "links": _links(read, ids),
        "edges": _edges(workspace, visible),
        "nodes_in_all": read.in_all,
        "looked_at": looked_at,
        "is_sample": read.is_sample,
    }


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
    graph = workspace.graph
    return {uri: card.type for uri in read.targets if (card := graph.card(uri))}


def _by_area(workspace: Workspace, read: Read) -> dict[Uri, str]:
    """The group of a node is the first area to which a relation leads."""
    known = {atom.uri for atom in Atlas.of(workspace).atoms()}
    return {
        uri: next((target for target in targets if target in known), OUTSIDE)
        for uri, targets in read.targets.items()
        if scheme_of(uri) not in ("atom", "molecule")
    }


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
    member: Member = {"uri": uri, "type": card.type if card else "", "name": _title(workspace, uri)}
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


def _links(read: Read, ids: Mapping[Uri, str]) -> list[GroupLink]:
    """The pairs of groups with the most relations between them, in either direction."""
    counts = Counter[tuple[str, str]]()
    for uri, targets in read.targets.items():
        if (source := ids.get(uri)) is None:
            continue
        for target in targets:
            if (other := ids.get(target, source)) != source:
                counts[min(source, other), max(source, other)] += 1
    return [{"source": a, "target": b, "count": count} for (a, b), count in counts.most_common(LINKS)]


def _edges(workspace: Workspace, uris: Sequence[Uri]) -> list[dict[str, Any]]:
    """The relations among shown nodes."""
    known = set(uris)
    return [
        {"source": uri, "target": edge.target, "type": edge.type, "weight": edge.weight}
        for uri in uris
        for edge in workspace.graph.out(uri)[: communities.MOST_TARGETS]
        if edge.target in known
    ]
