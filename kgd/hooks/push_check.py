"""The check of a push before any ref moves: its net change, and each of its commits.

Each check alone can be evaded: a change and its revert cancel out in the net change, and a merge that drops the other
side's changes looks harmless commit by commit. A merge commit is judged by its difference from kgd's own merge of its
parents. The sizes of all pushed objects are checked from their headers before any is read. The check writes nothing; on
an error, the push is refused.

A plain git server runs the check in its hook `pre-receive`, and names the pusher in KGD_PRINCIPAL (docs/git.md).
Without it, the policy in ``kgd.yaml`` treats every pusher as a person. If the repository also has code, its refs are
not checked.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from kgd.codec import paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import REQUIRED, Settings
from kgd.errors import Damaged, Forbidden, Invalid, Limit, Refused, Unauthorized, Unavailable
from kgd.git import pack
from kgd.git.incoming import OWNED_FOLDERS, Allowance, measure, new_entries, unsafe_reason
from kgd.git.objects import FILE, FOLDER, Commit, Entry, ObjectId, parse_id
from kgd.git.refs import NOTES, PENDING, PROPOSALS, REVOKED, RefUpdate
from kgd.git.remote_settings import proposals_beside
from kgd.git.rewriting import refuse_forgotten
from kgd.git.store import ObjectStore
from kgd.hooks.clone import KEY, guarded, of_command
from kgd.hooks.install import pin
from kgd.model.access import Principal, Scope, Verb, principal_from
from kgd.model.uri import Uri
from kgd.signatures import SIGNERS_PATH
from kgd.workspace.history.pushers import SignedHistory
from kgd.workspace.memory_files import Home
from kgd.workspace.merging.histories import merged_tree, new_twins
from kgd.workspace.writing import touched_nodes
from kgd.workspace.writing.admission import check, check_secrets, twins_among
from kgd.workspace.writing.secrets import HoldsSecret, refuse_secret_text
from kgd.workspace.writing.touched_nodes import Touched

INTERNAL = "refs/kgd/"
_ADMITTED = ("nodes/", "conflicts/", "memories/", "log/")


@dataclass(frozen=True, slots=True)
class Limits(Allowance):
    """Limits of one push."""

    objects: int = 1_000_000
    bytes: int = 512 << 20
    blob: int = 1 << 20
    tree: int = 4 << 20
    commits: int = 20_000
    changes: int = 1_000_000
    """Largest number of changed paths in all new commits together."""
    entries: int = 2_000_000
    """Largest number of tree entries that are compared for one commit."""
    seconds: float = 60.0


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one ref. `verb` is WRITE, or PROPOSE if it may only become a proposal."""

    verb: Verb
    touched: Touched


@dataclass(frozen=True, slots=True)
class Pushed:
    """A push with its principal and the workspace's settings.

    Args:
        store: Reads the pushed objects: ``ObjectStore(git_dir, beside=quarantine)``.
        principal: None for this machine's user; only limits and format are then checked.
        settings: ``kgd.yaml`` on the branch before the push or, for a first push, in it.
        branch: The full name of the workspace's branch.
        may_propose: Whether a push to the branch without permission to write is checked as a proposal. The caller then
            creates the proposal.
        only_ours: Whether other refs are refused.
        proposals: The prefix of proposal refs.
    """

    store: ObjectStore
    principal: Principal | None
    settings: Settings
    branch: str
    may_propose: bool = False
    only_ours: bool = True
    proposals: str = PROPOSALS
    began: float = field(default_factory=time.monotonic)


def check_push(pushed: Pushed, updates: Sequence[RefUpdate], quarantine: Path | None = None) -> tuple[Verdict, ...]:
    """Check all updates of one push; returns a verdict for each, except for refs that kgd ignores.

    Args:
        quarantine: The folder of the pushed objects (`GIT_QUARANTINE_PATH`), which are measured first.

    Raises:
        KgdError: The push is refused; the error names node and rule, or file and line.
    """
    if quarantine is not None:
        measure(pushed.store, list(islice(_ids(quarantine), LIMITS.objects + 1)), LIMITS)
    return tuple(verdict for update in updates if (verdict := _judge(pushed, update)) is not None)


