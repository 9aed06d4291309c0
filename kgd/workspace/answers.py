"""The answers of a workspace: plain values that any surface can display."""

from __future__ import annotations

from dataclasses import dataclass

from kgd.errors import KgdError
from kgd.index.version_cache import VersionRow
from kgd.model.conflict import Conflict
from kgd.model.node import Node
from kgd.model.uri import Uri

Version = VersionRow
"""The version of a node: the number of reachable commits that changed it, and authors and times of first and last.

Times are Unix seconds as stated in the commits; they never determine an order.
"""


@dataclass(frozen=True, slots=True)
class Similar:
    """A new node, and up to three older nodes with similar names."""

    uri: Uri
    like: tuple[Uri, ...]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node before and after a change. An unreadable file counts as the last readable version, which kgd serves."""

    uri: Uri
    before: Node | None
    after: Node | None
    detail: tuple[str | None, str | None] = (None, None)
    """The text of the node's memory before and after; None if absent or unchanged."""
    unreadable: str = ""
    """Where and why the file cannot be read after the change; empty if it can."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """An ordinary file, such as `kgd.yaml` or a memory, before and after; None means absent."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Would:
    """The commit that a dry run would make. `more` is the number of its nodes that are not in `nodes`.

    `is_empty` means that nothing would change, not even a conflict record.
    """

    message: str
    author: str
    nodes: tuple[NodeChange, ...]
    files: tuple[FileChange, ...] = ()
    more: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a ChangeSet. `commit` is None if nothing changed, or for a dry run."""

    commit: str | None
    nodes: tuple[tuple[Uri, int], ...] = ()
    """Written nodes with their new versions; for a dry run, the versions they would get."""
    created: tuple[Uri, ...] = ()
    similar: tuple[Similar, ...] = ()
    warnings: tuple[str, ...] = ()
    repeated: bool = False
    """Whether the request id was used before; this is then the first result."""
    deleted: tuple[Uri, ...] = ()
    would: Would | None = None
    """Set for a dry run."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Health of one step of the work: commit, publish, integrate, index or embedding.

    `state` is ok, waiting, blocked, degraded or off. `blocker` gives the reason and the remedy, and `about` the
    progress.
    """

    name: str
    state: str = "ok"
    last_success: float | None = None
    blocker: str = ""
    since: float | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class InvalidFile:
    """An unreadable node file; its last good value is served, if there is one."""

    path: str
    uri: Uri | None
    line: int
    reason: str

    @classmethod
    def refused(cls, path: str, uri: Uri | None, refusal: KgdError) -> InvalidFile:
        """The invalid file, with the line from the refusal."""
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
    """One commit of the history. `nodes` are the URIs it changed, up to the requested number."""

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
    """The holder and the token that pushed the commit, if a hub recorded them; the author is then only what the pusher
    claims."""
    pushed_by_agent: bool = False
    accepted_by: str = ""
    """The person who accepted the proposal that this commit carries out."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a node before and after, as plain values; None means absent."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem found by `check` or `doctor`. `fix` is the remedy, or empty if a person must decide."""

    level: str
    where: str
    message: str
    fix: str = ""
