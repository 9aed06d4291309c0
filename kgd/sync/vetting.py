"""Vetting: checks on fetched commits before any local ref points to them.

Object headers are checked for sizes first, then the changes of each new commit, within a budget. Harmful content
(links, submodules, paths that leave the tree, bombs) is refused anywhere in the history. Faults that a later commit can
fix (an executable bit, an oversized file) are refused only in the newest tree. A malformed node file is accepted and
reported as invalid, so that it does not stop a team's sync.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgd.codec.paths import is_node_path
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, why_too_new
from kgd.errors import Damaged, KgdError, Limit
from kgd.git.incoming import OWNED_FOLDERS, Allowance, Incoming, measure, new_entries, unsafe_reason
from kgd.git.objects import FILE, FOLDER, PLAIN, Commit, ObjectId, parse_id
from kgd.git.remote_errors import Trouble
from kgd.git.store import ObjectStore
from kgd.workspace.parts import NodeFiles, node_of

_MEND = "Nothing was merged. Fix it with another commit on the remote."
_DROP = "Nothing was merged. The remote's owner has to remove the commit from its history."


@dataclass(frozen=True, slots=True)
class Budget(Allowance):
    """Limits for one fetch."""

    objects: int = 5_000_000
    bytes: int = 8 << 30
    blob: int = 64 << 20
    tree: int = 8 << 20
    file: int = 1 << 20
    """Maximum bytes of a file in the newest tree."""
    changes: int = 5_000_000
    """Maximum number of changed paths in all new commits together."""


BUDGET = Budget()

FREE = 10
"""Number of nodes that a sync may always remove."""
SHARE = 0.2
"""Share of all nodes above which a sync that removes more than `FREE` waits for confirmation."""


def vet(
    incoming: Incoming,
    tip: ObjectId,
    workspace: str,
    sharded: frozenset[str],
    budget: Budget = BUDGET,
    *,
    newer: bool = False,
) -> bool:
    """Check all new objects that are reachable from `tip`; returns whether it shares a commit with our history.

    Args:
        newer: Accept a format or merge rules that this kgd can only read; for read-only clones.

    Raises:
        Trouble: With kind ``refused`` and the path of the fault, or with kind ``newer`` for an unsupported format.
        Damaged: An object of this workspace cannot be read.
    """
    try:
        measure(incoming, incoming.ids, budget)
        commits, related = _new_commits(incoming, tip)
        _check_top(incoming, tip, workspace, sharded)
        if not newer:
            refuse_newer(incoming, tip)
        for commit, path, entry in new_entries(incoming, commits, budget.changes):
            if harm := unsafe_reason(path, entry[0], budget):
                raise _refused(f"the remote contains {harm}", commit, path)
        if commits:
            _check_newest(incoming, commits[0], _known_tree(incoming, commits), budget)
    except (Limit, Damaged) as error:
        if isinstance(error, Damaged) and _is_ours(incoming, error.at):
            raise
        raise Trouble(
            "refused", f"the remote's objects are refused: {error.message}", at=error.at, next=_DROP
        ) from None
    return related


def _is_ours(incoming: Incoming, at: str) -> bool:
    """Whether this is the id of an object that was not sent because git assumed that we have it."""
    try:
        return not incoming.is_new(parse_id(at))
    except Damaged:
        return False


def _new_commits(incoming: Incoming, tip: ObjectId) -> tuple[list[Commit], bool]:
    """The new commits reachable from the tip, and whether one of them has a parent that we already have."""
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
            raise _refused(f"a file has {found[1]} bytes; the limit is {budget.file}", newest, path, _MEND)


def _known_tree(incoming: Incoming, commits: list[Commit]) -> ObjectId | None:
    """Our tree, on which the new commits are based."""
    for commit in commits:
        for parent in commit.parents:
            if not incoming.is_new(parent) and incoming.exists(parent):
                return incoming.tree_of(parent)
    return None


def _check_top(incoming: ObjectStore, tip: ObjectId, workspace: str, sharded: frozenset[str]) -> None:
    """Check that the paths of kgd's folders are folders, and that the settings belong to this workspace."""
    top = incoming.tree(incoming.tree_of(tip))
    for folder in OWNED_FOLDERS:
        if (found := top.get(folder.encode())) and found[0] != FOLDER:
            raise Trouble("refused", f"'{folder}' is not a folder on the remote", at=folder, next=_MEND)
    mode, id = top.get(SETTINGS.encode(), (b"", b""))
    if not mode.startswith(PLAIN):
        raise Trouble(
            "other-workspace",
            "the remote's ref does not contain a workspace",
            at=SETTINGS,
            next="Name another ref with --ref.",
        )
    try:
        settings = decode_settings(incoming.read(id, BUDGET.file), newer=True)
    except KgdError as error:
        raise Trouble(
            "refused", f"the remote's kgd.yaml cannot be read: {error.message}", at=SETTINGS, next=_MEND
        ) from None
    if settings.workspace != workspace:
        raise Trouble(
            "other-workspace",
            f"the remote holds the workspace '{settings.workspace}', but this is '{workspace}'",
            at=SETTINGS,
            next="Clone the remote into its own folder (`git clone URL`, then `kgd up` there); to "
            "join the two, see docs/sync.md, 'Merge two workspaces'.",
        )
    if settings.sharded != sharded:
        raise Trouble(
            "other-workspace",
            "the remote's workspace is sharded differently, so the two cannot be merged",
            at=SETTINGS,
            next="Clone the remote into its own folder, and move your nodes there.",
        )


