"""History of the code repository: its commits with changed paths, its files, and the commits that wrote its lines.

The user's repository may have any size, so every call has a limit of commits and time, and none fetches missing
objects. It reads ids, times, names, messages and paths, but no email addresses.

git attributes the lines of the committed file and follows it through renames. kgd itself compares the work tree with
the committed file, because git's comparison would run the user's filters.

A file's content comes from the work tree or a commit, never from outside the tree: a symbolic link is not followed, and
a file below a linked folder counts as missing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Literal, NamedTuple

from kgd.errors import Damaged, KgdError, Limit
from kgd.git import program
from kgd.git.discovery import Place, is_partial, setting
from kgd.git.objects import moment
from kgd.git.program import LOCAL, Bounds, GitFailed
from kgd.git.refs import read_ref
from kgd.model.text_merge import common_parts

SECONDS = 600.0
"""Time limit for a whole history."""
FILES = 10_000
"""Maximum number of paths listed for one commit; a commit that imports a whole tree has more."""
MESSAGE = 4_000
"""Maximum number of bytes read from a message."""
STAGED_SECONDS = 5.0
"""Time limit for the renames in git's index."""
_CHANGES = ("--name-status", "-z", "-l100", "--no-ext-diff", "--no-textconv", "--no-color")
_LOG = ("log", *_CHANGES, "--encoding=UTF-8", "--format=%x01%H %ct%x02%an%x02%B")
"""git looks for inexact renames among at most 100 files; it always finds exact renames, by id."""
LARGEST = 4 << 20
"""Bytes of the largest file that is read, or whose lines are attributed."""
CONTENT_SECONDS = 10.0
_HEAD = 8 << 10
"""A NUL byte among these makes a file binary, as in git."""

State = Literal["text", "binary", "large", "link", "absent", "unreadable"]


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
            with contextlib.suppress(Damaged):  # a longer id
                if id := read_ref(code.common_dir, ref):
                    return id.hex()
            if setting(code.common_dir, "extensions.objectformat") not in (None, "sha1"):
                return _asked(code, ref)
    return ""


def _asked(code: Place, ref: str) -> str:
    """The value of a ref in a repository with longer ids, which only git reads; empty if it does not exist."""
    arguments = ["rev-parse", "--verify", "--quiet", ref]
    try:
        return program.run(code.git_dir, arguments, deadline=CONTENT_SECONDS).decode().strip()
    except GitFailed:
        return ""


