"""Commits that `kgd forget` removed from history, and the check that they do not come back.

The file `forgotten_commits` at the top of the workspace has a line for each removed commit whose parents were kept:
every copy of the old history contains one of them. Only an administrator may change the file, as with `kgd.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from kgd.errors import Forbidden
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore

PATH = "forgotten_commits"
HEADER = b"# Commits removed by `kgd forget`. kgd refuses histories that contain one of them.\n"
_LINE = re.compile(rb"^([0-9a-f]{40})(?: |$)", re.MULTILINE)


def listed(store: ObjectStore, commit: ObjectId) -> list[ObjectId]:
    """The removed commits that a commit's tree lists.

    Raises:
        Damaged: The tree cannot be read.
    """
    blob = store.entry(store.tree_of(commit), PATH)
    return [bytes.fromhex(digits.decode()) for digits in _LINE.findall(store.read(blob))] if blob else []


def with_lines(before: bytes | None, commits: Iterable[ObjectId], note: str) -> bytes:
    """The file with a line for each commit, followed by a note of one line."""
    lines = b"".join(b"%s %s\n" % (id.hex().encode(), note.encode()) for id in commits)
    return (before or HEADER) + lines


def brought_back(store: ObjectStore, listing: ObjectId, tip: ObjectId) -> ObjectId | None:
    """A commit in the history of `tip` that the tree of `listing` lists as removed.

    Costs a look-up in that tree; the history is searched only if the repository still holds a removed commit.
    """
    found = (id for id in listed(store, listing) if store.exists(id) and store.is_ancestor(id, tip))
    return next(found, None)


def refuse(store: ObjectStore, *tips: ObjectId) -> None:
    """Check that no tip's history contains a commit that another tip, or the tip itself, lists as removed.

    Raises:
        Forbidden: It does.
        Damaged: A tip cannot be read.
    """
    for listing, tip in product(tips, tips):
        if id := brought_back(store, listing, tip):
            raise Forbidden(
                f"this history contains commit {id.hex()[:10]}, which `kgd forget` removed because of a secret",
                at=id.hex(),
                next="Clone the workspace again, and repeat your unpushed changes there (docs/forget.md). "
                "Nothing was merged.",
            )
