"""Pure commits: functions of their parents, which every copy makes alike. They are not signed, since a signature would
differ; `is_pure` makes them again and compares."""

from __future__ import annotations

from collections.abc import Sequence

from kgd.codec import paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, first_files
from kgd.errors import KgdError
from kgd.git.creation import first_commit
from kgd.git.objects import Commit, ObjectId, Signature, commit_body, make, with_trailers
from kgd.git.staging import KGD
from kgd.git.store import ObjectStore
from kgd.model.merge import RULES_VERSION
from kgd.workspace.merging.colliding_names import colliding
from kgd.workspace.merging.files import record_files
from kgd.workspace.merging.histories import check_rules, merged_tree

COLLISIONS = with_trailers("report names that collide", [("Kgd-Op", "merge"), ("Kgd-Rules", str(RULES_VERSION))])
"""The message of a commit that records colliding names after a fast-forward."""


def of_merge(store: ObjectStore, tips: Sequence[ObjectId]) -> tuple[list[ObjectId], Signature, str]:
    """Parents, author and message of the merge commit of two tips. Raises as `check_rules`."""
    rules, parents = check_rules(store, tips), sorted(tips)
    when = max(store.commit(parent).committer.time for parent in parents)
    subject = " and ".join(parent.hex()[:10] for parent in parents)
    message = with_trailers(f"merge {subject}", [("Kgd-Op", "merge"), ("Kgd-Rules", str(rules))])
    return parents, Signature(*KGD, when), message


def is_pure(store: ObjectStore, commit: Commit, sharded: frozenset[str]) -> bool:
    """Whether kgd makes the same commit from the parents of this one. For a merge commit, this costs a merge."""
    if (commit.author_name, commit.author_email) != KGD:
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