def boundary(code: Place) -> frozenset[str]:
    """The oldest commits of a shallow clone. Their parents are missing, so git shows each as the author of all its
    content."""
    try:
        return frozenset((code.common_dir / "shallow").read_text("ascii", "replace").split())
    except OSError:
        return frozenset()


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

    The changes of a commit in `boundary` are unknown, and left out. In a partial clone, only exact renames are found.

    Raises:
        GitFailed: History is incomplete, or `tip` is not a commit.
        Unavailable: git took longer than `seconds`, `stop` was set, or there is no git.
        Limit: A record is too long.
    """
    what = ["--no-walk=unsorted", "--stdin"] if ids is not None else [*([f"-n{limit}"] if limit else []), tip]
    fed = "".join(f"{id}\n" for id in ids).encode() if ids is not None else None
    bounds = Bounds(seconds, seconds, stop=stop)
    records = program.stream(code.git_dir, [*LOCAL, *_LOG, _renames(code), *what, "--"], bounds=bounds, input=fed)
    oldest = boundary(code)
    with contextlib.closing(records):  # type: ignore[type-var]
        for commit in _commits(records):
            yield replace(commit, changes=(), files=0) if commit.id in oldest else commit


def _renames(code: Place) -> str:
    """The option to find renames: similar files are compared by content, equal ones by id; a partial clone has ids."""
    return f"--find-renames={100 if is_partial(code.common_dir) else 60}%"


def message(code: Place, commit: str) -> tuple[int, str]:
    """Unix time and message of a commit. Does not read its changes, whose objects a partial clone may lack.

    Raises as `commits`.
    """
    command = [*LOCAL, "log", "-n1", "--encoding=UTF-8", "--format=%ct %B", commit, "--"]
    at, _, told = program.run(code.git_dir, command, deadline=CONTENT_SECONDS).partition(b" ")
    return moment(at), told[:MESSAGE].decode("utf-8", "replace")


def reachable(code: Place, tip: str, limit: int) -> list[str]:
    """The newest commits reachable from `tip`, newest first. Raises the same errors as `commits`."""
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
    """The paths in the tree of a commit, limited to those in `among` if it is given. Names that are not valid UTF-8 are
    left out.

    Raises as `commits`.
    """
    command = [*LOCAL, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tip, "--", *among]
    out = program.run(code.git_dir, command, deadline=SECONDS)
    return [path for record in out.split(b"\0") if record and (path := _path(record))]


def staged_renames(code: Place, tip: str) -> dict[str, str]:
    """The new paths of files that are renamed in git's index since a commit, by their former paths.

    Raises as `commits`.
    """
    command = [*LOCAL, "diff", "--cached", *_CHANGES, _renames(code), "--diff-filter=R", tip, "--"]
    records = iter(program.run(code.git_dir, command, deadline=STAGED_SECONDS).split(b"\0"))
    pairs = ((_path(next(records, b"")), _path(next(records, b""))) for status in records if status)
    return {was: now for was, now in pairs if was and now}


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
    id, at = ids.decode("ascii").split()
    told = message[:MESSAGE].decode("utf-8", "replace")
    name = author.decode("utf-8", "replace")
    return CodeCommit(id, moment(at.encode()), name, told, tuple(changes), count)


def _path(record: bytes) -> str:
    try:
        return record.decode("utf-8")
    except UnicodeDecodeError:
        return ""


BLAME_SECONDS = 10.0
IGNORED = ".git-blame-ignore-revs"
"""The conventional file that lists reformatting commits, which git then skips."""


class LineOrigin(NamedTuple):
    """The origin of line `line` (from 1): the commit, with the file's `path` and the line's `number` in that commit.

    If `commit` is empty, the line was changed or added since the last commit or, if `is_older`, before the history of a
    shallow clone.
    """

    line: int
    text: str
    commit: str = ""
    at: int = 0
    author: str = ""
    subject: str = ""
    path: str = ""
    number: int = 0
    is_older: bool = False


def blame(code: Place, path: str, first: int, last: int) -> list[LineOrigin]:
    """The origins of lines `first` to `last` of the file in the work tree; empty if it is unreadable.

    Raises:
        GitFailed, Unavailable, Limit: git cannot read the history, or needs more than ten seconds.
    """
    now = _lines_now(code, path) or []
    wanted = range(first, min(last, len(now)) + 1)
    tip = head(code)
    committed: list[str] = []
    if tip and wanted:
        with contextlib.suppress(GitFailed):  # a file that was never committed
            blob = [*LOCAL, "cat-file", "blob", f"{tip}:{path}"]
            committed = _lines_of(program.run(code.git_dir, blob, deadline=BLAME_SECONDS, limit=2 * LARGEST))
    places = {
        run.new + step + 1: run.old + step + 1 for run in common_parts(committed, now) for step in range(run.length)
    }
    asked = [places[line] for line in wanted if line in places]
    known = _attributed(code, tip, path, min(asked), max(asked)) if asked else {}
    return [
        known[places[line]]._replace(line=line, text=now[line - 1])
        if places.get(line) in known
        else LineOrigin(line, now[line - 1])
        for line in wanted
    ]


def _attributed(code: Place, tip: str, path: str, first: int, last: int) -> dict[int, LineOrigin]:
    """The origins of lines of the committed file, by line number."""
    ignored = code.top / IGNORED if code.top is not None else None
    looks_through = [f"--ignore-revs-file={ignored}"] if ignored is not None and ignored.is_file() else []
    for extra in (looks_through, []):
        command = [*LOCAL, "blame", "--porcelain", "--no-textconv", f"-L{first},{last}", *extra]
        try:
            out = program.run(code.git_dir, [*command, tip, "--", path], deadline=BLAME_SECONDS)
        except GitFailed:
            if not extra:
                raise
            continue  # the file of ignored commits is malformed
        oldest = boundary(code)
        return {
            one.line: LineOrigin(one.line, one.text, is_older=True) if one.commit in oldest else one
            for one in _parsed(out)
        }
    return {}


def _parsed(out: bytes) -> Iterator[LineOrigin]:
    """Parse git's porcelain format, which gives the details of a commit only with its first line."""
    details: dict[str, dict[str, str]] = {}
    commit, number, line = "", 0, 0
    for raw in out.split(b"\n"):
        told = raw.decode("utf-8", "replace")
        if told.startswith("\t"):
            yield _origin(commit, number, line, details[commit])
        elif commit == "" or _is_header(told):
            if not told:
                continue
            commit, was, now, *_ = told.split(" ")
            number, line = int(was), int(now)
            details.setdefault(commit, {})
        else:
            key, _, value = told.partition(" ")
            details[commit][key] = value


