"""This file is where the code itself is asked: what a file or symbol holds now, and which commits changed it.

A content is known by a short id: git's blob id of the file with its line ends as git keeps them, or a hash of the
symbol's text. So it is the same on every machine and branch that has the same content.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import KgdError
from kgd.freshness.symbols import text_of
from kgd.git.program import GitFailed, run

ID = 12
"""Hex digits of a content's id: enough to tell the versions of one file apart."""
LARGEST = 8 << 20
"""Bytes of a file that is read; of a larger one nothing can be told."""
COMMITS = 200
"""Commits of one path that are looked through for the one since when it is another."""
READ = 60
"""Of how many of them a file is read to find a symbol in it."""
KEPT = 20_000
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Present:
    """What is there now. Without an `id` it is gone, or, where `known` is False, it cannot be told."""

    id: str = ""
    known: bool = True
    has_symbol: bool = True
    changed_at: int = 0


@dataclass(frozen=True, slots=True)
class Revision:
    """One commit of a path; `blob` is None where the commit took it away."""

    commit: str
    at: int
    blob: str | None


@dataclass(frozen=True, slots=True)
class Churn:
    """Lines of one file that one commit added and took away."""

    commit: str
    at: int
    path: str
    lines: int


class Code:
    """The code tree of a workspace. Safe for threads; no call raises for what is found or not found there."""

    def __init__(self, root: Path, belongs: Callable[[str], bool] = lambda path: True) -> None:
        self.root, self.belongs = root, belongs
        self._real = os.path.realpath(root)
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], tuple[tuple[int, ...], Present]] = OrderedDict()
        self._past: OrderedDict[tuple[str, str, str], str | None] = OrderedDict()
        """The content of a path or symbol in a blob, which never changes."""
        self._histories: dict[str, list[Revision]] = {}
        self._head = ""

    def present(self, path: str, symbol: str = "") -> Present:
        """The content now: one `lstat` where the file is the one that was read before."""
        try:
            found = os.lstat(self.root / path)
        except (OSError, ValueError):
            return Present(known=self._is_here() and not self._is_left_out(path))
        stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        with self._lock:
            kept = self._known.get((path, symbol))
        if kept is not None and kept[0] == stamp:
            return kept[1]
        answer = self._look(path, symbol, found)
        if not answer.id:
            return answer
        with self._lock:
            self._known[path, symbol] = (stamp, answer)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return answer

    def shareable(self, path: str, symbol: str = "") -> Present:
        """The same for a note, which others will have: of an ignored file it would be a hash of what nobody shares."""
        found = self.present(path, symbol)
        return found if not found.id or self.belongs(path) else Present()

    def _look(self, path: str, symbol: str, found: os.stat_result) -> Present:
        at = int(found.st_mtime)
        above = os.path.dirname(path)
        if os.path.realpath(self.root / above) != os.path.join(self._real, above).rstrip("/"):
            return Present()  # a link on the way leads somewhere else, maybe out of the tree
        if stat.S_ISLNK(found.st_mode):
            return Present(id_of(os.fsencode(os.readlink(self.root / path)), path)[0], changed_at=at)
        if not stat.S_ISREG(found.st_mode):
            return Present()
        if found.st_size > LARGEST:
            return Present(known=False)
        try:
            data = (self.root / path).read_bytes()
        except OSError:
            return Present(known=False)
        id, has_symbol = id_of(data, path, symbol)
        return Present(id, has_symbol=has_symbol, changed_at=at)

    def look(self) -> str:
        """The commit that is checked out, empty where there is none; from now on histories end in it."""
        head = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        if head != self._head:
            self._head, self._histories = head, {}
        return head

    def id_at(self, at: str, path: str, symbol: str = "") -> str | None:
        """The content of a path at a commit, or of a blob; None where that is not known here."""
        listed = self._git("ls-tree", "-z", f"{at}^{{tree}}", "--", path)
        blob = listed.split(b"\0")[0].split(b"\t")[0].split(b" ")[-1].decode() if listed else at
        return self._id_in(blob, path, symbol)

    def history(self, path: str) -> list[Revision]:
        """The newest commits of a path down from what `look` found, newest first; renames are not followed."""
        known = self._histories
        if path not in known:
            known[path] = self._history(path) if self._head else []
        return known[path]

    def _history(self, path: str) -> list[Revision]:
        out = self._git(
            "log", "--raw", "-z", "--abbrev=40", "--no-renames", "--no-ext-diff", "--no-textconv", "-m",
            "--first-parent", "--format=%x01%H %ct", f"-n{COMMITS}", self._head, "--", path,
        )  # fmt: skip
        found: list[Revision] = []
        for commit, at, record in _by_commit(out):
            if record.startswith(b":"):
                blob = record.split(b" ")[3].decode()
                found.append(Revision(commit, at, None if set(blob) == {"0"} else blob))
        return found

    def ids(self, path: str, symbol: str, revisions: Sequence[Revision]) -> Iterator[str | None]:
        """The content of each of these, in their order; None where it was not there. A blob is read only to find a
        symbol in it."""
        for number, one in enumerate(revisions):
            if one.blob is None or number >= READ:
                yield None if one.blob is None else one.blob[:ID]
                continue
            yield self._id_in(one.blob, path, symbol) or one.blob[:ID] if symbol else one.blob[:ID]

    def _id_in(self, blob: str, path: str, symbol: str) -> str | None:
        key = (blob, path, symbol)
        if key not in self._past:
            data = self._blob(blob)
            self._past[key] = id_of(data, path, symbol)[0] if data is not None else None
            while len(self._past) > KEPT:
                self._past.popitem(last=False)
        return self._past[key]

    def churn(self, since: int, most: int) -> list[Churn]:
        """What the newest commits since a time changed, newest first."""
        out = self._git(
            "log", "--numstat", "-z", "--relative", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-merges",
            "--format=%x01%H %ct", f"-n{most}", f"--since=@{since} +0000", self._head,
        )  # fmt: skip
        found: list[Churn] = []
        for commit, at, record in _by_commit(out):
            if record.count(b"\t") >= 2:
                added, gone, path = record.split(b"\t", 2)
                lines = sum(int(n) for n in (added, gone) if n.isdigit())
                found.append(Churn(commit, at, os.fsdecode(path), lines))
        return found

    def _blob(self, id: str) -> bytes | None:
        try:
            return self._git("cat-file", "blob", id, checked=True)
        except (GitFailed, KgdError):
            return None

    def _git(self, *arguments: str, checked: bool = False) -> bytes:
        try:
            return run(None, arguments, cwd=self.root, deadline=_SECONDS, limit=4 * LARGEST)
        except (GitFailed, KgdError):
            if checked:
                raise
            return b""

    def _is_here(self) -> bool:
        """A tree that is moved away or not mounted has lost no file."""
        try:
            with os.scandir(self.root) as entries:
                return any(entry.name != ".kgd" for entry in entries)
        except OSError:
            return False

    def _is_left_out(self, path: str) -> bool:
        """Whether git has the file and only did not check it out, as in a sparse tree."""
        return self._git("ls-files", "-v", "-z", "--", path)[:2] in (b"S ", b"s ")


def id_of(data: bytes, path: str, symbol: str = "") -> tuple[str, bool]:
    """The id of a content, and whether the symbol was found in it; where it was not, the whole file counts."""
    even = data if b"\0" in data[:8_000] else data.replace(b"\r\n", b"\n")
    if symbol and (text := text_of(even.decode("utf-8", "replace"), symbol, path)) is not None:
        return hashlib.sha256(b"symbol\0" + text.encode("utf-8", "surrogatepass")).hexdigest()[:ID], True
    return hashlib.sha1(b"blob %d\0" % len(even) + even, usedforsecurity=False).hexdigest()[:ID], not symbol


def _by_commit(out: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Commit and time of each record of a `git log -z` whose commits begin with ``%x01%H %ct``, and the record."""
    commit, at = "", 0
    for record in out.split(b"\0"):
        record = record.lstrip(b"\n")
        if record.startswith(b"\x01"):
            commit, _, when = record[1:].decode("ascii", "replace").partition(" ")
            at = int(when) if when.strip().isdigit() else 0
        elif record and commit:
            yield commit, at, record
