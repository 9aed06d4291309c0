"""The hook `pre-receive` of a plain git server.

The server names the pusher in KGD_PRINCIPAL (docs/git.md). Without it, the policy in ``kgd.yaml`` treats every pusher
as a person. If the repository also has code, its refs are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kgd.errors import Forbidden, Invalid, Unauthorized, Unavailable
from kgd.git.objects import ObjectId, parse_id
from kgd.git.remote_settings import proposals_beside
from kgd.git.store import ObjectStore
from kgd.hooks.clone import KEY, guarded, of_command
from kgd.hooks.install import pin
from kgd.hooks.push_check import Pushed, Update, Verdict, check_push
from kgd.model.access import Principal, Scope, Verb, principal_from

_ZERO = "0" * 40


def pre_receive(
    lines: Iterable[str], cwd: Path, variables: Mapping[str, str], claimed: str, now: float
) -> tuple[Verdict, ...]:
    """Check a push, given git's lines ``old new ref``; empty if the push does not concern a workspace.

    Raises:
        KgdError: The push is refused.
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
            raise Forbidden(f"'{holder.name}' may push only to workspaces, and this repository has none")
        return ()
    branch, settings = found
    for update in updates:  # the client's old value is not trusted
        if update.old != store.ref(update.ref):
            raise Unavailable("another push came first", at=update.ref, next="Pull, then push again.")
    principal = holder or _unnamed(settings.workspace)
    push = Pushed(store, principal, settings, branch, only_ours=holder is not None, proposals=proposals_beside(branch))
    return check_push(push, updates, Path(quarantine) if quarantine else None)


def _update(line: str) -> Update:
    parts = line.rstrip("\n").split(" ", 2)
    if len(parts) != 3:
        raise Invalid("this line from git is not an update")
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
        raise Unauthorized("your permission to push has expired", next="Ask the server's administrator to renew it.")
    return holder


def _unnamed(workspace: str) -> Principal:
    """A pusher that the server authenticated without naming it."""
    return Principal("", "this pusher", "person", (Scope.of(workspace, list(Verb), ["/**"]),))
