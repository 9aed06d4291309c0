"""Nodes and relations: the one model of all knowledge.

Concepts, files, atoms, decisions and messages differ only in their URI scheme and in `type`, a free label. Derived
history (version, created, updated) is not a field and is never stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from operator import attrgetter
from typing import Any, TypeVar

from kgd.errors import Invalid, Limit
from kgd.model.uri import OWNED, Uri, name_of, scheme_of

NODE_BYTES = 256 * 1024
"""Maximum size in bytes of a file that kgd reads as a whole: a node, a memory, `kgd.yaml`."""
SUMMARY_LIMIT = 100
NAME_LIMIT = 255
LABEL_LIMIT = 128
"""Maximum number of characters of a type, a relation type or a tag."""
TAGS_LIMIT = 256
RELATIONS_LIMIT = 10_000

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]").search
"""Line ends, control characters and direction marks, which could disguise a name in lists and prompts."""

C = TypeVar("C")
Json = Any
"""Values of YAML's core schema: None, bool, int, float, str, list and dict with string keys."""


def strings_in(value: Json) -> Iterator[str]:
    """All strings within a value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Iterable):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from strings_in(one)


class Shape(Enum):
    """The form of a field's value, which determines how the field is checked, stored, merged and edited."""

    URI = auto()
    LABEL = auto()
    """1 to `LABEL_LIMIT` printable characters."""
    LINE = auto()
    """One line of at most `NodeField.most` characters."""
    TEXT = auto()
    NAMES = auto()
    """A set of labels."""
    URIS = auto()
    """A set of URIs."""
    SOURCE = auto()
    RELATIONS = auto()
    DATA = auto()


@dataclass(frozen=True, slots=True)
class NodeField:
    """One stored field of a node: a row of `NODE_FIELDS`.

    Args:
        words: The column of the text index for the field's words: summary, content or data, or the field's own column
            for name and tags. Empty if search does not read the field. A node with a value in any field that search
            reads is more than a bare URI.
        help: Its description in the schema of `put`, in `kgd put --help` and next to the form's field.
        most: Maximum number of characters of a `LINE`.
        title: Its label on pages; `name` if empty.
    """

    name: str
    shape: Shape
    words: str = ""
    help: str = ""
    most: int = NAME_LIMIT
    title: str = ""

    @property
    def label(self) -> str:
        return self.title or self.name.replace("_", " ")


NODE_FIELDS = (
    NodeField("uri", Shape.URI, title="URI"),
    NodeField("type", Shape.LABEL, help="of the node or relation"),
    NodeField("name", Shape.LINE, words="name"),
    NodeField("summary", Shape.LINE, words="summary", help="<= 100 chars", most=SUMMARY_LIMIT),
    NodeField("aliases", Shape.URIS, title="former names"),
    NodeField("tags", Shape.NAMES, words="tags"),
    NodeField("content", Shape.TEXT, words="content"),
    NodeField("source", Shape.SOURCE),
    NodeField("relations", Shape.RELATIONS),
    NodeField("data", Shape.DATA, words="data"),
)
"""All stored fields of a node, in the order of the canonical file. A new field of text or labels is a row at the end,
where older versions write unknown keys. Files, edits, merges, search, answers, commands and pages follow; a class
declares the field only if typed code uses it by name."""
FIELDS = tuple(row.name for row in NODE_FIELDS)
SCALARS = tuple(row.name for row in NODE_FIELDS if row.shape in (Shape.LABEL, Shape.LINE, Shape.TEXT))
SETS = tuple(row.name for row in NODE_FIELDS if row.shape in (Shape.NAMES, Shape.URIS))
PLAIN = tuple(row for row in NODE_FIELDS if row.name in SCALARS or row.shape is Shape.NAMES)
"""Fields that are text or labels, which all surfaces can show and edit."""


def empty(row: NodeField) -> Json:
    """The value of a `PLAIN` field that is not set."""
    return () if row.shape is Shape.NAMES else ""


def with_plain_fields(default: Callable[[NodeField], Json] = lambda row: None) -> Callable[[type[C]], type[C]]:
    """A class decorator that adds the fields of `PLAIN` that a dataclass (below `dataclass`) or TypedDict lacks.

    Without a default they are None, which means "not given".
    """

    def add(cls: type[C]) -> type[C]:
        for row in PLAIN:
            if row.name not in cls.__annotations__:
                cls.__annotations__[row.name] = Sequence[str] if row.shape is Shape.NAMES else str
                setattr(cls, row.name, default(row))
        return cls

    return add


