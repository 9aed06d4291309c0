"""Submissions of the user's own nodes: first as copies, later as the changes since the last submission.

A note stored with the workspace's derived data lists the submitted nodes by target. If the note is lost, the copies
still name their origin, so the user must name only the deleted nodes.

A copy names its origin in ``data.submitted_from``: the URI and the commit that it was copied from. The first submission
of a node sends the whole node, later submissions only the differences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kgd.errors import Advice, Do, Forbidden, KgdError, Limit, NotFound, Stale, Unauthorized, Unavailable
from kgd.git import files
from kgd.git.files import replace as replace_file
from kgd.git.history import LogEntry
from kgd.git.objects import Commit, ObjectId
from kgd.graph.traverse import traverse
from kgd.model.change import Upsert, as_change, upsert_of
from kgd.model.change import difference as between
from kgd.model.fields import join
from kgd.model.node import FIELDS, Json, Node
from kgd.model.uri import Uri, build, is_owned, scheme_of, segments_of, workspace_of
from kgd.sync.hubs import WRITE_DEADLINE, HubClient
from kgd.workspace.proposals.deciding import VERSIONS_LOOKED_AT
from kgd.workspace.workspace import Workspace

MOST_NODES = 1_000

ORIGIN = "submitted_from"
_MOLECULE = "moleculeId"

Changes = list[dict[str, Any]]


@dataclass(slots=True)
class Submitted:
    """Nodes submitted to one workspace: the roots with their costs, and the commit of each submitted node."""

    roots: dict[Uri, float] = field(default_factory=dict)
    nodes: dict[Uri, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """A submission: the changes for the workspace `into`, and the note to keep once they have arrived.

    `base` is the target's commit on which the changes are based; empty if the changes expect versions instead.
    """

    into: str
    changes: Changes
    base: str
    noted: Submitted


def piece(own: Workspace, into: str, there: There, roots: Mapping[Uri, float], *, base: str = "") -> Piece:
    """The changes that update copies; without `roots`, the copies of all nodes submitted there before.

    Args:
        roots: Nodes to submit, each with the largest cost of its walk.
        base: The target's commit that the caller saw. With `base`, the changes may also affect the target's own nodes.

    Raises:
        NotFound: A root is not stored and was never submitted, or nothing was submitted there yet.
        Stale: The target has a different node at the URI of a copy.
        Limit: The submission has too many nodes.
    """
    known, tip = noted(own, into), own.tip
    if not roots and not known.roots:
        raise NotFound(
            f"nothing was submitted from here to '{into}' yet",
            at="roots",
            next=Advice("Name the nodes to submit: ", Do("submit_subgraph", remote="WORKSPACE", roots="URI"), "."),
        )
    reached = _reached(own, roots or known.roots, known)
    deleted = [uri for uri in {**known.nodes, **roots} if own.node(uri) is None]
    wanted = reached if roots else list(dict.fromkeys((*reached, *known.nodes)))
    homes = {uri: rehomed(uri, own.id, into) for uri in (*known.nodes, *wanted, *deleted)}
    copies = there.copies([homes[uri] for uri in dict.fromkeys((*wanted, *deleted))])
    new = {uri for uri in wanted if homes[uri] not in copies and homes[uri] != uri}
    changes: Changes = []
    for uri in wanted:
        if (node := own.node(uri)) is None or node.is_bare:
            continue
        if uri in new and not roots and known.nodes.get(uri) and _as_it_was(own, node, known.nodes[uri]):
            continue  # open there as a proposal, or deleted there
        changes += _of_node(own, node, homes, copies.get(homes[uri]), there, tip, new=new, base=base)
    for uri in deleted:
        if (copy := copies.get(homes[uri])) is not None and _comes_from(copy, uri):
            changes.append({"op": "delete", "uri": homes[uri], "expect_version": copy.version})
    changed = {one["uri"] for one in changes if "uri" in one}
    base = base or _base(there, {home: copy for home, copy in copies.items() if home in changed and copy.origin})
    if base:
        changes = [{name: value for name, value in one.items() if name != "expect_version"} for one in changes]
    left = {**known.nodes, **dict.fromkeys(wanted, tip)}
    kept = {uri: at for uri, at in left.items() if uri not in deleted}
    return Piece(into, changes, base, Submitted({**known.roots, **roots}, kept))


def _reached(own: Workspace, roots: Mapping[Uri, float], known: Submitted) -> list[Uri]:
    found: dict[Uri, None] = {}
    for root, cost in roots.items():
        walk = traverse([own.graph], [root], max_cost=cost, max_nodes=MOST_NODES)
        if walk.missing and root not in known.nodes:
            raise NotFound("there is no such node to submit", at=root, next="Roots must be stored nodes.")
        if any(cut.limit == "max_nodes" for cut in walk.cut):
            raise Limit(f"one submission takes at most {MOST_NODES} nodes", at="max_cost", next="Choose a lower cost.")
        found |= dict.fromkeys(one.uri for one in walk.nodes if own.node(one.uri) is not None)
    return list(found)


def _of_node(
    own: Workspace,
    node: Node,
    homes: Mapping[Uri, Uri],
    copy: Copy | None,
    there: There,
    tip: str,
    *,
    new: set[Uri],
    base: str,
) -> Changes:
    uri = node.uri
    if homes[uri] == uri:  # the same node or resource in both workspaces
        return [whole(node, homes, None)] if copy is None or copy.is_bare or own.id == there.id else []
    origin = {"uri": uri, "commit": tip}
    if copy is None or copy.is_bare:
        return [{**whole(node, homes, origin), "expect_version": copy.version if copy else 0}]
    if not _comes_from(copy, uri):
        if base:
            return [whole(node, homes, origin)]
        raise Stale(
            f"'{there.id}' has a node of its own at this URI, which was not submitted from here",
            current=copy.version,
            at=homes[uri],
            next="Rename your node, or give as `base` the commit of that workspace that you saw.",
        )
    changes = difference(_submitted(own, uri, copy), node, homes, origin, new=new)
    if changes:
        changes[0]["expect_version"] = copy.version
    return changes


def _base(there: There, copies: Mapping[Uri, Copy]) -> str:
    """The commit that wrote these copies if the target has changed one of them since then; otherwise empty.

    Raises: Stale: A changed copy was submitted at another time than the others.
    """
    commits, changed = set(), Uri("")
    for uri, copy in copies.items():
        commit, is_changed = there.submitted(uri, copy)
        commits.add(commit)
        changed = uri if is_changed else changed
    if changed and len(commits) > 1:
        raise Stale(
            f"'{there.id}' changed the node since its submission",
            current=copies[changed].version,
            at=changed,
            next="Submit that node by itself first: name it alone with `roots`.",
        )
    return commits.pop() if changed else ""


def _comes_from(copy: Copy, uri: Uri) -> bool:
    return isinstance(copy.origin, dict) and copy.origin.get("uri") == uri


def _submitted(own: Workspace, uri: Uri, copy: Copy) -> Node:
    """The node as last submitted.

    Raises:
        Stale: Its commit is not in this repository.
    """
    assert isinstance(copy.origin, dict)
    try:
        return own.node(uri, as_of=str(copy.origin.get("commit"))) or Node(uri)
    except KgdError:
        raise Stale(
            "its last submission was from a commit that is not in this repository",
            current=copy.version,
            at=uri,
            next="Sync with the repository of that submission, or give as `base` the target's commit that you saw.",
        ) from None


def _as_it_was(own: Workspace, node: Node, commit: str) -> bool:
    try:
        return own.node(node.uri, as_of=commit) == node
    except KgdError:
        return False


# ---- the note


def noted(own: Workspace, into: str) -> Submitted:
    """The note of nodes submitted to a workspace; empty if missing or unreadable."""
    return files.read_state(_note(own, into), _parse) or Submitted()


def _parse(values: Any) -> Submitted:
    roots = {Uri(uri): float(cost) for uri, cost in values["roots"].items()}
    return Submitted(roots, {Uri(uri): str(at) for uri, at in values["nodes"].items()})


def note(own: Workspace, done: Piece) -> None:
    """Store the note of a submission."""
    place = _note(own, done.into)
    place.parent.mkdir(parents=True, exist_ok=True)
    replace_file(place, json.dumps({"roots": done.noted.roots, "nodes": done.noted.nodes}, sort_keys=True).encode())


def only_receiver(own: Workspace) -> str | None:
    """The only workspace that received submissions from here; None if no or several workspaces did."""
    found = [file.stem for file in _note(own, "").parent.glob("*.json")]
    return found[0] if len(found) == 1 and found[0] != own.id else None


def _note(own: Workspace, into: str) -> Path:
    return own.layout.derived_dir / "submitted" / f"{into}.json"


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
