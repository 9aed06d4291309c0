"""This file is where commits from elsewhere are looked through before any ref of ours leads to them.

Sizes first, by the headers alone; then what each new commit changed, with a budget. What would harm whoever holds it
(links, submodules, names that lead out, bombs) is refused wherever in the history it stands. What a further commit can
mend (an executable bit, a file that is too large to be served) is asked of the newest tree only. A node file that says
nothing sensible is no reason to stop a team: it is taken, and named as an invalid file where it is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, why_too_new
from kgd.errors import Damaged, KgdError, Limit
from kgd.git.incoming import OWNED_FOLDERS, Allowance, Incoming, measure, unsafe_reason
from kgd.git.objects import FILE, FOLDER, PLAIN, Commit, Entry, ObjectId, parse_id
from kgd.git.store import ObjectStore
from kgd.git.trouble import Trouble

_MEND = "Nothing of it was taken. A further commit on the remote that mends it is enough."
_DROP = "Nothing of it was taken. It stands in the remote's history: whoever keeps it has to take the commit out."


@dataclass(frozen=True, slots=True)
class Budget(Allowance):
    """The most that one fetch may bring."""

    objects: int = 5_000_000
    bytes: int = 8 << 30
    blob: int = 64 << 20
    tree: int = 8 << 20
    file: int = 1 << 20
    """Bytes of a file in the newest tree."""
    changes: int = 5_000_000
    """Paths that all new commits changed, together."""


BUDGET = Budget()


@dataclass(frozen=True, slots=True)
class Vetted:
    """What came: new commits, newest first. Without `related` they share no commit with us."""

    commits: tuple[Commit, ...]
    related: bool


def vet(
    incoming: Incoming,
    tip: ObjectId,
    workspace: str,
    sharded: frozenset[str],
    budget: Budget = BUDGET,
    *,
    newer: bool = False,
) -> Vetted:
    """Look through everything new that `tip` leads to.

    With `newer` it may be of a format or of merge rules that this kgd only reads: for a copy that is not written.

    Raises:
        Trouble: Of kind ``refused``: what is wrong, and where. Of kind ``newer``: nothing is wrong with it.
        Damaged: An object of this workspace cannot be read.
    """
    try:
        measure(incoming, incoming.ids, budget)
        commits, related = _new_commits(incoming, tip)
        _check_top(incoming, tip, workspace, sharded)
        if not newer:
            refuse_newer(incoming, tip)
        _check_commits(incoming, commits, budget)
        if commits:
            _check_newest(incoming, commits[0], _known_tree(incoming, commits), budget)
    except (Limit, Damaged) as error:
        if isinstance(error, Damaged) and _is_ours(incoming, error.at):
            raise
        raise Trouble("refused", f"what the remote sent cannot be taken: {error.message}", at=error.at,
                      next=_DROP) from None  # fmt: skip
    return Vetted(tuple(commits), related)


def _is_ours(incoming: Incoming, at: str) -> bool:
    """Whether this is the id of an object that did not come, so that git took our having it for granted."""
    try:
        return not incoming.is_new(parse_id(at))
    except Damaged:
        return False


def _new_commits(incoming: Incoming, tip: ObjectId) -> tuple[list[Commit], bool]:
    """The commits that are new here, from the tip on, and whether any of them continues one that we have."""
    if not incoming.is_new(tip):
        return [], True
    found, waiting, seen, related = list[Commit](), [tip], {tip}, False
    while waiting:
        commit = incoming.commit(waiting.pop())
        found.append(commit)
        for parent in commit.parents:
            if not incoming.is_new(parent):
                related = related or incoming.exists(parent)
            elif parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return found, related


def _check_commits(store: ObjectStore, commits: Iterable[Commit], budget: Budget) -> None:
    left = budget.changes
    for commit in commits:
        for path, entry in _changes(store, commit):
            left -= 1
            if left < 0:
                raise _refused("the new commits change more than kgd takes at once", commit, "")
            _check_harmless(path, entry, commit, budget)


def _changes(incoming: ObjectStore, commit: Commit) -> Iterator[tuple[str, Entry]]:
    """What it changed against its first parent, entries that it took away left out."""
    before = incoming.tree_of(commit.parents[0]) if commit.parents else None
    for path, entry in incoming.changed_entries(before, commit.tree):
        if entry is not None:
            yield path, entry


def _check_harmless(path: str, entry: Entry, commit: Commit, budget: Budget) -> None:
    if harm := unsafe_reason(path, entry[0], budget):
        raise _refused(f"the remote holds {harm}", commit, path)


def _check_newest(incoming: ObjectStore, newest: Commit, known: ObjectId | None, budget: Budget) -> None:
    for path, entry in incoming.changed_entries(known, newest.tree):
        if entry is None:
            continue
        mode, id = entry
        if mode != FILE:
            raise _refused("a file has the executable bit", newest, path, _MEND)
        found = incoming.kind_and_size(id)
        if found is None or found[0] != "blob":
            raise _refused("a file is missing", newest, path, _DROP)
        if found[1] > budget.file:
            raise _refused(f"a file has {found[1]} bytes, {budget.file} are served at most", newest, path, _MEND)


def _known_tree(incoming: Incoming, commits: list[Commit]) -> ObjectId | None:
    """A tree that we have and that the new ones go on from."""
    for commit in commits:
        for parent in commit.parents:
            if not incoming.is_new(parent) and incoming.exists(parent):
                return incoming.tree_of(parent)
    return None


def _check_top(incoming: ObjectStore, tip: ObjectId, workspace: str, sharded: frozenset[str]) -> None:
    """The folders that kgd owns are folders, and the settings are those of this workspace."""
    top = incoming.tree(incoming.tree_of(tip))
    for folder in OWNED_FOLDERS:
        if (found := top.get(folder.encode())) and found[0] != FOLDER:
            raise Trouble("refused", f"on the remote '{folder}' is no folder", at=folder, next=_MEND)
    mode, id = top.get(SETTINGS.encode(), (b"", b""))
    if not mode.startswith(PLAIN):
        raise Trouble("other-workspace", "what the remote has under this ref is no workspace", at=SETTINGS,
                      next="Name another ref with --ref.")  # fmt: skip
    try:
        settings = decode_settings(incoming.read(id, BUDGET.file), newer=True)
    except KgdError as error:
        raise Trouble("refused", f"the remote's kgd.yaml cannot be read: {error.message}", at=SETTINGS,
                      next=_MEND) from None  # fmt: skip
    if settings.workspace != workspace:
        raise Trouble(
            "other-workspace", f"the remote holds the workspace '{settings.workspace}', this one is '{workspace}'",
            at=SETTINGS, next="Clone that one into a folder of its own (`git clone URL`, then `kgd up` there); to "
                              "make one of the two, see docs/sync.md, 'Two workspaces that should be one'.",
        )  # fmt: skip
    if settings.sharded != sharded:
        raise Trouble(
            "other-workspace", "the remote's workspace is sharded differently, so the two cannot be one", at=SETTINGS,
            next="Clone that one into a folder of its own, and move your nodes there.",
        )  # fmt: skip


def refuse_newer(store: ObjectStore | Incoming, tip: ObjectId) -> None:
    """Leave a commit where it is that is of a format or of merge rules which this kgd may read and not write.

    Raises:
        Trouble: Of kind ``newer``.
    """
    blob = store.entry(store.tree_of(tip), SETTINGS)
    if blob and (why := why_too_new(decode_settings(store.read(blob, BUDGET.file), newer=True))):
        raise Trouble(
            "newer", f"the remote's workspace has {why}", at=SETTINGS,
            next="Install a newer kgd here; until then nothing is taken from there, and yours stays as it is.",
        )  # fmt: skip


def _refused(what: str, commit: Commit, path: str, then: str = _DROP) -> Trouble:
    return Trouble("refused", f"{what} (commit {commit.id.hex()[:10]})", at=path, next=then)
