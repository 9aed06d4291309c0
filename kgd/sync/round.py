"""This file is where one round with one remote happens: look, fetch, vet, merge, push, and again where a race was lost.

Plain code over a workspace and a transport; time, chance and waiting are arguments, so that a simulator can run it.
Nothing is ever forced, and nothing of ours is dropped: what the remote did to its own history is not followed, its old
tip is kept under a ref, and a person decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kgd.errors import Damaged, KgdError, Unavailable
from kgd.git import program, refs
from kgd.git.files import replace
from kgd.git.incoming import Incoming
from kgd.git.objects import ObjectId
from kgd.git.refs import RefMoved
from kgd.git.remote_settings import Remote
from kgd.git.store import ObjectStore
from kgd.git.trouble import LostRace, Trouble
from kgd.sync import brake, proposed, pushes
from kgd.sync.vetting import vet
from kgd.workspace import adoption
from kgd.workspace.adoption import Host
from kgd.workspace.proposals import is_name

TRIES = 5
"""Pushes of one round: each lost race means that somebody else's work came in, and is merged first."""
PROPOSALS_LIMIT = 200
COUNTED = 10_000
"""Commits that are counted for an answer."""
FIRST_PAUSE = 0.1
REMEMBERED = ("refused", "newer", "unrelated", "other-workspace", "bad-objects", "limit")
"""Troubles that lie in what the remote holds, so that fetching it again would come to the same."""


class Transport(Protocol):
    """What a round asks of a remote; `kgd.git.remote.GitRemote` is the real one."""

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]: ...
    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming: ...
    def push(self, ref: str, old: ObjectId | None, new: ObjectId) -> str | None: ...


