"""This file is where a tree becomes edits, for `kgd bootstrap --store`: a tree that colleagues do not have."""

from __future__ import annotations

from collections.abc import Iterator

from kgd.model.change import Upsert
from kgd.model.node import Relation
from kgd.model.uri import Uri, from_path
from kgd.overlay.overlay import Overlay
from kgd.overlay.tree import CONTAINS, Directory, Tree, facts_of, members

BATCH = 500
"""Nodes of one commit: few enough for a reader of the history, many enough to be quick."""

_RELATION_BYTES = 160 << 10
"""Of the 256 KiB that a node's file may have, what a directory's relations may take of it."""
_AROUND_A_TARGET = 40


def store_changes(overlay: Overlay, *, batch: int = BATCH) -> Iterator[tuple[Upsert, ...]]:
    """Batches that store every node the overlay serves, with its facts: members first, so that no relation is broken.

    Applied again to the same tree they change nothing. A directory with more members than its file can name keeps the
    first ones and says in `data.contains_left_out` how many are missing.
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
