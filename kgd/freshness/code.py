"""Content of the code: the current text of a file or symbol, and the commits that changed it.

Content is identified by a short id: git's blob id of the file with normalised line ends, or a hash of the symbol's
text. So the id is the same on every machine and branch with the same content.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import textwrap
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from kgd.errors import KgdError
from kgd.git.code_log import boundary
from kgd.git.discovery import find_place
from kgd.git.program import LOCAL, GitFailed, run
from kgd.symbols import python

ID = 12
"""Number of hex digits in a content id: enough to distinguish the versions of one file."""
FOLDER = "4b825dc642cb"
"""The content id of every folder, because its files are not compared: the id of git's empty tree."""
LARGEST = 8 << 20
"""Maximum bytes of a file to read; a larger file is never reported as changed."""
COMMITS = 200
"""Maximum number of commits of one path to search for the change."""
READ = 60
"""Maximum number of these commits to search for a symbol, which requires reading their files."""
KEPT = 20_000
LONGEST = 20_000
"""Maximum lines of a file to search for symbols; for a longer file, the whole file is compared instead."""
PARSED = 1 << 20
"""Maximum characters of a Python file to parse; a longer file is probably generated, and is searched by shape."""
_SECONDS = 20.0
_DEFINES = (
    r"\b(?:function|func|fun|fn|def|class|struct|interface|type|enum|trait|impl|mod|module|namespace|record|object|const|"
    r"let|var|val|static|sub|proc|procedure|macro_rules!|#define|message|service|rpc|CREATE\s+(?:TABLE|VIEW|FUNCTION))"
)
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_CLOSES = re.compile(r"\s*(?:[)\]}]|end\b)")


@dataclass(frozen=True, slots=True)
class Present:
    """The current content. If `id` is empty, the file does not exist or, if `known` is False, its state is unknown."""

    id: str = ""
    known: bool = True
    has_symbol: bool = True
    changed_at: int = 0


@dataclass(frozen=True, slots=True)
class Revision:
    """One commit of a path; `blob` is None if the commit removed it."""

    commit: str
    at: int
    blob: str | None


@dataclass(frozen=True, slots=True)
class Churn:
    """The numbers of lines of one file that one commit added and removed."""

    commit: str
    at: int
    path: str
    lines: int


