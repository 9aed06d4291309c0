"""Edits that store the code tree, for `kgd bootstrap --store`: for trees that other users do not have."""

from __future__ import annotations

from collections.abc import Iterator

from kgd.model.change import Upsert
from kgd.model.node import Relation
from kgd.model.uri import Uri, from_path
from kgd.overlay.overlay import Overlay
from kgd.overlay.tree import CONTAINS, Directory, Tree, facts_of, members

BATCH = 500
"""Nodes of one commit: few enough to read in history, enough to be fast."""

_RELATION_BYTES = 160 << 10
"""Bytes for a directory's relations, of the 256 KiB that a node's file may have."""
_AROUND_A_TARGET = 40


def store_changes(overlay: Overlay, *, batch: int = BATCH) -> Iterator[tuple[Upsert, ...]]:
    """Batches that store every served node with its facts; members first, so that no relation is broken.

    Applied again to the same tree they change nothing. A directory with more members than fit in its file keeps the
    first ones and counts the others in `data.contains_left_out`.
    """
    waiting: list[Upsert] = []
    for edit in _edits(overlay.view):
        waiting.append(edit)
        if len(waiting) == batch:
            yield tuple(waiting)
            waiting.clear()
    if waiting:
        yield tuple(waiting)


def _edits(tree: Tree) -> Iterator[Upsert]:
    if tree.root is not None:
        yield from _edits_below(tree, from_path("dir", tree.workspace, ""), tree.root)


def _edits_below(tree: Tree, uri: Uri, directory: Directory) -> Iterator[Upsert]:
    inside = members(tree.workspace, uri, directory)
    for member in inside:
        found = tree.find(member)
        if isinstance(found, Directory):
            yield from _edits_below(tree, member, found)
        elif found is not None:
            yield Upsert(member, summary=_summary(tree, member), data=facts_of(member, found))
    relations = _relations(inside)
    data = facts_of(uri, directory)
    if len(relations) < len(inside):
        data["contains_left_out"] = len(inside) - len(relations)
    yield Upsert(uri, summary=_summary(tree, uri), data=data, relations=relations)


def _relations(inside: list[Uri]) -> tuple[Relation, ...]:
    room = _RELATION_BYTES
    kept: list[Relation] = []
    for member in inside:
        room -= len(member.encode()) + _AROUND_A_TARGET
        if room < 0:
            break
        kept.append(Relation(CONTAINS, member))
    return tuple(kept)


def _summary(tree: Tree, uri: Uri) -> str:
    card = tree.card(uri)
    return card.summary if card else ""
