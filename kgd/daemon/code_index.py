"""Background indexing of symbols and documents in a code tree, and their registration with search.

A separate process (`kgd.daemon.code_index_process`) parses the files and runs only while there are files to parse.
Results are stored with the files' stamps, so that nothing is parsed again after a restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kgd.daemon import code_index_process
from kgd.errors import KgdError
from kgd.git.files import read_regular
from kgd.index.code_index import CodeIndex
from kgd.index.database import IndexDamaged
from kgd.index.text import Doc
from kgd.model.node import Node
from kgd.model.uri import Uri, path_of, scheme_of, uri_at
from kgd.overlay.code_reader import READ
from kgd.overlay.facts import BINARY, SYMLINK, UNREAD, UNREADABLE, File
from kgd.overlay.overlay import FileParts, Overlay
from kgd.overlay.tree import Directory
from kgd.symbols.extraction import LARGEST, VERSION, is_readable, language_for
from kgd.symbols.walker import to_install
from kgd.workspace.answers import Stage
from kgd.workspace.child_process import ChildProcess, ProcessDied
from kgd.workspace.workspace import Workspace

BATCH = 100
"""Number of files in one order: small enough for results to be searchable soon, large enough to be fast."""
REGISTERED_AT_ONCE = 50
AFTER_SECONDS = 0.3
"""Seconds before a whole tree is read, so that the daemon first answers the call that started it."""
IDLE_SECONDS = 20.0
"""Seconds that the idle process waits for more files."""
FILES_LIMIT = 100_000
"""Largest number of a tree's files that are parsed, in the order of their paths."""
COUNTS = 50
"""Largest number of times that `status` counts the files while a tree is parsed."""
DOCUMENTS = frozenset({"markdown", "restructuredtext", "text", "html", "asciidoc", "pdf"})
NOT_DOCUMENTS = (".log", ".min.html")
PDF_BYTES = 4 << 20

log = logging.getLogger("kgd.reading")