RELATION_FIELDS = ("type", "target", "weight", "data")
SOURCE_FIELDS = ("type", "id")
RESERVED = frozenset({"detail", "memories", "node", "open", "twin"})
"""Names with another meaning in changes and conflicts; an unknown key must not have one of these names."""
RESERVED_PREFIX = "kgd"
"""Prefix reserved for future keys that grant something, so that no file written by this version already contains such a
key."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed, weighted edge. It is stored in its source's file, so the source is not a field.

    `weight` is a cost: 0 means "always together", 1 means one full step. `others` are keys unknown to this version, as
    in `Node`.
    """

    type: str
    target: Uri
    weight: float = 1.0
    data: Mapping[str, Json] = field(default_factory=dict)
    others: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_label(self.type, "relation type")
        if self.others:
            check_others(self.others, RELATION_FIELDS)
        if isinstance(self.weight, bool) or not isinstance(self.weight, (int, float)) or not 0 <= self.weight <= 1:
            raise Invalid(
                "a weight must be a number in 0..1", at="weight", next="0 is 'always together', 1 is one full step."
            )
        if type(self.weight) is not float:
            object.__setattr__(self, "weight", float(self.weight))

    @property
    def key(self) -> tuple[str, str]:
        """The key, unique within one source and also the sort key of the canonical order."""
        return self.type, self.target


_KEY = attrgetter("type", "target")


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a node's content, for `delete by source` and for ingesting again. Both fields are free strings."""

    type: str
    id: str
    others: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_others(self.others, SOURCE_FIELDS)

    @property
    def key(self) -> tuple[str, str]:
        return self.type, self.id


@dataclass(frozen=True, slots=True)
@with_plain_fields(empty)
class Node:
    """A stored unit of knowledge.

    `tags`, `aliases` and `relations` are sorted and unique, so that equal nodes have equal bytes. The tags of memories
    (decision, gotcha, insight, pattern, task) are lower case. `name` may be empty: `title` then replaces it. `others`
    are keys unknown to this version; they are kept, and nothing depends on their values.
    """

    uri: Uri
    type: str = ""
    name: str = ""
    summary: str = ""
    content: str = ""
    tags: tuple[str, ...] = ()
    data: Mapping[str, Json] = field(default_factory=dict)
    source: Source | None = None
    relations: tuple[Relation, ...] = ()
    aliases: tuple[Uri, ...] = ()
    others: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "type", self.type or default_type(self.uri))
        if self.type in MEMORY_TYPES:
            set_field(self, "tags", folded(self.tags))
        for name in SETS:
            if (values := getattr(self, name)) != ():
                set_field(self, name, tuple(sorted(set(values))))
        set_field(self, "relations", tuple(sorted(self.relations, key=_KEY)))
        self._check()

    def _check(self) -> None:
        if self.others:
            check_others(self.others, FIELDS)
        for name, row, check in _CHECKED:
            if value := getattr(self, name):
                check(row, value, self.uri)
        if len(self.relations) > RELATIONS_LIMIT:
            raise Limit(f"a node has at most {RELATIONS_LIMIT} relations", at=self.uri)
        for one, two in zip(self.relations, self.relations[1:], strict=False):
            if one.type == two.type and one.target == two.target:
                raise Invalid(f"the relation {one.type} -> {one.target} is given twice", at=self.uri)

    @property
    def label(self) -> str:
        return label_of(self.uri, self.name, self.summary)

    @property
    def title(self) -> str:
        """The label, otherwise the last segment of the URI."""
        return self.label or name_of(self.uri)

    def relation(self, type: str, target: Uri) -> Relation | None:
        return next((r for r in self.relations if r.key == (type, target)), None)

    @property
    def supersedes(self) -> list[Uri]:
        """The nodes that it declares to supersede."""
        return [one.target for one in self.relations if one.type.lower() == SUPERSEDES]

    def relations_with(self, *added: Relation) -> tuple[Relation, ...]:
        """The relations of the node and these. Each of these replaces one with the same (type, target); of several such
        relations, the last takes precedence."""
        new = {relation.key: relation for relation in added}
        return (*(relation for relation in self.relations if relation.key not in new), *new.values())

    def with_relation(self, *relations: Relation) -> Node:
        """The node with `relations_with` these relations."""
        return replace(self, relations=self.relations_with(*relations))

    @property
    def is_bare(self) -> bool:
        """Whether only the URI is stored: a resource that exists because a relation points to it (E8)."""
        return self == Node(self.uri)


