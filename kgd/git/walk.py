"""This file is where two trees are walked at once, within budgets: somebody may have made them to be walked for ever.

Equal folders cost nothing. `kgd.git.three_way` walks three trees, which were all walked here before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kgd.errors import Damaged, Limit
from kgd.git.objects import FOLDER, Entry, ObjectId, Tree, text

DEPTH_LIMIT = 80
"""Folders below one another that a walk follows; a URI has at most 64 segments."""
ENTRY_BUDGET = 5_000_000
REPEATS_FREE, REPEATS_PER_OBJECT = 10_000, 4
"""A walk gives up on a tree that names the same few objects over and over: eleven of them can make 10^10 files. No
two nodes are the same file, so a workspace's own tree names hardly any object twice."""

_WRONG_NAME = re.compile(rb"\A(\.{0,2}|\.git)\Z|[/\0]", re.IGNORECASE)
"""What leads out of a folder, or into a repository; git itself checks nothing of the kind out."""


def differences(
    read: Callable[[ObjectId], Tree], old: ObjectId | None, new: ObjectId | None, budget: int
) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Path and both entries of what differs between two trees and is no folder, in git's order; `read` gives a folder.

    Raises:
        Damaged: A folder cannot be read, or holds a name that leads out of it.
        Limit: More than `budget` entries, folders deeper than `DEPTH_LIMIT`, or a bomb of repeated objects.
    """
    # An explicit stack: depth is the remote's choice, not ours.
    stack: list[tuple[bytes, int, Entry | None, Entry | None]] = []
    root_old, root_new = (old and (FOLDER, old)) or None, (new and (FOLDER, new)) or None
    if root_old != root_new:
        stack.append((b"", 0, root_old, root_new))
    seen, named, distinct = set[ObjectId](), 0, 0
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
        for id, entries in zip(folders, (x, y), strict=True):
            named += len(entries)
            if id and id not in seen:
                seen.add(id)
                distinct += len(set(entries.values()))
        if named > REPEATS_FREE + REPEATS_PER_OBJECT * distinct:
            raise Limit("the tree names the same few objects over and over", at=text(path[:60]))
        changed = {n for n in x.keys() | y.keys() if x.get(n) != y.get(n)}
        for name in changed:
            if _WRONG_NAME.search(name):
                raise Damaged("a folder has an entry of a name that no git makes", at=text(path[:60]))
        prefix = path + b"/" if path else b""
        stack += [(prefix + n, depth + 1, x.get(n), y.get(n)) for n in sorted(changed, reverse=True)]
