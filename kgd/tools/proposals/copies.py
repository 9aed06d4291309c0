"""Copies of submitted nodes in another workspace, and the commits that wrote them.

A copy names its origin in ``data.submitted_from``: the URI and the commit that it was copied from. The first submission
of a node sends the whole node, later submissions only the differences.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kgd.errors import Forbidden, NotFound, Unauthorized, Unavailable
from kgd.git.objects import Commit, ObjectId
from kgd.model.change import Upsert
from kgd.model.difference import as_change, upsert_of
from kgd.model.difference import difference as between
from kgd.model.fields import join
from kgd.model.node import FIELDS, Json, Node
from kgd.model.uri import Uri, build, is_owned, scheme_of, segments_of, workspace_of
from kgd.sync.hubs import WRITE_DEADLINE
from kgd.workspace.proposals.submission import VERSIONS_LOOKED_AT

if TYPE_CHECKING:
    from kgd.git.history import LogEntry
    from kgd.sync.hubs import HubClient
    from kgd.workspace.workspace import Workspace

ORIGIN = "submitted_from"
_MOLECULE = "moleculeId"

Changes = list[dict[str, Any]]


def rehomed(uri: Uri, own: str, into: str) -> Uri:
    """The URI of a copy; a URI that is not the workspace's own stays unchanged."""
    if not is_owned(uri) or workspace_of(uri) != own:
        return uri
    return build(scheme_of(uri), into, segments_of(uri))


def whole(node: Node, homes: Mapping[Uri, Uri], origin: Json) -> dict[str, Any]:
    """An upsert that creates the copy of a node; relations between copied nodes lead to their copies."""
    upsert = as_change(upsert_of(_copy(node, homes[node.uri], homes)))
    if origin:
        upsert["data"] = {**upsert.get("data", {}), ORIGIN: origin}
    return upsert


def difference(then: Node, now: Node, homes: Mapping[Uri, Uri], origin: Json, *, new: Collection[Uri]) -> Changes:
    """The changes that turn a copy of `then` into a copy of `now`; empty if the two are equal.

    Args:
        homes: The URIs of the copies, by the URIs that they are copies of.
        new: Nodes that are copied for the first time, so that relations to them now lead to the copies.
    """
    uri = homes[now.uri]
    before = _copy(then, uri, {own: home for own, home in homes.items() if own not in new})
    edits = between(before, _copy(now, uri, homes))
    upsert = next((one for one in edits if isinstance(one, Upsert)), Upsert(uri))
    marked = replace(upsert, data={**upsert.data, ORIGIN: origin})
    return [as_change(one) for one in (marked, *(one for one in edits if one is not upsert))] if edits else []


def _copy(node: Node, uri: Uri, homes: Mapping[Uri, Uri]) -> Node:
    """The copy of the node. If the target of a relation has a copy, the relation leads to that copy."""
    relations = tuple(replace(one, target=homes.get(one.target, one.target)) for one in node.relations)
    return replace(_in_its_molecule(node, homes), uri=uri, relations=relations, aliases=())


def _in_its_molecule(node: Node, homes: Mapping[Uri, Uri]) -> Node:
    """The node as a copy: an atom belongs to the copy of its molecule, or to none if there is no copy."""
    named = node.data.get(_MOLECULE)
    if scheme_of(node.uri) != "atom" or named is None:
        return node
    home = homes.get(Uri(named)) if isinstance(named, str) else None
    rest = {key: value for key, value in node.data.items() if key != _MOLECULE}
    return replace(node, data={**rest, _MOLECULE: home} if home else rest)


TOGETHER = 50
"""Number of nodes per call of a hub."""
PAGE_TOKENS = 10_000
COMMITS = 200
"""Number of commits per page of a node's history on a hub."""
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
        """The commit that wrote the current origin of a copy, and whether the copy has changed since then.

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
        """Whether this commit introduced the origin of the copy. The merge that accepted a submission also does
        this."""
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
                raise Unavailable("the hub's history does not show its submission", at=uri, next="Give a base.")
            asked["cursor"] = page["cursor"]

    def _read(self, uris: Sequence[Uri], found: dict[Uri, Copy]) -> None:
        asked: dict[str, Any] = {"uris": list(uris), "include": ["relations"], "budget": PAGE_TOKENS}
        while True:
            try:
                page = self._client.call(self.id, "get", asked, reads=True, deadline=WRITE_DEADLINE)
            except (Forbidden, Unauthorized, NotFound):
                if len(uris) > 1:  # one unreadable node makes the call fail for all
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
    held = {*FIELDS, "content_cut", "relations_cut"} - {"uri", "type", "name"}
    last = segments_of(Uri(answer["uri"]))[-1:] if "://" in answer["uri"] else []
    named = answer.get("name", "").encode() not in (b"", *last, answer["uri"].encode())
    return not named and not any(answer.get(name) for name in held)
