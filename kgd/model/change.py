"""This file is where changes are described: what someone wants to be different, before anyone has checked it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgd.model.changelog import LogEntry
from kgd.model.node import Json, Relation, Source
from kgd.model.uri import Uri


@dataclass(frozen=True, slots=True)
class Author:
    """Who made a change. `client` is the program it came through, such as ``claude-code 2.1``."""

    name: str
    email: str
    client: str = ""


@dataclass(frozen=True, slots=True)
class Upsert:
    """Names what changes and leaves the rest. `data` merges by key, where None deletes; tags and relations add.

    A field that is None is left as it is. `unset` names fields, or ``data.key``, to clear. `detail` is the Markdown
    behind a memory, which is kept in a file of its own; to unset it deletes that file.
    `expect_version` is the version the caller read; 0 means "not stored yet".
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


@dataclass(frozen=True, slots=True)
class Append:
    """Adds a paragraph to `content`. A missing node is made if `creates`, or if its URI is a file of the workspace or
    external."""

    uri: Uri
    text: str
    creates: bool = True


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes the node with its outgoing relations. Incoming ones become broken links."""

    uri: Uri
    expect_version: int | None = None


@dataclass(frozen=True, slots=True)
class Relate:
    source: Uri
    relation: Relation
    explicit: frozenset[str] = frozenset({"weight", "data"})
    """Which of weight and data the caller gave; the others stay as they are on a relation that exists."""


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
    """Gives the node another URI; the old one stays as an alias, so that links survive."""

    uri: Uri
    to: Uri


@dataclass(frozen=True, slots=True)
class Revert:
    """The opposite of one commit, through the merge: what changed since is kept. With `only`, of these nodes alone."""

    commit: str
    only: frozenset[Uri] = frozenset()


@dataclass(frozen=True, slots=True)
class Settle:
    """Decides one open conflict: per field the value to keep. Deletes the conflict's record.

    With `as_shown` it is refused where somebody wrote a third value since: whoever decided has not seen that one.
    """

    conflict: str
    fields: Mapping[str, Json]
    as_shown: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """Adds an entry to the changelog of a node that is there."""

    entry: LogEntry


Edit = Upsert | Append | Delete | Relate | Unrelate | Untag | Move | Revert | Settle | Log


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """An atomic set of edits: all of them become exactly one commit, or none does.

    `request_id` makes a retry answer the first result. `message` is the commit's subject, or empty to have one made.
    """

    edits: tuple[Edit, ...]
    author: Author
    message: str = ""
    request_id: str = ""
    operation: str = "put"
    origin: str = ""
    resolved_by: str = ""
    """Which model decided what people had written differently, where the author let one decide."""
    accepted_by: str = ""
    """Who accepted the proposal that this carries out."""
