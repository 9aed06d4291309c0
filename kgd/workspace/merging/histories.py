"""Merging two histories: the content of two commits against their common ancestors.

The merge is a pure function of stored objects, the same for both sides, so two replicas that merge the same pair get
the same bytes. This module writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings
from kgd.errors import Invalid, Limit, Refused, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.staging import Staging, Unwritten
from kgd.git.store import ObjectStore
from kgd.model.conflict import Conflict
from kgd.model.merge import RULES_VERSION
from kgd.model.merge_base import common_content
from kgd.workspace.merging import colliding_names
from kgd.workspace.merging.trees import MergedTree, merge_trees


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
    return colliding_names.colliding(
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