class Chance(Protocol):
    def random(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that does not go on by itself: `kind` for programs, a sentence, what to do, and the commit it is about.

    `kind` is ``held``, ``diverged``, ``emptied``, ``proposed`` or ``rejected`` (what was pushed is a proposal there, or
    was one), ``proposal`` (somebody else's cannot be taken), or that of a `Trouble`.
    """

    kind: str
    reason: str
    next: str = ""
    commit: str = ""


@dataclass(slots=True)
class Done:
    """What one round came to. `stage` is where it stopped where something waits."""

    pulled: int = 0
    pushed: int = 0
    merged: str = ""
    proposals: int = 0
    withdrawn: int = 0
    """Proposals that the remote has no more."""
    proposed: int = 0
    """Commits that the remote took as a proposal, and not into its branch."""
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
    chance: Chance,
    sleep: Callable[[float], object],
    refused: dict[ObjectId, Trouble] | None = None,
    done: Done | None = None,
) -> Done:
    """Bring a workspace and a remote together, as far as it goes without a decision of somebody.

    Args:
        confirm: The commit (or its beginning) that a wait named, or ``yes`` for whatever is held now.
        refused: Tips that vetting has refused before, which are not fetched again; this round adds its own.
        done: Where it is written down how far the round came, for whoever has to know after an error.

    Raises:
        Trouble: The remote does not work, or what it sent was refused; ours is as it was, or further on by commits
            that came through vetting.
        KgdError: The workspace itself could not be written.
    """
    done = Done() if done is None else done
    for number in range(TRIES):
        done.stage = "fetch"
        listed = transport.ls(remote.ref, remote.proposals)
        theirs = done.theirs = listed.pop(remote.ref, None)
        if theirs in (refused or {}):
            raise (refused or {})[theirs]
        if theirs is not None and not _holds(host, theirs):
            pushes.take(host, transport)
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
            return _push(host, remote, transport, theirs, listed, done, confirm)
        except LostRace as lost:
            if number + 1 == TRIES:
                raise Trouble("race", f"others were faster {TRIES} times: {lost}"[:200]) from None
            sleep(FIRST_PAUSE * 2**number * (0.5 + chance.random()))
    raise AssertionError("unreachable")


# ---- theirs becomes ours


def _take(
    host: Host, remote: Remote, transport: Transport, theirs: ObjectId | None, done: Done, confirm: str, *, pull: bool
) -> bool:
    """Whether the round may go on to the push."""
    known = _known(host, remote.incoming)
    if theirs is None:
        if known is None or _confirms(confirm, known):
            return True
        done.waits.append(Wait(
            "emptied", f"'{remote.ref}' is gone from the remote; here everything is as it was",
            "`kgd sync --confirm` puts it there again; `kgd remote remove` lets the remote go.", known.hex(),
        ))  # fmt: skip
        return False
    if theirs == known and _holds(host, theirs):
        return True
    if not pull:
        if _holds(host, theirs):
            return True
        raise Trouble("behind", "the remote has commits that are not here", next="`kgd sync` takes them first.")
    if _holds(host, theirs):
        return _follow(host, remote, host.store, theirs, done, confirm, bring=_nothing)
    with transport.fetch({remote.ref: theirs}) as incoming:
        theirs = done.theirs = incoming.tips[remote.ref]  # it may have moved on while it was fetched
        vetted = vet(incoming, theirs, host.workspace, host.sharded)
        if not vetted.related:
            raise _unrelated(host, remote, known)
        return _follow(host, remote, incoming.with_ours(), theirs, done, confirm, bring=incoming.keep)


def _follow(
    host: Host, remote: Remote, store: ObjectStore, theirs: ObjectId, done: Done, confirm: str,
    *, bring: Callable[[], None],
) -> bool:  # fmt: skip
    """Merge what was vetted, or note what it waits for; `store` reads it, `bring` makes it ours."""
    if not _may_follow(host, remote, store, theirs, done, confirm):
        if _known(host, remote.tracking) != theirs:
            bring()
            _note_seen(host, remote, theirs)
        return False
    bring()
    _merge(host, theirs, done)
    _note(host, remote, theirs)
    return True


def _nothing() -> None:
    """Everything is here, and part of the tip."""


def _may_follow(
    host: Host, remote: Remote, store: ObjectStore, theirs: ObjectId, done: Done, confirm: str
) -> bool:  # fmt: skip
    known, ours = _known(host, remote.incoming), bytes.fromhex(host.tip)
    confirmed = _confirms(confirm, theirs)
    if known is not None and known != theirs and not store.is_ancestor(known, theirs):
        _keep(host, remote, known)
        decided = store.is_ancestor(theirs, ours) and not store.is_ancestor(theirs, known)  # by hand, in the work tree
        if not confirmed and not decided:
            done.waits.append(Wait(
                "diverged", "the remote's history was rewritten: it does not hold "
                f"{known.hex()[:10]} any more, which is kept as {remote.kept(known)}",
                "`kgd sync --confirm` merges what is there now; nothing of either side is dropped.", theirs.hex(),
            ))  # fmt: skip
            return False
    found = None if confirmed or store.is_ancestor(theirs, ours) else brake.held(store, ours, theirs)
    if found:
        gone, total = found
        done.waits.append(Wait(
            "held", f"the remote has deleted {gone} of {total} nodes; they are kept until somebody says so",
            "Look with `git log -p` at "
            f"{theirs.hex()[:10]}; `kgd sync --confirm` lets them go, a revert on the remote brings them back.",
            theirs.hex(),
        ))  # fmt: skip
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
        "unrelated", "the remote holds another history: it shares no commit with this workspace", at=remote.url.text,
        next="Give the remote its repository back, or share under another ref or address. To use what is there, clone "
             "it into a folder of its own.",
    )  # fmt: skip


def _take_proposals(
    host: Host, remote: Remote, transport: Transport, listed: Mapping[str, ObjectId], done: Done
) -> None:
    """Proposals of others, under refs of their own; one that is refused keeps no other and nothing else from coming."""
    base = f"{refs.INCOMING}{remote.name}/proposals/"
    known = refs.list_refs(host.layout.git_dir, base)
    names = {name[len(remote.proposals) :]: (name, tip) for name, tip in listed.items()}
    there = {base + short: found for short, found in names.items() if is_name(short)}
    for local in known.keys() - there.keys():
        _drop_ref(host, local, known[local])
        done.withdrawn += 1
    for local, (name, tip) in sorted(there.items())[:PROPOSALS_LIMIT]:
        if known.get(local) == tip:
            continue
        try:
            with transport.fetch({name: tip}) as incoming:
                tip = incoming.tips[name]
                if not vet(incoming, tip, host.workspace, host.sharded).related:
                    raise Trouble("unrelated", "it shares no commit with this workspace")
                incoming.keep()
                _move(host, local, known.get(local), tip)
                done.proposals += 1
        except Trouble as trouble:
            done.waits.append(Wait("proposal", f"the proposal {name}: {trouble.message}"[:300], trouble.next))


# ---- ours becomes theirs


def _push(
    host: Host, remote: Remote, transport: Transport, theirs: ObjectId | None, listed: Mapping[str, ObjectId],
    done: Done, confirm: str,
) -> Done:  # fmt: skip
    ours = bytes.fromhex(host.tip)
    if ours == theirs:
        proposed.forget(host, remote)
        _note(host, remote, ours)
        return done
    if theirs is not None and not host.store.is_ancestor(theirs, ours):
        raise LostRace("something came in between")
    before = proposed.remembered(host, remote)
    again = before is not None and _confirms(confirm, before[1])
    aim = proposed.aim(host, remote, theirs, listed, again=again)
    if isinstance(aim, proposed.Stands):
        _tell(remote, aim, done)
        return done
    taken_as = transport.push(aim.ref, aim.old, ours) or aim.ref
    count = _count(host, ours, [id for id in (theirs, aim.old) if id])
    if taken_as.startswith(remote.proposals):
        proposed.remember(host, remote, taken_as, ours)
        done.proposed += count
        _tell(remote, proposed.Stands(taken_as, ours, "waits"), done)
        return done
    proposed.forget(host, remote)
    done.pushed += count
    done.theirs = ours
    _note(host, remote, ours)
    return done


def _tell(remote: Remote, stands: proposed.Stands, done: Done) -> None:
    name = stands.name.removeprefix(remote.proposals)
    if stands.how == "waits":
        done.waits.append(Wait(
            "proposed", f"what is new here waits there as the proposal {name}, for somebody who may accept it",
            commit=stands.tip.hex(),
        ))  # fmt: skip
    elif stands.how == "rejected":
        done.waits.append(Wait(
            "rejected", f"the proposal {name} was rejected there, or taken in part only: the rest is here alone",
            "`kgd sync --confirm` proposes it again, with what came since; `kgd revert` takes a commit back here.",
            stands.tip.hex(),
        ))  # fmt: skip


# ---- refs


def _holds(host: Host, commit: ObjectId) -> bool:
    return host.store.exists(commit) and host.store.is_ancestor(commit, bytes.fromhex(host.tip))


def _note(host: Host, remote: Remote, tip: ObjectId) -> None:
    """Remember what the remote holds, and show it to git as the remote's branch."""
    _set(host, remote.incoming, tip)
    _note_seen(host, remote, tip)


def _note_seen(host: Host, remote: Remote, tip: ObjectId) -> None:
    """Show to git what the remote holds and we do not take yet; it also keeps the objects from a gc."""
    with contextlib.suppress(Unavailable):
        _set(host, remote.tracking, tip)


def _set(host: Host, name: str, tip: ObjectId) -> None:
    """Let a ref that only says what a remote holds be `tip`. Not flushed: what it leads to is part of the tip, or can
    be fetched again; after a power cut an older value, or none, means a look more."""
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


def _drop_ref(host: Host, name: str, old: ObjectId) -> None:
    """A proposal that is gone there was decided there."""
    with contextlib.suppress(KgdError, program.GitFailed):
        program.run(host.layout.git_dir, ["update-ref", "-d", name, old.hex()])


def _confirms(confirm: str, commit: ObjectId) -> bool:
    return confirm == "yes" or (len(confirm) >= 7 and commit.hex().startswith(confirm.lower()))


def _count(host: Host, tip: ObjectId, known: Sequence[ObjectId]) -> int:
    """Commits that lead to `tip` and to none of `known`, for an answer: at most `COUNTED`."""
    try:
        return host.store.count(tip, known, limit=COUNTED)
    except Damaged:
        return 0
