"""Pushes that a hub kept as a proposal, and the decisions about them.

If the holder of a token may not write, a hub keeps their push as a proposal. Its name is recorded in the local ref
``refs/kgd/proposed/<remote>/<name>``; the decision can be seen from the remote's refs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from kgd.errors import KgdError, Limit, Unavailable
from kgd.git import refs
from kgd.git.objects import ObjectId
from kgd.git.refs import RefMoved
from kgd.git.remote_settings import HTTP, HTTPS, Remote, drop
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.publishing.adoption import Host

COMMITS_LIMIT = 10_000


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
        new = host.store.commits_between(known, ours, limit=COMMITS_LIMIT)
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
