"""The commits that wrote lines of a code file, as the file is in the work tree now.

git attributes the committed file and follows it through renames. The work tree is compared with it here, because git's
own comparison would run the user's filters.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kgd.git import code_log, program
from kgd.git.code_log import LOCAL
from kgd.git.discovery import Place
from kgd.git.objects import moment
from kgd.git.program import GitFailed
from kgd.model.text_merge import common_parts

SECONDS = 10.0
FILE_BYTES = 4 << 20
"""Size of the largest file whose lines are attributed."""
IGNORED = ".git-blame-ignore-revs"
"""The usual file that lists reformatting commits; git skips them."""


class LineOrigin(NamedTuple):
    """The origin of line `line` (from 1): the commit, with the file's `path` and `number` of the line there.

    Without `commit` the line was changed or added since the last commit.
    """

    line: int
    text: str
    commit: str = ""
    at: int = 0
    author: str = ""
    subject: str = ""
    path: str = ""
    number: int = 0


def blame(code: Place, path: str, first: int, last: int) -> list[LineOrigin]:
    """The origins of lines `first` to `last` of the file in the work tree; empty if it is unreadable.

    Raises:
        GitFailed, Unavailable, Limit: git cannot read the history, or needs more than ten seconds.
    """
    now = _lines(_content(code.top, path)) if code.top is not None else []
    wanted = range(first, min(last, len(now)) + 1)
    tip = code_log.head(code)
    committed: list[str] = []
    if tip and wanted:
        with contextlib.suppress(GitFailed):  # a file that was never committed
            blob = [*LOCAL, "cat-file", "blob", f"{tip}:{path}"]
            committed = _lines(program.run(code.git_dir, blob, deadline=SECONDS, limit=2 * FILE_BYTES))
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
    """The origins of lines of the committed file, by their number in it."""
    ignored = code.top / IGNORED if code.top is not None else None
    looks_through = [f"--ignore-revs-file={ignored}"] if ignored is not None and ignored.is_file() else []
    for extra in (looks_through, []):
        command = [*LOCAL, "blame", "--porcelain", "--no-textconv", f"-L{first},{last}", *extra]
        try:
            out = program.run(code.git_dir, [*command, tip, "--", path], deadline=SECONDS)
        except GitFailed:
            if not extra:
                raise
            continue  # the file of ignored commits is malformed
        return {one.line: one for one in _parsed(out)}
    return {}


def _parsed(out: bytes) -> Iterator[LineOrigin]:
    """Parse git's porcelain format: details of a commit come with its first line only."""
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


def _content(top: Path, path: str) -> bytes:
    """A regular file's content; empty if it is missing, too large or unreadable."""
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(top / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_size <= FILE_BYTES:
                return file.read(FILE_BYTES)
    return b""


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []
