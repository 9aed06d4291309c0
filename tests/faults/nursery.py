"""Children that can be killed: forked from a process that has imported everything, so that a trial costs milliseconds.

Uses multiprocessing's fork server: no fork of the test process with its threads.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

PATIENCE = 60.0

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.faults.scribes", "tests.faults.readers", "kgd.workspace.check"])


class Silent(AssertionError):
    """A child sent nothing within its deadline: it hangs."""


class Child:
    """One process that runs ``target(line, *arguments)``; `line` connects it to the test. Killed at the block's end."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._line, theirs = _context.Pipe()
        world = {name: os.environ[name] for name in ("HOME", "KGD_HOME", "GIT_CONFIG_NOSYSTEM") if name in os.environ}
        self._process = _context.Process(target=_begin, args=(theirs, world, target, arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def hear(self, patience: float = PATIENCE) -> Any:
        """The next message of the child.

        Raises:
            Silent: No message within the deadline.
            EOFError: The child is gone.
        """
        with _gone_is_eof():
            if not self._line.poll(patience):
                raise Silent(f"the child said nothing for {patience} s")
            return self._line.recv()

    def tell(self, word: Any) -> None:
        """Send a message to the child.

        Raises:
            EOFError: The child is gone.
        """
        with _gone_is_eof():
            self._line.send(word)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        self._process.kill()
        self._process.join(PATIENCE)
        self._line.close()

    def kill_all(self) -> None:
        """Kill it together with its children, as a power cut does, and wait until it is gone."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.join(PATIENCE)

    def wait(self, patience: float = PATIENCE) -> int:
        """Its exit code, negative for a signal."""
        self._process.join(patience)
        if self._process.exitcode is None:
            raise Silent(f"the child did not end within {patience} s")
        return self._process.exitcode

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


@contextmanager
def _gone_is_eof() -> Iterator[None]:
    """A child that dies ends its line in one of three ways, depending on what was under way: all are EOFError."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise EOFError("the child is gone") from error


def _begin(line: Connection, world: dict[str, str], target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.update(world)
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    target(line, *arguments)


def _end_with_parent() -> None:
    """End with the parent: otherwise the threads of an orphan would continue to write."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
