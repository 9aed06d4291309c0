"""Merging two histories: the content of two commits against their common ancestors.

The merge is a pure function of stored objects, the same for both sides, so two replicas that merge the same pair get
the same bytes. This module writes nothing.

Two replicas that merge the same pair independently create a criss-cross history. The merge base is then the merge of
all best common ancestors in the order of their ids, made like any other merge, including conflicts. Every replica
computes the same base, and a conflict that was settled before one of the ancestors stays settled.

Commits that are functions of their parents are not signed, since a signature would differ; `is_pure` makes them again
and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kgd.codec import paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, first_files
from kgd.errors import Invalid, KgdError, Limit, Refused, Unavailable
from kgd.git.creation import first_commit
from kgd.git.objects import Commit, ObjectId, Signature, commit_body, make, with_trailers
from kgd.git.staging import KGD, Staging, Unwritten
from kgd.git.store import ObjectStore
from kgd.model.conflict import Conflict
from kgd.model.merge import RULES_VERSION
from kgd.workspace.merging.files import colliding, record_files
from kgd.workspace.merging.trees import MergedTree, merge_trees

C = TypeVar("C", bytes, int)
"""The id of a commit."""
T = TypeVar("T")
"""The content of a commit: a tree, or a graph."""

WIDEST = 16
"""Maximum number of best common ancestors that are merged for one pair of commits."""
MOST = 64
"""Maximum number of merges of common ancestors for one merge. In a history crafted to need more, the first ancestor by
id is used alone: there may be an additional conflict, but no edit is lost."""

COLLISIONS = with_trailers("report names that collide", [("Kgd-Op", "merge"), ("Kgd-Rules", str(RULES_VERSION))])
"""The message of a commit that records colliding names after a fast-forward."""


class ReadableTree(NamedTuple):
    """A tree that exists in memory only, with a store that reads it (`diff`, `read`, `entry`)."""

    store: ObjectStore
    id: ObjectId


def merge_commits(store: ObjectStore, ours: ObjectId, theirs: ObjectId, sharded: frozenset[str]) -> MergedTree:
    """Merge the content of two commits against their common ancestors, of which there may be one, several or none.

    Nothing is written. The result is the same for both sides.

    Raises:
        Unavailable: A commit uses merge rules that this kgd does not know; kgd can then only fast-forward.
        Damaged: An object is missing or broken.
    """
    check_rules(store, (ours, theirs))
    view = Unwritten(store)
    base = base_tree(view, ours, theirs, sharded)

    def ever_open(side: int, record: str) -> bool:
        return _ever_open(store, (ours, theirs)[side], store.merge_bases(ours, theirs), record)

    return merge_trees(view, base, view.tree_of(ours), view.tree_of(theirs), sharded, ever_open)


def new_twins(store: ObjectStore, old: ObjectId | None, new: ObjectId, sharded: frozenset[str]) -> list[Conflict]:
    """Conflicts for colliding names in `new` that are not in its ancestor `old` and were never recorded in between."""
    before, after = store.tree_of(old) if old else None, store.tree_of(new)
    added = [path for path, was, now in store.diff(before, after) if now and not was and path.startswith("nodes/")]
    return colliding(
        store,
        (before, after, after),
        (added, []),
        {},
        sharded,
        lambda side, record: _ever_open(store, new, [old] if old else [], record),
    )


def _ever_open(store: ObjectStore, tip: ObjectId, until: Iterable[ObjectId], record: str) -> bool:
    """Whether any commit between `until` and `tip` had this conflict record."""
    return any(store.entry(commit.tree, record) for commit in store.history([tip], until=until))


def merged_tree(store: ObjectStore, parents: Sequence[ObjectId], sharded: frozenset[str]) -> ReadableTree:
    """The tree of kgd's own merge of these commits, in memory, for comparison with a merge commit.

    Raises:
        Invalid: There are fewer or more than two commits.
        Unavailable, Damaged: As `merge_commits`.
    """
    if len(parents) != 2:
        raise Invalid("kgd merges two commits at a time", at="merge")
    ours, theirs = sorted(parents)
    merged = merge_commits(store, ours, theirs, sharded)
    view = Unwritten(store)
    return ReadableTree(view, _written(view, store.tree_of(ours), merged))


def base_tree(view: Unwritten, a: ObjectId, b: ObjectId, sharded: frozenset[str]) -> ObjectId | None:
    """The common tree of two commits; if it had to be merged, `view` can read it."""

    def merge_held(base: ObjectId | None, ours: ObjectId, theirs: ObjectId) -> ObjectId:
        return _written(view, ours, merge_trees(view, base, ours, theirs, sharded))

    return common_content(a, b, bases=view.merge_bases, held=view.tree_of, merge=merge_held)


def check_rules(store: ObjectStore, commits: Iterable[ObjectId]) -> int:
    """The merge rules to follow: the lowest version that the commits name.

    Raises:
        Unavailable: This kgd does not know that version.
    """
    rules = min(_rules_of(store, commit) for commit in commits)
    if rules != RULES_VERSION:
        raise Unavailable(
            f"the workspace has version {rules} of the merge rules; this kgd supports {RULES_VERSION}",
            at=SETTINGS,
            next="Upgrade kgd; until then nothing is merged.",
        )
    return rules


def _rules_of(store: ObjectStore, commit: ObjectId) -> int:
    blob = store.entry(store.tree_of(commit), SETTINGS)
    try:
        return decode_settings(store.read(blob), newer=True).merge_rules if blob else RULES_VERSION
    except (Invalid, Refused, Limit):
        return RULES_VERSION


def _written(view: Unwritten, ours: ObjectId, merged: MergedTree) -> ObjectId:
    staging = Staging(view, ours)
    staging.write(merged.files)
    made = staging.write_tree()
    view.add(staging.objects)
    return made


def common_content(
    a: C, b: C, *, bases: Callable[[C, C], Sequence[C]], held: Callable[[C], T], merge: Callable[[T | None, T, T], T]
) -> T | None:
    """The common content of commits a and b; None if their histories are unrelated.

    Args:
        bases: All best common ancestors of two commits.
        held: The content of a commit.
        merge: The three-way merge of two commits' content.
    """
    known: dict[tuple[C, ...], T] = {}
    left = MOST

    def folded(found: Sequence[C]) -> T | None:
        """The merged content of these commits, one after the other."""
        nonlocal left
        if not found:
            return None
        key = tuple(found[:WIDEST])
        if key not in known:
            merged = held(key[0])
            for n, one in enumerate(key[1:], 1):
                if left == 0:
                    break
                left -= 1
                # The merge so far descends from all earlier commits, so it shares with the next commit the ancestors
                # that any of them shares.
                common = _best({base for before in key[:n] for base in bases(before, one)}, bases)
                merged = merge(folded(common), merged, held(one))
            known[key] = merged
        return known[key]

    return folded(sorted(bases(a, b)))


def _best(candidates: set[C], bases: Callable[[C, C], Sequence[C]]) -> list[C]:
    """The candidates that are not ancestors of another candidate."""
    ordered = sorted(candidates)[:WIDEST]
    if len(ordered) < 2:
        return ordered
    return [one for one in ordered if not any(list(bases(one, other)) == [one] for other in ordered if other != one)]


def of_merge(store: ObjectStore, tips: Sequence[ObjectId]) -> tuple[list[ObjectId], Signature, str]:
    """Parents, author and message of the merge commit of two tips. Raises as `check_rules`."""
    rules, parents = check_rules(store, tips), sorted(tips)
    when = max(store.commit(parent).committer.time for parent in parents)
    subject = " and ".join(parent.hex()[:10] for parent in parents)
    message = with_trailers(f"merge {subject}", [("Kgd-Op", "merge"), ("Kgd-Rules", str(rules))])
    return parents, Signature(*KGD, when), message


def is_pure(store: ObjectStore, commit: Commit, sharded: frozenset[str]) -> bool:
    """Whether kgd makes the same commit from the parents of this one. For a merge commit, this costs a merge."""
    if (commit.author.name, commit.author.email) != KGD:
        return False
    try:
        if not commit.parents:
            return _is_first(store, commit)
        if len(commit.parents) == 2:
            parents, by, message = of_merge(store, commit.parents)
            body = commit_body(merged_tree(store, parents, sharded).id, parents, by, by, message)
            return make("commit", body).id == commit.id
        return _records_collisions(store, commit, sharded)
    except KgdError:
        return False


def _is_first(store: ObjectStore, commit: Commit) -> bool:
    blob = store.entry(commit.tree, SETTINGS)
    if blob is None:
        return False
    settings = decode_settings(store.read(blob))
    return first_commit(settings.workspace, first_files(settings.workspace, settings.sharded))[-1].id == commit.id


def _records_collisions(store: ObjectStore, commit: Commit, sharded: frozenset[str]) -> bool:
    """Whether the commit only adds records of names that collide in its parent."""
    [parent] = commit.parents
    by, before = Signature(*KGD, store.commit(parent).committer.time), store.tree_of(parent)
    if make("commit", commit_body(commit.tree, [parent], by, by, COLLISIONS)).id != commit.id:
        return False
    names = [path for path, _, _ in store.diff(None, before) if paths.is_node_path(path)]
    pairs = colliding(store, (None, before, before), (names, []), {}, sharded, lambda side, record: False)
    records = record_files(pairs, sharded)
    return all(
        old is None and new is not None and records.get(path) == store.read(new)
        for path, old, new in store.diff(before, commit.tree)
    )