def _judge(pushed: Pushed, update: RefUpdate) -> Verdict | None:
    if update.name == pushed.branch:
        return _judge_branch(pushed, update)
    if update.name.startswith(pushed.proposals):
        return _judge_proposal(pushed, update)
    if (update.name == REVOKED or update.name.startswith(PENDING)) and _is_hub(pushed):
        return None
    if pushed.only_ours or update.name.startswith((INTERNAL, NOTES)):
        name = _short(pushed.branch)
        raise Forbidden(
            "this ref cannot be pushed to",
            at=update.name,
            next=f"Push to {name}, or to {_short(pushed.proposals)}<your name> to propose it.",
        )
    return None


def _is_hub(pushed: Pushed) -> bool:
    """Whether the pusher may keep the proposals and revocations of hubs here: only with permission to write the whole
    workspace."""
    if pushed.may_propose:
        return False
    scopes = pushed.principal.scopes if pushed.principal else ()
    here = (one for one in scopes if one.workspace == pushed.settings.workspace)
    return pushed.principal is None or any(one.has(Verb.WRITE) and one.is_whole for one in here)


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _judge_branch(pushed: Pushed, update: RefUpdate) -> Verdict:
    store, old, new = pushed.store, update.old, update.new
    if new is None:
        raise Forbidden("the branch of a workspace cannot be deleted", at=update.name)
    _is_commit(store, new)
    if old is not None and not store.is_ancestor(old, new):
        raise Forbidden(
            "history cannot be rewritten here",
            at=update.name,
            next="Pull with a merge, not a rebase, then push without --force.",
        )
    refuse_forgotten(store, *([old] if old else []), new)
    found = _commits(pushed, [old] if old else [], new) | _net(pushed, old, new)
    if old is not None:
        _check_signatures(pushed, [old], old, new)
    policy = pushed.settings.policy
    try:
        touched_nodes.authorize_all(pushed.principal, policy, Verb.WRITE, found)
    except Forbidden as refusal:
        try:
            touched_nodes.authorize_all(pushed.principal, policy, Verb.PROPOSE, found)
        except Forbidden as blocked:  # name the node that cannot be proposed either
            least = Touched(found.uris & {blocked.at}, found.settings & {blocked.at})
            touched_nodes.authorize_all(pushed.principal, policy, Verb.WRITE, least)
            raise refusal from None
        if not pushed.may_propose:
            place = _short(pushed.proposals)
            refusal.next = f"Push it to {place}<your name> instead, as a proposal for review."
            raise
        return Verdict(Verb.PROPOSE, found)
    return Verdict(Verb.WRITE, found)


def _judge_proposal(pushed: Pushed, update: RefUpdate) -> Verdict:
    """Judge a proposal by its history, which it must share with the branch, and by the changes of its acceptance."""
    store, main = pushed.store, pushed.store.ref(pushed.branch)
    if main is None:
        raise Invalid("there is no workspace to propose a change to", at=update.name, next="Push the workspace first.")
    tip = update.new or update.old
    if tip is None:
        raise Invalid("this update does not name a commit", at=update.name)
    _is_commit(store, tip)
    if update.new and update.old and not store.is_ancestor(update.old, update.new):
        raise Forbidden("a proposal cannot be rewritten", at=update.name, next="Push it under another name.")
    bases = store.merge_bases(main, tip)
    if not bases:
        raise Invalid(
            "this update has no commit in common with the workspace",
            at=update.name,
            next="Clone the workspace, and base your commits on the clone.",
        )
    refuse_forgotten(store, main, tip)
    found = _commits(pushed, [main], tip)
    if update.new:
        _check_signatures(pushed, [main], main, tip)
    if tip not in bases:
        merged = merged_tree(store, (main, tip), pushed.settings.sharded)
        settings = pushed.settings
        found |= touched_nodes.between(
            merged.store, store.tree_of(main), merged.id, settings.workspace, settings.sharded
        )
    if update.new:
        _check_files(pushed, bases[0], tip)
    touched_nodes.authorize_all(pushed.principal, pushed.settings.policy, Verb.PROPOSE, found)
    return Verdict(Verb.PROPOSE, found)


