"""Grouping of the nodes of a workspace, by namespace, type, area or community; and the states of nodes in pictures.

The work is bounded: a large workspace is read as a sample. The groups are kept until the tip moves or more citations
are known. States are conflicts, open proposals, stale and expired nodes, and the age of the last change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar, cast

from kgd.areas.atlas import Atlas
from kgd.errors import Limit
from kgd.freshness.freshness import Freshness
from kgd.graph.live_graph import LiveGraph
from kgd.memories.tasks import parsed
from kgd.model.dates import DAY
from kgd.model.uri import CODE_TREE, Uri, scheme_of, uri_at, workspace_of
from kgd.retrieval.candidates import file_of
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.proposals.proposals import Marks, marks
from kgd.workspace.served import Beside
from kgd.workspace.workspace import Workspace

T = TypeVar("T")
Grouping = Literal["namespace", "area", "type", "community"]

LOOKED_AT = 12_000
"""Largest number of nodes to read."""
OTHERS, TOP, OUTSIDE, ALONE = "~others", "~top", "~outside", "~alone"
MOST_TARGETS = 50
"""Largest number of relations of one node that are read, so that the work is bounded by the number of nodes."""
LEAST = 3
"""Smallest number of nodes that are a community."""
LARGEST_SHARE = 0.8
"""Largest share of the nodes in one group of a grouping that `divided` prefers."""
PLACED = 12_000
"""Largest number of files and folders whose areas are looked up."""
TASKS = 500
"""Largest number of tasks whose context files are read."""
MATCHING_STEPS = 600_000
"""Limit of steps for the areas of files: less than a second, during which other requests for areas wait."""
ANSWERS = 16
"""Largest number of answers that are kept."""


@dataclass(frozen=True, slots=True)
class Read:
    """The nodes of a sample with their relations, and the number of all nodes; hidden nodes are left out."""

    targets: Mapping[Uri, Mapping[Uri, float]]
    degrees: Mapping[Uri, int]
    in_all: int
    is_sample: bool


class Groups(Beside):
    """The groups of one workspace at its tip; created with `of`."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._state = "", 0
        self._read: Read | None = None
        self._found: dict[Grouping, dict[Uri, str]] = {}
        self._answered: tuple[object, ...] = ()
        self._answers: dict[Hashable, object] = {}

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer for callers who may read everything, kept until nodes, citations or stale nodes change. An answer
        made while the text index is partial is not kept."""
        freshness = Freshness.of(self._workspace)
        state = self._workspace.tip, freshness.citing_count, freshness.doubted
        was_partial = self._workspace.is_text_partial
        with self._lock:
            if self._answered != state:
                self._answered, self._answers = state, {}
            if key in self._answers:
                return cast("T", self._answers[key])
        made = make()
        with self._lock:
            if self._answered == state and not (was_partial or self._workspace.is_text_partial):
                self._answers[key] = made
                if len(self._answers) > ANSWERS:
                    del self._answers[next(iter(self._answers))]
        return made

    def divided(self, by: Sequence[Grouping], sees: Sees | None) -> tuple[Grouping, Read, dict[str, list[Uri]]]:
        """Divide the nodes that the caller may read by one of these groupings: the first in which no group has more
        than `LARGEST_SHARE` of the nodes, else the first with two non-empty groups, else the first. Caches the groups
        of unrestricted callers only.

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
    members: dict[str, list[Uri]] = {id: [] for id in every_area(workspace, sees)} if is_area else {}
    areas = frozenset(members)
    for uri, id in ids.items():
        members.setdefault(OUTSIDE if is_area and id not in areas else id, []).append(uri)
    return members


def _read(workspace: Workspace) -> Read:
    graph = workspace.graph
    targets = {uri: _cheapest(graph, uri) for uri in graph.freeze().layers.sample(LOOKED_AT)}
    degrees = {uri: len(found) + graph.sources_of(uri) for uri, found in targets.items()}
    return Read(targets, degrees, max(len(graph), len(targets)), len(graph) > len(targets))


def _cheapest(graph: LiveGraph, uri: Uri) -> dict[Uri, float]:
    """The targets of a node's `MOST_TARGETS` cheapest relations, each with its lowest weight."""
    targets: dict[Uri, float] = {}
    for weight, target, _ in graph.out(uri)[:MOST_TARGETS]:
        targets.setdefault(target, weight)
    return targets


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
    return {uri: type for uri in read.targets if (type := type_of(workspace, uri))}


def type_of(workspace: Workspace, uri: Uri) -> str:
    """The type to show; empty if there is no such node. A file or folder is stored if it was not in the code tree."""
    card = workspace.graph.card(uri)
    return scheme_of(uri) if scheme_of(uri) in CODE_TREE else card.type if card else ""


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
    areas = first_areas(workspace, [place for place, _ in most_used], None)
    found |= {uri: id for uri in others if (id := next(filter(None, map(areas.get, places.get(uri, ()))), ""))}
    return found | {uri: id for uri in others if found[uri] == OUTSIDE and (id := _of_subject(workspace, uri, found))}


