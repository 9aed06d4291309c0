"""Ingestion of a source: files are listed in order and read with limits, without following links; compared with the
stored nodes; and written.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Invalid, KgdError, Limit, NotFound, Stale, Unavailable, whole
from kgd.git.files import read_regular
from kgd.ingest import document_reader
from kgd.ingest.document_reader import DocumentReader, is_document
from kgd.ingest.documents import FILE
from kgd.ingest.kind import FILE_LIMIT, SNIFFED, Around, Given, Kind, Taken
from kgd.ingest.kinds import KINDS, recognised
from kgd.ingest.readers import Unreadable
from kgd.model.change import Edit
from kgd.model.escaping import printable
from kgd.model.node import Source
from kgd.model.uri import Uri, is_owned, is_text_name, path_of, scheme_of
from kgd.overlay.listing import MACHINE_MADE, NEVER, rules_of
from kgd.workspace.workspace import Workspace

AUTO = "auto"
URL, TEXT = "url", "text"
"""Types of a node's `source` for ingested text: with a URL, and without."""
ATTEMPTS = 20
"""Largest number of attempts per document while others write to the same nodes."""
TROUBLES = 100
"""Largest number of problem lines in a report; further ones are only counted."""
SUFFIXES = 8
"""Number of suffixes of skipped files that a report names, most frequent first."""

Submit = Callable[[tuple[Edit, ...], str], None]
"""Writes the edits as one commit with this message."""
Told = Callable[[int, int | None, str], None]

MOST_LOOKED_AT = 1_000_000
"""Largest number of directory entries that are visited below one folder."""
MOST_FILES = 50_000
"""Largest number of files ingested from one folder."""
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/boot", "/run")
"""System folders, which do not contain documents."""
NONETHELESS = ("/dev/shm", "/run/media", "/run/user")
"""Exceptions, which contain user files: memory file systems, and disks mounted by a desktop."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to ingest a local path or a text. `uri` is its target, or the URL of its origin."""

    source: str = ""
    text: str = ""
    kind: str = AUTO
    uri: str = ""


@dataclass(slots=True)
class Report:
    """The progress of an ingestion. `trouble` has a line for each skipped or altered part."""

    counts: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)
    more_trouble: int = 0
    uris: list[Uri] = field(default_factory=list)
    """The first hundred documents and threads that were ingested."""
    done: int = 0
    total: int | None = None

    def say(self, line: str) -> None:
        """Add a line, unless an interrupted attempt has already added it."""
        line = " ".join(line.split())[:300]
        if line in self.trouble:
            return
        if len(self.trouble) < TROUBLES:
            self.trouble.append(line)
        else:
            self.more_trouble += 1


class Stopped(Exception):
    """The workspace is being closed; the remaining documents are ingested later."""


