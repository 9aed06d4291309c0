"""This file is where a sync that would remove much is noticed before it does: it waits until somebody says so."""

from __future__ import annotations

from kgd.codec import documents
from kgd.codec.paths import is_node_path
from kgd.errors import KgdError
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.workspace.parts import NodeFiles

FREE = 10
"""Nodes that a sync may remove whatever their share."""
SHARE = 0.2


def removed_nodes(store: ObjectStore, ours: ObjectId, theirs: ObjectId) -> int:
    """How many nodes of ours the other side has deleted since the two had the same; what moved is not counted."""
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
    """(nodes it would remove, nodes there are) where that is too many to happen by itself, else None.

    Costs a comparison of what they changed; our nodes are counted only when more than `FREE` would go.
    """
    gone = removed_nodes(store, ours, theirs)
    if gone <= FREE:
        return None
    total = sum(1 for file in NodeFiles(store, frozenset()).files(store.tree_of(ours)) if is_node_path(file.path))
    return (gone, total) if gone > SHARE * total else None


def _moved(store: ObjectStore, base: ObjectId | None, gone: list[str], came: list[ObjectId]) -> int:
    """How many of the nodes that are gone live on under another URI, which names the old one as its alias."""
    aliases = set[str]()
    for blob in came:
        try:
            aliases |= set(documents.decode(store.read(blob)).aliases)
        except KgdError:
            continue
    if not aliases:
        return 0
    moved = 0
    for path in gone:
        before = store.entry(base, path) if base else None
        try:
            moved += before is not None and documents.decode(store.read(before)).uri in aliases
        except KgdError:
            continue
    return moved
