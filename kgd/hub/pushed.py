"""This file is where it is decided what becomes of one pushed update: a merge, a proposal, or nothing.

The right to it is judged by `kgd.hooks.receive`, as on any git server. What a client says its ref held before is not
believed: it could name a commit that others only proposed, and pass their changes through as if they were there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgd.errors import Damaged, Forbidden
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS
from kgd.git.store import ObjectStore
from kgd.hooks import receive
from kgd.hooks.clone import settings_at
from kgd.hooks.receive import check_push
from kgd.model.access import Principal, Verb
from kgd.workspace.touched import authorize_all
from kgd.workspace.workspace import Workspace

FOR = "refs/for/"
"""Behind this, the branch that a push is to be merged into whatever it goes on from."""
_JUDGED_AS = f"{PROPOSALS}for"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an update becomes, and how many nodes it is about."""

    becomes: Literal["merge", "proposal"]
    nodes: int


def judge(
    workspace: Workspace, quarantine: Path, holder: Principal, updates: list[tuple[str, ObjectId | None, ObjectId]]
) -> list[Verdict]:
    """What becomes of each update (ref, what the client says it held, new). Reads only.

    Raises:
        Forbidden: The holder may not, or the ref is none that a hub takes; names the node and the rule.
        KgdError: What was sent is nothing that a workspace can hold.
    """
    layout = workspace.layout
    store = ObjectStore(layout.git_dir, layout.work_tree, beside=quarantine)
    branch = store.ref(layout.branch)
    settings = settings_at(store, branch) if branch else None
    if branch is None or settings is None:
        raise Damaged("the hub's branch holds no workspace", at=layout.branch, next="Ask whoever runs the hub.")
    questions = [_question(store, layout.branch, branch, *update) for update in updates]
    verdicts = check_push(
        store, questions, holder, settings, branch=layout.branch, quarantine=quarantine, may_propose=True
    )  # fmt: skip
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
) -> receive.Update:
    short = name.removeprefix("refs/heads/")
    if ref == FOR + short:
        return receive.Update(_JUDGED_AS, None, new)
    if ref == name:
        known = store.kind_and_size(new)
        if known is not None and known[0] == "commit" and not store.is_ancestor(branch, new):
            raise Forbidden(
                "this is not a fast-forward: fetch first", at=ref,
                next=f"`git pull`, then push again; or let the hub merge it: git push origin HEAD:{FOR}{short}",
            )  # fmt: skip
        return receive.Update(ref, branch, new)
    return receive.Update(ref, None if ref.startswith(PROPOSALS) else old, new)
