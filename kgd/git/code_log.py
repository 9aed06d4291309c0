"""This file is where the history of code is asked about some files: their newest commits, and what changed with them.

The code is somebody's own repository, of any size. So a question is bounded in commits and in time, answers what it has
when the time is over, and never fails: no history is an answer too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgd.errors import KgdError
from kgd.git import peek, program
from kgd.git.place import Place
from kgd.git.program import GitFailed

COMMITS = 60
SECONDS = 2.0
PATHS = 200
"""Files asked about in one question."""
FILES = 2_000
"""Files of one commit that are listed; an import of a whole tree says nothing about what belongs together."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A commit that changed one of the files asked about. `files` is all that it changed, relative to the tree."""

    commit: str
    at: int
    author: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Touches:
    """Commits, newest first. There may be more that are older where time ran out: then they are not `all` asked for."""

    found: tuple[Touch, ...] = ()
    all: bool = True


def head(code: Place) -> str:
    """The commit that is checked out, from git's files alone; empty where that cannot be told."""
    with contextlib.suppress(KgdError, OSError, ValueError):
        named = (code.git_dir / "HEAD").read_text(errors="replace").strip()
        if not named.startswith("ref: "):
            return named
        ref = named[5:].strip()
        if ref.startswith("refs/") and ".." not in ref.split("/"):
            found = peek.read(code.common_dir, ref, "", 1)
            return found[ref].hex() if ref in found else ""
    return ""


def touches(code: Place, paths: Sequence[str], *, commits: int = COMMITS, seconds: float = SECONDS) -> Touches:
    """The newest commits of what is checked out that changed one of the paths, without merges.

    `paths` are relative to the top of the work tree; a directory stands for what is below it. Those found in `seconds`
    are answered, which in a very long history may be fewer than there are.
    """
    if not paths:
        return Touches()
    asked = [os.fspath(path).rstrip("/") or "." for path in paths[:PATHS]]
    arguments = [
        "log", "--no-merges", "--full-diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--encoding=UTF-8", "--format=%x01%H %ct %an%x02%s", f"-n{commits}", "HEAD", "--", *asked,
    ]  # fmt: skip
    found: list[Touch] = []
    try:
        with contextlib.closing(program.stream(code.git_dir, arguments, deadline=seconds)) as records:  # type: ignore[type-var]
            for touch in _parsed(records):
                found.append(touch)
    except (GitFailed, ValueError):  # no commit yet, or nothing that git can read
        return Touches(tuple(found))
    except KgdError:
        return Touches(tuple(found), all=False)
    return Touches(tuple(found))


def _parsed(records: Iterator[bytes]) -> Iterator[Touch]:
    """Each commit once all of its files were read. A record is a header that begins with 0x01, or a path."""
    header, files = b"", list[str]()
    for record in records:
        record = record.lstrip(b"\n")
        if record.startswith(b"\x01"):
            if header:
                yield _touch(header, files)
            header, files = record[1:], []
        elif record and len(files) < FILES:
            files.append(os.fsdecode(record))
    if header:
        yield _touch(header, files)


def _touch(header: bytes, files: Sequence[str]) -> Touch:
    told, _, subject = header.decode("utf-8", "replace").partition("\x02")
    commit, at, author = told.split(" ", 2)
    return Touch(commit, int(at), author, subject.strip(), tuple(files))
