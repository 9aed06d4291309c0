"""This file is where a pushed proposal gets its name: below its holder's, so that nobody moves another's.

``proposals/<holder>-<number>`` for a push to the branch that may only be proposed, ``proposals/<holder>/<name>`` for
one that was pushed under a name of its own.
"""

from __future__ import annotations

from kgd.errors import Forbidden, Invalid, Limit, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS, RefMoved, move_ref
from kgd.model.token import TokenRecord
from kgd.workspace.proposals import PUSHED, free_name, holder_name, is_name, is_of, pending
from kgd.workspace.workspace import Workspace

TRIES = 50


def offer(workspace: Workspace, record: TokenRecord, ref: str, new: ObjectId) -> str:
    """Put a commit up as a proposal of this holder; the full name of its ref.

    Pushed again under the name it got, it goes on from what it was.

    Raises:
        Limit: So many of theirs wait already.
        Forbidden: It does not go on from what is there under that name.
    """
    holder = holder_name(record.holder.name)
    git_dir, scratch = workspace.layout.git_dir, workspace.layout.derived_dir
    mine = pending(workspace, holder)
    if (same := next((name for name, id in mine.items() if id == new), None)) and not ref.startswith(PROPOSALS):
        return same
    wanted = _wanted(ref, holder)
    if len(mine) >= record.quota.pending_proposals and wanted not in mine:
        raise Limit(
            f"{len(mine)} proposals of '{record.holder.name}' wait already", at=ref,
            next="Wait until some are accepted or rejected, or add to one: push to its name.",
        )  # fmt: skip
    for _ in range(TRIES):
        name = wanted or PROPOSALS + free_name(workspace, holder)
        before = mine.get(name)
        if before is not None and not workspace.store.is_ancestor(before, new):
            raise Forbidden("a proposal is not rewritten", at=name, next="Push it under another name.")
        try:
            move_ref(git_dir, scratch, name, before, new, note=f"{PUSHED}{record.holder.name} ({record.holder.id})")
        except RefMoved:
            if wanted:
                raise Unavailable("the proposal moved at this moment", at=name, next="Push again.") from None
            continue
        return name
    raise Unavailable("others propose at this moment as well", at=ref, next="Push again.")


def _wanted(ref: str, holder: str) -> str:
    """The name that was asked for, below the holder's; empty where none was."""
    if not ref.startswith(PROPOSALS):
        return ""
    name = ref.removeprefix(PROPOSALS)
    if not is_of(ref, holder):
        name = f"{holder}/{name}"
    if not is_name(name):
        raise Invalid("a proposal is named with letters, digits, - and _", at=ref, next="Choose another name.")
    return PROPOSALS + name
