"""History of the code repository: its commits with their changed paths, its files, and the commit of a line.

The user's repository may have any size, so every call has a limit of commits and time, and none fetches missing
objects. Ids, times, names, messages and paths are read; email addresses are not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

from kgd.errors import KgdError
from kgd.git import program
from kgd.git.discovery import Place
from kgd.git.objects import moment
from kgd.git.program import Bounds, GitFailed
from kgd.git.refs import read_foreign

SECONDS = 600.0
"""Time limit for a whole history."""
FILES = 10_000
"""Largest number of listed paths of one commit; an import of a whole tree has more."""
MESSAGE = 4_000
"""Largest number of bytes to read of a message."""
LOCAL = ("-c", "protocol.allow=never")
"""A partial clone would fetch each missing object over the network."""
_LOG = (
    "log",
    "--name-status",
    "-z",
    "--find-renames=60%",
    "-l100",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--encoding=UTF-8",
    "--format=%x01%H %ct %P%x02%an%x02%B",
)
"""git looks for inexact renames among 100 files at most, and always for exact ones (by id)."""


class PathChange(NamedTuple):
    """A changed path of a commit; `was` is its former path if the commit renamed it."""

    path: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class CodeCommit:
    """A commit of the code. `changes` is empty for a merge; `files` is the count of all changed paths."""

    id: str
    at: int
    author: str
    message: str
    is_merge: bool
    changes: tuple[PathChange, ...]
    files: int


def head(code: Place) -> str:
    """The checked-out commit, read from git's files alone; empty if it is unknown."""
    with contextlib.suppress(KgdError, OSError, ValueError):
        named = (code.git_dir / "HEAD").read_text(errors="replace").strip()
        if not named.startswith("ref: "):
            return named
        ref = named[5:].strip()
        if ref.startswith("refs/") and ".." not in ref.split("/"):
            found = read_foreign(code.common_dir, ref, "", 1)
            return found[ref].hex() if ref in found else ""
    return ""


def commits(
    code: Place,
    tip: str,
    *,
    limit: int | None = None,
    ids: Sequence[str] | None = None,
    seconds: float = SECONDS,
    stop: Event | None = None,
) -> Iterator[CodeCommit]:
    """Commits with their changes: those reachable from `tip`, newest first, or exactly `ids` in their order.

    Raises:
        GitFailed: History is incomplete, or `tip` is no commit.
        Unavailable: It took longer than `seconds`, `stop` was set, or there is no git.
        Limit: A record has no end.
    """
    what = ["--no-walk=unsorted", "--stdin"] if ids is not None else [*([f"-n{limit}"] if limit else []), tip]
    fed = "".join(f"{id}\n" for id in ids).encode() if ids is not None else None
    bounds = Bounds(seconds, seconds, stop=stop)
    records = program.stream(code.git_dir, [*LOCAL, *_LOG, *what, "--"], bounds=bounds, input=fed)
    with contextlib.closing(records):  # type: ignore[type-var]
        yield from _commits(records)


def message(code: Place, commit: str) -> str:
    """The message of a commit, without its changes: a partial clone may lack the objects for those.

    Raises as `commits`.
    """
    command = [*LOCAL, "log", "-n1", "--encoding=UTF-8", "--format=%B", commit, "--"]
    return program.run(code.git_dir, command, deadline=SECONDS)[:MESSAGE].decode("utf-8", "replace")


def reachable(code: Place, tip: str, limit: int) -> list[str]:
    """The newest commits that are reachable from `tip`, newest first. Raises as `commits`."""
    return _lines(code, ["rev-list", f"-n{limit}", tip, "--"])


def moved(code: Place, old: str, new: str) -> tuple[list[str], list[str]] | None:
    """The commits that only `new` reaches, and the commits that only `old` reaches, newest first.

    None if `old` is no longer in the repository. Raises as `commits`.
    """
    try:
        listed = _lines(code, ["rev-list", "--left-right", f"{old}...{new}", "--"])
    except GitFailed:
        return None
    return [line[1:] for line in listed if line[0] == ">"], [line[1:] for line in listed if line[0] == "<"]


def files(code: Place, tip: str, among: Sequence[str] = ()) -> list[str]:
    """The paths in the tree of a commit, or those `among` them. Names that are not valid UTF-8 are left out.

    Raises as `commits`.
    """
    command = [*LOCAL, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tip, "--", *among]
    out = program.run(code.git_dir, command, deadline=SECONDS)
    return [path for record in out.split(b"\0") if record and (path := _path(record))]


def _lines(code: Place, arguments: Sequence[str]) -> list[str]:
    return program.run(code.git_dir, [*LOCAL, *arguments], deadline=SECONDS).decode("ascii").split()


def _commits(records: Iterable[bytes]) -> Iterator[CodeCommit]:
    """Parse records: a header that begins with 0x01, or a status followed by its paths."""
    header, changes, count = b"", list[PathChange](), 0
    records = iter(records)
    for record in records:
        record = record.lstrip(b"\n")
        if record.startswith(b"\x01"):
            if header:
                yield _commit(header, changes, count)
            header, changes, count = record[1:], [], 0
        elif record:
            was = _path(next(records, b"")) if record[:1] in b"RC" else ""
            path = _path(next(records, b""))
            count += 1
            if path and count <= FILES:
                changes.append(PathChange(path, was if record[:1] == b"R" else ""))
    if header:
        yield _commit(header, changes, count)


def _commit(header: bytes, changes: Sequence[PathChange], count: int) -> CodeCommit:
    ids, author, message = header.split(b"\x02", 2)
    id, at, *parents = ids.decode("ascii").split()
    told = message[:MESSAGE].decode("utf-8", "replace")
    name = author.decode("utf-8", "replace")
    return CodeCommit(id, moment(at.encode()), name, told, len(parents) > 1, tuple(changes), count)


def _path(record: bytes) -> str:
    try:
        return record.decode("utf-8")
    except UnicodeDecodeError:
        return ""
