"""One sync round with one remote: list, fetch, vet, merge, push; repeated after a lost race.

The code depends only on a workspace and a transport. Time, randomness and sleeping are arguments, so that a simulator
can run it. No push is forced, and no local commit is dropped. If the remote rewrote its history, its old tip is kept
under a ref until the user decides.

If the holder of a token may not write, a hub keeps their push as a proposal. Its name is recorded in the local ref
``refs/kgd/proposed/<remote>/<name>``; the decision can be seen from the remote's refs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from kgd.errors import Advice, Damaged, Do, KgdError, Limit, Unavailable
from kgd.git import refs
from kgd.git.files import replace
from kgd.git.incoming import Allowance, Incoming, measure
from kgd.git.objects import ObjectId
from kgd.git.refs import NOTES, RefMoved
from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import HTTP, HTTPS, Remote, drop
from kgd.git.rewriting import brought_back
from kgd.git.store import ObjectStore
from kgd.sync import vetting
from kgd.sync.cloning import replacement
from kgd.sync.vetting import vet
from kgd.workspace.history import pushers
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.proposals.proposals import is_name
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.adoption import Host

TRIES = 5
"""Maximum pushes per round. After each lost race the commits that arrived first are merged before the next push."""
PROPOSALS_LIMIT = 200
COUNTED = 10_000
"""Maximum number of commits that are counted, or searched for work."""
FIRST_PAUSE = 0.1
LEDGER = Allowance(objects=5_000_000, bytes=1 << 30, blob=pushers.LARGEST, tree=8 << 20)
"""Limits for fetching the ledger of pushes."""
REMEMBERED = ("refused", "forgotten", "newer", "unrelated", "other-workspace", "bad-objects", "limit")
"""Kinds of trouble with the remote's content that would recur if it were fetched again."""


log = logging.getLogger("kgd.sync")


class Transport(Protocol):
    """The calls of a round to a remote; implemented by `kgd.git.remote.GitRemote`."""

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]: ...
    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming: ...
    def push(self, ref: str, old: ObjectId | None, new: ObjectId) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Wait:
    """A state that needs a decision: its kind, reason, next step, and commit.

    `kind` is ``held``, ``diverged``, ``emptied``, ``proposed`` or ``rejected`` (a push that became a proposal),
    ``proposal`` (an incoming proposal was refused), or the kind of a `Trouble`.
    """

    kind: str
    reason: str
    next: str = ""
    commit: str = ""


@dataclass(slots=True)
class Done:
    """The result of one round. `stage` is the last stage reached, ``fetch`` or ``push``."""

    pulled: int = 0
    pushed: int = 0
    merged: str = ""
    proposals: int = 0
    withdrawn: dict[str, ObjectId] = field(default_factory=dict)
    """Names and commits of the proposals that the remote no longer has."""
    proposed: int = 0
    """Commits that the remote kept as a proposal instead of merging them."""
    theirs: ObjectId | None = None
    waits: list[Wait] = field(default_factory=list)
    stage: str = ""


def run(
    host: Host,
    remote: Remote,
    transport: Transport,
    *,
    direction: str = "both",
    confirm: str = "",
    chance: Random,
    sleep: Callable[[float], object],
    refused: dict[ObjectId, Trouble] | None = None,
    done: Done | None = None,
) -> Done:
    """Merge a remote into a workspace and push the result, as far as that needs no decision by the user.

    Args:
        confirm: The commit (or a prefix of it) named by a wait, or ``yes`` for all current waits.
        refused: Tips that vetting refused earlier; they are not fetched again. This round adds to them.
        done: Filled in as the round proceeds, so that the caller sees how far the round came before an error.

    Raises:
        Trouble: The remote does not work, or its objects were refused. The workspace may have gained vetted commits,
            and is otherwise unchanged.
        KgdError: The workspace could not be written.
    """
    done = Done() if done is None else done
    for number in range(TRIES):
        done.stage = "fetch"
        listed = transport.ls(remote.ref, remote.proposals)
        theirs = done.theirs = listed.pop(remote.ref, None)
        if theirs in (refused or {}):
            raise (refused or {})[theirs]
        if theirs is not None and not _holds(host, theirs):
            _take_ledger(host, transport)
        try:
            if not _take(host, remote, transport, theirs, done, confirm, pull=direction != "push"):
                return done
            theirs = done.theirs
        except Trouble as trouble:
            if refused is not None and theirs is not None and trouble.kind in REMEMBERED:
                refused.clear()
                refused[theirs] = trouble
            raise
        if direction != "push":
            _take_proposals(host, remote, transport, listed, done)
        if direction == "pull" or remote.direction == "pull":
            return done
        done.stage = "push"
        try:
            _push(host, remote, transport, theirs, listed, done, confirm)
            _push_ledger(host, remote, transport)
            return done
        except LostRace as lost:
            if number + 1 == TRIES:
                raise lost.lasting(TRIES) from None
            sleep(FIRST_PAUSE * 2**number * (0.5 + chance.random()))
    raise AssertionError("unreachable")


