"""History: the commits that changed given files, how often each file changed, and missing objects.

A merge counts as a change of a file if its result differs from every parent. Renames are not followed, since a node's
identity is its URI. One ``git log --raw -c`` reads 100,000 commits in 4 s; doing so in this process takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kgd.errors import Damaged, NotFound
from kgd.git import program
from kgd.git.objects import LAST_MOMENT, Commit, ObjectId, moment, text, words
from kgd.git.program import GitFailed
from kgd.git.store import ObjectStore
from kgd.model.change import VERIFY

DEADLINE = 600.0
_ZERO = b"0" * 40
_HEADER = "%x01%H %at %an <%ae>%x02%(trailers:key=Kgd-Op,valueonly,separator=%x2C)%x02%P"
_VERIFY = VERIFY.encode()
_RAW = ("--raw", "-c", "-z", "--root", "--no-renames", "--abbrev=40", "--no-ext-diff", "--no-textconv", "--no-color")


Place = tuple[int, int]
"""The place of a commit in a walk: an era, and its number in it."""


@dataclass(slots=True)
class Versioned:
    """The history of one path. The counts for ``old..new`` can be added to those for ``old``."""

    path: str
    count: int
    created_at: int
    created_by: str
    updated_at: int
    updated_by: str
    updated_commit: str
    """The commit's id in hex."""
    written_at: int = 0
    written_by: str = ""
    """Time and author of the newest commit that is not a verification; 0 and empty if there is none."""
    written_commit: str = field(default="", repr=False, compare=False)
    updated_place: Place = field(default=(0, 0), repr=False, compare=False)
    written_place: Place = field(default=(0, 0), repr=False, compare=False)

    @property
    def updated(self) -> tuple[int, str, str]:
        """The order of the newest commit among parallel ones."""
        return self.updated_at, self.updated_by, self.updated_commit


class _Ancestry:
    """The ancestry among listed commits, children before parents."""

    def __init__(self) -> None:
        self._pending: dict[bytes, int] = {}
        """The listed descendants, as a set of bits, of the parents that are not listed yet."""
        self._era, self._next, self._descendants = 0, 0, 0

    def add(self, id: bytes, parents: Sequence[bytes]) -> Place:
        """Add the next commit and return its place. Without pending lines, it begins an era; all eras before descend
        from it."""
        self._descendants = self._pending.pop(id, 0)
        if not self._pending:
            self._era, self._next, self._descendants = self._era + 1, 0, 0
        place = self._era, self._next
        mask = self._descendants | 1 << self._next
        self._next += 1
        for parent in parents or (b"",):  # a first commit ends its line, so no other commit is its ancestor
            self._pending[parent] = self._pending.get(parent, 0) | mask
        return place

    def descends(self, place: Place) -> bool:
        """Whether the commit at a place descends from the last one added."""
        era, number = place
        return era < self._era or bool(self._descendants >> number & 1)


class Change(NamedTuple):
    """One file before a commit (for a merge: in its first parent) and after it; None where the file is absent."""

    path: str
    old: ObjectId | None
    new: ObjectId | None
    others: tuple[ObjectId | None, ...] = ()
    """The file in the other parents of a merge."""


def _paths(changes: Sequence[Change]) -> Iterable[str]:
    return (change.path for change in changes)


@dataclass(frozen=True, slots=True)
class LogEntry:
    commit: Commit
    changes: tuple[Change, ...]


class _Listed(NamedTuple):
    id: ObjectId
    when: int
    who: str
    verifies: bool
    parents: Sequence[bytes]
    changes: list[Change]


def versions(
    git_dir: Path,
    tip: ObjectId,
    *,
    since: ObjectId | None = None,
    counted: Callable[[Sequence[Change]], Iterable[str]] = _paths,
) -> Iterator[Versioned]:
    """Count the commits reachable from `tip`, and not from `since`, that changed each path, with the oldest and the
    newest.

    `counted` maps the changes of a commit to the paths whose versions they increase; by default the files themselves.

    "Newest" follows the commit graph, not the clocks; of parallel changes it is the one with the later time, then the
    larger author, then the larger id. "Oldest" follows the graph, and git chooses the order of parallel branches. Rows
    for the whole history can be used directly. For rows after `since`, add the counts to the known ones, keep the known
    `created`, and compare the newest commits. The rows are sorted by path; the first one comes only after all history
    has been read.

    Raises:
        Damaged: History cannot be read to its end.
        Unavailable: git did not finish in time.
    """
    found: dict[str, Versioned] = {}
    span = [tip.hex(), *([f"^{since.hex()}"] if since else [])]
    ancestry = _Ancestry()
    for id, when, who, verifies, parents, changes in _listed(git_dir, ["--topo-order", *span, "--"]):
        commit = id.hex()
        place = ancestry.add(commit.encode(), parents)
        for path in dict.fromkeys(counted(changes)):
            row = found.get(path)
            if row is None:
                row = found[path] = Versioned(path, 0, when, who, when, who, commit, updated_place=place)
            elif (when, who, commit) > row.updated and not ancestry.descends(row.updated_place):
                row.updated_at, row.updated_by, row.updated_commit, row.updated_place = when, who, commit, place
            row.count += 1
            row.created_at, row.created_by = when, who
            is_later = (when, who) > (row.written_at, row.written_by) and not ancestry.descends(row.written_place)
            if not verifies and (is_later or not row.written_by):
                row.written_at, row.written_by, row.written_commit, row.written_place = when, who, commit, place
    yield from (found.pop(path) for path in sorted(found))


