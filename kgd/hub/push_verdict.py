"""The verdict on a pushed update (a merge, a proposal, or a refusal), and the refs of pushed proposals.

`kgd.hooks.push_check` checks the right to push, as on any git server. The client's old value of a ref is not trusted:
it could name a commit that others only proposed, and so publish their changes.

A proposal is named ``proposals/<holder>-<number>`` after a push to the branch, ``proposals/<holder>/<name>`` after
a push to another name. Only its holder can move it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgd.errors import Damaged, Forbidden, Invalid, Limit, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS, RefMoved, move_ref
from kgd.git.store import ObjectStore
from kgd.hooks import push_check
from kgd.hooks.clone import settings_at
from kgd.hooks.push_check import check_push
from kgd.model.access import Principal, Verb
from kgd.model.token import TokenRecord
from kgd.workspace.proposals import records
from kgd.workspace.proposals.proposals import free_name, holder_name, is_called_after, is_name, of_line, pending
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import authorize_all

FOR = "refs/for/"
"""Prefix of a branch name; a push there is merged even if it is not a fast-forward."""
_JUDGED_AS = f"{PROPOSALS}for"
TRIES = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an update, and the number of changed nodes."""

    becomes: Literal["merge", "proposal"]
    nodes: int


def judge(
    workspace: Workspace, quarantine: Path, holder: Principal, updates: list[tuple[str, ObjectId | None, ObjectId]]
) -> list[Verdict]:
    """The verdict on each update (ref, old value by the client, new value). Reads only.

    Raises:
        Forbidden: The holder has no permission, or the ref is not accepted; names the node and the rule.
        KgdError: The content is invalid.
    """
    layout = workspace.layout
    store = ObjectStore(layout.git_dir, layout.work_tree, beside=quarantine)
    branch = store.ref(layout.branch)
    settings = settings_at(store, branch) if branch else None
    if branch is None or settings is None:
        raise Damaged("the hub's branch holds no workspace", at=layout.branch, next="Ask the hub's administrator.")
    questions = [_question(store, layout.branch, branch, *update) for update in updates]
    verdicts = check_push(
        store, questions, holder, settings, branch=layout.branch, quarantine=quarantine, may_propose=True
    )
    found = []
    for (ref, _, _), verdict in zip(updates, verdicts, strict=True):
        may_write = verdict.verb is Verb.WRITE
        if ref.startswith(FOR):
            try:
                authorize_all(holder, settings.policy, Verb.WRITE, verdict.touched)
                may_write = True
            except Forbidden:
                may_write = False
        found.append(Verdict("merge" if may_write else "proposal", len(verdict.touched.uris)))
    return found


def _question(
    store: ObjectStore, name: str, branch: ObjectId, ref: str, old: ObjectId | None, new: ObjectId
) -> push_check.Update:
    short = name.removeprefix("refs/heads/")
    if ref == FOR + short:
        return push_check.Update(_JUDGED_AS, None, new)
    if ref == name:
        known = store.kind_and_size(new)
        if known is not None and known[0] == "commit" and not store.is_ancestor(branch, new):
            raise Forbidden(
                "this is not a fast-forward: fetch first",
                at=ref,
                next=f"`git pull`, then push again; or let the hub merge it: git push origin HEAD:{FOR}{short}",
            )
        return push_check.Update(ref, branch, new)
    return push_check.Update(ref, None if ref.startswith(PROPOSALS) else old, new)


# ---- proposals


def offer(workspace: Workspace, record: TokenRecord, ref: str, new: ObjectId) -> str:
    """Create or continue a proposal of this holder; returns the full name of its ref.

    Raises:
        Limit: The holder has too many pending proposals.
        Forbidden: It does not continue the existing proposal, or belongs to another token.
        Invalid: The name is not allowed.
    """
    who, holder = record.holder, holder_name(record.holder.name)
    git_dir, scratch = workspace.layout.git_dir, workspace.layout.derived_dir
    waiting = pending(workspace)
    mine = {name: tip for name, (tip, origin) in waiting.items() if origin.is_of(who)}
    if (same := next((name for name, id in mine.items() if id == new), None)) and not ref.startswith(PROPOSALS):
        return same
    wanted = ref if ref in mine else _wanted(ref, holder)
    if wanted not in mine and (count := of_line(workspace, who.line)) >= record.quota.pending_proposals:
        raise Limit(
            f"{count} proposals of '{who.name}' are pending",
            at=ref,
            next="Wait until some are accepted or rejected, or add to one: push to its name.",
        )
    if wanted not in mine:
        _check_free(wanted, waiting)
    for _ in range(TRIES):
        name = wanted or PROPOSALS + free_name(workspace, holder)
        before = mine.get(name)
        if before is not None and not workspace.store.is_ancestor(before, new):
            raise Forbidden("a proposal is not rewritten", at=name, next="Push it under another name.")
        try:
            move_ref(git_dir, scratch, name, before, new, note=records.pushed(who))
        except RefMoved:
            if wanted:
                raise Unavailable("the proposal was moved meanwhile", at=name, next="Push again.") from None
            continue
        except OSError as error:
            raise Unavailable(f"the ref cannot be written: {error.strerror}", at=name, next="Push again.") from None
        workspace.tell_uncommitted()
        return name
    raise Unavailable("other proposals were pushed meanwhile", at=ref, next="Push again.")


def _wanted(ref: str, holder: str) -> str:
    """The requested name, below the holder's; empty if the push names no proposal."""
    if not ref.startswith(PROPOSALS):
        return ""
    name = ref.removeprefix(PROPOSALS)
    if not is_called_after(ref, holder):
        name = f"{holder}/{name}"
    if not is_name(name):
        raise Invalid("a proposal's name has letters, digits, - and _", at=ref, next="Choose another name.")
    return PROPOSALS + name


def _check_free(name: str, waiting: Iterable[str]) -> None:
    """Refuse the name of another holder's proposal, and a name that git cannot store beside pending ones."""
    for other in waiting:
        if other == name:
            raise Forbidden("another token's proposal has that name", at=name, next="Push it under another name.")
        if other.startswith(f"{name}/") or (name and name.startswith(f"{other}/")):
            raise Invalid(
                f"git cannot store this name beside the pending {other}",
                at=name,
                next="Push it under another name, or to the branch.",
            )