# ---- merging the remote's commits


def _take_ledger(host: Host, transport: Transport) -> None:
    """Add the remote's ledger of pushes to ours; see `kgd.workspace.history.pushers`. A failure is only logged."""
    try:
        there = transport.ls(NOTES).get(NOTES)
        if there is None or there == host.store.ref(NOTES):
            return
        with transport.fetch({NOTES: there}) as incoming:
            measure(incoming, incoming.ids, LEDGER)
            incoming.keep()
            pushers.take(host.layout, host.store, incoming.tips[NOTES], host.signing)
    except (KgdError, OSError) as error:
        log.warning("the ledger of pushes was not fetched", extra={"reason": str(error)[:200]})


def _take(
    host: Host, remote: Remote, transport: Transport, theirs: ObjectId | None, done: Done, confirm: str, *, pull: bool
) -> bool:
    """Fetch and merge; returns whether the round continues with the push."""
    known = _known(host, remote.incoming)
    if theirs is None:
        if known is None or _confirms(confirm, known):
            return True
        done.waits.append(
            Wait(
                "emptied",
                f"'{remote.ref}' is gone from the remote; the workspace is unchanged",
                "`kgd sync --confirm` pushes it again; `kgd remote remove` removes the remote.",
                known.hex(),
            )
        )
        return False
    if theirs == known and _holds(host, theirs):
        return True
    if not pull:
        if _holds(host, theirs):
            return True
        raise Trouble(
            "behind", "the remote has commits that are missing here", next=Advice(Do("sync"), " fetches them first.")
        )
    if _holds(host, theirs):
        return _follow(host, remote, host.store, theirs, done, confirm)
    with transport.fetch({remote.ref: theirs}) as incoming:
        theirs = done.theirs = incoming.tips[remote.ref]  # it may have moved during the fetch
        if not vet(incoming, theirs, host.workspace, host.sharded):
            raise _unrelated(host, remote, known)
        return _follow(host, remote, incoming.with_ours(), theirs, done, confirm, incoming)


def _follow(
    host: Host,
    remote: Remote,
    store: ObjectStore,
    theirs: ObjectId,
    done: Done,
    confirm: str,
    incoming: Incoming | None = None,
) -> bool:
    """Merge a vetted tip, or record that a decision is needed. `store` reads the tip; objects of `incoming` are kept
    first."""
    _refuse_forgotten(host, remote, store, theirs)
    merges = _may_follow(host, remote, store, theirs, done, confirm)
    if incoming is not None and (merges or _known(host, remote.tracking) != theirs):
        incoming.keep()
    if merges:
        _merge(host, theirs, done)
        _note(host, remote, theirs)
    else:
        _note_seen(host, remote, theirs)
    return merges


def _refuse_forgotten(host: Host, remote: Remote, store: ObjectStore, theirs: ObjectId) -> None:
    """Raise Trouble if one side has commits that `kgd forget` removed on the other."""
    ours = bytes.fromhex(host.tip)
    if brought_back(store, theirs, ours):
        raise Trouble(
            "forgotten",
            "the remote removed a secret from its history, and this copy still contains it; nothing was merged",
            next=replacement(host.layout, host.workspace, remote),
        )
    if brought_back(store, ours, theirs):
        raise Trouble(
            "forgotten",
            "the remote still contains a secret that `kgd forget` removed here; nothing was merged",
            next="`kgd forget --push` replaces the remote's history, if the remote allows it (docs/forget.md).",
        )