def log(
    store: ObjectStore,
    tip: ObjectId,
    *,
    paths: Sequence[str] = (),
    author: str | None = None,
    since: int | None = None,
    until: int | None = None,
    limit: int = 50,
    after: ObjectId | None = None,
    select: Callable[[Sequence[Change]], Sequence[Change]] = lambda changes: changes,
) -> list[LogEntry]:
    """The newest commits reachable from `tip` through any parent, with the changes of each.

    Args:
        paths: Only commits that changed one of these files or a file below these folders; a merge counts if its result
            differs from every parent.
        author: Part of the author's name or email; case is ignored.
        since, until: Seconds since 1970, compared with the committer's time, both inclusive.
        after: Continue after this commit of an earlier page.
        select: Filters the changes of a commit; a commit is skipped if no changes are left.

    Raises:
        NotFound: `after` is not among these commits.
        Damaged, Unavailable: As `versions`.
    """
    arguments = ["--full-history", *(["-F", "-i", f"--author={author}"] if author else [])]
    arguments += [f"--since-as-filter={git_date(since)}"] if since is not None else []
    arguments += [f"--until={git_date(until)}"] if until is not None else []
    entries: list[LogEntry] = []
    waiting = after is not None
    for id, _, _, _, _, listed in _listed(store.git_dir, [*arguments, tip.hex(), "--", *paths]):
        changes = select(listed) if not waiting else listed
        if waiting:
            waiting = id != after
        elif changes or not paths:
            entries.append(LogEntry(store.commit(id), tuple(changes)))
            if len(entries) == limit:  # without waiting for git to find the next one
                break
    if waiting:
        raise NotFound("this cursor does not belong to this list", at="cursor", next="Ask again without a cursor.")
    return entries


def walk(
    store: ObjectStore,
    tips: Sequence[ObjectId],
    *,
    paths: Sequence[str],
    select: Callable[[Sequence[Change]], Sequence[Change]] = lambda changes: changes,
) -> Iterator[LogEntry]:
    """As `log`, from several tips and without a limit: git stops when the caller stops reading.

    Raises:
        Damaged, Unavailable: As `versions`.
    """
    arguments = ["--full-history", *(tip.hex() for tip in tips), "--", *paths]
    for id, _, _, _, _, listed in _listed(store.git_dir, arguments):
        if changes := select(listed):
            yield LogEntry(store.commit(id), tuple(changes))


def changes_of(store: ObjectStore, commits: Sequence[str]) -> Iterator[LogEntry]:
    """These commits in their order, with the changes of each; for a merge as in `log`.

    One git process compares all trees. In this process each comparison would parse whole folders.

    Raises:
        Damaged, Unavailable: As `versions`.
    """
    if commits:
        names = "".join(f"{id}\n" for id in commits).encode()
        for id, _, _, _, _, changes in _listed(store.git_dir, ["--no-walk=unsorted", "--stdin"], names):
            yield LogEntry(store.commit(id), tuple(changes))


def _listed(git_dir: Path, arguments: Sequence[str], input: bytes | None = None) -> Iterator[_Listed]:
    """Commits in git's order. Records end in NUL: a header that starts with 0x01, then alternating modes and paths."""
    command = ["log", *_RAW, "--encoding=UTF-8", f"--format={_HEADER}", *arguments]
    current: _Listed | None = None
    records = program.stream(git_dir, command, deadline=DEADLINE, input=input)
    try:
        for record in records:
            record = record.lstrip(b"\n")
            if record[:1] == b":":
                path = next(records)
                if current is not None:
                    current.changes.append(_change(record, path))
            elif record:
                if current:
                    yield current
                id, when, rest = record[1:].split(b" ", 2)
                rest, _, parents = rest.rpartition(b"\x02")
                who, _, operation = rest.rpartition(b"\x02")
                verifies = operation == _VERIFY
                current = _Listed(bytes.fromhex(id.decode()), moment(when), words(who), verifies, parents.split(), [])
    except GitFailed as error:
        raise Damaged(f"history cannot be read: {error.said}", at=str(git_dir), next="Run `kgd fsck`.") from error
    except StopIteration:
        raise Damaged("git log ended in the middle of a record", at=str(git_dir)) from None
    if current:
        yield current


def _change(record: bytes, path: bytes) -> Change:
    """``:mode mode old new S`` of a commit, ``::mode mode mode old old new SS`` of a merge."""
    words = record.split(b" ")
    parents = len(record) - len(record.lstrip(b":"))
    *olds, new = (_id(word) for word in words[parents + 1 : 2 * parents + 2])
    return Change(text(path), olds[0], new, tuple(olds[1:]))


def _id(word: bytes) -> ObjectId | None:
    return None if word == _ZERO else bytes.fromhex(word.decode())


def git_date(seconds: int) -> str:
    """A moment as git stores dates. Git's calendar dates end in 2099."""
    return f"@{min(max(seconds, 0), LAST_MOMENT)} +0000"


CHECK_SECONDS = 3600.0


def first_missing(git_dir: Path, tip: ObjectId, known: ObjectId | None = None) -> str:
    """Git's message about the first missing object behind `tip`; empty if none is missing.

    Args:
        known: An ancestor whose history is known to be complete, so that only newer history is read.

    Raises:
        Unavailable: The check took more than an hour, or git is not installed.
    """
    # git would take every commit listed in the commit-graph as present.
    words = ["-c", "core.commitGraph=false", "rev-list", "--objects", "--quiet", tip.hex()]
    try:
        program.run(git_dir, [*words, f"^{known.hex()}"] if known else words, deadline=CHECK_SECONDS)
    except GitFailed as failed:
        return failed.said.splitlines()[-1] if failed.said else str(failed)
    return ""
