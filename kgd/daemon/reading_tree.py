"""This file is where the files of a code tree are looked into in the background, and search is told what is in them.

The reading itself is done by a process of its own (`kgd.daemon.reading_process`), which is there while there is
something to read. Over a restart nothing is read again: what is known of a file stays with the stamps of the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from kgd.errors import KgdError
from kgd.index.code import CodeIndex
from kgd.index.database import IndexDamaged
from kgd.index.text import Doc
from kgd.model.node import Node
from kgd.model.uri import Uri, path_of, scheme_of
from kgd.overlay.facts import BINARY, SYMLINK, UNREAD, UNREADABLE, File
from kgd.overlay.inside import FileParts
from kgd.overlay.overlay import Overlay
from kgd.overlay.reading import READ
from kgd.overlay.tree import Directory
from kgd.symbols.extracting import VERSION, is_readable, language_for
from kgd.symbols.walking import to_install
from kgd.workspace.workspace import Workspace

PROGRAM = ("-m", "kgd.daemon.reading_process")
BATCH = 100
"""Files of one order: few enough for what was read to be found soon, many enough to be quick."""
TOLD_AT_ONCE = 50
AFTER_SECONDS = 0.3
"""How long a whole tree waits: whoever started the daemon has their first answer before it."""
IDLE_SECONDS = 20.0
"""How long the process waits for more."""
FILE_SECONDS = 30.0
"""How long one file may take; then its reading is given up."""
FILES_LIMIT = 50_000
"""Files of a tree that are looked into; of more, the first in the order of their paths."""
DOCUMENTS = frozenset({"markdown", "restructuredtext", "text", "html", "asciidoc", "pdf"})
NOT_DOCUMENTS = (".log", ".min.html")
PDF_BYTES = 4 << 20

log = logging.getLogger("kgd.reading")


class ReadingTree:
    """Keeps what is known of the insides of one workspace's code tree current, until it is closed."""

    def __init__(self, workspace: Workspace, overlay: Overlay, folder: Path) -> None:
        self._workspace, self._overlay = workspace, overlay
        self._path = folder / "code.sqlite"
        self._index = CodeIndex(self._path, VERSION)
        self._inside = FileParts(self._index, workspace.id)
        self._inside.report = self.report
        overlay.inside = self._inside
        workspace.code_docs = self._all_docs
        self._changed = threading.Condition()
        self._waiting: set[Uri] | None = set()
        """URIs of what changed; None: look through everything."""
        self._closed = self._busy = self._failed = self._looked = False
        self._left = 0
        self._too_many = 0
        self._trouble = ""
        self._process: _Process | None = None
        self._thread = threading.Thread(target=self._follow, name="kgd-reading", daemon=True)
        self.read_count = self.followed_count = 0
        """Files read, and files whose names were followed, since the start."""

    def start(self) -> None:
        self._thread.start()

    def note(self, changed: Iterable[Uri] | None) -> None:
        """The overlay serves other files than before: these, or any (None). Returns at once."""
        with self._changed:
            self._looked |= changed is None
            if changed is None or self._waiting is None:
                self._waiting = None
            else:
                self._waiting.update(uri for uri in changed if scheme_of(uri) == "file")
            self._changed.notify_all()

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
        """Whether nothing is left to be read, followed or told."""
        with self._changed:
            return self._looked and not self._busy and self._waiting == set()

    def report(self) -> dict[str, Any]:
        """What was read, what was left out and why, which languages cannot be read here, and what is still to do."""
        languages: dict[str, dict[str, int]] = {}
        left_out: Counter[str] = Counter()
        documents, chunks, symbols = 0, 0, 0
        try:
            counted = self._index.counts()
        except KgdError:
            counted = []
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
                told = languages.setdefault(name, {"files": 0, "symbols": 0})
                told["files"] += files
                told["symbols"] += symbol_count
        if self._too_many:
            left_out[f"beyond the first {FILES_LIMIT:,} files"] += self._too_many
        state = "ready" if self.is_current else "reading" if self._looked else "waiting"
        return {
            "state": state, "left": self._left, "symbols": symbols,
            "languages": languages, "documents": documents, "chunks": chunks, "left_out": dict(left_out),
            "missing": self._missing(), **({"trouble": self._trouble} if self._trouble else {}),
        }  # fmt: skip

    # In the thread

    def _follow(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, AFTER_SECONDS)
        if not self._closed:
            self._attempt(self._tell_what_is_missing)
        while True:
            with self._changed:
                told = self._changed.wait_for(lambda: self._closed or self._waiting != set(), self._patience())
                if self._closed:
                    break
                waiting = self._waiting if told or not self._failed else None
                self._waiting, self._busy = set(), waiting != set()
            if waiting == set():
                self._end_process()
                continue
            self._attempt(lambda waiting=waiting: self._take(waiting))  # type: ignore[misc]
            with self._changed:
                self._busy = False
        self._end_process()

    def _patience(self) -> float | None:
        return IDLE_SECONDS if self._process is not None or self._failed else None

    def _attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step. After a failure everything is looked through again, a while later."""
        try:
            step()
            self._trouble, self._failed = "", False
        except IndexDamaged:
            log.warning("what was read of the code tree was damaged and is read again")
            self._end_process()
            self._failed = True
            with contextlib.suppress(KgdError):
                self._index.recreate()
        except Exception as error:
            self._failed = True
            if not self._closed:
                self._trouble = f"{error}"[:200]
                log.exception("the code tree could not be looked into")

    def _take(self, waiting: set[Uri] | None) -> None:
        """Brings the index in step with the overlay: all of it, or these files."""
        if self._overlay.view.root is None:
            return  # moved away or unmounted: not served, and not forgotten either
        files, gone = self._differing() if waiting is None else self._of(waiting)
        self._left = len(files)
        self._forget(gone)
        for start in range(0, len(files), BATCH):
            self._read(files[start : start + BATCH])
            self._left = max(0, len(files) - start - BATCH)
            self._tell_new()
            self._take_what_came()
        self._left = 0
        self._follow_names()
        self._tell_new()

    def _take_what_came(self) -> None:
        """What somebody changes while a whole tree is read is not kept waiting for all of it."""
        with self._changed:
            if not self._waiting:
                return
            waiting, self._waiting = self._waiting, set()
        files, gone = self._of(waiting)
        self._forget(gone)
        if files:
            self._read(files)
            self._tell_new()

    def _forget(self, gone: list[str]) -> None:
        if gone:
            self._order({"gone": gone})
            for path in gone:
                self._tell(path, ())

    def _follow_names(self) -> None:
        while self._index.unresolved(1):
            try:
                self.followed_count += self._order({"follow": True})["followed"]
            except _Died as death:
                row = self._index.file(death.path) if death.path and not self._closed else None
                if row is None:
                    raise
                self._read([[row.path, row.language, row.stamp, death.reason]])

    def _differing(self) -> tuple[list[list[str]], list[str]]:
        known = self._index.stamps()
        files, seen = list[list[str]](), set[str]()
        self._too_many = 0
        for number, (path, file) in enumerate(_all_files(self._overlay.view.root)):
            if number % 500 == 499:
                time.sleep(0.001)  # whoever asks something comes first
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
        """Has a batch of files read. A file that ends the process, or never ends, is left out and said."""
        failed = {file[0]: file[3] for file in files if len(file) > 3}
        for _ in range(len(files) + 1):
            try:
                changed = self._order({"read": [[*file[:3], failed.get(file[0], "")] for file in files]})["read"]
                self.read_count += len(changed)
                return
            except _Died as death:
                if self._closed:
                    raise
                if not death.path or death.path in failed:
                    raise
                failed[death.path] = death.reason
                log.warning("a file could not be looked into", extra={"path": death.path, "reason": death.reason})

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise _Died("", "closed")
        if self._process is None:
            root = self._workspace.layout.code_tree
            assert root is not None
            self._process = _Process(self._path, root)
        try:
            return self._process.ask(order)
        except _Died:
            self._end_process()
            raise

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _tell_new(self) -> None:
        """Tells search what is in the files of which it does not know yet."""
        while paths := self._index.unindexed(TOLD_AT_ONCE):
            if self._closed:
                return
            for path in paths:
                self._tell(path, self._docs(path))
            self._workspace.text().newest("symbol", 1)  # answers when all of this is in the index
            self._index.mark_indexed(paths)

    def _tell_what_is_missing(self) -> None:
        """At the start: what search has of files that are known no more, and what it has lost."""
        known = {self._inside.file_uri(path): path for path in self._index.with_content()}
        origins = self._workspace.text().tree_origins()
        for uri in origins - known.keys():
            self._workspace.note_tree(uri, ())
        for uri in sorted(known.keys() - origins):
            if self._closed:
                return
            self._workspace.note_tree(uri, self._docs(known[uri]))

    def _tell(self, path: str, docs: Sequence[Doc]) -> None:
        self._workspace.note_tree(self._inside.file_uri(path), docs)

    def _docs(self, path: str) -> list[Doc]:
        return [_doc(node) for node in self._inside.nodes(path)]

    def _all_docs(self) -> Iterator[tuple[Uri, Sequence[Doc]]]:
        for path in self._inside.files():
            yield self._inside.file_uri(path), self._docs(path)

    def _missing(self) -> list[dict[str, Any]]:
        """Languages of the tree's files that cannot be read here."""
        counts: Counter[str] = Counter()
        for file in self._overlay.view.files():
            language = language_for("", file.file_type)
            if language and not is_readable(language):
                counts[language] += 1
        return [
            {"language": language, "files": count, "install": to_install(language)}
            for language, count in sorted(counts.items())
        ]