def _may_follow(host: Host, remote: Remote, store: ObjectStore, theirs: ObjectId, done: Done, confirm: str) -> bool:
    known, ours = _known(host, remote.incoming), bytes.fromhex(host.tip)
    confirmed = _confirms(confirm, theirs)
    if known is not None and known != theirs and not store.is_ancestor(known, theirs):
        _keep(host, remote, known)
        # The user may have merged the rewritten branch by hand, in the work tree.
        decided = store.is_ancestor(theirs, ours) and not store.is_ancestor(theirs, known)
        if not confirmed and not decided:
            done.waits.append(
                Wait(
                    "diverged",
                    "the remote's history was rewritten: it no longer contains "
                    f"{known.hex()[:10]}, which is kept as {remote.kept(known)}",
                    "`kgd sync --confirm` merges the new history; no commit of either side is dropped.",
                    theirs.hex(),
                )
            )
            return False
    found = None if confirmed or store.is_ancestor(theirs, ours) else vetting.held(store, ours, theirs)
    if found:
        gone, total = found
        done.waits.append(
            Wait(
                "held",
                f"the remote has deleted {gone} of {total} nodes; they are kept until you confirm",
                f"Inspect `git log -p {theirs.hex()[:10]}`; "
                "`kgd sync --confirm` deletes them here, a revert on the remote restores them there.",
                theirs.hex(),
            )
        )
        return False
    return True


def _merge(host: Host, theirs: ObjectId, done: Done) -> None:
    before = host.tip
    if _holds(host, theirs):
        return
    done.pulled += _count(host, theirs, [bytes.fromhex(before)])
    host.run(adoption.merge(host, theirs), alone=True)
    after = host.tip
    if after not in (before, theirs.hex()) and theirs in host.store.commit(bytes.fromhex(after)).parents:
        done.merged = after


def _unrelated(host: Host, remote: Remote, known: ObjectId | None) -> Trouble:
    if known is not None:
        _keep(host, remote, known)
    return Trouble(
        "unrelated",
        "the remote has an unrelated history: it shares no commit with this workspace",
        at=remote.url.text,
        next="Restore the remote's repository, or share under another ref or address. To use the remote's history, "
        "clone it into its own folder.",
    )


def _take_proposals(
    host: Host, remote: Remote, transport: Transport, listed: Mapping[str, ObjectId], done: Done
) -> None:
    """Fetch proposals, each into its own ref; a refused proposal does not stop the others."""
    base = f"{refs.INCOMING}{remote.name}/proposals/"
    known = refs.list_refs(host.layout.git_dir, base)
    names = {name[len(remote.proposals) :]: (name, tip) for name, tip in listed.items()}
    there = {base + short: found for short, found in names.items() if is_name(short)}
    for local in known.keys() - there.keys():
        with contextlib.suppress(KgdError):
            refs.delete_refs(host.layout.git_dir, {local: known[local]})
        done.withdrawn[local.removeprefix(base)] = known[local]
    for local, (name, tip) in sorted(there.items())[:PROPOSALS_LIMIT]:
        if known.get(local) == tip:
            continue
        try:
            with transport.fetch({name: tip}) as incoming:
                tip = incoming.tips[name]
                if not vet(incoming, tip, host.workspace, host.sharded):
                    raise Trouble("unrelated", "the proposal shares no commit with this workspace")
                _refuse_forgotten(host, remote, incoming.with_ours(), tip)
                incoming.keep()
                _move(host, local, known.get(local), tip)
                done.proposals += 1
        except Trouble as trouble:
            done.waits.append(Wait("proposal", f"the proposal {name}: {trouble.message}"[:300], trouble.next))


# ---- pushing our commits


def _push(
    host: Host,
    remote: Remote,
    transport: Transport,
    theirs: ObjectId | None,
    listed: Mapping[str, ObjectId],
    done: Done,
    confirm: str,
) -> Done:
    ours = bytes.fromhex(host.tip)
    if ours == theirs:
        forget(host, remote)
        _note(host, remote, ours)
        return done
    if theirs is not None and not host.store.is_ancestor(theirs, ours):
        raise LostRace("the workspace changed during the round")
    before = remembered(host, remote)
    again = before is not None and _confirms(confirm, before[1])
    target = push_target(host, remote, theirs, listed, again=again)
    if isinstance(target, ProposalState):
        _wait_for_decision(remote, target, done)
        return done
    taken_as = transport.push(target.ref, target.old, ours) or target.ref
    count = _count(host, ours, [id for id in (theirs, target.old) if id])
    if taken_as.startswith(remote.proposals):
        remember(host, remote, taken_as, ours)
        done.proposed += count
        _wait_for_decision(remote, ProposalState(taken_as, ours, "waits"), done)
        return done
    forget(host, remote)
    done.pushed += count
    done.theirs = ours
    _note(host, remote, ours)
    return done