class Code:
    """The code tree of a workspace. Thread-safe; no state of the tree makes a call fail."""

    def __init__(self, root: Path, belongs: Callable[[str], bool] = lambda path: True) -> None:
        self.root, self.belongs = root, belongs
        self._real = os.path.realpath(root)
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], tuple[tuple[int, ...], Present]] = OrderedDict()
        self._past: OrderedDict[tuple[str, str, str], str | None] = OrderedDict()
        """The content of a path or symbol in a blob, which is immutable."""
        self._histories: dict[str, list[Revision]] = {}
        self._head = ""

    def present(self, path: str, symbol: str = "") -> Present:
        """The current content. Takes one `lstat` if the file is unchanged."""
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

    def has(self, path: str) -> bool:
        """Whether the path exists, including files that are never read, such as a file behind a link."""
        try:
            return os.path.lexists(self.root / path)
        except ValueError:
            return False

    def shareable(self, path: str, symbol: str = "") -> Present:
        """The content to record in a verification that others will read; empty for an ignored file, which others do not
        have."""
        found = self.present(path, symbol)
        return found if not found.id or self.belongs(path) else Present()

    def text(self, path: str) -> str | None:
        """The text of a file that is not ignored, with normalised line ends; None if there is none to show."""
        try:
            found = os.lstat(self.root / path)
            is_shown = stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST and self.belongs(path)
            data = (self.root / path).read_bytes() if is_shown and self._is_inside(path) else None
        except (OSError, ValueError):
            return None
        return _decoded(data)

    def text_of(self, path: str, symbol: str, ids: Iterable[str], former: Collection[str] = ()) -> str | None:
        """The text of the file in the newest commit whose content, or symbol, has one of these ids; None if there is
        no such commit. Runs git, and reads up to `READ` versions for a symbol."""
        known = set(ids)
        for one, id in self.versions(path, symbol, former):
            if id in known and one.blob:
                return _decoded(self._blob(one.blob))
        return None

    def _is_inside(self, path: str) -> bool:
        """Whether no folder above the file is a link, which may lead out of the tree."""
        above = os.path.dirname(path)
        return os.path.realpath(self.root / above) == os.path.join(self._real, above).rstrip("/")

    def _look(self, path: str, symbol: str, found: os.stat_result) -> Present:
        at = int(found.st_mtime)
        if not self._is_inside(path):
            return Present()
        if stat.S_ISLNK(found.st_mode):
            return Present(id_of(os.fsencode(os.readlink(self.root / path)), path)[0], changed_at=at)
        if stat.S_ISDIR(found.st_mode):
            return Present(FOLDER, has_symbol=not symbol, changed_at=at)
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
        """Look up the checked-out commit (empty if there is none), from which histories are read from now on."""
        head = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        if head != self._head:
            self._head, self._histories = head, {}
        return head

    def id_at(self, at: str, path: str, symbol: str = "") -> str | None:
        """The id of the content of a path at a commit, or of a blob; None if it is unknown on this machine."""
        listed = self._git("ls-tree", "-z", f"{at}^{{tree}}", "--", path)
        *_, kind, blob = listed.split(b"\t")[0].decode().split(" ") if listed else ("blob", at)
        return FOLDER if kind == "tree" else self._id_in(blob, path, symbol)

    def id_before(self, when: int, path: str, symbol: str = "") -> str | None:
        """The id of the content that a path had at a time; None if there was none.

        Runs git once for each path and once for each content; all citations share both results.
        """
        older = next((one for one in self.history(path) if one.at <= when), None)
        if older is None:
            return None
        if os.path.isdir(self.root / path):  # its history has the contents of its files
            return self.id_at(older.commit, path)
        return self._id_in(older.blob, path, symbol) if older.blob else None

    def history(self, path: str) -> list[Revision]:
        """The newest commits of a path up to the result of `look`, newest first; renames are not followed."""
        known = self._histories
        if path not in known:
            known[path] = list(self._history(path)) if self._head else []
        return known[path]

    def _history(self, path: str) -> Iterator[Revision]:
        out = self._git(
            "log",
            "--raw",
            "-z",
            "--no-abbrev",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "-m",
            "--first-parent",
            "--format=%x01%H %ct",
            f"-n{COMMITS}",
            self._head,
            "--",
            path,
        )
        for commit, at, record in _by_commit(out):
            if record.startswith(b":"):
                blob = record.split(b" ")[3].decode()
                yield Revision(commit, at, None if set(blob) == {"0"} else blob)

    def versions(
        self, path: str, symbol: str = "", former: Collection[str] = ()
    ) -> Iterator[tuple[Revision, str | None]]:
        """The newest commits of a path with its content ids, newest first. If one of the paths
        `former` was renamed to it, its commits follow."""
        revisions, left = self.history(path), set(former)
        while True:
            yield from zip(revisions, self.ids(path, symbol, revisions), strict=True)
            added = revisions[-1].commit if revisions else ""
            before = ((was, self._before(was, added)) for was in sorted(left))
            if (found := next(filter(itemgetter(1), before), None)) is None:
                return
            path, revisions = found
            left.discard(path)

    def _before(self, path: str, removed: str) -> list[Revision]:
        """The commits of a path before the commit `removed`, which deletes it; empty if that commit does not. Without
        `removed`, all commits of a path that still exists."""
        past = self.history(path)
        if not removed:
            return past if past and past[0].blob else []
        numbers = (number for number, one in enumerate(past) if one.commit == removed and one.blob is None)
        return past[next(numbers, len(past)) + 1 :]

    def ids(self, path: str, symbol: str, revisions: Sequence[Revision]) -> Iterator[str | None]:
        """The content id of each revision, in order; None if the path was absent. Blobs are read only for a symbol."""
        for number, one in enumerate(revisions):
            if one.blob is None or number >= READ:
                yield None if one.blob is None else one.blob[:ID]
                continue
            is_by_content = bool(symbol) or len(one.blob) > 40  # the recorded ids of contents are SHA-1 ids
            yield self._id_in(one.blob, path, symbol) or one.blob[:ID] if is_by_content else one.blob[:ID]

    def _id_in(self, blob: str, path: str, symbol: str) -> str | None:
        key = (blob, path, symbol)
        if key not in self._past:
            data = self._blob(blob)
            self._past[key] = id_of(data, path, symbol)[0] if data is not None else None
            while len(self._past) > KEPT:
                self._past.popitem(last=False)
        return self._past[key]

    def churn(self, since: int, most: int) -> list[Churn]:
        """The changes of the newest commits since a time, newest first. Those of the oldest commits of a shallow clone
        are unknown, and left out."""
        out = self._git(
            "log",
            "--numstat",
            "-z",
            "--relative",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-merges",
            "--format=%x01%H %ct",
            f"-n{most}",
            f"--since=@{since} +0000",
            self._head,
        )
        found: list[Churn] = []
        place = find_place(self.root)
        oldest = boundary(place) if place is not None else frozenset()
        for commit, at, record in _by_commit(out):
            if record.count(b"\t") >= 2 and commit not in oldest:
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
            return run(None, [*LOCAL, *arguments], cwd=self.root, deadline=_SECONDS, limit=4 * LARGEST)
        except (GitFailed, KgdError):
            if checked:
                raise
            return b""

    def _is_here(self) -> bool:
        """Whether the tree exists. A tree that is moved away or not mounted has not lost its files."""
        try:
            with os.scandir(self.root) as entries:
                return any(entry.name != ".kgd" for entry in entries)
        except OSError:
            return False

    def _is_left_out(self, path: str) -> bool:
        """Whether git has the file but did not check it out, as in a sparse tree."""
        return self._git("ls-files", "-v", "-z", "--", path)[:2] in (b"S ", b"s ")