@dataclass(slots=True)
class TakingIn:
    """The ingestion of one source into a workspace.

    Args:
        submit: Writes one commit; None for a dry run.
        skip: Number of first files that an earlier attempt reported; they are checked again but not counted twice.
    """

    workspace: Workspace
    request: Request
    submit: Submit | None
    report: Report
    told: Told = lambda done, total, message: None
    stop: threading.Event = field(default_factory=threading.Event)
    environment: Mapping[str, str] | None = None
    skip: int = 0
    limit: int = FILE_LIMIT
    """Byte limit of a file whose kind does not set its own limit."""
    allow: Callable[[Uri], None] = lambda uri: None
    """Called with each document or thread before its state is reported; raises if the caller may not access it."""

    def run(self) -> None:
        """Ingest the whole source. A file that cannot be ingested becomes a line of the report.

        Raises:
            Stopped: The workspace is being closed; raised between two documents.
            KgdError: The workspace cannot be written.
        """
        root = Path(self.request.source)
        with DocumentReader() as reading:
            around = Around(self.workspace, reading)
            if root.is_dir():
                self._folder(root, around)
                return
            self.report.total = 1
            name, url, uri = self._place(root.name, "")
            self._file(root, name, url, uri, around)
            self.report.done = 1

    def run_text(self, sees: Callable[[Uri], bool]) -> None:
        """Ingest the request's text, whole or not at all. `sees` tells whether the caller may see a node.

        Raises:
            KgdError: The text cannot be ingested.
        """
        self.report.total = 1
        given, kind = self._text()
        with DocumentReader() as reading:
            around = Around(self.workspace, reading, sees=sees)
            self._write(lambda: kind.take(given, around), given.name or "a text")
        self.report.done = 1

    def _folder(self, root: Path, around: Around) -> None:
        chosen = KINDS.get(self.request.kind)
        wanted = chosen.in_folder if chosen is not None else is_document
        folder = look_through(root, self.environment, wanted)
        for line in folder.trouble:
            self.report.say(printable(line))
        base = self._place(root.name, "")[0]
        named = []
        for what, count in sorted(folder.left.items(), key=lambda one: (-one[1], one[0] == ".", one[0])):
            if what in ("symbolic link", "pipe, socket or device"):
                self.report.say(f"{count} of the entries: a {what} is not followed")
            else:
                named.append(f"{count} {what if what != '.' else 'without a suffix'}")
        self.report.counts["left"] = folder.left.total()  # replaces the count of an interrupted attempt
        if named:
            rest = f" and {len(named) - SUFFIXES} other kinds" if len(named) > SUFFIXES else ""
            what = chosen.name if chosen is not None else "document"
            self.report.say(f"{base}: skipped, not a {what} by name: {', '.join(named[:SUFFIXES])}{rest}")
        if chosen is None and any(suffix in folder.left for suffix in (".json", ".jsonl", ".ndjson")):
            self.report.say(f"{base}: if these are conversations, ingest it with kind 'conversation'")
        around.paths = {f"{base}/{path}" for path in folder.paths}
        around.names.add(path.removesuffix(".md") for path in around.paths)
        self.report.total = len(folder.paths)
        if chosen is not None and chosen.together is not None:
            together = chosen.together
            self._write(lambda: together(self._given(folder.paths, root, chosen), around), base)
            return
        for path, name, url, uri in self._each(folder.paths, root.name):
            self._file(root / path, name, url, uri, around)

    def _given(self, paths: Sequence[str], root: Path, kind: Kind) -> Iterator[Given]:
        for path, name, url, uri in self._each(paths, root.name):
            try:
                yield Given(name, read_file(root / path, self._most(kind)), Source(FILE, name), uri, url)
            except KgdError as error:
                self._unread(name, error)

    def _each(self, paths: Sequence[str], base: str) -> Iterator[tuple[str, str, str, Uri | None]]:
        """Each path with its name, URL and URI; reports the progress."""
        for number, path in enumerate(paths, 1):
            if self.stop.is_set():
                raise Stopped
            self.told(number, len(paths), printable(path))
            yield path, *self._place(base, path)
            self.report.done = max(self.report.done, number)

    def _file(self, path: Path, name: str, url: str, uri: Uri | None, around: Around) -> None:
        again = self.report.done < self.skip
        if not is_text_name(name):
            self._unread(printable(name), KgdError("its name is not valid UTF-8"))
            return
        try:
            largest = max(map(self._most, KINDS.values()))
            chosen = KINDS.get(self.request.kind)
            data = read_file(path, self._most(chosen) if chosen else largest)
            kind = chosen or recognised(name, data[:SNIFFED])
            if len(data) > self._most(kind):
                raise Limit(f"it has more than {self._most(kind) >> 20} MiB; not read")
        except KgdError as error:
            if not again:
                self._unread(name, error)
            return
        self._one((Given(name, data, Source(FILE, name), uri, url), kind), around, again=again)

    def _most(self, kind: Kind) -> int:
        return self.limit if kind.limit == FILE_LIMIT else kind.limit

    def _text(self) -> tuple[Given, Kind]:
        data = self.request.text.encode("utf-8", "surrogatepass")
        kind = KINDS.get(self.request.kind) or recognised("", data[:SNIFFED])
        uri = self.request.uri
        if uri and not is_owned(uri):
            name = uri.partition("://")[2].partition("?")[0].partition("#")[0].strip("/")
            return Given(name or uri, data, Source(URL, uri), url=uri), kind
        if uri:
            return Given(path_of(uri), data, Source(TEXT, path_of(uri)), Uri(uri)), kind
        return Given("", data, Source(TEXT, "")), kind

    def _place(self, base: str, path: str) -> tuple[str, str, Uri | None]:
        """Name, URL and URI of a file below the source, made from the request's `uri` or the name of the source."""
        uri = self.request.uri
        below = f"/{path}" if path else ""
        if not uri:
            return base + below, "", None
        if not is_owned(uri):
            return base + below, uri.rstrip("/") + below if path else uri, None
        if scheme_of(uri) != "document":  # the whole source becomes one node
            return base + below, "", Uri(uri)
        return path_of(uri) + below, "", None if path else Uri(uri)

    def _one(self, one: tuple[Given, Kind], around: Around, *, again: bool = False) -> None:
        given, kind = one
        try:
            if kind.is_current(given, around):
                if not again:
                    self.report.counts[f"{kind.name}s_unchanged"] += 1
                return
            self._write(lambda: kind.take(given, around), given.name)
        except (Stopped, Unavailable):
            raise
        except KgdError as error:
            self._unread(given.name, error)

    def _write(self, take: Callable[[], Iterable[Taken]], name: str) -> None:
        """Write, and compare again after a concurrent write."""
        done = 0
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                for number, taken in enumerate(take()):
                    if number >= done:
                        self._write_one(taken, name)
                        done += 1
                return
            except Stale:
                if not attempts_left:
                    raise

    def _write_one(self, taken: Taken, name: str) -> None:
        self.allow(taken.uri)
        for number, edits in enumerate(taken.commits, 1):
            if self.stop.is_set():
                raise Stopped
            if self.submit is not None:
                part = f" ({number} of {len(taken.commits)})" if len(taken.commits) > 1 else ""
                self.submit(edits, f"ingest {name[-120:]}{part}")
        for line in taken.trouble:
            self.report.say(f"{name}: {line}")
        self.report.counts.update(taken.counts)
        if len(self.report.uris) < TROUBLES:
            self.report.uris.append(taken.uri)

    def _unread(self, name: str, error: KgdError) -> None:
        self.report.counts["unread"] += 1
        self.report.say(f"{name}: {error.message}" + (f". {error.next}" if error.next else ""))


