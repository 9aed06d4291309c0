"""Copies of submitted nodes in another workspace, and the commits that wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kgd.errors import Forbidden, NotFound, Unauthorized, Unavailable
from kgd.git.objects import Commit, ObjectId
from kgd.model.fields import join
from kgd.model.node import Json
from kgd.model.uri import Uri, segments_of
from kgd.sync.hubs import WRITE_DEADLINE
from kgd.tools.proposals.rehoming import ORIGIN
from kgd.workspace.proposals.submission import VERSIONS_LOOKED_AT

if TYPE_CHECKING:
    from kgd.git.history import LogEntry
    from kgd.sync.hubs import HubClient
    from kgd.workspace.workspace import Workspace

TOGETHER = 50
"""Nodes per call of a hub."""
PAGE_TOKENS = 10_000
COMMITS = 200
"""Commits per page of a node's history on a hub."""
_FIELD = join("data", ORIGIN)


@dataclass(frozen=True, slots=True)
class Copy:
    """A node in the target workspace. `origin` is its ``data.submitted_from``; a bare node has nothing but its URI."""

    version: int
    origin: Json = None
    is_bare: bool = False


class There(Protocol):
    """The target workspace of a submission."""

    @property
    def id(self) -> str: ...

    def copies(self, uris: Sequence[Uri]) -> dict[Uri, Copy]:
        """The stored nodes of these URIs that the caller may read."""
        ...

    def submitted(self, uri: Uri, copy: Copy) -> tuple[str, bool]:
        """The commit that wrote the present origin of a copy, and whether the copy changed since.

        Raises:
            Unavailable: A hub's history of the node does not contain that commit.
        """
        ...


class AtHand:
    """A workspace on this machine, at a commit."""

    def __init__(self, workspace: Workspace, tip: ObjectId) -> None:
        self.id, self._workspace, self._tip = workspace.id, workspace, tip

    def copies(self, uris: Sequence[Uri]) -> dict[Uri, Copy]:
        found = {}
        for uri in uris:
            if (node := self._workspace.past.node_at(uri, self._tip)) is not None:
                found[uri] = Copy(len(self._log(uri)), node.data.get(ORIGIN), node.is_bare)
        return found

    def submitted(self, uri: Uri, copy: Copy) -> tuple[str, bool]:
        found = next((one.commit.id for one in self._log(uri) if self._wrote(one.commit, uri, copy)), self._tip)
        node_at = self._workspace.past.node_at
        return found.hex(), node_at(uri, found) != node_at(uri, self._tip)

    def _wrote(self, commit: Commit, uri: Uri, copy: Copy) -> bool:
        """Whether this commit introduced the origin of the copy. The merge that accepted a submission counts."""
        before = self._origin(uri, commit.parents[0]) if commit.parents else None
        return bool(before != copy.origin and copy.origin == self._origin(uri, commit.id))

    def _origin(self, uri: Uri, commit: ObjectId) -> Json:
        node = self._workspace.past.node_at(uri, commit)
        return node.data.get(ORIGIN) if node is not None else None

    def _log(self, uri: Uri) -> Sequence[LogEntry]:
        files = self._workspace.history.files_of(uri)
        return self._workspace.past.log(self._tip, files, limit=VERSIONS_LOOKED_AT)


class OnHub:
    """A workspace that a hub serves."""

    def __init__(self, client: HubClient, workspace: str) -> None:
        self.id, self._client = workspace, client

    def copies(self, uris: Sequence[Uri]) -> dict[Uri, Copy]:
        found: dict[Uri, Copy] = {}
        for begin in range(0, len(uris), TOGETHER):
            self._read(uris[begin : begin + TOGETHER], found)
        return found

    def submitted(self, uri: Uri, copy: Copy) -> tuple[str, bool]:
        asked: dict[str, Any] = {"uri": uri, "diff": True, "limit": COMMITS}
        is_changed = False
        while True:
            page = self._client.call(self.id, "history", asked, reads=True, deadline=WRITE_DEADLINE)
            for commit in page.get("commits", ()):
                if any(_is_submission(one, uri, copy) for one in commit.get("diff", ())):
                    return str(commit["commit"]), is_changed
                is_changed = True
            if not page.get("cursor"):
                raise Unavailable("the hub does not say when it was submitted", at=uri, next="Name a base.")
            asked["cursor"] = page["cursor"]

    def _read(self, uris: Sequence[Uri], found: dict[Uri, Copy]) -> None:
        asked: dict[str, Any] = {"uris": list(uris), "include": ["relations"], "budget": PAGE_TOKENS}
        while True:
            try:
                page = self._client.call(self.id, "get", asked, reads=True, deadline=WRITE_DEADLINE)
            except (Forbidden, Unauthorized, NotFound):
                if len(uris) > 1:  # one unreadable node fails the call for all
                    for uri in uris:
                        self._read([uri], found)
                return
            for one in page.get("nodes", ()):
                uri = Uri(one["uri"])
                if uri in uris and one["version"] and not one.get("continued"):
                    found[uri] = Copy(one["version"], one.get("data", {}).get(ORIGIN), _is_bare(one))
            if not page.get("cursor"):
                return
            asked["cursor"] = page["cursor"]


def _is_submission(diff: Mapping[str, Any], uri: Uri, copy: Copy) -> bool:
    return diff.get("uri") == uri and diff.get("fields", {}).get(_FIELD, {}).get("after") == copy.origin


def _is_bare(answer: Mapping[str, Any]) -> bool:
    """Whether a hub's answer holds nothing but the URI, and the name and type that follow from it."""
    held = ("summary", "content", "content_cut", "tags", "data", "source", "relations", "relations_cut", "aliases")
    last = segments_of(Uri(answer["uri"]))[-1:] if "://" in answer["uri"] else []
    named = answer.get("name", "").encode() not in (b"", *last, answer["uri"].encode())
    return not named and not any(answer.get(name) for name in held)
