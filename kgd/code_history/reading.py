"""Reading the code's history into its index, newest commits first.

Commits that are no longer reachable are dropped, so a branch switch, an amended commit or a rebase costs only the
difference. An interrupted reading continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Event
from typing import NamedTuple

from kgd.code_history import messages
from kgd.git import code_log
from kgd.git.code_log import CodeCommit
from kgd.git.discovery import Place
from kgd.index.commit_index import CommitIndex, NewCommit

COMMITS = 100_000
"""Number of newest commits to keep."""
BATCH = 1_000
"""Commits per transaction, few enough to be searchable soon."""
LEFT_OVER = 1_000
"""Commits beyond `COMMITS` that may accumulate before the oldest are dropped."""


class Difference(NamedTuple):
    """Commits to add above and below the stored ones, both newest first, and stored commits to drop."""

    above: list[str]
    below: list[str]
    gone: list[str]

    @property
    def size(self) -> int:
        return len(self.above) + len(self.below) + len(self.gone)


def difference(index: CommitIndex, code: Place, tip: str, limit: int = COMMITS) -> Difference:
    """The difference between the index and the history of `tip`. Raises as `code_log.commits` and `Database`."""
    known = index.tip()
    moved = code_log.moved(code, known, tip) if known else None
    if moved is not None:
        return Difference(moved[0][:limit], [], moved[1])
    stored = index.ids()
    listed = code_log.reachable(code, tip, limit)
    begun = next((place for place, id in enumerate(listed) if id in stored), 0)
    below = [id for id in listed[begun:] if id not in stored]
    return Difference(listed[:begun], below, sorted(stored.difference(listed)))


def update(index: CommitIndex, code: Place, tip: str, stop: Event | None = None, *, limit: int = COMMITS) -> int:
    """Bring the index to the newest commits of `tip`, and return the number read. No other writer may run.

    Raises:
        GitFailed, Limit: git cannot read the history.
        Unavailable: `stop` was set, git took too long, or the disk refused a write.
        IndexDamaged: The index must be recreated.
    """
    above, below, gone = difference(index, code, tip, limit)
    touched = set[str]()
    is_small = bool(index.tip()) and not gone and not below and len(above) <= BATCH
    if not is_small:
        index.set_tip("")  # after an interruption everything is compared
        index.drop(gone)
        index.note_files(code_log.files(code, tip))
    for start in range((len(above) - 1) // BATCH * BATCH, -1, -BATCH):  # oldest batch first: each goes to the top
        for batch in _batches(code, tip, above[start : start + BATCH], stop):
            index.add(batch, newer=True)
            touched.update(path for commit in batch for path in commit.paths)
            touched.update(was for commit in batch for was, _ in commit.renames)
    for batch in _batches(code, tip, below, stop):
        index.add(batch, newer=False)
    if is_small:
        present = set(code_log.files(code, tip, sorted(touched))) if touched else set[str]()
        index.note_files(present, touched - present)
    else:
        index.note_files(code_log.files(code, tip))
    if index.count() > limit + LEFT_OVER:
        index.keep_newest(limit)
    index.set_tip(tip)
    return len(above) + len(below)


def new_commit(commit: CodeCommit) -> NewCommit:
    """A commit of the log as the index stores it."""
    told = messages.parse(commit.message)
    return NewCommit(
        commit.id,
        commit.at,
        commit.author,
        told.subject,
        told.body,
        told.kind,
        told.reverts,
        commit.files,
        [change.path for change in commit.changes],
        [(one.was, one.path) for one in commit.changes if one.was],
    )


def _batches(code: Place, tip: str, ids: Sequence[str], stop: Event | None) -> Iterator[list[NewCommit]]:
    if ids:
        read = code_log.commits(code, tip, ids=ids, stop=stop)
        while batch := [new_commit(commit) for commit in islice(read, BATCH)]:
            yield batch