# ---- touched nodes


def _check_signatures(pushed: Pushed, known: Iterable[ObjectId], branch: ObjectId, tip: ObjectId) -> None:
    """Check that the new commits are signed, if the settings on the branch require it.

    Raises:
        Forbidden: A commit is not signed by an allowed key.
        Invalid: After the push, signatures would be required, and no key would be allowed.
    """
    history = SignedHistory(pushed.store, branch, pushed.settings.sharded)
    if pushed.settings.signatures == REQUIRED:
        new = pushed.store.commits_between(known, tip, limit=LIMITS.commits)
        history.check_new(new, branch, tip)
    if history.requires(tip) and not history.signers(tip).lines:
        raise Invalid(
            "signatures would be required, and no key would be allowed: every later push would be refused",
            at=SIGNERS_PATH,
            next="Add the keys of all writers to that file first.",
        )


def _net(pushed: Pushed, old: ObjectId | None, new: ObjectId) -> Touched:
    _check_files(pushed, old, new)
    store, settings = pushed.store, pushed.settings
    before = store.tree_of(old) if old else None
    return touched_nodes.between(store, before, store.tree_of(new), settings.workspace, settings.sharded)


def _commits(pushed: Pushed, known: Iterable[ObjectId], tip: ObjectId) -> Touched:
    """Nodes and settings that any new commit touches, even if a later commit reverts the change."""
    store = pushed.store
    new = [store.commit(id) for id in store.commits_between(known, tip, limit=LIMITS.commits)]
    if many := next((one for one in new if len(one.parents) > 2), None):
        raise Invalid(
            "kgd merges two commits at a time", at=many.id.hex()[:12], next="Merge one branch after the other."
        )
    # Check every path, mode and size before reading any content.
    in_time = partial(_in_time, pushed)
    for commit, path, entry in new_entries(store, new, LIMITS.changes, budget=LIMITS.entries, tick=in_time):
        _check_entry(pushed, path, entry, commit)
    uris, settings = set[Uri](), set[str]()
    for commit in new:
        _in_time(pushed)
        found = _of_commit(pushed, commit)
        uris |= found.uris
        settings |= found.settings
    return Touched(frozenset(uris), frozenset(settings))


def _of_commit(pushed: Pushed, commit: Commit) -> Touched:
    workspace, sharded = pushed.settings.workspace, pushed.settings.sharded
    if len(commit.parents) > 1:
        expected = merged_tree(pushed.store, commit.parents, sharded)
        _refuse_secrets(pushed, expected.store, expected.id, commit)
        return touched_nodes.between(expected.store, expected.id, commit.tree, workspace, sharded)
    before = pushed.store.tree_before(commit)
    _refuse_secrets(pushed, pushed.store, before, commit)
    return touched_nodes.between(pushed.store, before, commit.tree, workspace, sharded)


def _refuse_secrets(pushed: Pushed, store: ObjectStore, before: ObjectId | None, commit: Commit) -> None:
    """Search each commit, because a secret that a later commit removes stays in history."""
    home = _home(pushed, commit.tree)
    try:
        refuse_secret_text(commit.message, "its message")
        for path, old, new in store.diff(before, commit.tree, budget=LIMITS.entries):
            if new is not None and new != old and path.partition("/")[0] in OWNED_FOLDERS:
                base = store.read(old) if old else None
                check_secrets(path, store.read(new, LIMITS.blob), base, home)
                _in_time(pushed)
    except HoldsSecret as refusal:
        refusal.message = f"commit {commit.id.hex()[:10]}: {refusal.message}"
        refusal.next = (
            "Change that commit (`git rebase -i`) and push again; a later commit that removes it is not enough."
        )
        raise


# ---- content


