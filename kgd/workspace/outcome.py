"""This file is where the answers of a workspace are defined: plain values that every surface can print."""

from __future__ import annotations

from dataclasses import dataclass

from kgd.errors import KgdError
from kgd.index.versions import VersionRow
from kgd.model.conflict import Conflict
from kgd.model.node import Node
from kgd.model.uri import Uri

Version = VersionRow
"""The version of a node: the number of reachable commits that changed it, and authors and times of first and last.

Times are Unix seconds as the commits claim them; order never comes from them.
"""


@dataclass(frozen=True, slots=True)
class Similar:
    """A node that was just made, and up to three older ones that look like it."""

    uri: Uri
    like: tuple[Uri, ...]


@dataclass(frozen=True, slots=True)
class NodeChange:
    uri: Uri
    before: Node | None
    after: Node | None
    detail: tuple[str | None, str | None] = (None, None)
    """The text of its memory before and after; None where it has none, or where that did not change."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is no node's, such as `kgd.yaml` or a memory, before and after; None is absence."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Would:
    """The commit that a dry run did not make. `more` is how many nodes of it are not among `nodes`.

    `is_empty` is whether there would be none: nothing would change, records of conflicts included.
    """

    message: str
    author: str
    nodes: tuple[NodeChange, ...]
    files: tuple[FileChange, ...] = ()
    more: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a ChangeSet. `commit` is None where nothing changed or for a dry run."""

    commit: str | None
    nodes: tuple[tuple[Uri, int], ...] = ()
    """What was written, with its version since; for a dry run that which it would have."""
    created: tuple[Uri, ...] = ()
    similar: tuple[Similar, ...] = ()
    warnings: tuple[str, ...] = ()
    repeated: bool = False
    """The request id was seen before: this is the first result, nothing was done now."""
    deleted: tuple[Uri, ...] = ()
    would: Would | None = None
    """For a dry run."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Health of one step of the work: commit, publish, integrate, index or embedding.

    `state` is ok, waiting, blocked, degraded or off; `blocker` says in words what it waits for and what to do, `about`
    how far it is and with what.
    """

    name: str
    state: str = "ok"
    last_success: float | None = None
    blocker: str = ""
    since: float | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class InvalidFile:
    """A node file that cannot be read as a node; its last good value, if there is one, is what is served."""

    path: str
    uri: Uri | None
    line: int
    reason: str

    @classmethod
    def refused(cls, path: str, uri: Uri | None, refusal: KgdError) -> InvalidFile:
        """The file, at the line that a refusal names."""
        place, _, line = refusal.at.rpartition(":")
        return cls(path, uri, int(line) if place and line.isdigit() else 1, refusal.message)


@dataclass(frozen=True, slots=True)
class OpenConflict:
    id: str
    path: str
    conflict: Conflict

    @property
    def uri(self) -> Uri:
        return self.conflict.uri


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit as history tells it. `nodes` are the URIs it changed, at most as many as were asked for."""

    commit: str
    parents: tuple[str, ...]
    subject: str
    body: str
    author: str
    email: str
    client: str
    at: int
    operation: str
    nodes: tuple[Uri, ...]
    more_nodes: int = 0
    pushed_by: str = ""
    """The holder and the token that pushed it, where a hub recorded that; the author is then only what they wrote."""
    pushed_by_agent: bool = False
    accepted_by: str = ""
    """Who accepted the proposal that it carries out."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a node before and after, as plain values; None is absence."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `check` or `doctor` found. `fix` names what mends it, or is empty where a person has to."""

    level: str
    where: str
    message: str
    fix: str = ""
