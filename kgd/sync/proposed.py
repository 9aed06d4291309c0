"""This file is where it is known that what was pushed waits at a remote as a proposal, and what became of it there.

A hub takes the push of somebody who may only propose, and keeps it under a proposal's name. Which one that is stands in
a ref of ours, ``refs/kgd/proposed/<remote>/<name>``; what became of it is read off what the remote has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from kgd.errors import KgdError, Limit, Unavailable
from kgd.git import refs
from kgd.git.objects import ObjectId
from kgd.git.refs import RefMoved
from kgd.git.remote_settings import Remote, drop
from kgd.git.url import HTTP, HTTPS
from kgd.workspace.adoption import Host
from kgd.workspace.integrate import merge_commits

COMMITS_LIMIT = 10_000


class Aim(NamedTuple):
    """Which ref of the remote a push is for, and what it holds (None: it is not there)."""

    ref: str
    old: ObjectId | None


class Stands(NamedTuple):
    """Nothing is to be pushed: the proposal `name` ``waits`` there, or was ``rejected``, or nothing of ours is left."""

    name: str
    tip: ObjectId
    how: str


def aim(
    host: Host, remote: Remote, theirs: ObjectId | None, listed: Mapping[str, ObjectId], *, again: bool = False
) -> Aim | Stands:
    """Where what is new here goes, by what became of what was proposed before.

    Args:
        theirs: What the remote's own ref holds, which is in ours.
        listed: The remote's proposals, by the full names of their refs.
        again: Whether somebody said to propose anew what was rejected.
    """
    plain = Aim(remote.ref, theirs)
    mine = remembered(host, remote)
    if mine is None or theirs is None:
        return plain
    name, tip = mine
    there = listed.get(name)
    if host.store.is_ancestor(tip, theirs):  # accepted as it was
        forget(host, remote)
        return plain
    ours = bytes.fromhex(host.tip)
    if there is not None:
        if not host.store.exists(there) or again:
            return plain
        if host.store.is_ancestor(ours, there) or not _has_work(host, ours, [there, theirs]):
            return Stands(name, there, "waits")
        return Aim(name, there) if host.store.is_ancestor(there, ours) else plain
    if host.store.tree_of(ours) == host.store.tree_of(theirs):
        remember(host, remote, name, ours)  # what comes later is told from what was decided
        return Stands(name, ours, "settled")
    return Stands(name, tip, "rejected") if not again and _adds(host, theirs, tip) else plain


def remembered(host: Host, remote: Remote) -> tuple[str, ObjectId] | None:
    """The full name of the proposal that holds what was pushed last, and the commit; None where there is none."""
    if not _may_propose(remote):
        return None
    base = _base(remote)
    found = sorted(refs.list_refs(host.layout.git_dir, base).items())
    known = [(remote.proposals + ref.removeprefix(base), tip) for ref, tip in found if host.store.exists(tip)]
    return known[0] if known else None


def remember(host: Host, remote: Remote, name: str, tip: ObjectId) -> None:
    """Note that the remote keeps `tip` as this proposal.

    Raises:
        Unavailable: The ref cannot be written.
    """
    if remembered(host, remote) == (name, tip):
        return
    forget(host, remote)
    ref = _base(remote) + name.removeprefix(remote.proposals)
    try:
        refs.move_ref(host.layout.git_dir, host.layout.derived_dir, ref, None, tip, note="kgd: proposed")
    except (OSError, RefMoved) as error:
        raise Unavailable(f"a ref cannot be written: {error}", at=ref) from error


def forget(host: Host, remote: Remote) -> None:
    """What was proposed is decided, or the remote is gone."""
    if not _may_propose(remote):
        return
    with contextlib.suppress(KgdError):
        drop(host.layout, _base(remote))


def _may_propose(remote: Remote) -> bool:
    """Only a server that kgd runs behind makes proposals of pushes."""
    return remote.url.kind in (HTTP, HTTPS)


def _base(remote: Remote) -> str:
    return f"refs/kgd/proposed/{remote.name}/"


def _has_work(host: Host, ours: ObjectId, known: list[ObjectId]) -> bool:
    """Whether there is more than merges of what others did."""
    try:
        new = host.store.commits_between(known, ours, limit=COMMITS_LIMIT)
    except Limit:
        return True
    return any(len(host.store.commit(id).parents) < 2 for id in new)


def _adds(host: Host, theirs: ObjectId, tip: ObjectId) -> bool:
    """Whether `tip` holds something that is not in `theirs` in some way."""
    merged, tree = merge_commits(host.store, theirs, tip, host.sharded), host.store.tree_of(theirs)
    for path, data in merged.files.items():
        entry = host.store.entry(tree, path)
        if (host.store.read(entry) if entry else None) != data:
            return True
    return False
