"""Nodes and relations: the one model of all knowledge.

A concept, a file, an atom, a decision or a message differ by URI scheme and by `type`, an open label. Derived history
(version, created, updated) is not a field and is never stored (DESIGN section 2).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kgd.errors import Invalid, Limit
from kgd.model.uri import OWNED, Uri, name_of, scheme_of

NODE_BYTES = 256 * 1024
"""Maximum bytes of a file that kgd reads as a whole: a node, a memory, `kgd.yaml`."""
SUMMARY_LIMIT = 100
NAME_LIMIT = 255
LABEL_LIMIT = 128
"""Characters of a type, a relation type or a tag."""
TAGS_LIMIT = 256
RELATIONS_LIMIT = 10_000

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]").search
"""Line ends, control and direction characters: they disguise a name in lists and prompts."""

Json = Any
"""Values of YAML's core schema: None, bool, int, float, str, list and dict with string keys."""

FIELDS = ("uri", "type", "name", "summary", "aliases", "tags", "content", "source", "relations", "data")
"""All stored fields of a node, in the order of the canonical file."""
RELATION_FIELDS = ("type", "target", "weight", "data")
SOURCE_FIELDS = ("type", "id")
RESERVED = frozenset({"detail", "memories", "node", "open", "twin"})
"""Names with another meaning in changes and conflicts; no unknown key has one of them."""
RESERVED_PREFIX = "kgd"
"""Begins the name of every later key that grants something, so that no file of this version already holds it."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed, weighted edge, stored in its source's file; so the source is not a field.

    `weight` is cost: 0 = always together, 1 = one full step. `others` are keys unknown to this version, as in `Node`.
    """

    type: str
    target: Uri
    weight: float = 1.0
    data: Mapping[str, Json] = field(default_factory=dict)
    others: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_label(self.type, "relation type")
        check_others(self.others, RELATION_FIELDS)
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float) or not 0 <= self.weight <= 1:
            raise Invalid(
                "a weight must be a number in 0..1", at="weight", next="0 is 'always together', 1 is one full step."
            )
        if type(self.weight) is not float:
            object.__setattr__(self, "weight", float(self.weight))

    @property
    def key(self) -> tuple[str, str]:
        """Unique in one source; also the canonical order."""
        return self.type, self.target


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a node's content, for `delete by source` and re-ingest. Both are any strings."""

    type: str
    id: str
    others: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_others(self.others, SOURCE_FIELDS)

    @property
    def key(self) -> tuple[str, str]:
        return self.type, self.id


@dataclass(frozen=True, slots=True)
class Node:
    """A stored unit of knowledge.

    `tags`, `aliases` and `relations` are sorted and unique, so that equal nodes have equal bytes. The tags of memories
    (decision, gotcha, insight, pattern, task) are lower case. `name` may be empty: `title` is then the last segment of
    the URI. `others` are keys unknown to this version; they are kept, and nothing depends on their values.
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
        tags = folded(self.tags) if self.type in MEMORY_TYPES else self.tags
        set_field(self, "tags", tuple(sorted(set(tags))))
        set_field(self, "aliases", tuple(sorted(set(self.aliases))))
        set_field(self, "relations", tuple(sorted(self.relations, key=lambda r: r.key)))
        self._check()

    def _check(self) -> None:
        check_others(self.others, FIELDS)
        check_label(self.type, "type")
        if len(self.name) > NAME_LIMIT:
            raise Limit(f"a name has at most {NAME_LIMIT} characters", at=self.uri)
        if len(self.summary) > SUMMARY_LIMIT:
            raise Limit(
                f"a summary has at most {SUMMARY_LIMIT} characters, this one has {len(self.summary)}",
                at=self.uri,
                next=f"Put the rest into content; this would fit: {cut_at_word(self.summary)!r}",
            )
        if "\n" in self.name or "\n" in self.summary:
            raise Invalid("name and summary are one line each", at=self.uri)
        if len(self.tags) > TAGS_LIMIT:
            raise Limit(f"a node has at most {TAGS_LIMIT} tags", at=self.uri)
        for tag in self.tags:
            check_label(tag, "tag")
        if len(self.relations) > RELATIONS_LIMIT:
            raise Limit(f"a node has at most {RELATIONS_LIMIT} relations", at=self.uri)
        for one, two in zip(self.relations, self.relations[1:], strict=False):
            if one.key == two.key:
                raise Invalid(f"the relation {one.type} -> {one.target} is given twice", at=self.uri)

    @property
    def title(self) -> str:
        return self.name or name_of(self.uri)

    def relation(self, type: str, target: Uri) -> Relation | None:
        return next((r for r in self.relations if r.key == (type, target)), None)

    def with_relation(self, *relations: Relation) -> Node:
        """The node with these relations, each replacing one with the same (type, target). The last one counts."""
        added = {relation.key: relation for relation in relations}
        others = (relation for relation in self.relations if relation.key not in added)
        return replace(self, relations=(*others, *added.values()))

    @property
    def is_bare(self) -> bool:
        """Whether only the URI is stored: a resource that exists because a relation points to it (E8)."""
        return self == Node(self.uri)


_TYPES = {"file": "resource", "dir": "concept"}


def default_type(uri: str) -> str:
    """`resource` for files and externals, `concept` for directories, else the scheme."""
    scheme = scheme_of(uri)
    return _TYPES.get(scheme, scheme) if scheme in OWNED else "resource"


def edge_id(source: str, target: str, type: str) -> str:
    """A pure function of the three; stable over rebuilds and machines."""
    return "edge-" + hashlib.sha256(f"{source}\n{target}\n{type}".encode()).hexdigest()[:24]


def check_others(others: Mapping[str, Json], known: Collection[str]) -> None:
    for key in others:
        if key in known or key in RESERVED or key.startswith(RESERVED_PREFIX):
            raise Invalid(f"the key '{key[:60]}' is reserved", at=key, next="Choose another name.")


def check_label(text: str, what: str) -> None:
    if not text or len(text) > LABEL_LIMIT or text != text.strip() or not text.isprintable():
        raise Invalid(f"a {what} is 1 to {LABEL_LIMIT} printable characters without blanks at its ends", at=what)


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
"""Types of memories: their tags are lower case, and the detail behind their summary may be a separate file."""

FILE = "file"
"""Key in a node's data: the path of that file, ``memories/YYYY-MM-DD-topic.md``."""


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
    """Whether a relation of this type ranks its source behind its equals; search still finds it."""
    return type.lower() in _STANDS_BACK
