"""The ledger of pushes: the token that brought each commit, as git notes under ``refs/notes/kgd``.

A pushed commit keeps its id and its pusher's choice of author, so its origin is recorded beside it. The first record of
a commit stays. The ref only moves forward, cannot be pushed to, and is fetched by clones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kgd.errors import KgdError, Unavailable
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import NOTES, RefMoved, move_ref
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.model.access import Principal

TRIES = 20
LARGEST = 4_096
"""The largest note in bytes; a longer one is not kgd's."""
_NOTE = re.compile(r"Kgd-Pushed-By: ([^\x00-\x1f\x7f]{1,200}) \(([0-9A-Za-z]{1,40})\), (person|agent|token)\n").match
_PATH = re.compile(r"[0-9a-f]{2}/[0-9a-f]{38}").fullmatch


@dataclass(frozen=True, slots=True)
class Pusher:
    """The holder of the token that brought a commit."""

    name: str
    token: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.token})"


def of(store: ObjectStore, commit: ObjectId) -> Pusher | None:
    """The pusher of a commit; None if it was made here or is unknown."""
    tip = store.ref(NOTES)
    try:
        blob = store.entry(store.tree_of(tip), _path(commit)) if tip else None
        found = _NOTE(store.read(blob, LARGEST).decode("utf-8", "replace")) if blob else None
    except KgdError:
        return None
    return Pusher(*found.groups()) if found else None


def record(layout: Layout, store: ObjectStore, commits: Iterable[ObjectId], holder: Principal, now: int) -> None:
    """Record that this holder pushed these commits; durable on return.

    Raises:
        Unavailable: It could not be written.
    """
    note = f"Kgd-Pushed-By: {holder.name} ({holder.id}), {holder.kind}\n".encode()
    _add(layout, store, {_path(commit): note for commit in commits}, now, f"pushed by {holder.name} ({holder.id})")


def take(layout: Layout, store: ObjectStore, theirs: ObjectId) -> None:
    """Add the records of a remote; for a commit that both know, ours stays.

    Raises:
        Unavailable: It could not be written.
    """
    ours = store.ref(NOTES)
    if ours is not None and store.is_ancestor(theirs, ours):
        return
    if ours is None or store.is_ancestor(ours, theirs):
        try:
            move_ref(layout.git_dir, layout.derived_dir, NOTES, ours, theirs, note="kgd: from a remote")
            return
        except RefMoved:
            pass
    notes = {
        path: store.read(new, LARGEST)
        for path, _, new in store.diff(store.tree_of(ours) if ours else None, store.tree_of(theirs))
        if new is not None and _PATH(path)
    }
    _add(layout, store, notes, store.commit(theirs).author_time, "from a remote")


def _add(layout: Layout, store: ObjectStore, notes: dict[str, bytes], now: int, subject: str) -> None:
    for _ in range(TRIES):
        tip = store.ref(NOTES)
        staging = Staging(store, store.tree_of(tip) if tip else None)
        for path, note in notes.items():
            if staging.blob_at(path) is None:
                staging.put(path, note)
        if not staging.changed:
            return
        made = staging.commit(staging.write_tree(), [tip] if tip else [], Signature(*KGD, now), subject)
        try:
            staging.advance(layout.derived_dir, NOTES, tip, made, f"kgd: {subject}")
            return
        except RefMoved:
            continue
        except OSError as error:
            raise Unavailable(
                f"nothing was written: {error}", next="Free or repair the disk, then push again."
            ) from None
    raise Unavailable("other pushes are being recorded", next="Push again.")


def _path(commit: ObjectId) -> str:
    return f"{commit.hex()[:2]}/{commit.hex()[2:]}"