def _origin(commit: str, number: int, line: int, told: Mapping[str, str]) -> LineOrigin:
    at = moment(told.get("committer-time", "").encode())
    author, subject, path = (told.get(key, "") for key in ("author", "summary", "filename"))
    return LineOrigin(line, "", commit, at, author, subject, path, number)


def _is_header(text: str) -> bool:
    first, _, rest = text.partition(" ")
    return len(first) in (40, 64) and all(word.isdigit() for word in rest.split(" "))


def length(code: Place, path: str) -> int | None:
    """The number of lines of the file in the work tree; None if it is missing, binary, too large or unreadable."""
    lines = _lines_now(code, path)
    return None if lines is None else len(lines)


def _lines_now(code: Place, path: str) -> list[str] | None:
    found = in_work_tree(code.top, path) if code.top is not None else Content("absent")
    return _lines_of(found.data) if found.state == "text" else None


def _lines_of(content: bytes) -> list[str]:
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


class Content(NamedTuple):
    """The bytes of a file, or the target of a link; empty in the states `large`, `absent` and `unreadable`."""

    state: State
    data: bytes = b""
    size: int = 0


def in_work_tree(top: Path, path: str) -> Content:
    """The content of a file as checked out."""
    above = os.path.dirname(path)
    if os.path.realpath(top / above) != os.path.join(os.path.realpath(top), above).rstrip("/"):
        return Content("absent")  # a folder above it is a link, which may lead out of the tree
    try:
        found = os.lstat(top / path)
        if stat.S_ISLNK(found.st_mode):
            return Content("link", os.fsencode(os.readlink(top / path)))
        if not stat.S_ISREG(found.st_mode):
            return Content("absent")
        fd = os.open(top / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        is_missing = isinstance(error, ValueError) or error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return Content("absent" if is_missing else "unreadable")
    return _file_content(data, found.st_size)


def in_commit(code: Place, commit: str, path: str) -> Content:
    """The content of a file in a commit; its size is unknown if it is too large.

    Raises:
        Unavailable: git needs more than ten seconds.
    """
    command = [*LOCAL, "cat-file", "blob", f"{commit}:{path}"]
    try:
        data = program.run(code.git_dir, command, deadline=CONTENT_SECONDS, limit=LARGEST)
    except GitFailed:
        return Content("absent")
    except Limit:
        return Content("large")
    return _file_content(data, len(data))


def _file_content(data: bytes, size: int) -> Content:
    if len(data) > LARGEST:
        return Content("large", size=size)
    return Content("binary" if b"\0" in data[:_HEAD] else "text", data, size)
