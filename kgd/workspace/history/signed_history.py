"""Signatures of commits: the signer of each commit, and whether the workspace's settings require it.

The accepted keys are in the file `allowed_signers`. A commit is checked against the list in its first parent, so a
change of the list applies to later commits; the first list also covers the commit that adds it. A commit without a
signature of its own is covered by an attestation in the ledger (`kgd.workspace.history.pushers`), or by being a pure
function of its parents.

The maker of a commit chooses its parents, and so the list. Where signatures are required, a list from before the
requirement, or a list that no holder of an allowed key has changed, therefore allows no key by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import requires_signatures
from kgd.errors import Damaged, Forbidden
from kgd.git import program
from kgd.git.objects import Commit, ObjectId, parse_commit, signed_parts
from kgd.git.store import ObjectStore
from kgd.signatures import allowed_signers
from kgd.signatures.allowed_signers import AllowedSigners
from kgd.signatures.wire import fingerprint
from kgd.workspace.history import pushers
from kgd.workspace.merging.histories import is_pure

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
                granted |= self._added_keys(found.commit)

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
        for line in self._texts(["rev-list", "--boundary", self._tip.hex(), *(f"^{id.hex()}" for id in outside)]):
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

    def _added_keys(self, commit: Commit) -> set[bytes]:
        """The keys that a commit adds to the lists of its parents."""
        before = {one.key for parent in commit.parents for one in self.signers(parent).lines}
        return {one.key for one in self.signers(commit.id).lines} - before

    def _list_commits(self, tips: Sequence[ObjectId], outside: Sequence[ObjectId]) -> Iterator[ObjectId]:
        if not tips:
            return iter(())
        names = [*(id.hex() for id in tips), *(f"^{id.hex()}" for id in outside)]
        return self._lines(["rev-list", "--topo-order", "--reverse", *names])

    def _lines(self, arguments: list[str]) -> Iterator[ObjectId]:
        return map(bytes.fromhex, self._texts(arguments))

    def _texts(self, arguments: list[str]) -> Iterator[str]:
        try:
            for line in program.stream(self._store.git_dir, arguments, separator=b"\n", deadline=DEADLINE):
                yield line.decode()
        except program.GitFailed as error:
            raise Damaged(f"history cannot be read: {error.said}", next="Run `kgd fsck`.") from error

    @cached_property
    def _attestations(self) -> Mapping[ObjectId, pushers.Attestation]:
        return pushers.attestations(self._store)

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
        found = (top.get(name.encode()) for name in (allowed_signers.PATH, SETTINGS))
        return _Rules(*(entry[1] if entry else None for entry in found))

    def _list(self, blob: ObjectId | None) -> AllowedSigners:
        return allowed_signers.parse(self._store.read(blob)) if blob else AllowedSigners()

    def _requires(self, rules: _Rules) -> bool:
        return requires_signatures(self._store.read(rules.settings) if rules.settings else None)


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
