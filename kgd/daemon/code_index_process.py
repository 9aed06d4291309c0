"""The process that parses the files of a code tree for a daemon, and the daemon's side of it.

Parsers written in C get much untrusted input. In a separate process they can crash, use too much memory or hang without
harm to the daemon and its calls. Orders and answers are lines of JSON; the process ends with its input.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from kgd.errors import KgdError
from kgd.index.code_index import CodeIndex
from kgd.index.database import IndexDamaged
from kgd.overlay.code_reader import CodeReader, FileToRead
from kgd.symbols.extraction import VERSION
from kgd.workspace.writing.secrets import secret_in

if TYPE_CHECKING:
    from kgd.ingest.document_reader import DocumentReader as Documents

MEMORY = 3 << 30
"""Limit of the address space in bytes; files have a megabyte or two."""
NICE = 10
PROGRAM = ("-m", "kgd.daemon.code_index_process")
FILE_SECONDS = 30.0
"""Time limit per file."""


def main(arguments: list[str]) -> int:
    """`arguments`: the index, and the top of the code tree."""
    with contextlib.suppress(OSError, ValueError):
        os.nice(NICE)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps prints of libraries out of the answers
    cut = Chunker()
    try:
        return serve(CodeReader(CodeIndex(Path(arguments[0]), VERSION), arguments[1], cut), sys.stdin.buffer, answers)
    finally:
        cut.close()


def serve(reading: CodeReader, orders: BinaryIO, answers: BinaryIO) -> int:
    """Execute orders until the input ends: ``read`` with files, ``gone`` with paths, ``follow``."""

    def send(answer: dict[str, Any]) -> None:
        answers.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        answers.flush()

    for line in orders:
        order = orjson.loads(line)
        try:
            if "read" in order:
                files = [FileToRead(*one) for one in order["read"]]
                send({"read": reading.read(files, lambda path: send({"begin": path}))})
            elif "gone" in order:
                send({"gone": reading.remove(order["gone"])})
            else:
                send({"followed": len(reading.follow(begin=lambda path: send({"begin": path})))})
        except KgdError as error:
            send({"error": error.message, "damaged": isinstance(error, IndexDamaged)})
    return 0


class Chunker:
    """Splits documents into chunks. The readers are imported with the first document, since a tree may have none."""

    def __init__(self) -> None:
        self._documents: Documents | None = None

    def __call__(self, path: str, data: bytes) -> list[tuple[str, str]]:
        """A document's chunks: headings and text. Raises ValueError if it is unreadable."""
        from kgd.ingest.chunks import chunks
        from kgd.ingest.document_reader import DocumentReader as Documents
        from kgd.ingest.documents import LEFT_OUT, SEPARATOR

        if self._documents is None:
            self._documents = Documents()
        try:
            text = self._documents.read(path, data)
        except KgdError as error:
            raise ValueError(error.message) from error
        title = text.title or path.rpartition("/")[2]
        whole = text.text
        if secret_in(whole):  # as in ingested documents: chunks have more readers than files
            whole = "\n".join(LEFT_OUT if secret_in(line) else line for line in whole.split("\n"))
        return [(SEPARATOR.join(one.heading_path), one.text) for one in chunks(whole, text.kind, title)]

    def close(self) -> None:
        if self._documents is not None:
            self._documents.close()


# ---- the daemon's side


class ProcessDied(Exception):
    """The process ended while it parsed `path`, if any."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason}: {path}" if path else reason)
        self.path, self.reason = path, reason


class Process:
    """The parsing process. One order at a time."""

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
        """Send an order and return its answer. Raises ProcessDied if the process ended or exceeded the time limit."""
        assert self._process.stdin is not None
        self._at = ""
        try:
            self._process.stdin.write(orjson.dumps(order, option=orjson.OPT_APPEND_NEWLINE))
            self._process.stdin.flush()
        except OSError:
            raise ProcessDied("", "the parsing process has ended") from None
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
                raise ProcessDied(self._at, "it took too long")
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise ProcessDied(self._at, "its parser crashed")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """End the process; its results are kept."""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