def refuse_newer(store: ObjectStore | Incoming, tip: ObjectId) -> None:
    """Raise Trouble of kind ``newer`` if a commit has a format or merge rules that this kgd cannot write."""
    blob = store.entry(store.tree_of(tip), SETTINGS)
    if blob and (why := why_too_new(decode_settings(store.read(blob, BUDGET.file), newer=True))):
        raise Trouble(
            "newer",
            f"the remote's workspace has {why}",
            at=SETTINGS,
            next="Install a newer kgd here. Until then nothing is fetched, and your workspace does not change.",
        )


def _refused(what: str, commit: Commit, path: str, then: str = _DROP) -> Trouble:
    return Trouble("refused", f"{what} (commit {commit.id.hex()[:10]})", at=path, next=then)


# ---- the brake on mass deletions


def removed_nodes(store: ObjectStore, ours: ObjectId, theirs: ObjectId) -> int:
    """The number of our nodes that the other side deleted since the merge base, not counting moved nodes."""
    store = NodeFiles(store, frozenset())
    bases = store.merge_bases(ours, theirs)
    base = store.tree_of(bases[0]) if bases else None
    gone_here = {path for path, _, new in store.diff(base, store.tree_of(ours)) if new is None}
    gone, came = list[str](), list[ObjectId]()
    for path, old, new in store.diff(base, store.tree_of(theirs)):
        if is_node_path(path):
            if new is None and path not in gone_here:
                gone.append(path)
            elif old is None and new is not None:
                came.append(new)
    if len(gone) <= FREE:
        return len(gone)
    return len(gone) - min(len(gone), _moved(store, base, gone, came))


def held(store: ObjectStore, ours: ObjectId, theirs: ObjectId) -> tuple[int, int] | None:
    """(nodes to remove, all nodes) if a merge would remove so many nodes that it needs confirmation, otherwise None.

    Costs a diff of their changes; our nodes are counted only if more than `FREE` would be removed.
    """
    gone = removed_nodes(store, ours, theirs)
    if gone <= FREE:
        return None
    total = sum(1 for file in NodeFiles(store, frozenset()).files(store.tree_of(ours)) if is_node_path(file.path))
    return (gone, total) if gone > SHARE * total else None


def _moved(store: ObjectStore, base: ObjectId | None, gone: list[str], came: list[ObjectId]) -> int:
    """The number of removed nodes that still exist under another URI, with the old URI as an alias."""
    came_nodes = (node_of("", blob, store.read) for blob in came)
    aliases = {alias for node in came_nodes if node for alias in node.aliases}
    if base is None or not aliases:
        return 0
    gone_nodes = (node_of(path, store.entry(base, path), store.read) for path in gone)
    return sum(node is not None and node.uri in aliases for node in gone_nodes)
