"""This file is where a pushed proposal gets its name: below its holder's; nobody moves another's.

``proposals/<holder>-<number>`` for a push to the branch that may only be proposed, ``proposals/<holder>/<name>`` for
one that was pushed under a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgd.errors import Forbidden, Invalid, Limit, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS, RefMoved, move_ref
from kgd.model.token import TokenRecord
from kgd.workspace import proposal_records
from kgd.workspace.proposals import free_name, holder_name, is_called_after, is_name, of_line, pending
from kgd.workspace.workspace import Workspace

TRIES = 50


def offer(workspace: Workspace, record: TokenRecord, ref: str, new: ObjectId) -> str:
    """Put a commit up as a proposal of this holder; the full name of its ref.

    Pushed again under the name it got, it goes on from what it was.

    Raises:
        Limit: So many of theirs wait already.
        Forbidden: It does not go on from what is there under that name, or that is another token's.
        Invalid: It cannot have that name.
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
            f"{count} proposals of '{who.name}' wait already", at=ref,
            next="Wait until some are accepted or rejected, or add to one: push to its name.",
        )  # fmt: skip
    if wanted not in mine:
        _check_free(wanted, waiting)
    for _ in range(TRIES):
        name = wanted or PROPOSALS + free_name(workspace, holder)
        before = mine.get(name)
        if before is not None and not workspace.store.is_ancestor(before, new):
            raise Forbidden("a proposal is not rewritten", at=name, next="Push it under another name.")
        try:
            move_ref(git_dir, scratch, name, before, new, note=proposal_records.pushed(who))
        except RefMoved:
            if wanted:
                raise Unavailable("the proposal moved at this moment", at=name, next="Push again.") from None
            continue
        except OSError as error:
            raise Unavailable(f"it could not be kept: {error.strerror}", at=name, next="Push again.") from None
        workspace.tell_uncommitted()
        return name
    raise Unavailable("others propose at this moment as well", at=ref, next="Push again.")


def _wanted(ref: str, holder: str) -> str:
    """The name that was asked for, below the holder's; empty where none was."""
    if not ref.startswith(PROPOSALS):
        return ""
    name = ref.removeprefix(PROPOSALS)
    if not is_called_after(ref, holder):
        name = f"{holder}/{name}"
    if not is_name(name):
        raise Invalid("a proposal is named with letters, digits, - and _", at=ref, next="Choose another name.")
    return PROPOSALS + name


def _check_free(name: str, waiting: Iterable[str]) -> None:
    """Refuse a name that is another holder's, and one that git cannot have beside those that wait."""
    for other in waiting:
        if other == name:
            raise Forbidden("another token's proposal has that name", at=name, next="Push it under another name.")
        if other.startswith(f"{name}/") or (name and name.startswith(f"{other}/")):
            raise Invalid(
                f"git cannot keep this name beside {other}, which waits", at=name,
                next="Push it under another name, or to the branch.",
            )  # fmt: skip