def kind_of(path: Path, wanted: str) -> tuple[Kind, bytes]:
    """The kind of a path's content, and the first bytes of a file."""
    head = read_regular(path, SNIFFED) or b""
    return KINDS.get(wanted) or recognised(path.name, head), head


@dataclass(slots=True)
class Folder:
    """The documents below a folder by name, as sorted relative paths.

    `left` counts other files by suffix; `trouble` has a line for each unreadable folder or file.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)


def located(text: str, cwd: Path | None) -> Path:
    """The absolute path of a user's input, with links resolved.

    Raises:
        Invalid: The input is not a valid path, or is a system folder.
        NotFound: The path does not exist.
    """
    if "\0" in text or not text.strip():
        raise Invalid("this is not a path", at="source")
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        if cwd is None:
            raise Invalid("give an absolute path", at="source")
        path = cwd / path
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise NotFound("this path does not exist", at=str(path)[-80:], next="Check the path.") from None
    except (OSError, RuntimeError):  # a link to itself
        raise Invalid("this path cannot be resolved", at=str(path)[-80:]) from None
    if real == Path("/") or (_is_below(real, SYSTEM) and not _is_below(real, NONETHELESS)):
        raise Invalid("this path belongs to the operating system and cannot be ingested", at=str(real)[-80:])
    return real


def _is_below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def look_through(
    root: Path,
    environment: Mapping[str, str] | None = None,
    wanted: Callable[[str], bool] = document_reader.is_document,
) -> Folder:
    """The files below a folder, without ignored, hidden and generated files. `wanted` selects files by name."""
    folder = Folder(root)
    rules = rules_of(root, environment)
    looked = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        names: list[str] = []
        inner: list[str] = []
        try:
            with os.scandir(root / below) as entries:
                for entry in entries:
                    looked += 1
                    if looked > MOST_LOOKED_AT:
                        break
                    _classify(entry, below, rules.ignored, folder, names, inner, wanted)
        except OSError as error:
            folder.trouble.append(f"{below or '.'}: this folder cannot be read: {error.strerror}")
            continue
        folder.paths += sorted(names)
        if len(folder.paths) > MOST_FILES or looked > MOST_LOOKED_AT:
            folder.trouble.append(
                f"there are more than {MOST_FILES:,} documents or {MOST_LOOKED_AT:,} entries: the others were skipped"
            )
            del folder.paths[MOST_FILES:]
            break
        waiting += sorted(inner, reverse=True)
    return folder


def _classify(
    entry: os.DirEntry[str],
    below: str,
    ignored: frozenset[str],
    folder: Folder,
    names: list[str],
    inner: list[str],
    wanted: Callable[[str], bool],
) -> None:
    path = f"{below}/{entry.name}" if below else entry.name
    if path in ignored or entry.name in NEVER or entry.name in MACHINE_MADE:
        return
    try:
        if entry.is_symlink():
            folder.left["symbolic link"] += 1
        elif entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith("."):
                inner.append(path)
        elif not entry.is_file(follow_symlinks=False):
            folder.left["pipe, socket or device"] += 1
        elif wanted(entry.name):
            if len(names) <= MOST_FILES:
                names.append(path)
        elif not entry.name.startswith("."):
            folder.left[f".{document_reader.suffix_of(entry.name)}"] += 1
    except OSError:
        folder.trouble.append(f"{path}: it has since been removed")


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a file at one moment; the file is read again if it changes during the read.

    Raises:
        Unreadable: The path is not a file, or the file is too large, cannot be opened, or keeps changing.
    """
    for _ in range(2):
        try:
            data = _read_once(path, limit)
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from None
        if data is not None:
            return data
    raise Unreadable("it changed twice while it was being read", next="Ingest it again when it no longer changes.")


def _read_once(path: Path, limit: int) -> bytes | None:
    # Non-blocking: opening a FIFO would block permanently.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("it is a folder, a pipe or a device, not a file")
        if before.st_size > limit:
            raise Unreadable(f"it has {whole(before.st_size, 1 << 20):,} MiB, more than {limit >> 20} MiB; not read")
        data = file.read(limit + 1)
        after = os.fstat(fd)
    if len(data) > limit:
        raise Unreadable(f"it has more than {limit >> 20} MiB; not read")
    same = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    return data if same and len(data) == after.st_size else None
