"""This file is where it is decided what becomes of one pushed update: a merge, a proposal, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgd.errors import Forbidden, Invalid
from kgd.git.incoming import Incoming
from kgd.git.objects import ObjectId
from kgd.model.access import Principal, Verb
from kgd.sync.vetting import Budget, vet
from kgd.workspace.touched import authorize_all, between
from kgd.workspace.workspace import Workspace

PROPOSALS = "refs/heads/proposals/"
FOR = "refs/for/"
BUDGET = Budget(objects=200_000, bytes=1 << 30, blob=8 << 20, changes=200_000)
"""What one push may bring."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an update becomes, and how many nodes it is about."""

    becomes: Literal["merge", "proposal"]
    nodes: int


def judge(
    incoming: Incoming, workspace: Workspace, holder: Principal, ref: str, old: ObjectId | None, new: ObjectId
) -> Verdict:
    """What becomes of it. Reads only; `incoming` sees what lies in quarantine.

    Raises:
        Forbidden: The holder may not, or the ref is none that a hub takes; names the node and the rule.
        Trouble, Limit, Damaged: What was sent is nothing that a workspace can hold.
    """
    target = _target(workspace, ref)
    vetted = vet(incoming, new, workspace.id, workspace.sharded, BUDGET)
    if vetted.commits and not vetted.related:
        raise Invalid("this history has nothing in common with the workspace's", at=ref, next="Clone it, then push.")
    if target == "branch" and old is not None and not _descends(incoming, workspace, new, old):
        raise Forbidden(
            "this is not a fast-forward: fetch first", at=ref,
            next=f"`git pull`, then push again, or let the hub merge it: git push origin HEAD:{FOR}{_short(workspace)}",
        )  # fmt: skip
    base = _base(incoming, workspace, new)
    touched = between(incoming, incoming.tree_of(base) if base else None, incoming.tree_of(new), workspace.id,
                      workspace.sharded)  # fmt: skip
    policy = workspace.policy
    if target != "proposal":
        try:
            authorize_all(holder, policy, Verb.WRITE, touched)
            return Verdict("merge", len(touched.uris))
        except Forbidden as refusal:
            refused = refusal
        if not any(scope.workspace == workspace.id and scope.has(Verb.PROPOSE) for scope in holder.scopes):
            raise refused
    authorize_all(holder, policy, Verb.PROPOSE, touched)
    return Verdict("proposal", len(touched.uris))


def _target(workspace: Workspace, ref: str) -> Literal["branch", "for", "proposal"]:
    if ref == workspace.layout.branch:
        return "branch"
    if ref == FOR + _short(workspace):
        return "for"
    if ref.startswith(PROPOSALS):
        return "proposal"
    raise Forbidden(
        f"this hub takes pushes to {_short(workspace)}, {FOR}{_short(workspace)} and proposals/NAME", at=ref,
        next=f"git push origin HEAD:{_short(workspace)}",
    )  # fmt: skip


def _short(workspace: Workspace) -> str:
    return workspace.layout.branch.removeprefix("refs/heads/")


def _descends(incoming: Incoming, workspace: Workspace, new: ObjectId, old: ObjectId) -> bool:
    """Whether `old` is reached from `new`; only what is new here is walked."""
    waiting, seen = [new], {new}
    while waiting:
        one = waiting.pop()
        if one == old:
            return True
        if not incoming.is_new(one):
            if workspace.store.is_ancestor(old, one):
                return True
            continue
        for parent in incoming.commit(one).parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False


def _base(incoming: Incoming, workspace: Workspace, new: ObjectId) -> ObjectId | None:
    """The commit that we have and that what is new goes on from."""
    waiting, seen = [new], {new}
    while waiting:
        one = waiting.pop()
        if not incoming.is_new(one):
            bases = workspace.store.merge_bases(one, bytes.fromhex(workspace.tip))
            return bases[0] if bases else one
        for parent in incoming.commit(one).parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return None
