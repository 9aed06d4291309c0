"""Walks over two or three trees at once, within budgets, since a hostile tree can be endless.

Equal folders cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias, cast

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


_ENTRY = rb"[0-7]++ [^\0/]++\0.{20}"
_ENTRIES = re.compile(_ENTRY, re.S).findall
_AlwaysMatch = Callable[..., re.Match[bytes]]
_LEADING = cast(_AlwaysMatch, re.compile(rb"(?:%s)*+" % _ENTRY, re.S).match)
_NEXT = cast(_AlwaysMatch, re.compile(rb"(?:%s)?+" % _ENTRY, re.S).match)
BYTE_BUDGET = 50 * ENTRY_BUDGET
"""Bytes of folders that one search for changes compares; an entry of a node has about 50."""
CLOSE = 32
"""Bytes: the accuracy with which the first and the last difference of two folders are found."""


class Change(NamedTuple):
    """One file in the merge base and on one side; None means absent."""

    old: Entry | None
    new: Entry | None


Changes: TypeAlias = dict[str, Change]


def changes_of(read: Callable[[ObjectId], bytes], old: ObjectId | None, new: ObjectId | None) -> Changes:
    """The files that differ between two trees, by path, in no particular order.

    Equal folders are not read. In other folders only the entries around differences are parsed, because folders are
    compared as stored bytes. Only for trees that `ObjectStore.check_history` has checked.

    Raises:
        Damaged: A folder cannot be read.
        Limit: Folders are nested too deeply, or more than `BYTE_BUDGET` bytes were compared.
    """
    found: Changes = {}
    budget = BYTE_BUDGET
    stack = [("", 0, old, new)] if old != new else []
    while stack:
        path, depth, old, new = stack.pop()
        if depth > DEPTH_LIMIT:
            raise Limit(f"folders are nested deeper than {DEPTH_LIMIT}", at=path[:60])
        a = b"" if old is None or old == EMPTY_TREE else read(old)
        b = b"" if new is None or new == EMPTY_TREE else read(new)
        budget -= len(a) + len(b)
        if budget < 0:
            raise Limit("the trees have more entries than the budget of this walk", at=path[:60])
        gone, there = _differing(a, b, path)
        for name in gone | there:
            at, before, after = path + text(name), gone.get(name), there.get(name)
            was = before[1] if before and before[0] == FOLDER else None
            now = after[1] if after and after[0] == FOLDER else None
            if was or now:
                stack.append((at + "/", depth + 1, was, now))
            if (before and not was) or (after and not now):
                found[at] = Change(None if was else before, None if now else after)
    return found


def _differing(a: bytes, b: bytes, path: str) -> tuple[Tree, Tree]:
    """The entries that only one of two folders has, of each folder."""
    more = len(b) - len(a)
    for start, end in (_span(a, b), (0, len(a))):
        of_a, of_b = _ENTRIES(a, start, end), _ENTRIES(b, start, end + more)
        if sum(map(len, of_a)) == end - start and sum(map(len, of_b)) == end + more - start:
            break
    else:
        raise Damaged("a folder has an entry whose name git does not allow", at=path[:60])
    return _parsed(of_a, set(of_b)), _parsed(of_b, set(of_a))


def _parsed(entries: Iterable[bytes], others: Collection[bytes]) -> Tree:
    found: Tree = {}
    for entry in entries:
        if entry not in others:
            mode, _, name = entry[:-21].partition(b" ")
            found[name] = mode, entry[-20:]
    return found


def _span(a: bytes, b: bytes) -> tuple[int, int]:
    """Beginning and end of the entries of `a` around its differences from `b`.

    Before and after them, both folders have the same bytes. In `b`, an id whose bytes look like an entry may stand at
    this end; its entries then do not fill the span.
    """
    size, other = len(a), len(b)
    low, high = 0, min(size, other)
    while high - low > CLOSE:
        middle = (low + high) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle)
    kept, high = 0, min(size, other) - low
    while high - kept > CLOSE:
        middle = (kept + high) // 2
        is_same = a[size - middle : size - kept] == b[other - middle : other - kept]
        kept, high = (middle, high) if is_same else (kept, middle)
    start = _LEADING(a, 0, low).end()
    end = _NEXT(a, _LEADING(a, start, size - kept).end()).end()
    return (start, end) if end >= size - kept else (0, size)


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