class ReadingTree:
    """Keeps the index of one workspace's code tree current, until it is closed."""

    def __init__(
        self, workspace: Workspace, overlay: Overlay, folder: Path, changed: Callable[[frozenset[Uri]], object]
    ) -> None:
        self._workspace, self._overlay, self._on_change = workspace, overlay, changed
        self._touched: set[Uri] = set()
        """Nodes in parsed files, before and after parsing, until `changed` is called with them."""
        self._path = folder / "code.sqlite"
        self._index = CodeIndex(self._path, VERSION)
        self._inside = FileParts(self._index, workspace.id)
        self._inside.report, self._inside.catch_up = self.report, self.catch_up
        overlay.inside = self._inside
        workspace.code_docs = self._all_docs
        workspace.files_with = self._inside.files_with
        workspace.on_health(self.stage)
        self._changed = threading.Condition()
        self._waiting: set[Uri] | None = set()
        """URIs of changed files; None to compare everything."""
        self._asked: dict[Uri, object] = {}
        """URIs of files that callers wait for, each with a token of its last caller."""
        self._closed = self._busy = self._failed = self._looked = False
        self._is_trimmed = True
        self._left = self._to_read = 0
        self._too_many = 0
        self._trouble = ""
        self._rounds = 0
        """Number of times that files were compared, by which counts from an earlier round are recognized."""
        self._counted: tuple[object, list[tuple[str, str, int, int, int]], list[dict[str, Any]]] | None = None
        """The last counts of `report`, and the state for which they are valid."""
        self._process: ChildProcess | None = None
        self._deaths: Counter[str] = Counter()
        """Number of times that the process ended in this update, by the file that it was reading, or an empty string.
        """
        self._thread = threading.Thread(target=self._follow, name="kgd-reading", daemon=True)
        self.read_count = self.followed_count = 0
        """Number of files parsed, and of files whose names were resolved, since startup."""

    def start(self) -> None:
        self._thread.start()

    def note(self, changed: Iterable[Uri] | None) -> None:
        """Note changed files of the overlay; None if any file may have changed. Returns at once."""
        with self._changed:
            self._looked |= changed is None
            if changed is None or self._waiting is None:
                self._waiting = None
            else:
                self._waiting.update(uri for uri in changed if scheme_of(uri) == "file")
            self._changed.notify_all()

    def catch_up(self, path: str, within: float) -> bool:
        """Read a file before all others, and wait for it, unless the index has its present content.

        Returns False after `within` seconds, and True for a file without symbols. Costs at most one reading of the file
        if its stamps are new.
        """
        until = time.monotonic() + within
        if not self._overlay.catch_up(path, within):
            return False
        uri, token = uri_at("file", self._workspace.id, path), object()
        if uri is None or self._is_read(uri):
            return True
        with self._changed:
            self._asked[uri] = token
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or uri not in self._asked, until - time.monotonic())
        return self._is_read(uri)

    def _is_read(self, uri: Uri) -> bool:
        """Whether the index has the symbols of a file's present content; True for a file without symbols."""
        path, file = path_of(uri), self._overlay.view.find(uri)
        language = language_for(path, file.file_type) if isinstance(file, File) and self._wants(path, file) else ""
        if not isinstance(file, File) or not language or file.size > LARGEST:
            return True
        try:
            row = self._index.file(path)
        except KgdError:  # nothing is served while the index is damaged
            return True
        if row is None or row.stamp == _stamp(file) != "":
            return row is not None
        data = read_regular(f"{self._overlay.root}/{path}", 1 + LARGEST)
        return data is None or row.hash in ("", hashlib.sha256(data).hexdigest())  # empty if it could not be parsed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._process is not None:
            self._process.kill()
        if self._thread.ident is not None:
            self._thread.join(30)
        self._index.close()

    @property
    def is_current(self) -> bool:
        """Whether all files are parsed, resolved and searchable."""
        with self._changed:
            return self._looked and not self._busy and self._waiting == set()

    def stage(self) -> Stage:
        """How much of the code tree has been read."""
        if self._trouble:
            return Stage("code", "degraded", blocker=f"the code tree cannot be read: {self._trouble}")
        if self.is_current:
            return Stage("code")
        return Stage("code", "waiting", blocker=f"files left to read: {self._left:,}" if self._left else "")

    def report(self) -> dict[str, Any]:
        """Counts of parsed, pending and skipped files, and languages without a parser, for `status`.

        O(files) once per state of the tree, and at most `COUNTS` times while a tree is parsed; other calls return the
        last counts.
        """
        languages: dict[str, dict[str, int]] = {}
        left_out: Counter[str] = Counter()
        documents, chunks, symbols = 0, 0, 0
        counted, missing = self._counts()
        for language, state, files, symbol_count, chunk_count in counted:
            if language == "manifest":
                continue
            if state != READ:
                left_out[state] += files
            elif language in DOCUMENTS:
                documents, chunks = documents + files, chunks + chunk_count
            else:
                symbols += symbol_count
                name = "typescript" if language == "tsx" else language
                row = languages.setdefault(name, {"files": 0, "symbols": 0})
                row["files"] += files
                row["symbols"] += symbol_count
        if self._too_many:
            left_out[f"beyond the first {FILES_LIMIT:,} files"] += self._too_many
        state = "ready" if self.is_current else "reading" if self._looked else "waiting"
        return {
            "state": state,
            "left": self._left,
            "symbols": symbols,
            "languages": languages,
            "documents": documents,
            "chunks": chunks,
            "left_out": dict(left_out),
            "missing": missing,
            **({"trouble": self._trouble} if self._trouble else {}),
        }

    def _counts(self) -> tuple[list[tuple[str, str, int, int, int]], list[dict[str, Any]]]:
        with self._changed:
            state = (self._overlay.view, self._rounds, self._busy, self._left * COUNTS // max(1, self._to_read))
        if self._counted is None or self._counted[0] != state:
            try:
                counted = self._index.counts()
            except KgdError:
                return [], self._missing()
            self._counted = state, counted, self._missing()
        return self._counted[1:]

    # In the thread

    def _follow(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._asked, AFTER_SECONDS)
        self._attempt(self._read_asked)
        if not self._closed:
            self._attempt(self._register_missing)
        while True:
            with self._changed:
                woken = self._changed.wait_for(
                    lambda: self._closed or self._waiting != set() or self._asked, self._patience()
                )
                if self._closed:
                    break
                waiting = self._waiting if woken or not self._failed else None
                self._waiting, self._busy = set(), waiting != set() or bool(self._asked)
                is_idle = not self._busy
            if is_idle:
                self._end_process()
                self._is_trimmed = self._index.trim()
                continue
            self._attempt(lambda waiting=waiting: self._update(waiting))  # type: ignore[misc]
            with self._changed:
                self._busy = False
                self._rounds += 1
        self._end_process()

    def _patience(self) -> float | None:
        has_work = self._process is not None or self._failed or not self._is_trimmed
        return IDLE_SECONDS if has_work else None

    def _attempt(self, step: Callable[[], None]) -> None:
        """Run a step. After a failure, everything is compared again later."""
        try:
            step()
            self._trouble, self._failed = "", False
        except IndexDamaged:
            log.warning("the index of the code tree was damaged and is rebuilt")
            self._end_process()
            self._failed = True
            with contextlib.suppress(KgdError):
                self._index.recreate()
        except Exception as error:
            self._failed = True
            if not self._closed:
                self._trouble = f"{error}"[:200]
                unexpected = not isinstance(error, ProcessDied)
                log.warning("the code tree could not be indexed", exc_info=unexpected, extra={"reason": self._trouble})

    def _update(self, waiting: set[Uri] | None) -> None:
        """Update the index from the overlay: everything, or these files."""
        self._deaths.clear()
        self._read_asked()
        if self._overlay.view.root is None:
            return  # the tree was moved or unmounted, so keep the index
        files, gone = self._differing() if waiting is None else self._of(waiting)
        self._left = self._to_read = len(files)
        self._forget(gone)
        for start in range(0, len(files), BATCH):
            self._announce()
            self._read(files[start : start + BATCH])
            self._left = max(0, len(files) - start - BATCH)
            self._register_new()
            self._update_meanwhile()
        self._left = 0
        self._follow_names()
        self._register_new()
        self._announce()

    def _announce(self) -> None:
        if self._touched:
            touched, self._touched = frozenset(self._touched), set()
            self._on_change(touched)

    def _touch(self, paths: Iterable[str]) -> None:
        self._touched.update(node.uri for path in paths for node in self._inside.nodes(path))

    def _update_meanwhile(self) -> None:
        """Read files that change while a whole tree is being read, without waiting for the end."""
        self._read_asked()
        with self._changed:
            if not self._waiting:
                return
            waiting, self._waiting = self._waiting, set()
        files, gone = self._of(waiting)
        self._forget(gone)
        if files:
            self._read(files)
            self._register_new()

    def _read_asked(self) -> None:
        """Read the files that callers wait for."""
        with self._changed:
            asked = dict(self._asked)
        if not asked:
            return
        try:
            files, _ = self._of(set(asked))
            if files:
                self._read(files)
        finally:
            with self._changed:
                for uri, token in asked.items():
                    if self._asked.get(uri) is token:
                        del self._asked[uri]
                self._changed.notify_all()

    def _forget(self, gone: list[str]) -> None:
        if gone:
            self._touch(gone)
            self._tried(lambda: {"gone": gone}, lambda death: True)
            for path in gone:
                self._register(path, ())

    def _follow_names(self) -> None:
        def left_out(death: ProcessDied) -> bool:
            if row := self._index.file(death.at):
                self._read([[row.path, row.language, row.stamp, death.reason]])
            return row is not None

        while self._index.unresolved(1):
            self._read_asked()
            self.followed_count += self._tried(lambda: {"follow": True}, left_out)["followed"]

    def _differing(self) -> tuple[list[list[str]], list[str]]:
        known = self._index.stamps()
        files, seen = list[list[str]](), set[str]()
        self._too_many = 0
        for number, (path, file) in enumerate(_all_files(self._overlay.view.root)):
            if number % 500 == 499:
                time.sleep(0.001)  # let calls run first
            if not self._wants(path, file):
                continue
            if len(seen) >= FILES_LIMIT:
                self._too_many += 1
                continue
            seen.add(path)
            stamp = _stamp(file)
            if not stamp or known.get(path) != stamp:
                files.append([path, file.file_type, stamp])
        return files, [path for path in known if path not in seen]

    def _of(self, waiting: set[Uri]) -> tuple[list[list[str]], list[str]]:
        files, gone, view = [], [], self._overlay.view
        for uri in sorted(waiting):
            path, file = path_of(uri), view.find(uri)
            known = self._index.file(path) if _is_text(path) else None
            if isinstance(file, File) and self._wants(path, file):
                stamp = _stamp(file)
                if known is None or not stamp or known.stamp != stamp:
                    files.append([path, file.file_type, stamp])
            elif known is not None:
                gone.append(path)
        return files, gone

    def _wants(self, path: str, file: File) -> bool:
        if file.content in (SYMLINK, UNREAD, UNREADABLE) or not _is_text(path):
            return False
        if file.content == BINARY:
            return file.file_type == "pdf" and file.size <= PDF_BYTES
        if file.file_type in DOCUMENTS:
            return not path.endswith(NOT_DOCUMENTS)
        language = language_for(path, file.file_type)
        return bool(language) and is_readable(language)

    def _read(self, files: list[list[str]]) -> None:
        """Parse a batch. A file that crashes the process or takes too long is skipped and reported."""
        self._touch(file[0] for file in files)
        failed = {file[0]: file[3] for file in files if len(file) > 3}

        def left_out(death: ProcessDied) -> bool:
            is_new = death.at not in failed
            failed[death.at] = death.reason
            log.warning("a file could not be parsed", extra={"path": death.at, "reason": death.reason})
            return is_new

        order = self._tried(lambda: {"read": [[*one[:3], failed.get(one[0], "")] for one in files]}, left_out)
        self.read_count += len(order["read"])

    def _tried(self, order: Callable[[], dict[str, Any]], left_out: Callable[[ProcessDied], bool]) -> dict[str, Any]:
        """Give an order; repeat it if the process ends, since another program may have killed it.

        A crash with a known file is blamed on the file; at most two crashes without one are ignored. A file that makes
        the process end twice, or take too long, is passed to `left_out`, which returns whether to try again.
        """
        while True:
            try:
                return self._order(order())
            except ProcessDied as death:
                self._deaths[death.at] += 1
                deaths = self._deaths[death.at]
                if self._closed or (not death.at and deaths > 2):
                    raise
                if death.at and (death.took_too_long or deaths > 1) and not left_out(death):
                    raise

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise ProcessDied("", "closed")
        if self._process is None:
            root = self._workspace.layout.code_tree
            assert root is not None
            program = (*code_index_process.PROGRAM, str(self._path), str(root))
            self._process = ChildProcess(program, "its parser", code_index_process.SILENT_SECONDS)
        try:
            return self._process.ask(order)
        except ProcessDied:
            self._end_process()
            raise

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _register_new(self) -> None:
        """Register newly parsed files with search."""
        while paths := self._index.unindexed(REGISTERED_AT_ONCE):
            if self._closed:
                return
            self._read_asked()
            for path in paths:
                self._register(path, self._docs(path))
            self._workspace.text().newest("symbol", 1)  # returns when the index contains all of it
            self._index.mark_indexed(paths)

    def _register_missing(self) -> None:
        """At startup, remove files that no longer exist from search, and add missing ones."""
        known = {self._inside.file_uri(path): path for path in self._index.with_content()}
        origins = self._workspace.text().tree_origins()
        for uri in origins - known.keys():
            self._workspace.note_tree(uri, ())
        for uri in sorted(known.keys() - origins):
            if self._closed:
                return
            self._workspace.note_tree(uri, self._docs(known[uri]))

    def _register(self, path: str, docs: Sequence[Doc]) -> None:
        file = self._inside.file_uri(path)
        self._workspace.note_tree(file, docs)
        self._touched.update((file, *(doc.uri for doc in docs)))

    def _docs(self, path: str) -> list[Doc]:
        return [_doc(node) for node in self._inside.nodes(path)]

    def _all_docs(self) -> Iterable[tuple[Uri, Sequence[Doc]]]:
        paths = list(self._inside.files())
        return _Counted(((self._inside.file_uri(path), self._docs(path)) for path in paths), len(paths))

    def _missing(self) -> list[dict[str, Any]]:
        """Languages of the tree's files without an installed parser."""
        counts: Counter[str] = Counter()
        for file in self._overlay.view.files():
            language = language_for("", file.file_type)
            if language and not is_readable(language):
                counts[language] += 1
        return [
            {"language": language, "files": count, "install": to_install(language)}
            for language, count in sorted(counts.items())
        ]


class _Counted:
    """Documents of files, read one file after the other, whose number is known."""

    def __init__(self, docs: Iterator[tuple[Uri, Sequence[Doc]]], files: int) -> None:
        self._docs, self._files = docs, files

    def __iter__(self) -> Iterator[tuple[Uri, Sequence[Doc]]]:
        return self._docs

    def __length_hint__(self) -> int:
        return self._files


def _all_files(root: Directory | None) -> Iterator[tuple[str, File]]:
    """All files with their paths, sorted within a folder. Paths are cheaper than URIs in trees of 100,000 files."""
    todo = [("", root)] if root is not None else []
    while todo:
        prefix, folder = todo.pop()
        yield from ((prefix + name, folder.files[name]) for name in sorted(folder.files))
        todo += [(f"{prefix}{name}/", folder.folders[name]) for name in sorted(folder.folders, reverse=True)]


def _stamp(file: File) -> str:
    """The identity of a file's content by its stamps; empty if they are unreliable."""
    return f"{file.size} {file.mtime_ns} {file.ctime_ns} {file.inode}" if file.ctime_ns else ""


def _is_text(path: str) -> bool:
    """Whether a path is valid UTF-8."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _doc(node: Node) -> Doc:
    return Doc(node.uri, node.type, node.title, node.summary, node.content)
