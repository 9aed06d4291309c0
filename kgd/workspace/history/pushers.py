"""The ledger of commits: the token that pushed each commit, as git notes under ``refs/notes/kgd``.

A pushed commit keeps its id and the author that the pusher chose, so its origin is recorded separately. The first
record of a commit is never replaced. The ref only moves forward, cannot be pushed to, and is fetched by clones.

If commits are signed, so are the ledger's own. Each of them is an attestation of the commits whose records it adds:
of pushed commits, and of kgd's merges, which have no signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgd.errors import KgdError, Unavailable, reason_of
from kgd.git.layout import Layout
from kgd.git.objects import Object, ObjectId, Signature, signed_parts, with_trailers
from kgd.git.refs import NOTES, RefMoved, move_ref
from kgd.git.staging import KGD, Sign, Staging
from kgd.git.store import ObjectStore
from kgd.model.access import Principal

TRIES = 20
PUSHED_BY, MADE_BY = "Kgd-Pushed-By", "Kgd-Made-By"
_MADE = f"{MADE_BY}: kgd\n".encode()
LARGEST = 4_096
"""The largest note in bytes; a longer one is not kgd's."""
_NOTE = re.compile(PUSHED_BY + r": ([^\x00-\x1f\x7f]{1,200}) \(([0-9A-Za-z]{1,40})\), (person|agent|token)\n").match
_PATH = re.compile(r"[0-9a-f]{2}/[0-9a-f]{38}").fullmatch


@dataclass(frozen=True, slots=True)
class Pusher:
    """The holder of the token that pushed a commit."""

    name: str
    token: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.token})"


@dataclass(frozen=True, slots=True)
class Attestation:
    """The key that signed the record of a commit, and the time in seconds since 1970."""

    key: bytes
    time: int


def of(store: ObjectStore, commit: ObjectId) -> Pusher | None:
    """The pusher of a commit; None if the commit was made here or its pusher is unknown."""
    return in_ledger(store, store.ref(NOTES), commit)


def in_ledger(store: ObjectStore, tip: ObjectId | None, commit: ObjectId) -> Pusher | None:
    """As `of`, in the ledger at `tip`. For many commits: looking up the ref takes longer than the rest."""
    try:
        blob = store.entry(store.tree_of(tip), _path(commit)) if tip else None
        found = _NOTE(store.read(blob, LARGEST).decode("utf-8", "replace")) if blob else None
    except KgdError:
        return None
    return Pusher(*found.groups()) if found else None


def record(
    layout: Layout,
    store: ObjectStore,
    commits: Iterable[ObjectId],
    holder: Principal,
    now: int,
    sign: Sign | None = None,
) -> None:
    """Record that this holder pushed these commits; durable on return.

    Raises:
        Unavailable: The record could not be written.
    """
    pusher = f"{holder.name} ({holder.id})"
    note = f"{PUSHED_BY}: {pusher}, {holder.kind}\n".encode()
    message = with_trailers(f"pushed by {pusher}", [(PUSHED_BY, f"{pusher}, {holder.kind}")])
    _add(layout, store, {_path(commit): note for commit in commits}, now, message, sign)


def attest(layout: Layout, store: ObjectStore, commits: Iterable[ObjectId], now: int, sign: Sign) -> None:
    """Record unsigned commits that kgd made here, in a signed commit; durable on return.

    Raises:
        Unavailable: The record could not be signed or written.
    """
    _add(layout, store, {_path(commit): _MADE for commit in commits}, now, "made by kgd", sign)


def attestations(store: ObjectStore) -> Mapping[ObjectId, Attestation]:
    """The attested commits. Reads the whole ledger, about 0.3 ms for each of its commits.

    Raises:
        Damaged: The ledger cannot be read.
    """
    from kgd.signatures import keys  # cryptography, which most workspaces do not need

    tip, found = store.ref(NOTES), dict[ObjectId, Attestation]()
    for commit in store.history([tip] if tip else []):
        covered, signature = signed_parts(store.read(commit.id))
        if not signature or len(commit.parents) > 1:  # a merge only unites what its parents attest
            continue
        try:
            by = Attestation(keys.check(signature, covered), commit.committer.time)
        except (keys.WrongSignature, keys.UnknownSignature):
            continue
        before = store.tree_of(commit.parents[0]) if commit.parents else None
        for path, old, new in store.diff(before, commit.tree):
            if old is None and new is not None and _PATH(path):
                found[bytes.fromhex(path.replace("/", ""))] = by
    return found


def take(layout: Layout, store: ObjectStore, theirs: ObjectId, sign: Sign | None = None) -> None:
    """Add the records of a remote, and the commits that attest them; if both have a record of a commit, our record is
    kept.

    Raises:
        Unavailable: The records could not be written.
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
    _add(layout, store, notes, store.commit(theirs).author_time, "from a remote", sign, theirs)


def replaced(
    store: ObjectStore, moved: Mapping[ObjectId, ObjectId], good: Iterable[ObjectId], now: int, sign: Sign | None
) -> tuple[ObjectId, Sequence[Object]] | None:
    """A new ledger for a rewritten history, as its commit and the objects to write; None if it would be empty.

    Args:
        moved: The rewritten commits, old to new.
        good: Old commits that have a verified signature or attestation. With `sign`, the new ledger attests these
            commits and no others.

    Raises:
        KgdError: The old ledger cannot be read, or the new one cannot be signed.
    """
    tip, attested = store.ref(NOTES), {*good}
    old = {file.path: store.read(file.id, LARGEST) for file in store.files(store.tree_of(tip))} if tip else {}
    known = {bytes.fromhex(path.replace("/", "")): note for path, note in old.items() if _PATH(path)}
    notes = {id: note for id, note in known.items() if not sign or id not in attested}
    signed = {id: known.get(id, _MADE) for id in attested} if sign else {}
    staging, made = Staging(store, None, sign), list[ObjectId]()
    for some, is_signed in ((notes, False), (signed, True)):
        for id, note in some.items():
            staging.put(_path(moved.get(id, id)), note)
        if some:
            by = Signature(*KGD, now)
            made = [staging.commit(staging.write_tree(), made, by, "history rewritten", pure=not is_signed)]
    return (made[0], staging.objects) if made else None


def _add(
    layout: Layout,
    store: ObjectStore,
    notes: dict[str, bytes],
    now: int,
    message: str,
    sign: Sign | None,
    theirs: ObjectId | None = None,
) -> None:
    subject = message.partition("\n")[0]
    for _ in range(TRIES):
        tip = store.ref(NOTES)
        staging = Staging(store, store.tree_of(tip) if tip else None, sign)
        for path, note in notes.items():
            if staging.blob_at(path) is None:
                staging.put(path, note)
        if not staging.changed and theirs is None:
            return
        parents = [parent for parent in (tip, theirs) if parent is not None]
        made = staging.commit(staging.write_tree(), parents, Signature(*KGD, now), message)
        try:
            staging.advance(layout.derived_dir, NOTES, tip, made, f"kgd: {subject}")
            return
        except RefMoved:
            continue
        except OSError as error:
            raise Unavailable(
                f"nothing was written: {reason_of(error)}", next="Free or repair the disk, then push again."
            ) from None
    raise Unavailable("other pushes are being recorded", next="Push again.")


def _path(commit: ObjectId) -> str:
    return f"{commit.hex()[:2]}/{commit.hex()[2:]}"
