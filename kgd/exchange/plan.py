"""This file is where the values are defined that a format takes and gives: what was read, what is to be written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgd.model.change import Edit
from kgd.model.conflict import canonical_json
from kgd.model.fields import plain
from kgd.model.node import Json, Node, cut_at_word
from kgd.model.uri import scheme_of

IMPORTED = "imported"
"""The key of `data` under which a node that was imported notes what it was then, as a digest."""
PLACE = "added"
"""The key of an entity's `data`, and of its relations', for its place among the others."""
NAMED_FILE = "file"
"""The key of `data` that names the memory file of a node."""
REASON = 240
"""Characters of a reason in a report."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that could not be taken, or not as it is. `at` is ``path:line`` within the source."""

    at: str
    reason: str

    def __post_init__(self) -> None:
        reason = " ".join(self.reason.split())
        object.__setattr__(self, "reason", reason if len(reason) <= REASON else cut_at_word(reason, REASON))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A node as the source has it: all of what is to be stored, and the prose of its memory file where it has one.

    `file` is the name the memory file has in the source. `at` is where in the source the node stands. `base` is given
    where kgd wrote the source: the digest of what it wrote, which the node itself then need not note.
    """

    node: Node
    detail: str = ""
    file: str = ""
    at: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a source says, before anything is written.

    `wanted` is compared with what is stored, so that a second import changes nothing and an edit of a person's stays.
    `edits` are carried out as they are, after it; they must be such that repeating them changes nothing. Both keep
    their order. `counts` says what was read, such as ``{"notes": 12}``.
    """

    wanted: tuple[Wanted, ...] = ()
    edits: tuple[Edit, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a format may know of where its nodes will live.

    Args:
        workspace: The id in the URIs it makes.
        below: A path that its URIs begin with; empty for none.
        code_tree: The root of the code that the workspace describes, if there is one.
        keywords: Tags for a text.
        check_pattern: The normalised form of an area's path pattern; raises Invalid.
    """

    workspace: str
    below: str = ""
    code_tree: Path | None = None
    check_pattern: Callable[[str, str], str] = lambda text, at: text
    keywords: Callable[[str], Sequence[str]] = lambda text: ()


@dataclass(frozen=True, slots=True)
class Output:
    """A file to be written: its path below the target (empty: the target itself) and its bytes.

    A `block` is no file of its own: it goes between kgd's two marker lines into a file that a person may have.
    """

    path: str
    data: bytes
    block: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What an export would write. `counts` says how much, `troubles` what the format could not hold."""

    files: tuple[Output, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def digest(node: Node, detail: str = "") -> str:
    """Equal for equal knowledge, wherever it is called and wherever it came from; 16 hex digits."""
    apart = (IMPORTED, NAMED_FILE, *_places(node))
    data = {key: value for key, value in node.data.items() if key not in apart}
    relations = tuple(replace(one, data=_without(one.data, _places(node))) for one in node.relations)
    values: dict[str, Any] = plain(replace(node, data=data, relations=relations, source=None, aliases=()))
    values["uri"] = values["detail"] = ""
    if detail:
        values["detail"] = detail.strip("\n")
    return hashlib.sha256(canonical_json(values).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _places(node: Node) -> tuple[str, ...]:
    """Where an entity stood among the others is no knowledge: one line less in the file, and each has another place."""
    return (PLACE,) if scheme_of(node.uri) == "entity" else ()


def _without(data: Mapping[str, Json], keys: Sequence[str]) -> Mapping[str, Json]:
    return {key: value for key, value in data.items() if key not in keys} if keys else data


def without_nulls(data: Mapping[str, Json]) -> dict[str, Json]:
    """The data without keys that hold nothing: as a write leaves them out."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if value is not None
    }


def noted(wanted: Wanted) -> Wanted:
    """The same, with the digest that tells a later import whether either side has changed since."""
    node = replace(wanted.node, data=without_nulls(wanted.node.data))
    if not wanted.base:
        node = replace(node, data={**node.data, IMPORTED: digest(node, wanted.detail)})
    return replace(wanted, node=node)


def one_line(text: str) -> str:
    """The text as a name or summary may hold it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
