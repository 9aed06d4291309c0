"""Walks over two or three trees at once, within budgets, since a hostile tree can be endless.

Equal folders cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from kgd.errors import Damaged, Limit
from kgd.git.objects import EMPTY_TREE, FOLDER, Entry, ObjectId, Tree, raw, text

DEPTH_LIMIT = 80
"""Maximum depth of folders; a URI has at most 64 segments."""
ENTRY_BUDGET = 5_000_000
REPEATS_FREE, REPEATS_PER_OBJECT = 10_000, 4
"""A walk gives up on a tree that repeats the same few objects: eleven objects can make 10^10 files. No two nodes have
the same file, so a workspace's own tree hardly ever contains an object twice."""

_WRONG_NAME = re.compile(rb"\A(\.{0,2}|\.git)\Z|[/\0]", re.IGNORECASE)
"""Names that lead out of a folder, or into a repository; git itself does not check them."""


def differences(
    read: Callable[[ObjectId], Tree], old: ObjectId | None, new: ObjectId | None, budget: int
) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Yield path and both entries of each difference that is not a folder, in git's order; `read` gives a folder.

    Raises:
        Damaged: A folder cannot be read, or holds a name that points outside it.
        Limit: More than `budget` entries, folders deeper than `DEPTH_LIMIT`, or a bomb of repeated objects.
    """
    # An explicit stack: the remote chooses the depth.
    stack: list[tuple[bytes, int, Entry | None, Entry | None]] = []
    root_old, root_new = (old and (FOLDER, old)) or None, (new and (FOLDER, new)) or None
    if root_old != root_new:
        stack.append((b"", 0, root_old, root_new))
    seen, uncounted, named, distinct = set[ObjectId](), list[ObjectId](), 0, 0
    while stack:
        path, depth, before, after = stack.pop()
        file_before = before if before and before[0] != FOLDER else None
        file_after = after if after and after[0] != FOLDER else None
        if file_before or file_after:
            yield text(path), file_before, file_after
        folders = [e[1] if e and e[0] == FOLDER else None for e in (before, after)]
        if folders == [None, None]:
            continue
        if depth > DEPTH_LIMIT:
            raise Limit(f"folders are nested deeper than {DEPTH_LIMIT}", at=text(path[:60]))
        x, y = (read(f) if f else {} for f in folders)
        budget -= len(x) + len(y)
        if budget < 0:
            raise Limit("the tree has more entries than the budget of this walk", at=text(path[:60]))
        here = dict(zip(folders, (x, y), strict=True))
        for id, entries in here.items():
            named += len(entries)
            if id and id not in seen:
                seen.add(id)
                uncounted.append(id)
        while named > REPEATS_FREE + REPEATS_PER_OBJECT * distinct:
            if not uncounted:
                raise Limit("the tree repeats the same few objects too often", at=text(path[:60]))
            # Counts are seldom needed, so folders are read again; keeping them would need memory for the whole tree.
            id = uncounted.pop()
            distinct += len(set((here[id] if id in here else read(id)).values()))
        changed = {name for name, _ in x.items() ^ y.items()}
        for name in changed:
            if _WRONG_NAME.search(name):
                raise Damaged("a folder has an entry whose name git does not allow", at=text(path[:60]))
        prefix = path + b"/" if path else b""
        stack += [(prefix + n, depth + 1, x.get(n), y.get(n)) for n in sorted(changed, reverse=True)]


_ENTRIES = re.compile(rb"[0-7]+ [^\0/]+\0.{20}", re.S).findall
Folder: TypeAlias = frozenset[bytes]
NOTHING: Folder = frozenset()


class Change(NamedTuple):
    """One file in the merge base and on one side; None means absent."""

    old: Entry | None
    new: Entry | None


Changes: TypeAlias = dict[str, Change]


def changes_of(
    read: Callable[[ObjectId], bytes],
    base: ObjectId | None,
    ours: ObjectId,
    theirs: ObjectId,
) -> tuple[Changes, Changes]:
    """The files that each side changed since `base`, by path, in no particular order.

    Unchanged folders are not read. In changed folders, only differing entries are parsed, because entries are compared
    as stored bytes. Only for trees that `ObjectStore.check_history` has checked.

    Raises:
        Damaged: A folder cannot be read.
        Limit: Folders are nested too deeply, or more than `ENTRY_BUDGET` entries were compared.
    """
    found: tuple[Changes, Changes] = ({}, {})
    budget = ENTRY_BUDGET
    stack: list[tuple[bytes, int, ObjectId | None, ObjectId | None, ObjectId | None]] = [(b"", 0, base, ours, theirs)]
    while stack:
        path, depth, *ids = stack.pop()
        if depth > DEPTH_LIMIT:
            raise Limit(f"folders are nested deeper than {DEPTH_LIMIT}", at=text(path[:60]))
        folders_of: dict[ObjectId | None, Folder] = {}
        for id in ids:
            if id not in folders_of:
                folders_of[id] = _folder(read, id)
                budget -= len(folders_of[id])
        if budget < 0:
            raise Limit("the trees have more entries than the budget of this walk", at=text(path[:60]))
        old, *sides = (folders_of[id] for id in ids)
        gone = [_parsed(old - side) for side in sides]
        now = [_parsed(side - old) for side in sides]
        was = gone[0] | gone[1]
        for name in sorted({*gone[0], *gone[1], *now[0], *now[1]}):
            before = was.get(name)
            # A side that did not change the name still has the old entry.
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


def _folder(read: Callable[[ObjectId], bytes], id: ObjectId | None) -> Folder:
    if id is None or id == EMPTY_TREE:
        return NOTHING
    body = read(id)
    entries = _ENTRIES(body)
    if sum(map(len, entries)) != len(body):
        raise Damaged("a folder has an entry whose name git does not allow", at=id.hex())
    return frozenset(entries)


def _parsed(entries: Folder) -> dict[bytes, Entry]:
    found: dict[bytes, Entry] = {}
    for entry in entries:
        mode, _, name = entry[:-21].partition(b" ")
        found[name] = (mode, entry[-20:])
    return found


class Lookup:
    """Look-ups of many paths in one tree, with the folders cached."""

    def __init__(self, read: Callable[[ObjectId], Tree], tree: ObjectId) -> None:
        self._read, self._root = read, tree
        self._folders: dict[str, Tree] = {}

    def entry(self, path: str) -> ObjectId | None:
        """As `ObjectStore.entry`."""
        folder, _, name = path.rpartition("/")
        found = self._folder(folder).get(raw(name))
        return found[1] if found and found[0] != FOLDER else None

    def _folder(self, path: str) -> Tree:
        known = self._folders.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            found = self._folder(above).get(raw(name)) if path else (FOLDER, self._root)
            known = self._folders[path] = self._read(found[1]) if found and found[0] == FOLDER else {}
        return known
