"""The origin of commits: the ledger of the tokens that pushed them, and their signatures.

The ledger is in git notes under ``refs/notes/kgd``. A pushed commit keeps its id and the author that the pusher chose,
so its origin is recorded separately. The first record of a commit is never replaced. The ref only moves forward, cannot
be pushed to, and is fetched by clones. If commits are signed, so are the ledger's own. Each of them is an attestation
of the commits whose records it adds: of pushed commits, and of kgd's merges, which have no signature.

`SignedHistory` finds the signer of each commit, and whether the workspace's settings require one. The accepted keys are
in the file `allowed_signers`. A commit is checked against the list in its first parent, so a change of the list applies
to later commits; the first list also covers the commit that adds it. A commit without a signature of its own is covered
by an attestation in the ledger, or by being a pure function of its parents.

The maker of a commit chooses its parents, and so the list. Where signatures are required, a list from before the
requirement, or a list that no holder of an allowed key has changed, therefore allows no key by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import requires_signatures
from kgd.errors import Damaged, Forbidden, KgdError, Unavailable, reason_of
from kgd.git import program
from kgd.git.layout import Layout
from kgd.git.objects import Commit, Object, ObjectId, Signature, parse_commit, signed_parts, with_trailers
from kgd.git.refs import NOTES, RefMoved, move_ref
from kgd.git.staging import KGD, Sign, Staging
from kgd.git.store import ObjectStore
from kgd.model.access import Principal
from kgd.signatures import SIGNERS_PATH, AllowedSigners, fingerprint, parse_signers
from kgd.workspace.merging.histories import is_pure

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
        before = store.tree_before(commit)
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
    _add(layout, store, notes, store.commit(theirs).author.time, "from a remote", sign, theirs)


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


State = Literal["signed", "attested", "pure", "unknown", "unsigned", "bad"]
GOOD = frozenset(("signed", "attested", "pure"))
DEADLINE = 600.0
"""Longest time in seconds that git may take to list the history."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a commit's signature.

    `by` names the principals of the key, as `allowed_signers` lists them, or the key. `required` is set if the settings
    required a signature. `key` and `time` (seconds since 1970) are those of an allowed signature or attestation.
    """

    commit: Commit
    state: State
    by: str = ""
    reason: str = ""
    required: bool = False
    key: bytes = b""
    time: int = 0

    @property
    def is_accepted(self) -> bool:
        return self.state in GOOD or (self.state in ("unsigned", "unknown") and not self.required)


class _Rules(NamedTuple):
    """The files of one tree that decide about signatures."""

    signers: ObjectId | None
    settings: ObjectId | None


class SignedHistory:
    """Checks the commits of one repository, for one thread.

    Args:
        tip: The commit whose list of allowed signers is also used for attestations.
    """

    def __init__(self, store: ObjectStore, tip: ObjectId, sharded: frozenset[str]) -> None:
        self._store, self._tip, self._sharded = store, tip, sharded
        self._known: tuple[ObjectId, _Rules] | None = None

    def requires(self, commit: ObjectId) -> bool:
        """Whether the settings in the tree of a commit require signatures."""
        return self._requires(self._rules(commit))

    def signers(self, commit: ObjectId) -> AllowedSigners:
        return self._list(self._rules(commit).signers)

    def verdict(self, id: ObjectId, *, required: bool = False) -> Verdict:
        """Check one commit.

        Raises:
            Damaged: The commit, or its tree, cannot be read.
        """
        body = self._store.read(id)
        covered, signature = signed_parts(body)
        commit = parse_commit(id, body)
        lists = self._lists(commit)
        found = Verdict(commit, "unsigned", required=required)
        if signature:
            found = _check(commit, covered, signature, lists, required)
            if found.state in ("signed", "bad"):
                return found
        if attestation := self._attestations.get(id):
            for one in (lists, self.signers(self._tip)):
                if by := one.find(attestation.key, attestation.time):
                    return Verdict(commit, "attested", by, "", required, attestation.key, attestation.time)
        if not signature and is_pure(self._store, commit, self._sharded):
            return Verdict(commit, "pure", required=required)
        return found

    def walk(self, since: ObjectId | None = None) -> Iterator[Verdict]:
        """Check the history of the tip, parents before children, or the part of it that `since` does not contain.

        Signatures are required from the first commit on whose settings require them, except while a later commit turns
        that off. A commit whose first parent is not after that commit also needs a key of its list. If several commits
        are first, on different lines of history, all of them count. Takes about 0.3 ms per commit.

        Raises:
            Damaged, Unavailable: The history cannot be read.
        """
        outside = [since] if since else []
        starts = self._first_requirements()
        if not starts:
            yield from map(self.verdict, self._list_commits([self._tip], outside))
            return
        before = self._common(starts)
        yield from map(self.verdict, self._list_commits(before, outside))
        lists, every = [self.signers(start) for start in starts], range(len(starts))
        beside = self._beside(starts, [*before, *outside])
        for id in self._list_commits([self._tip], [*before, *outside]):
            parents = self._store.commit(id).parents
            lacks = beside.get(parents[0], ()) if parents else every
            found = self.verdict(id, required=not parents or bool(lacks) or self.requires(parents[0]))
            for one in lacks:
                found = self._trusted(found, lists[one], "the key was not allowed when signatures became required")
            yield found
            missing = [one for one in every if starts[one] != id and all(one in beside.get(p, ()) for p in parents)]
            if missing:
                beside[id] = missing

    def check_new(self, commits: Sequence[ObjectId], branch: ObjectId, new: ObjectId) -> None:
        """Check commits that are to be added to a branch whose settings require signatures.

        A key must be in the list of the commit's parent, and in the branch's list or added to it by an earlier one of
        these commits. It must not have been removed since.

        Args:
            commits: Parents before children.

        Raises:
            Forbidden: A commit is not signed by an allowed key; the error names the first of them.
            Damaged: As `verdict`.
        """
        granted = {one.key for one in self.signers(branch).lines}
        current = self.signers(new if self._store.is_ancestor(branch, new) else branch)
        for id in commits:
            found = self.verdict(id, required=True)
            usable = current if found.key in granted else AllowedSigners()
            found = self._trusted(found, usable, "the key is no longer an allowed signer")
            if found.state not in GOOD:
                raise _refusal(found)
            if found.key:  # a merge without a signature grants nothing: it could bring back an old list
                parents = found.commit.parents
                before = {one.key for parent in parents for one in self.signers(parent).lines}
                granted |= {one.key for one in self.signers(id).lines} - before

    # ---- inside

    def _first_requirements(self) -> list[ObjectId]:
        """The commits whose settings require signatures, and whose ancestors' settings do not."""
        arguments = ["log", "--format=%H", "--topo-order", "--reverse", "--full-history", self._tip.hex()]
        found: list[ObjectId] = []
        for id in self._lines([*arguments, "--", SETTINGS]):
            if self.requires(id) and not any(self._store.is_ancestor(one, id) for one in found):
                found.append(id)
        return found

    def _common(self, commits: Sequence[ObjectId]) -> list[ObjectId]:
        """The newest commits that all of these contain."""
        found = set(commits[:1])
        for other in commits[1:]:
            found = {base for one in found for base in self._store.merge_bases(one, other)}
        return sorted(found)

    def _beside(self, starts: Sequence[ObjectId], outside: Sequence[ObjectId]) -> dict[ObjectId, Sequence[int]]:
        """The numbers of the starts that a commit does not contain, for the parents of the tip's other commits that
        `outside` contains."""
        found: dict[ObjectId, Sequence[int]] = {}
        names = [self._tip.hex(), *(f"^{id.hex()}" for id in outside)]
        for line in lines_of_history(self._store.git_dir, ["rev-list", "--boundary", *names]):
            if line.startswith("-"):
                id = bytes.fromhex(line[1:])
                if missing := [n for n, start in enumerate(starts) if not self._store.is_ancestor(start, id)]:
                    found[id] = missing
        return found

    def _trusted(self, found: Verdict, signers: AllowedSigners, otherwise: str) -> Verdict:
        """The verdict on a commit whose key, if it has one, must also be in another list."""
        if not found.key or signers.find(found.key, found.time) is not None:
            return found
        if found.state == "attested" and is_pure(self._store, found.commit, self._sharded):
            return Verdict(found.commit, "pure", required=found.required)
        return Verdict(found.commit, "unknown", found.by, otherwise, found.required)

    def _list_commits(self, tips: Sequence[ObjectId], outside: Sequence[ObjectId]) -> Iterator[ObjectId]:
        if not tips:
            return iter(())
        names = [*(id.hex() for id in tips), *(f"^{id.hex()}" for id in outside)]
        return self._lines(["rev-list", "--topo-order", "--reverse", *names])

    def _lines(self, arguments: list[str]) -> Iterator[ObjectId]:
        return map(bytes.fromhex, lines_of_history(self._store.git_dir, arguments))

    @cached_property
    def _attestations(self) -> Mapping[ObjectId, Attestation]:
        return attestations(self._store)

    def _lists(self, commit: Commit) -> AllowedSigners:
        """The list in the first parent; the list in the commit itself if the parent has no list and does not require
        signatures."""
        before = self._rules(commit.parents[0]) if commit.parents else _Rules(None, None)
        is_first = before.signers is None and not self._requires(before)
        return self._list(self._rules_of(commit.tree).signers if is_first else before.signers)

    def _rules(self, commit: ObjectId) -> _Rules:
        if self._known is None or self._known[0] != commit:
            self._known = commit, self._rules_of(self._store.tree_of(commit))
        return self._known[1]

    def _rules_of(self, tree: ObjectId) -> _Rules:
        top = self._store.tree(tree)
        found = (top.get(name.encode()) for name in (SIGNERS_PATH, SETTINGS))
        return _Rules(*(entry[1] if entry else None for entry in found))

    def _list(self, blob: ObjectId | None) -> AllowedSigners:
        return parse_signers(self._store.read(blob)) if blob else AllowedSigners()

    def _requires(self, rules: _Rules) -> bool:
        return requires_signatures(self._store.read(rules.settings) if rules.settings else None)


