"""Changes: requested edits, before validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgd.model.node import Json, Relation, Source, with_plain_fields
from kgd.model.uri import Uri

_SIGNED = re.compile(r"(.*?)(?: \(([^()]*)\))?(?: <([^<>]*)>)?\Z", re.S).match

VERIFY = "verify"
"""The operation that confirms a fact without writing it."""


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
