"""This file is where `pre-receive` of a plain git server judges a push: whose it is, and which workspace it is for.

Who pushes is said by the server in KGD_PRINCIPAL (docs/git.md). Where it says nothing, every person may do what the
policy in ``kgd.yaml`` lets people do. A repository may hold code as well: of that, nothing is judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kgd.errors import Forbidden, Invalid, Unauthorized, Unavailable
from kgd.git.objects import ObjectId, parse_id
from kgd.git.remote_settings import proposals_beside
from kgd.git.store import ObjectStore
from kgd.hooks.branch import KEY, guarded
from kgd.hooks.clone import of_command
from kgd.hooks.install import pin
from kgd.hooks.receive import Update, Verdict, check_push
from kgd.model.access import Principal, Scope, Verb, principal_from

_ZERO = "0" * 40


def pre_receive(
    lines: Iterable[str], cwd: Path, variables: Mapping[str, str], claimed: str, now: float
) -> tuple[Verdict, ...]:
    """Judge the push that git tells of: ``old new ref`` a line. Nothing is judged where no workspace is concerned.

    Raises:
        KgdError: Why nothing of the push may be taken.
    """
    updates = [_update(line) for line in lines if line.strip()]
    clone = of_command(cwd, variables)
    quarantine = variables.get("GIT_QUARANTINE_PATH")
    store = ObjectStore(clone.common_dir, clone.top, beside=Path(quarantine) if quarantine else None)
    holder = _holder(claimed, now)
    pushed = [(update.ref, update.new) for update in updates]
    found = guarded(store, clone.common_dir, pushed, lambda name: pin(clone.common_dir, {KEY: name}))
    if found is None:
        if holder is not None:
            raise Forbidden(f"'{holder.name}' may push to workspaces only, and here is none")
        return ()
    branch, settings = found
    for update in updates:  # a client says what it believes the ref holds, and is judged by what it does hold
        if update.old != store.ref(update.ref):
            raise Unavailable("somebody else pushed here meanwhile", at=update.ref, next="Pull, then push again.")
    principal = holder or _anybody(settings.workspace)
    return check_push(
        store, updates, principal, settings, branch=branch, quarantine=Path(quarantine) if quarantine else None,
        only_ours=holder is not None, proposals=proposals_beside(branch),
    )  # fmt: skip


def _update(line: str) -> Update:
    parts = line.rstrip("\n").split(" ", 2)
    if len(parts) != 3:
        raise Invalid("git tells of no update in this line")
    return Update(parts[2], _id(parts[0]), _id(parts[1]))


def _id(digits: str) -> ObjectId | None:
    return None if digits == _ZERO else parse_id(digits)


def _holder(claimed: str, now: float) -> Principal | None:
    if not claimed:
        return None
    try:
        holder = principal_from(json.loads(claimed))
    except ValueError:
        raise Invalid("KGD_PRINCIPAL is not JSON", next="See docs/git.md.") from None
    if holder.has_expired(now):
        raise Unauthorized("the right to push here has expired", next="Ask whoever runs this server for a new one.")
    return holder


def _anybody(workspace: str) -> Principal:
    """A person whom the server let in, and of whom it says no more."""
    return Principal("", "whoever pushes", "person", (Scope.of(workspace, list(Verb), ["/**"]),))
