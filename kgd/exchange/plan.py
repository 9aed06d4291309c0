"""Input and output of exchange formats: import plans, nodes of an export, and its files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kgd.model.change import Edit
from kgd.model.conflict import canonical_json
from kgd.model.fields import plain
from kgd.model.node import Json, Node, cut_at_word
from kgd.model.uri import Uri, is_owned, name_of, scheme_of

IMPORTED = "imported"
"""Data key for the digest of an imported node at the time of its import."""
PLACE = "added"
"""Data key for the order number of an entity or of its relation."""
NAMED_FILE = "file"
"""Data key for the name of a node's memory file."""
REASON = 240
"""Largest length of a reason in a report, in characters."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A part of a source that was left out or changed. `at` is ``path:line`` within the source."""

    at: str
    reason: str

    def __post_init__(self) -> None:
        reason = " ".join(self.reason.split())
        object.__setattr__(self, "reason", reason if len(reason) <= REASON else cut_at_word(reason, REASON))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A node of the source: its complete content, and the prose of its memory file if it has one.

    `file` is the name of that file in the source; `at` is the node's place there. If kgd wrote the source, `base` is
    the digest of the written state, so the node need not store a digest.
    """

    node: Node
    detail: str = ""
    file: str = ""
    at: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a source, before anything is written.

    `wanted` nodes are compared with the stored ones, so a second import changes nothing and users' edits stay. `edits`
    are applied unchanged after these nodes, and must be idempotent. Both keep their order. `counts` has totals such as
    ``{"notes": 12}``.
    """

    wanted: tuple[Wanted, ...] = ()
    edits: tuple[Edit, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """The target of an import.

    Args:
        workspace: Its id, used in URIs.
        below: Path prefix of the URIs; may be empty.
        code_tree: Root of the described code, if any.
        keywords: Returns tags for a text.
        check_pattern: Returns the normalised form of an area's path pattern, or raises Invalid.
    """

    workspace: str
    below: str = ""
    code_tree: Path | None = None
    check_pattern: Callable[[str, str], str] = lambda text, at: text
    keywords: Callable[[str], Sequence[str]] = lambda text: ()


@dataclass(frozen=True, slots=True)
class Output:
    """A file to write: its path below the target (empty for the target itself) and its bytes.

    A `block` is inserted between kgd's two marker lines in an existing file.
    """

    path: str
    data: bytes
    block: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """The files of an export, totals, and the parts that the format cannot express."""

    files: tuple[Output, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def digest(node: Node, detail: str = "") -> str:
    """Digest of a node's knowledge, independent of its URI and source; 16 hex digits."""
    apart = (IMPORTED, NAMED_FILE, *_places(node))
    data = {key: value for key, value in node.data.items() if key not in apart}
    relations = tuple(replace(one, data=_without(one.data, _places(node))) for one in node.relations)
    values: dict[str, Any] = plain(replace(node, data=data, relations=relations, source=None, aliases=()))
    values["uri"] = values["detail"] = ""
    if detail:
        values["detail"] = detail.strip("\n")
    return hashlib.sha256(canonical_json(values).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _places(node: Node) -> tuple[str, ...]:
    """Keys that are not knowledge: for example, an entity's number changes if a line is added before the entity's
    line."""
    return (PLACE,) if scheme_of(node.uri) == "entity" else ()


def _without(data: Mapping[str, Json], keys: Sequence[str]) -> Mapping[str, Json]:
    return {key: value for key, value in data.items() if key not in keys} if keys else data


def without_nulls(data: Mapping[str, Json]) -> dict[str, Json]:
    """The data without null values, which a write leaves out."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if value is not None
    }


def noted(wanted: Wanted) -> Wanted:
    """The node, with the digest by which a later import detects changes on either side."""
    node = replace(wanted.node, data=without_nulls(wanted.node.data))
    if not wanted.base:
        node = replace(node, data={**node.data, IMPORTED: digest(node, wanted.detail)})
    return replace(wanted, node=node)


def sub_mapping(node: Node, key: str) -> Mapping[str, Json]:
    """The mapping under a data key; empty if the value is not a mapping."""
    value = node.data.get(key)
    return value if isinstance(value, Mapping) else {}


def unused(name: str, taken: set[str], ending: str = "") -> str:
    """`name` with its ending, numbered if already taken; marks the result as taken."""
    found, number = f"{name}{ending}", 2
    while found in taken:
        found, number = f"{name}-{number}{ending}", number + 1
    taken.add(found)
    return found


class Store(Protocol):
    """The part of a workspace that an export needs; implemented by `kgd.workspace.workspace.Workspace`."""

    @property
    def id(self) -> str: ...
    def is_broken(self, target: Uri) -> bool: ...
    def node(self, uri: Uri) -> Node | None: ...
    def resolve(self, uri: Uri) -> Uri: ...


@dataclass(frozen=True, slots=True)
class View:
    """The stored nodes to export, in order.

    Args:
        chosen: Their URIs; sorted, or in the order of a walk.
        detail: Returns the prose of a node's memory file, or None.
        stamps: Returns when a node was created and last changed, in Unix seconds.
        cut: Number of other nodes that were not chosen.
    """

    store: Store
    chosen: Sequence[Uri]
    detail: Callable[[Node], str | None] = lambda node: None
    stamps: Callable[[Uri], tuple[int, int]] = lambda uri: (0, 0)
    cut: int = 0

    @property
    def workspace(self) -> str:
        return self.store.id

    def nodes(self) -> Iterator[Node]:
        """The chosen nodes that are stored, each read on demand."""
        for uri in self.chosen:
            node = self.store.node(uri)
            if node is not None:
                yield node


@dataclass(frozen=True, slots=True)
class DrawnNode:
    uri: Uri
    title: str
    type: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    source: Uri
    target: Uri
    type: str
    weight: float
    is_broken: bool = False


@dataclass(slots=True)
class Drawing:
    """`nodes` has the nodes of the view in its order, then other targets of relations. `left` counts relations to
    stored nodes outside the view."""

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[DrawnEdge] = field(default_factory=list)
    left: int = 0

    def counts(self) -> dict[str, int]:
        missing = sum(node.is_missing for node in self.nodes)
        counts = {"nodes": len(self.nodes) - missing, "relations": len(self.edges), "missing": missing}
        return counts | ({"relations_out_of_view": self.left} if self.left else {})


def drawing(view: View) -> Drawing:
    """The graph of a view, including related files, web pages, missing nodes and nodes of other workspaces."""
    out = Drawing()
    stored = list(view.nodes())
    chosen = {node.uri for node in stored}
    others: dict[Uri, DrawnNode] = {}
    for node in stored:
        out.nodes.append(DrawnNode(node.uri, node.title, node.type, node.summary, node.tags))
        for relation in node.relations:
            target = relation.target if relation.target in chosen else view.store.resolve(relation.target)
            is_missing = target not in chosen and view.store.is_broken(target)
            if target not in chosen and not is_missing and view.store.node(target) is not None:
                out.left += 1
                continue
            if target not in chosen and target not in others:
                kind = scheme_of(target) if is_owned(target) else "resource"
                summary = "missing" if is_missing else ""
                others[target] = DrawnNode(target, name_of(target), kind, summary, (), is_missing)
            out.edges.append(DrawnEdge(node.uri, target, relation.type, relation.weight, is_missing))
    out.nodes += others.values()
    return out