def _push_ledger(host: Host, remote: Remote, transport: Transport) -> None:
    """Push the ledger if kgd signs commits, because it attests the unsigned ones. It is not pushed to hubs, which have
    ledgers of their own.

    A failure is only logged; the next round tries again unless the remote refuses this ref."""
    ours, name = host.store.ref(NOTES), f"refs/kgd/ledger/{remote.name}"
    if ours is None or not host.signing.is_on or _known(host, name) == ours or remote.is_hub_of(host.workspace):
        return
    try:
        there = transport.ls(NOTES).get(NOTES)
        if there is not None and not (host.store.exists(there) and host.store.is_ancestor(there, ours)):
            _take_ledger(host, transport)
            ours = host.store.ref(NOTES) or ours
        if there != ours:
            transport.push(NOTES, there, ours)
        _set(host, name, ours)
    except (KgdError, LostRace) as error:
        if isinstance(error, Trouble) and error.kind == "refused":
            _set(host, name, ours)
        log.warning("the ledger was not pushed", extra={"reason": str(error)[:200]})


def _wait_for_decision(remote: Remote, stands: ProposalState, done: Done) -> None:
    name = stands.name.removeprefix(remote.proposals)
    if stands.how == "waits":
        done.waits.append(
            Wait(
                "proposed",
                f"the remote keeps the new commits as the proposal {name} until it is accepted there",
                commit=stands.tip.hex(),
            )
        )
    elif stands.how == "rejected":
        done.waits.append(
            Wait(
                "rejected",
                f"the remote rejected the proposal {name}, or accepted only some of it; the rest is only here",
                "`kgd sync --confirm` proposes it again with all later commits; `kgd revert` reverts a commit here.",
                stands.tip.hex(),
            )
        )


# ---- refs


def _holds(host: Host, commit: ObjectId) -> bool:
    return host.store.exists(commit) and host.store.is_ancestor(commit, bytes.fromhex(host.tip))


def _note(host: Host, remote: Remote, tip: ObjectId) -> None:
    """Record the remote's tip, also as git's remote-tracking branch."""
    _set(host, remote.incoming, tip)
    _note_seen(host, remote, tip)


def _note_seen(host: Host, remote: Remote, tip: ObjectId) -> None:
    """Record the remote's tip as git's remote-tracking branch; this also protects its objects from gc."""
    with contextlib.suppress(Unavailable):
        _set(host, remote.tracking, tip)


def _set(host: Host, name: str, tip: ObjectId) -> None:
    """Set a ref that records a remote's tip. Not flushed: a value lost in a power cut is fetched again."""
    if _known(host, name) == tip:
        return
    path = host.layout.git_dir / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, tip.hex().encode() + b"\n", flush=False)
    except OSError as error:
        raise Unavailable(f"a ref cannot be written: {error.strerror}", at=name) from error


def _known(host: Host, name: str) -> ObjectId | None:
    try:
        found = host.store.ref(name)
    except Damaged:
        return None
    return found if found is not None and host.store.exists(found) else None


def _keep(host: Host, remote: Remote, tip: ObjectId) -> None:
    name = remote.kept(tip)
    if host.store.ref(name) is None:
        _move(host, name, None, tip)


def _move(host: Host, name: str, old: ObjectId | None, new: ObjectId) -> None:
    if old == new:
        return
    try:
        refs.move_ref(host.layout.git_dir, host.layout.derived_dir, name, old, new, note="kgd: sync")
    except RefMoved:
        refs.move_ref(host.layout.git_dir, host.layout.derived_dir, name, host.store.ref(name), new, note="kgd: sync")
    except OSError as error:
        raise Unavailable(f"a ref cannot be written: {error.strerror}", at=name) from error


def _confirms(confirm: str, commit: ObjectId) -> bool:
    return confirm == "yes" or (len(confirm) >= 7 and commit.hex().startswith(confirm.lower()))