def _places(workspace: Workspace, read: Read, uris: Sequence[Uri]) -> dict[Uri, list[str]]:
    """The files and folders that each node is, is related to, cites, or lists as the context of a task."""
    citing = Freshness.of(workspace).citing_among(uris)
    tasks = [uri for uri in uris if scheme_of(uri) == "task"][:TASKS]
    listed = {uri: parsed(node).files for uri in tasks if (node := workspace.readable(uri))}
    return {
        uri: [
            *in_code((uri, *read.targets[uri])),
            *filter(None, (uri_at("file", workspace.id, one.path) for one in citing.get(uri, ()))),
            *listed.get(uri, ()),
        ]
        for uri in uris
    }


def _of_subject(workspace: Workspace, uri: Uri, groups: Mapping[Uri, str]) -> str:
    """The area of the first node that a node is about; empty if none has one."""
    subjects = (edge.target for edge in workspace.graph.out(uri)[:MOST_TARGETS] if edge.type == "about")
    return next((id for one in subjects if (id := groups.get(one, OUTSIDE)) != OUTSIDE), "")


def _by_community(workspace: Workspace, read: Read) -> dict[Uri, str]:
    """The name of a community is its member with the most relations."""
    # Imported here because networkx takes a sixth of the time for imports before a daemon listens.
    from kgd.graph.stored_graph import communities

    found: dict[Uri, str] = {}
    for members in communities(read.targets):
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


def every_area(workspace: Workspace, sees: Sees | None) -> dict[str, tuple[str, str]]:
    """The name of each area, and the area that contains it."""
    atlas = Atlas.of(workspace)
    known = {one.uri for one in atlas.molecules() if sees is None or sees(one.uri)}
    return {
        str(atom.uri): (atom.name, str(atom.molecule) if atom.molecule in known else "")
        for atom in atlas.atoms()
        if sees is None or sees(atom.uri)
    }


def in_code(targets: Iterable[Uri]) -> list[Uri]:
    """The files and folders among the targets of relations; a part of a file counts as the file."""
    return [uri for uri in map(file_of, targets) if scheme_of(uri) in CODE_TREE]


def first_areas(workspace: Workspace, code: Sequence[str], sees: Sees | None) -> dict[str, str]:
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


Colour = Literal["type", "trouble", "age"]
UNKNOWN = "unknown"
"""The class of a node whose class is not known, such as the age of a file, or a node that may be stale."""
CONFLICTS = 500
"""Largest number of records of conflicts that are read."""
AGES = (("week", 7), ("month", 31), ("half_year", 183))
"""Classes of ages, each with its largest number of days."""


def disputed(workspace: Workspace, sees: Sees | None) -> tuple[set[Uri], bool]:
    """The nodes known to have an open conflict, and whether these are all. Reads at most `CONFLICTS` records."""
    return workspace.conflicts.nodes(reads=CONFLICTS, about=sees)


def doubted(workspace: Workspace, sees: Sees | None) -> Collection[Uri]:
    """The stale nodes; none for a restricted caller, as in `kgd.tools.origins.marks`."""
    return Freshness.of(workspace).doubted if sees is None else ()


def open_proposals(workspace: Workspace, sees: Sees | None) -> Marks:
    """The open proposals by the nodes that they change; none for a restricted caller."""
    return marks(workspace) if sees is None else Marks(workspace, bytes.fromhex(workspace.tip))


def proposed_of_walk(session: Session, answer: Mapping[str, Any]) -> set[Uri]:
    """Select the nodes that open proposals change, in the first workspace of a walk."""
    found, walked = set[Uri](), {Uri(node["uri"]) for node in answer["nodes"]}
    for workspace in session.daemon.opened([answer["workspace"]]):
        found |= open_proposals(workspace, session.sight(workspace.id)).changed(walked)
    return found


def tones_of_walk(session: Session, answer: Mapping[str, Any], colour: Colour) -> dict[str, str]:
    """The class of each node of a walk. The class is unknown outside the first workspace."""
    found: dict[str, str] = {node["uri"]: UNKNOWN for node in answer["nodes"]}
    for workspace in session.daemon.opened([answer["workspace"]]):
        here = [Uri(uri) for uri in found if workspace_of(uri) in (None, workspace.id)]
        known = tones_of(workspace, here, colour, session.sight(workspace.id))
        found |= {str(uri): tone for uri, tone in known.items()}
    return found


def tones_of(workspace: Workspace, uris: Collection[Uri], colour: Colour, sees: Sees | None) -> dict[Uri, str]:
    """The class of each node, which determines its colour; nodes without a known class are unknown or omitted. A node
    is fine only if everything was looked up: never for a restricted caller, or while the text index is partial. Costs
    one look-up in the text index.

    Raises:
        Unavailable: The text index cannot be read.
    """
    if colour == "type" or not uris:
        return {}
    now = workspace.now()
    if colour == "age":
        updated = workspace.text_so_far().updated_of(uris)
        return {uri: _age(now - at) for uri, at in updated.items() if at}
    index, is_partial = workspace.text_so_far(), workspace.is_text_partial
    validity = index.validity_of(uris)
    ended = {uri for uri, valid in validity.items() if valid.end is not None and valid.end <= now}
    (conflicts, is_all), stale = disputed(workspace, sees), doubted(workspace, sees)
    other = "fine" if is_all and sees is None and not is_partial else UNKNOWN
    return {
        uri: "conflict" if uri in conflicts else "stale" if uri in stale else "expired" if uri in ended else other
        for uri in uris
    }


def _age(seconds: int) -> str:
    return next((name for name, days in AGES if seconds <= days * DAY), "older")