FACTS = frozenset({"decision", "gotcha", "insight", "pattern"})
"""Schemes of nodes that state one fact. Such a node needs no name: it is known by its summary."""


def label_of(uri: Uri, name: str, summary: str) -> str:
    """The name of a node; the summary of a fact without a name; empty if there is neither."""
    return name or (summary if uri.partition(":")[0] in FACTS else "")


def _check_line(row: NodeField, value: str, at: Uri) -> None:
    if len(value) > row.most:
        fits = cut_at_word(value, min(row.most, SUMMARY_LIMIT))
        raise Limit(
            f"'{row.name}' has {len(value)} characters; the limit is {row.most}",
            at=at,
            next=f"Put the remaining text into content; this would fit: {fits!r}",
        )
    if "\n" in value:
        raise Invalid(f"'{row.name}' must be one line", at=at)


def _check_names(row: NodeField, values: tuple[str, ...], at: Uri) -> None:
    if len(values) > TAGS_LIMIT:
        raise Limit(f"a node has at most {TAGS_LIMIT} {row.label}", at=at)
    if not all(map(_is_label, values)):
        raise Invalid(f"each of the {row.label} is {_LABEL}", at=row.name)


_CHECKS: Mapping[Shape, Callable[[NodeField, Any, Uri], None]] = {
    Shape.LABEL: lambda row, value, at: check_label(value, row.name),
    Shape.LINE: _check_line,
    Shape.NAMES: _check_names,
}
_CHECKED = tuple((row.name, row, _CHECKS[row.shape]) for row in NODE_FIELDS if row.shape in _CHECKS)

_TYPES = {"file": "resource", "dir": "concept"}


def default_type(uri: str) -> str:
    """`resource` for files and external URIs, `concept` for directories, otherwise the scheme."""
    scheme = scheme_of(uri)
    return _TYPES.get(scheme, scheme) if scheme in OWNED else "resource"


def edge_id(source: str, target: str, type: str) -> str:
    """The id of a relation: a pure function of the three arguments, stable across rebuilds and machines."""
    return "edge-" + hashlib.sha256(f"{source}\n{target}\n{type}".encode()).hexdigest()[:24]


def check_others(others: Mapping[str, Json], known: Collection[str]) -> None:
    for key in others:
        if key in known or key in RESERVED or key.startswith(RESERVED_PREFIX):
            raise Invalid(f"the key '{key[:60]}' is reserved", at=key, next="Choose another name.")


_LABEL = f"1 to {LABEL_LIMIT} printable characters, without leading or trailing blanks"


def check_label(text: str, what: str) -> None:
    if not _is_label(text):
        raise Invalid(f"a {what} is {_LABEL}", at=what)


def _is_label(text: str) -> bool:
    return 0 < len(text) <= LABEL_LIMIT and text == text.strip() and text.isprintable()


def cut_at_word(text: str, limit: int = SUMMARY_LIMIT) -> str:
    """The first sentence or words of `text` that fit on one line of `limit` characters."""
    line = " ".join(text.split())
    if UNSEEN(line):
        line = "".join(char for char in line if not UNSEEN(char))
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    head = cut.rsplit(" ", 1)[0] if " " in cut[limit // 2 :] else cut
    return head.rstrip(" ,;:.") + "…"


MEMORY_TYPES = frozenset({"decision", "gotcha", "insight", "pattern", "task"})
"""Types of memories: their tags are in lower case, and they may have their detail in a separate file."""

FILE = "file"
"""Key in a node's data: the path of its memory file, ``memories/YYYY-MM-DD-topic.md``."""


def folded(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag.lower() for tag in tags)


SUPERSEDES = "supersedes"
SUPERSEDED = "superseded"
"""The tag of knowledge that is outdated but kept."""
SUPERSEDED_BY = "superseded_by"
SUMMARISES = "summarises"
SUMMARISED_BY = "summarised_by"
_STANDS_BACK = frozenset([SUPERSEDED_BY, SUMMARISED_BY])


def ranks_behind(type: str) -> bool:
    """Whether a relation of this type makes search rank its source lower; search still finds it."""
    return type.lower() in _STANDS_BACK