class _Died(Exception):
    """The process ended; `path` is the file that it was looking into, if any."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason}: {path}" if path else reason)
        self.path, self.reason = path, reason


class _Process:
    """The process that reads. One order at a time."""

    def __init__(self, index: Path, root: Path) -> None:
        command = [sys.executable, *PROGRAM, str(index), str(root)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        )
        assert self._process.stdout is not None
        self._poll = select.poll()
        self._poll.register(self._process.stdout.fileno(), select.POLLIN)
        self._at, self._buffer = "", b""

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Its answer.

        Raises:
            _Died: It ended before, or had to be ended since a file took too long.
        """
        assert self._process.stdin is not None
        self._at = ""
        try:
            self._process.stdin.write(orjson.dumps(order, option=orjson.OPT_APPEND_NEWLINE))
            self._process.stdin.flush()
        except OSError:
            raise _Died("", "the process that reads has ended") from None
        while True:
            answer: dict[str, Any] = orjson.loads(self._line())
            if answer.get("damaged"):
                raise IndexDamaged(answer["error"])
            if "error" in answer:
                raise KgdError(answer["error"])
            if "begin" not in answer:
                return answer
            self._at = answer["begin"]

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            if not self._poll.poll(FILE_SECONDS * 1_000):
                self._process.kill()
                raise _Died(self._at, "it took too long")
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise _Died(self._at, "its parser crashed")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Lets it go; what it has written is kept."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _all_files(root: Directory | None) -> Iterator[tuple[str, File]]:
    """Every file by its path, in order within a folder. Without URIs: there may be a hundred thousand."""
    todo = [("", root)] if root is not None else []
    while todo:
        prefix, folder = todo.pop()
        yield from ((prefix + name, folder.files[name]) for name in sorted(folder.files))
        todo += [(f"{prefix}{name}/", folder.folders[name]) for name in sorted(folder.folders, reverse=True)]


def _stamp(file: File) -> str:
    """What tells that a file is the one that was read; empty where its stamps prove nothing."""
    return f"{file.size} {file.mtime_ns} {file.ctime_ns} {file.inode}" if file.ctime_ns else ""


def _is_text(path: str) -> bool:
    """Whether a path can be kept: one whose bytes are no text is not."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _doc(node: Node) -> Doc:
    return Doc(node.uri, node.type, node.title, node.summary, node.content)
