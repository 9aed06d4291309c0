"""Submissions of the user's own nodes: first as copies, later as the changes since the last submission.

A note stored with the workspace's derived data lists the submitted nodes by target. If the note is lost, the copies
still name their origin, so the user must name only the deleted nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.errors import Advice, Do, KgdError, Limit, NotFound, Stale
from kgd.git.files import replace
from kgd.graph.traverse import traverse
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.proposals.copies import Changes, Copy, There, difference, rehomed, whole

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

MOST_NODES = 1_000


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
    try:
        values = json.loads(_note(own, into).read_bytes())
        roots = {Uri(uri): float(cost) for uri, cost in values["roots"].items()}
        return Submitted(roots, {Uri(uri): str(at) for uri, at in values["nodes"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Submitted()


def note(own: Workspace, done: Piece) -> None:
    """Store the note of a submission."""
    place = _note(own, done.into)
    place.parent.mkdir(parents=True, exist_ok=True)
    replace(place, json.dumps({"roots": done.noted.roots, "nodes": done.noted.nodes}, sort_keys=True).encode())


def only_receiver(own: Workspace) -> str | None:
    """The only workspace that received submissions from here; None if no or several workspaces did."""
    found = [file.stem for file in _note(own, "").parent.glob("*.json")]
    return found[0] if len(found) == 1 and found[0] != own.id else None


def _note(own: Workspace, into: str) -> Path:
    return own.layout.derived_dir / "submitted" / f"{into}.json"
