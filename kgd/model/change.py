"""Changes: requested edits, before validation; and the edits that turn one version of a node into another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kgd.model.conflict import canonical_json
from kgd.model.node import SCALARS, SETS, Json, Node, Relation, Source, with_plain_fields
from kgd.model.uri import Uri

_SIGNED = re.compile(r"(.*?)(?: \(([^()]*)\))?(?: <([^<>]*)>)?\Z", re.S).match

VERIFY = "verify"
"""The operation that confirms a fact without writing it."""


SUBJECT_PART = 150
"""Maximum length, in characters, of an address or a text in a subject that kgd writes."""


def subject_from(*parts: str, more: int = 0) -> str:
    """The subject of a commit from words, addresses and texts. `more` is the number of nodes that it does not name.

    >>> subject_from("verify", "insight://shop/a", more=2)
    'verify insight://shop/a and 2 more'
    """
    lines = (" ".join(part.split()) for part in parts)
    cut = (line if len(line) <= SUBJECT_PART else f"{line[: SUBJECT_PART - 1]}…" for line in lines)
    return " ".join(cut) + (f" and {more} more" if more else "")


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a change. `client` is their program, such as ``claude-code 2.1``."""

    name: str
    email: str
    client: str = ""

    @property
    def signed(self) -> str:
        """The name in a commit: ``Ann (codex)``."""
        return f"{self.name} ({self.client})" if self.client else self.name

    @classmethod
    def of(cls, text: str) -> Author:
        """Parse the name in a commit, with or without the address.

        >>> Author.of("Ann (codex) <ann@example.org>")
        Author(name='Ann', email='ann@example.org', client='codex')
        """
        name, client, email = _SIGNED(text).groups()  # type: ignore[union-attr]
        return cls(name, email or "", client or "")


@dataclass(frozen=True, slots=True)
@with_plain_fields()
class Upsert:
    """Change the given fields and keep all others. `data` is merged by key, and None deletes a key; tags and relations
    are added.

    A field that is None is not changed. `unset` lists fields, or ``data.key``, to clear. `detail` is the Markdown text
    of a memory, kept in a separate file; unsetting it deletes that file. `expect_version` is the version that the
    caller read; 0 means "not stored yet". `others` sets unknown keys; None deletes a key. With `exists`, a node
    that is neither stored nor in the code tree is refused, not created.
    """

    uri: Uri
    type: str | None = None
    name: str | None = None
    summary: str | None = None
    content: str | None = None
    tags: tuple[str, ...] = ()
    data: Mapping[str, Json] = field(default_factory=dict)
    source: Source | None = None
    relations: tuple[Relation, ...] = ()
    aliases: tuple[Uri, ...] = ()
    unset: tuple[str, ...] = ()
    expect_version: int | None = None
    detail: str | None = None
    others: Mapping[str, Json] = field(default_factory=dict)
    exists: bool | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Add a paragraph to `content`. A missing node is created if `creates` is set, or if its URI is external or a file
    of the workspace."""

    uri: Uri
    text: str
    creates: bool = True


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the node with its outgoing relations. Incoming relations become broken links."""

    uri: Uri
    expect_version: int | None = None


@dataclass(frozen=True, slots=True)
class Relate:
    source: Uri
    relation: Relation
    explicit: frozenset[str] = frozenset({"weight", "data"})
    """Which of weight and data the caller gave; an existing relation keeps its other values."""


@dataclass(frozen=True, slots=True)
class Unrelate:
    source: Uri
    target: Uri
    type: str


@dataclass(frozen=True, slots=True)
class Untag:
    uri: Uri
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Give the node another URI. The old URI becomes an alias, so that links stay valid."""

    uri: Uri
    to: Uri


@dataclass(frozen=True, slots=True)
class Revert:
    """Reverse one commit by a merge, which keeps later changes. `only` limits the reversal to these nodes."""

    commit: str
    only: frozenset[Uri] = frozenset()


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle one open conflict: gives the value to keep for each field, and deletes the conflict's record.

    With `as_shown`, the decision is refused if another value, which the caller has not seen, was added in the meantime.
    """

    conflict: str
    fields: Mapping[str, Json]
    as_shown: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """Add an entry to the changelog of an existing node."""

    entry: LogEntry