def _check_entry(pushed: Pushed, path: str, entry: Entry, commit: Commit) -> None:
    mode, id = entry
    reason = unsafe_reason(path, mode, LIMITS)
    if not reason and mode != FILE and path.partition("/")[0] in OWNED_FOLDERS:
        reason = "an executable file"
    if reason:
        raise Refused(
            f"commit {commit.id.hex()[:10]} holds {reason}", at=path, next="Remove that commit, then push again."
        )
    found = pushed.store.kind_and_size(id)
    if found is None or found[0] != "blob":
        raise Damaged("a file's content was not sent", at=path)
    if found[1] > LIMITS.blob:
        raise Limit(f"a file has {found[1]} bytes (limit: {LIMITS.blob})", at=path)


def _check_files(pushed: Pushed, old: ObjectId | None, new: ObjectId) -> None:
    """Check the final version of every file that the push changes.

    Raises:
        KgdError: A file is invalid; the error names file and line.
    """
    store = pushed.store
    before, after = store.tree_of(old) if old else None, store.tree_of(new)
    top = store.tree(after)
    for name in OWNED_FOLDERS:
        if name.encode() in top and top[name.encode()][0] != FOLDER:
            raise Invalid("this must be a folder", at=name)
    if SETTINGS.encode() not in top:
        raise Invalid("a workspace needs this file", at=SETTINGS, next="Restore it.")

    home = _home(pushed, after)
    for path, was, now in store.diff(before, after, budget=LIMITS.entries):
        if now is not None and (path == SETTINGS or path.startswith(_ADMITTED) or paths.is_part_path(path)):
            _in_time(pushed)
            check(path, store.read(now, LIMITS.blob), store.read(was) if was else None, home)
    for twin in twins_among(new_twins(store, old, new, home.sharded), store, before, home.sharded):
        raise twin


def _home(pushed: Pushed, tree: ObjectId) -> Home:
    """The workspace with this tree."""

    def read(path: str) -> bytes | None:
        blob = pushed.store.entry(tree, path)
        return pushed.store.read(blob, LIMITS.blob) if blob else None

    return Home(pushed.settings.workspace, pushed.settings.sharded, read)


def _ids(quarantine: Path) -> Iterator[ObjectId]:
    for index in sorted((quarantine / "pack").glob("pack-*.idx")):
        yield from pack.ids_of(index.with_suffix(""))
    for folder in sorted(quarantine.glob("[0-9a-f][0-9a-f]")):
        for file in folder.iterdir():
            if re.fullmatch("[0-9a-f]{38}", file.name):
                yield bytes.fromhex(folder.name + file.name)


def _is_commit(store: ObjectStore, id: ObjectId) -> None:
    found = store.kind_and_size(id)
    if found is None or found[0] != "commit":
        raise Invalid("this is not a commit", at=id.hex()[:12])


def _in_time(pushed: Pushed) -> None:
    if time.monotonic() - pushed.began > LIMITS.seconds:
        raise Limit("checking the push takes too long", next="Push it in parts.")


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
    pushed = [(update.name, update.new) for update in updates]
    found = guarded(store, clone.common_dir, pushed, lambda name: pin(clone.common_dir, {KEY: name}))
    if found is None:
        if holder is not None:
            raise Forbidden(f"'{holder.name}' may push only to workspaces, and this repository has none")
        return ()
    branch, settings = found
    for update in updates:  # the client's old value is not trusted
        if update.old != store.ref(update.name):
            raise Unavailable("another push came first", at=update.name, next="Pull, then push again.")
    principal = holder or _unnamed(settings.workspace)
    push = Pushed(store, principal, settings, branch, only_ours=holder is not None, proposals=proposals_beside(branch))
    return check_push(push, updates, Path(quarantine) if quarantine else None)


def _update(line: str) -> RefUpdate:
    parts = line.rstrip("\n").split(" ", 2)
    if len(parts) != 3:
        raise Invalid("this line from git is not an update")
    return RefUpdate(parts[2], _id(parts[0]), _id(parts[1]))


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