def _count(host: Host, tip: ObjectId, known: Sequence[ObjectId]) -> int:
    """The number of commits reachable from `tip` and not from `known`, at most `COUNTED`."""
    try:
        return host.store.count(tip, known, limit=COUNTED)
    except Damaged:
        return 0


class PushTarget(NamedTuple):
    """The remote ref to push to, and its current value (None if it does not exist)."""

    ref: str
    old: ObjectId | None


class ProposalState(NamedTuple):
    """The reason not to push: `how` is ``waits`` or ``rejected`` for the proposal, or ``settled`` if the remote has
    merged all our commits."""

    name: str
    tip: ObjectId
    how: str


def push_target(
    host: Host, remote: Remote, theirs: ObjectId | None, listed: Mapping[str, ObjectId], *, again: bool = False
) -> PushTarget | ProposalState:
    """The target of a push, given the state of the last proposal.

    Args:
        theirs: The remote's tip, an ancestor of ours.
        listed: The remote's proposals, by the full names of their refs.
        again: Whether to propose a rejected proposal again.
    """
    plain = PushTarget(remote.ref, theirs)
    mine = remembered(host, remote)
    if mine is None or theirs is None:
        return plain
    name, tip = mine
    there = listed.get(name)
    if host.store.is_ancestor(tip, theirs):  # accepted unchanged
        forget(host, remote)
        return plain
    ours = bytes.fromhex(host.tip)
    if there is not None:
        if not host.store.exists(there) or again:
            return plain
        if host.store.is_ancestor(ours, there) or not _has_work(host, ours, [there, theirs]):
            return ProposalState(name, there, "waits")
        return PushTarget(name, there) if host.store.is_ancestor(there, ours) else plain
    if host.store.tree_of(ours) == host.store.tree_of(theirs):
        remember(host, remote, name, ours)  # so that later commits are distinguished from the decided ones
        return ProposalState(name, ours, "settled")
    return ProposalState(name, tip, "rejected") if not again and _adds(host, theirs, tip) else plain


def remembered(host: Host, remote: Remote) -> tuple[str, ObjectId] | None:
    """The full name and the commit of the proposal that contains the last push, or None."""
    if not _may_propose(remote):
        return None
    base = _base(remote)
    found = sorted(refs.list_refs(host.layout.git_dir, base).items())
    known = [(remote.proposals + ref.removeprefix(base), tip) for ref, tip in found if host.store.exists(tip)]
    return known[0] if known else None


def remember(host: Host, remote: Remote, name: str, tip: ObjectId) -> None:
    """Record that the remote keeps `tip` as this proposal. Raises Unavailable if the ref cannot be written."""
    if remembered(host, remote) == (name, tip):
        return
    forget(host, remote)
    ref = _base(remote) + name.removeprefix(remote.proposals)
    try:
        refs.move_ref(host.layout.git_dir, host.layout.derived_dir, ref, None, tip, note="kgd: proposed")
    except (OSError, RefMoved) as error:
        raise Unavailable(f"a ref cannot be written: {error}", at=ref) from error


def forget(host: Host, remote: Remote) -> None:
    """Drop the record: the proposal was decided, or the remote was removed."""
    if not _may_propose(remote):
        return
    with contextlib.suppress(KgdError):
        drop(host.layout, _base(remote))


def _may_propose(remote: Remote) -> bool:
    """Whether the remote may be a hub; other git servers do not turn pushes into proposals."""
    return remote.url.kind in (HTTP, HTTPS)


def _base(remote: Remote) -> str:
    return f"refs/kgd/proposed/{remote.name}/"


def _has_work(host: Host, ours: ObjectId, known: list[ObjectId]) -> bool:
    """Whether `ours` has commits, other than merges, that `known` lacks."""
    try:
        new = host.store.commits_between(known, ours, limit=COUNTED)
    except Limit:
        return True
    return any(len(host.store.commit(id).parents) < 2 for id in new)


def _adds(host: Host, theirs: ObjectId, tip: ObjectId) -> bool:
    """Whether merging `tip` into `theirs` would change any file."""
    merged, tree = merge_commits(host.store, theirs, tip, host.sharded), host.store.tree_of(theirs)
    for path, data in merged.files.items():
        entry = host.store.entry(tree, path)
        if (host.store.read(entry) if entry else None) != data:
            return True
    return False
