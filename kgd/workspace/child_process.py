"""A child process that carries out orders one at a time, as lines of JSON. `Worker` starts one only for much work.

The child ends with its input, so it never outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kgd.errors import KgdError, Unavailable, from_dict
from kgd.index.database import IndexDamaged

NICE = 10
TOO_LONG = "it took too long"
ATTEMPTS = 3
"""Number of child processes that are tried for one order before this process carries it out."""
AGAIN_AFTER = 10.0
"""Seconds until the next attempt to start a child."""
ORDER_SECONDS = 300.0
"""Time limit for an order of a `Worker`; the largest takes some seconds."""
CHILDREN = 6
"""Largest number of children of all `Worker`s: each takes 30 MB or more, and processors are few."""
_places = threading.BoundedSemaphore(CHILDREN)

log = logging.getLogger(__name__)

Order = dict[str, Any]
Answer = dict[str, Any]


class ProcessDied(Exception):
    """The process ended while it worked on `at`, which is empty if the process had not reported this."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{reason}: {at}" if at else reason)
        self.at, self.reason = at, reason

    @property
    def took_too_long(self) -> bool:
        return self.reason == TOO_LONG


class ChildProcess:
    """The parent's side. For one thread at a time, except `kill`.

    Args:
        program: Arguments of the Python interpreter.
        what: The name of the program in error messages.
        seconds: Time limit for each line of an answer; None for no limit.
    """

    def __init__(self, program: Sequence[str], what: str, seconds: float | None = None) -> None:
        self._what, self._seconds = what, seconds
        self._process = subprocess.Popen(
            [sys.executable, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        assert self._process.stdout is not None
        self._poll = select.poll()
        self._poll.register(self._process.stdout.fileno(), select.POLLIN)
        self._at, self._buffer = "", b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: Order) -> Answer:
        """Send an order and return its answer.

        Raises:
            ProcessDied: The process ended, or exceeded the time limit.
            IndexDamaged: The file that it writes is unsound.
            KgdError: The process refused the order.
        """
        assert self._process.stdin is not None
        self._at = ""
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")  # unlike orjson, for names that are not UTF-8
            self._process.stdin.flush()
        except OSError:  # it died before this order
            raise ProcessDied("", f"{self._what} crashed") from None
        while True:
            answer: Answer = json.loads(self._line())
            if "error" in answer:
                error = from_dict(answer["error"])
                raise IndexDamaged(error.message) if answer["damaged"] else error
            if "begin" not in answer:
                return answer
            self._at = answer["begin"]

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            if not self._poll.poll(None if self._seconds is None else self._seconds * 1_000):
                self._process.kill()
                raise ProcessDied(self._at, TOO_LONG)
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise ProcessDied(self._at, TOO_LONG if self._exceeded_limit() else f"{self._what} crashed")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _exceeded_limit(self) -> bool:
        """Whether the process, whose output has ended, was ended by the limit of `serve`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(2) == -signal.SIGPROF
        return False

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


class Worker:
    """Carries out orders on derived data for one thread: in a child for much work, in this process for little work.

    The child starts on demand and ends when there is nothing to do, which returns its memory. It holds no state: each
    order is one transaction, so killing the child at any moment costs only time.

    Args:
        here: Carries an order out in this process.
        program: Arguments of the Python interpreter for a child, which carries out the same orders.
        much: The number of items due or carried out in a second from which a child is worth starting.
        what: The data that it writes.
    """

    def __init__(
        self, here: Callable[[Order], Answer], program: Callable[[], Sequence[str]], much: int, what: str
    ) -> None:
        self._here, self._program, self._much, self._what = here, program, much, what
        self._begun, self._items = 0.0, 0
        """The current second, and the number of items in it."""
        self._process: ChildProcess | None = None
        self._is_stopped = False
        self.deaths = 0
        """The number of children that ended by themselves; their last order may be carried out."""
        self._problem, self._again_at = "", 0.0

    @property
    def pid(self) -> int | None:
        """The child, if it is running."""
        process = self._process
        return process.pid if process else None

    def problem(self) -> str:
        """A sentence for `kgd status`; empty unless the last children failed."""
        return f"derived data: the daemon writes {self._what} itself ({self._problem})" if self._problem else ""

    def carry_out(self, order: Order, items: int, left: int = 0) -> Answer:
        """Carry out an order: in the child if it is running or if there is much to do, otherwise here.

        If the child ends before it answers, the order is carried out again.

        Args:
            items: The size of the order.
            left: The size of all orders that are due.

        Raises:
            IndexDamaged: The file is unsound.
            KgdError: The disk or the repository failed. The next order starts with newly opened files.
        """
        is_worth_it = self._is_much(items) or left >= self._much or self._process is not None
        attempts = ATTEMPTS if is_worth_it and time.monotonic() >= self._again_at else 0
        for _ in range(attempts):
            try:
                child = self._child()
                if child is None:
                    return self._here(order)
                answer = child.ask(order)
                self._problem = ""
                return answer
            except KgdError:
                self.end()
                raise
            except (ProcessDied, OSError) as error:
                self.end()
                if self._is_stopped:
                    raise Unavailable("this workspace is being closed") from None
                self.deaths, reason = self.deaths + 1, str(error)
        if attempts:
            self._problem, self._again_at = reason, time.monotonic() + AGAIN_AFTER
            log.warning("the daemon writes derived data itself", extra={"reason": reason})
        return self._here(order)

    def _child(self) -> ChildProcess | None:
        """The child, started if necessary; None if this process already has the maximum number of children."""
        if self._process is None and _places.acquire(blocking=False):
            try:
                self._process = ChildProcess(self._program(), "the process for derived data", ORDER_SECONDS)
            except BaseException:
                _places.release()
                raise
        return self._process

    def _is_much(self, items: int) -> bool:
        now = time.monotonic()
        if now - self._begun > 1.0:
            self._begun, self._items = now, 0
        self._items += items
        return self._items >= self._much

    def stop(self) -> None:
        """End the child at once, from any thread; an order under way fails."""
        self._is_stopped = True
        if (process := self._process) is not None:
            process.kill()

    def end(self) -> None:
        """End the child; finished orders stay."""
        process, self._process = self._process, None
        if process is not None:
            process.end()
            _places.release()


def end_with_input() -> None:
    """End this process when its standard input ends. For programs that do not read their input."""
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while os.read(0, 1 << 10):  # not `sys.stdin`: a thread that holds its lock aborts the end of the interpreter
        pass
    os._exit(1)


def serve(
    open_files: Callable[[], Callable[[Order, Callable[[str], None]], Answer]],
    *,
    nice: int = NICE,
    memory: int = 0,
    seconds: float = 0.0,
) -> None:
    """Carry out orders in the child until its input ends.

    Args:
        open_files: Opens the files and returns the function that carries out orders. That function takes an order and a
            callback that reports the part being started. Called at the first order, so that its errors are sent as
            answers, and a child whose parent has ended opens no files.
        nice: How much the child's priority is lowered.
        memory: Limit of the address space in bytes; 0 for no limit.
        seconds: Limit of processor time for each part that is started; 0 for no limit. It ends the child. A limit of
            time alone would fail parts on a busy machine, which leaves a child of low priority little of each second.
    """
    with contextlib.suppress(OSError, ValueError):
        os.nice(nice)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps output printed by libraries out of the answers

    def send(answer: Answer) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    def begin(part: str) -> None:
        send({"begin": part})
        signal.setitimer(signal.ITIMER_PROF, seconds)

    carry_out = None
    for line in sys.stdin.buffer:
        try:
            carry_out = carry_out or open_files()
            send(carry_out(json.loads(line), begin))
        except KgdError as error:
            send({"error": error.as_dict(), "damaged": isinstance(error, IndexDamaged)})