def lines_of_history(git_dir: Path, arguments: list[str]) -> Iterator[str]:
    """The lines that a git command prints about the history.

    Raises:
        Damaged: The history cannot be read.
    """
    try:
        for line in program.stream(git_dir, arguments, separator=b"\n", deadline=DEADLINE):
            yield line.decode("utf-8", "replace")
    except program.GitFailed as error:
        raise Damaged(f"history cannot be read: {error.said}", next="Run `kgd fsck`.") from error


def _check(commit: Commit, covered: bytes, signature: str, lists: AllowedSigners, required: bool) -> Verdict:
    from kgd.signatures import keys  # cryptography, which most workspaces do not need

    try:
        key = keys.check(signature, covered)
    except keys.WrongSignature as error:
        return Verdict(commit, "bad", reason=str(error), required=required)
    except keys.UnknownSignature as error:
        return Verdict(commit, "unknown", reason=str(error), required=required)
    if who := lists.find(key, commit.committer.time):
        return Verdict(commit, "signed", who, "", required, key, commit.committer.time)
    return Verdict(commit, "unknown", fingerprint(key), "the key is not an allowed signer", required)


def _refusal(found: Verdict) -> Forbidden:
    id = found.commit.id.hex()[:10]
    why = {"bad": "has a bad signature", "unsigned": "is not signed"}.get(
        found.state, "is not signed by an allowed key"
    )
    detail = f" ({found.reason})" if found.reason else ""
    return Forbidden(
        f"commit {id} {why}{detail}, and this workspace requires signatures",
        at=id,
        next="Sign your commits with a key in allowed_signers (`git rebase --exec 'git commit --amend --no-edit -S'`); "
        "kgd signs its own with the setting signing_key.",
    )
