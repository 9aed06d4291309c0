"""This file is where the limited process is started, asked, and ended when a document is too much for it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import Any

from kgd.errors import Unavailable
from kgd.ingest.readers.child import LENGTH
from kgd.ingest.readers.text import Text, Unreadable

SECONDS = 120.0
"""Of wall time that one document may take: more than its processor time, for a machine that is busy."""
ANSWER_LIMIT = 256 << 20
PART = 1 << 20


class Limited:
    """One process that reads documents which nobody knows. Begins with the first one; not for two threads at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, format: str, data: bytes) -> Text:
        """What is in a document.

        Raises:
            Unreadable: It cannot be read, or not with what one document may use.
            Unavailable: No process can be started.
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
        if answer.get("spent"):  # what it has taken it does not give back
            self._kill()
        if "unreadable" in answer:
            raise Unreadable(answer["unreadable"], next=answer["next"])
        return Text(answer["format"], answer["kind"], answer["title"], answer["text"], trouble=tuple(answer["trouble"]))

    def close(self) -> None:
        if self._process is not None:
            self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        # The path of this very process, and nothing of the environment: what is in it is no business of a document.
        program = f"import sys; sys.path[:] = {sys.path!r}; from kgd.ingest.readers.child import main; main()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, bufsize=0, env={"LC_ALL": "C.UTF-8"}, cwd="/", start_new_session=True,
            )  # fmt: skip
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
