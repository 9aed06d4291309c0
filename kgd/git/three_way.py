"""This file is where three trees are compared at once: what each of two sides changed since what they had in common.

Folders that nobody changed are not read, and of the others only the entries that differ are taken apart: entries are
compared as the bytes that git stores. For trees that were looked through before (`ObjectStore.walk_through`).
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from kgd.errors import Damaged, Limit
from kgd.git.objects import EMPTY_TREE, FOLDER, Entry, ObjectId, text
from kgd.git.store import ObjectStore
from kgd.git.walk import DEPTH_LIMIT, ENTRY_BUDGET

_ENTRIES = re.compile(rb"[0-7]+ [^\0/]+\0.{20}", re.S).findall
Folder: TypeAlias = frozenset[bytes]
NOTHING: Folder = frozenset()


class Change(NamedTuple):
    """One file as it was and as a side has it; None is absence."""

    old: Entry | None
    new: Entry | None


Changes: TypeAlias = dict[str, Change]


def changes_of(
    store: ObjectStore, base: ObjectId | None, ours: ObjectId, theirs: ObjectId, *, budget: int = ENTRY_BUDGET
) -> tuple[Changes, Changes]:
    """The files that ours and theirs changed since `base`, by path, in no order.

    Raises:
        Damaged: A folder cannot be read.
        Limit: Folders are nested too deeply, or more than `budget` entries were compared.
    """
    found: tuple[Changes, Changes] = ({}, {})
    stack: list[tuple[bytes, int, ObjectId | None, ObjectId | None, ObjectId | None]] = [(b"", 0, base, ours, theirs)]
    while stack:
        path, depth, *ids = stack.pop()
        if depth > DEPTH_LIMIT:
            raise Limit(f"folders are nested deeper than {DEPTH_LIMIT}", at=text(path[:60]))
        read: dict[ObjectId | None, Folder] = {}
        for id in ids:
            if id not in read:
                read[id] = _folder(store, id)
                budget -= len(read[id])
        if budget < 0:
            raise Limit("the trees have more entries than the budget of this walk", at=text(path[:60]))
        old, *sides = (read[id] for id in ids)
        gone = [_parsed(old - side) for side in sides]
        now = [_parsed(side - old) for side in sides]
        was = gone[0] | gone[1]
        for name in sorted({*gone[0], *gone[1], *now[0], *now[1]}):
            before = was.get(name)
            # Where a side did not touch the name, it has what was there before.
            after = [now[n].get(name) if name in now[n] or name in gone[n] else before for n in (0, 1)]
            for n in (0, 1):
                _note(found[n], path + name, before, after[n])
            folders = [entry[1] if entry and entry[0] == FOLDER else None for entry in (before, *after)]
            if folders[1] != folders[0] or folders[2] != folders[0]:
                stack.append((path + name + b"/", depth + 1, folders[0], folders[1], folders[2]))
    return found


def _note(changes: Changes, path: bytes, before: Entry | None, after: Entry | None) -> None:
    if before == after:
        return
    old = before if before and before[0] != FOLDER else None
    new = after if after and after[0] != FOLDER else None
    if old or new:
        changes[text(path)] = Change(old, new)


def _folder(store: ObjectStore, id: ObjectId | None) -> Folder:
    if id is None or id == EMPTY_TREE:
        return NOTHING
    body = store.read(id)
    entries = _ENTRIES(body)
    if sum(map(len, entries)) != len(body):
        raise Damaged("a folder has an entry of a name that no git makes", at=id.hex())
    return frozenset(entries)


def _parsed(entries: Folder) -> dict[bytes, Entry]:
    found: dict[bytes, Entry] = {}
    for entry in entries:
        mode, _, name = entry[:-21].partition(b" ")
        found[name] = (mode, entry[-20:])
    return found