def id_of(data: bytes, path: str, symbol: str = "") -> tuple[str, bool]:
    """The id of the content, and whether this is the id of the symbol's text. If the symbol is not found, it is the id
    of the whole file."""
    even = data if b"\0" in data[:8_000] else data.replace(b"\r\n", b"\n")
    if symbol and (text := text_of(even.decode("utf-8", "replace"), symbol, path)) is not None:
        return hashlib.sha256(b"symbol\0" + text.encode("utf-8", "surrogatepass")).hexdigest()[:ID], True
    return hashlib.sha1(b"blob %d\0" % len(even) + even, usedforsecurity=False).hexdigest()[:ID], not symbol


def _decoded(data: bytes | None) -> str | None:
    """The text of a file; None for a binary file."""
    if data is None or b"\0" in data[:8_000]:
        return None
    return data.replace(b"\r\n", b"\n").decode("utf-8", "replace")


def _by_commit(out: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Commit, time and text of each record of a `git log -z` with ``%x01%H %ct`` as format."""
    commit, at = "", 0
    for record in out.split(b"\0"):
        record = record.lstrip(b"\n")
        if record.startswith(b"\x01"):
            commit, _, when = record[1:].decode("ascii", "replace").partition(" ")
            at = int(when) if when.strip().isdigit() else 0
        elif record and commit:
            yield commit, at, record


def text_of(source: str, name: str, path: str) -> str | None:
    """The definition of `name` (dotted if nested, such as ``Class.method``); None if it is not found.

    Python is parsed; in other languages the definition is found by its shape. The text is dedented and has no trailing
    spaces, so that surrounding changes do not affect it.
    """
    span = spans_of(source, [name], path).get(name)
    if span is None:
        return None
    lines = source.splitlines()[span[0] : span[1]]
    return textwrap.dedent("\n".join(line.rstrip() for line in lines)).strip("\n")


def spans_of(source: str, names: Iterable[str], path: str) -> dict[str, tuple[int, int]]:
    """The lines of each definition that is found: the first, counted from 0, and the line after the last.

    The file is parsed once for all names.
    """
    lines = source.splitlines()
    if len(lines) > LONGEST:
        return {}
    is_python, is_markdown = path.endswith((".py", ".pyi")), path.endswith((".md", ".markdown", ".mdx"))
    tree = python.parse(source) if is_python and len(source) <= PARSED else None
    found = {}
    for name in names:
        if tree is not None:
            span = python.span(tree, name)
        else:
            span = _section(lines, name) if is_markdown else _by_shape(lines, name)
        if span is not None:
            found[name] = span
    return found


def _section(lines: list[str], name: str) -> tuple[int, int] | None:
    """The lines of the section under a heading, which is given by its text or its anchor."""
    wanted, start, level = _slug(name), None, 0
    for number, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        if start is not None and len(heading[1]) <= level:
            return start, number
        if start is None and _slug(heading[2]) == wanted:
            start, level = number, len(heading[1])
    return (start, len(lines)) if start is not None else None


def _slug(text: str) -> str:
    return "-".join(re.findall(r"\w+", text.lower()))


def _by_shape(lines: list[str], name: str) -> tuple[int, int] | None:
    """The lines from the definition of the last part of the name to the end of the indented block, including a closing
    bracket."""
    last = re.escape(re.split(r"\.|::|#", name)[-1])
    patterns = (
        rf"{_DEFINES}[\s*&]+(?:\([^)]*\)\s*)?{last}\b",
        rf"^\s*(?:[\w<>\[\],*&:~]+\s+)*[*&]?{last}\s*\([^;]*$",
        rf"^\s*[\"']?{last}[\"']?\s*(?::=|[:=])",
    )
    for pattern in patterns:
        defines = re.compile(pattern, re.IGNORECASE if "CREATE" in pattern and last.islower() else 0).search
        start = next((number for number, line in enumerate(lines) if len(line) < 1_000 and defines(line)), None)
        if start is not None:
            return start, _end_of(lines, start)
    return None


def _end_of(lines: list[str], start: int) -> int:
    depth, end = _indent(lines[start]), start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if _indent(line) <= depth:
            closes = _CLOSES.match(line) or (line.strip() == "{" and number == start + 1)
            if not closes:
                break
            end = number + 1
            if line.strip() != "{" and not line.rstrip().endswith("{"):
                break
            continue
        end = number + 1
    return end


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
