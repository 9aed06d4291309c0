"""Reading of documents: plain text in this process, other formats in a limited process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

from kgd.errors import Unavailable
from kgd.ingest import formats
from kgd.ingest.readers import office, plain
from kgd.ingest.readers.result import TEXT_LIMIT, Text, Unreadable, characters
from kgd.ingest.readers.sandbox import LENGTH

SECONDS = 120.0
"""Wall time for one document; longer than its processor time, as the machine may be busy."""
ANSWER_LIMIT = 256 << 20
PART = 1 << 20


class DocumentReader:
    """Reads documents one after another. Starts a limited process when needed, which ends with it. For one thread."""

    def __init__(self) -> None:
        self._limited = Limited()

    def read(self, name: str, data: bytes) -> Text:
        """The text of a document. `name` determines its format if its first bytes do not.

        Raises:
            Unreadable: It cannot be ingested.
        """
        format = formats.format_of(name, data)
        if format in formats.OFFICE:
            office.require(format)
        if format in formats.BINARY or format == formats.HTML:
            return self._limited.read(format, data)
        text = characters(data)
        if len(text) > TEXT_LIMIT:
            raise Unreadable(f"it has more than {TEXT_LIMIT >> 20} MiB of text")
        if format == formats.MARKDOWN:
            return plain.markdown(text)
        if format == formats.RST:
            return plain.restructured(text)
        if format.startswith("code:"):
            return Text(format.removeprefix("code:"), "code", "", text)
        return plain.plain(text)

    def close(self) -> None:
        self._limited.close()

    def __enter__(self) -> DocumentReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Limited:
    """A process that reads untrusted documents. It starts with the first one. For one thread at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, format: str, data: bytes) -> Text:
        """The text of a document.

        Raises:
            Unreadable: It cannot be read within the limits.
            Unavailable: The process cannot be started.
        """
        process = self._process or self._start()
        until = time.monotonic() + self._seconds
        try:
            _send(process, _packed(format.encode()) + LENGTH.pack(len(data)), until)
            _send(process, data, until)
            (length,) = LENGTH.unpack(_receive(process, LENGTH.size, until))
            if length > ANSWER_LIMIT:
                raise Unreadable("it has too much text")
            answer: dict[str, Any] = json.loads(_receive(process, length, until))
        except TimeoutError:
            self._kill()
            raise Unreadable("reading it takes too long") from None
        except (EOFError, OSError):
            code = self._kill()
            raise Unreadable("reading it takes too much memory or time" if code else "its reader went away") from None
        except Unreadable:
            self._kill()
            raise
        if answer.get("spent"):  # its memory would stay in use
            self._kill()
        if "unreadable" in answer:
            raise Unreadable(answer["unreadable"], next=answer["next"])
        return Text(answer["format"], answer["kind"], answer["title"], answer["text"], trouble=tuple(answer["trouble"]))

    def close(self) -> None:
        if self._process is not None:
            self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        # The module path of this process, but not its environment, which documents must not see.
        program = f"import sys; sys.path[:] = {sys.path!r}; from kgd.ingest.readers.sandbox import main; main()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"no process can be started to read documents: {error.strerror}") from None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return self._process

    def _kill(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        ended = process.poll()
        process.kill()
        process.stdout.close()
        return process.wait() if ended is None else ended


def _packed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def _send(process: subprocess.Popen[bytes], data: bytes, until: float) -> None:
    assert process.stdin is not None
    rest = memoryview(data)
    while rest:
        _, ready, _ = select.select([], [process.stdin], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        rest = rest[os.write(process.stdin.fileno(), rest[:PART]) :]


def _receive(process: subprocess.Popen[bytes], length: int, until: float) -> bytes:
    assert process.stdout is not None
    out = bytearray()
    while len(out) < length:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(process.stdout.fileno(), min(PART, length - len(out)))
        if not part:
            raise EOFError
        out += part
    return bytes(out)