Edit = Upsert | Append | Delete | Relate | Unrelate | Untag | Move | Revert | Settle | Log


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """An atomic set of edits: either all of them become exactly one commit, or none is applied.

    A retry with the same `request_id` returns the first result. `message` is the commit's subject; if empty, one is
    generated.
    """

    edits: tuple[Edit, ...]
    author: Author
    message: str = ""
    request_id: str = ""
    operation: str = "put"
    origin: str = ""
    resolved_by: str = ""
    """The model that settled conflicts, if the author delegated them."""
    accepted_by: str = ""
    """The person who accepted this proposal."""

    @property
    def named(self) -> frozenset[Uri]:
        """The nodes that the edits mention. Their effect may touch more nodes."""
        found = set[Uri]()
        for edit in self.edits:
            match edit:
                case Upsert():
                    found |= {edit.uri, *edit.aliases}
                case Append() | Delete() | Untag():
                    found.add(edit.uri)
                case Relate() | Unrelate():
                    found.add(edit.source)
                case Move():
                    found |= {edit.uri, edit.to}
                case Settle():
                    found.add(Uri(edit.conflict.rpartition("#")[0]))
                case Log():
                    found.add(edit.entry.parent)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A changelog entry: a change in an area, its reason and its task. Written once, never changed.

    `id` is a ULID, so sorting by it sorts by time. `task` is any reference to the task: a node's URI, or an address in
    an issue tracker. `created_at` is ISO 8601 in UTC with milliseconds, the time of the ULID. `others` are keys unknown
    to this version; they are kept.
    """

    id: str
    parent: Uri
    task: str
    summary: str
    created_at: str
    others: Mapping[str, Json] = field(default_factory=dict)


def upsert_of(node: Node) -> Upsert:
    """The edit that creates this node, or adds its fields to the stored node."""
    given: dict[str, Any] = {name: getattr(node, name) or None for name in SCALARS}
    given |= {name: getattr(node, name) for name in SETS}
    return Upsert(node.uri, **given, data=node.data, source=node.source, relations=node.relations, others=node.others)


def difference(before: Node, after: Node) -> tuple[Edit, ...]:
    """The edits that turn `before`, which has the same URI, into `after`; none if they are equal."""
    given: dict[str, Any] = {}
    unset: list[str] = []
    for name in (*SCALARS, *SETS):
        old, new = getattr(before, name), getattr(after, name)
        if name == "tags" or (name in SETS and set(old) <= set(new)):
            given[name] = tuple(one for one in new if one not in old)  # an upsert adds; `Untag` removes
        elif old != new:
            given[name] = new or None
            unset += [name] if name in SETS or not new else []
    if after.source is None and before.source is not None:
        unset.append("source")
    elif after.source is not None and after.source != before.source:
        is_same = before.source is not None and before.source.key == after.source.key
        former = before.source.others if before.source and is_same else {}
        given["source"] = replace(after.source, others=_changed(former, after.source.others))
    data = _changed(before.data, after.data)
    # An upsert merges mappings, so a changed mapping is cleared first.
    unset += [f"data.{key}" for key, value in data.items() if isinstance(value, Mapping) and key in before.data]
    known = {one.key: one for one in before.relations}
    relations = tuple(
        replace(one, others=_changed(known[one.key].others if one.key in known else {}, one.others))
        for one in after.relations
        if known.get(one.key) != one or _changed(known[one.key].data, one.data)
    )
    others = _changed(before.others, after.others)
    given |= {"data": data, "relations": relations, "others": others, "unset": tuple(unset)}
    edits: list[Edit] = [Upsert(after.uri, **given)] if any(given.values()) else []
    kept = {one.key for one in after.relations}
    edits += [Unrelate(after.uri, one.target, one.type) for one in before.relations if one.key not in kept]
    if tags := tuple(tag for tag in before.tags if tag not in after.tags):
        edits.append(Untag(after.uri, tags))
    return tuple(edits)


def as_change(edit: Edit) -> dict[str, Json]:
    """The edit as a change of `put`."""
    return {"op": type(edit).__name__.lower(), **asdict(edit, dict_factory=_filled)}


def _filled(values: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    return {name: value for name, value in values if value not in (None, "", (), {})}


def _changed(before: Mapping[str, Json], after: Mapping[str, Json]) -> dict[str, Json]:
    """The keys to set, with None for keys to remove."""
    keys = sorted({*before, *after})
    return {key: after.get(key) for key in keys if canonical_json(before.get(key)) != canonical_json(after.get(key))}
