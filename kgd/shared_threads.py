"""Threads that all workspaces share: their number does not grow with the number of workspaces.

A `Task` is a step that runs again and again, never twice at the same time. Tasks that may wait for each other must use
different `Threads`; otherwise they could wait permanently.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count

IDLE_SECONDS = 10.0
"""Seconds without work after which a thread ends, unless it is the last one for open tasks."""
AGAIN_SECONDS = 30.0
"""Seconds until a step that failed because of a defect runs again."""
_NEVER = float("inf")

log = logging.getLogger(__name__)

Step = Callable[[], float | None]
"""Runs once, and returns the seconds until its next run, or None to wait for `Task.wake`."""


class Threads:
    """At most `most` threads for any number of tasks. There is no thread while there is no task."""

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most = name, most
        self._lock = threading.Lock()
        self._work, self._step_ended = threading.Condition(self._lock), threading.Condition(self._lock)
        self._ready: deque[Task] = deque()
        self._later: list[tuple[float, int, Task]] = []
        """A heap; an entry is void if its task has another `_due`."""
        self._number = count()
        self._tasks = self._running = self._free = 0
        """The number of open tasks, of threads, and of threads without a task."""

    def _open(self) -> None:
        """Count a new task. Raises RuntimeError if there is no thread for it, and none can be started."""
        with self._lock:
            if not self._running:
                self._start_one()
            self._tasks += 1

    def _forget(self, task: Task) -> None:
        """Drop a closed task. Called with the lock."""
        if task._is_queued:
            self._ready.remove(task)
        self._later = [one for one in self._later if one[2] is not task]
        heapq.heapify(self._later)
        self._tasks -= 1
        if not self._tasks:
            self._work.notify_all()

    def _schedule(self, task: Task) -> None:
        """Have a task run at its `_due`. Called with the lock."""
        if task._due <= time.monotonic():
            task._is_queued = True
            self._ready.append(task)
            self._call_a_thread()
        else:
            heapq.heappush(self._later, (task._due, next(self._number), task))
            if not self._free:
                self._add_one()  # all threads run steps, which may be long
            elif self._later[0][2] is task:
                self._work.notify()  # a free thread waits until the first task is due

    def _call_a_thread(self) -> None:
        if self._free >= len(self._ready):
            self._work.notify()
        else:
            self._add_one()

    def _add_one(self) -> None:
        if self._running < self.most:
            try:
                self._start_one()
            except RuntimeError:  # the other threads do the work
                log.warning("a thread could not be started", extra={"threads": self.name})

    def _start_one(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
        except BaseException:
            self._running -= 1
            raise

    def _run(self) -> None:
        while (task := self._next()) is not None:
            pause: float | None = None
            try:
                pause = task._step()
            except Exception:  # a defect in a step must not end a thread of all workspaces, nor this task
                pause = AGAIN_SECONDS
                log.exception("a step of the background work failed", extra={"threads": self.name})
            with self._lock:
                self._free += 1  # this thread takes the next task, so none is started for it
                task._ended(pause)
                self._free -= 1

    def _next(self) -> Task | None:
        """The next task to run; None if the thread is no longer needed."""
        with self._lock:
            self._free += 1
            since = time.monotonic()
            try:
                while True:
                    now = time.monotonic()
                    self._move_due(now)
                    if self._ready:
                        task = self._ready.popleft()
                        task._begin()
                        return task
                    if not self._tasks or (self._running > 1 and self._free > 1 and now - since >= IDLE_SECONDS):
                        self._running -= 1
                        self._work.notify()  # this thread may have been called for a task that is due later
                        return None
                    first = self._later[0][0] - now if self._later else _NEVER
                    self._work.wait(min(first, IDLE_SECONDS))
            finally:
                self._free -= 1
                if self._tasks and not self._free and (self._ready or self._later):
                    self._add_one()  # so that a task that becomes due does not wait for this one

    def _move_due(self, now: float) -> None:
        while self._later and (self._later[0][0] <= now or self._later[0][2]._due != self._later[0][0]):
            at, _, task = heapq.heappop(self._later)
            if task._due == at and not task._is_queued:
                task._is_queued = True
                self._ready.append(task)


class Task:
    """A step that shared threads run whenever it is due.

    Args:
        gap: Minimum number of seconds between two runs.

    Raises:
        RuntimeError: No thread can be started for it.
    """

    def __init__(self, threads: Threads, step: Step, *, gap: float = 0.0) -> None:
        self._threads, self._step, self._gap = threads, step, gap
        self._due = self._again = _NEVER
        """The times of the next run, and of the run after the current one."""
        self._not_before = 0.0
        self._is_queued = self._is_closed = False
        self._runner = 0
        """The thread that runs the step now, or 0."""
        threads._open()

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread runs the step."""
        return self._runner == threading.get_ident()

    def wake(self, after: float = 0.0) -> None:
        """Run the step within this many seconds, or again if it is running. Never blocks or raises."""
        with self._threads._lock:
            if not self._is_closed:
                self._run_at(time.monotonic() + after)

    def close(self, timeout: float | None = None) -> bool:
        """Run no further step, and wait for the running one; returns whether it has ended."""
        threads = self._threads
        with threads._lock:
            if not self._is_closed:
                self._is_closed, self._due = True, _NEVER
                threads._forget(self)
            if self.is_mine:
                return False
            return threads._step_ended.wait_for(lambda: not self._runner, timeout)

    # ---- called with the lock of the threads

    def _run_at(self, at: float) -> None:
        if self._runner:
            self._again = min(self._again, at)
        elif not self._is_queued and (at := max(at, self._not_before)) < self._due:
            self._due = at
            self._threads._schedule(self)

    def _begin(self) -> None:
        self._is_queued, self._due, self._again = False, _NEVER, _NEVER
        self._runner = threading.get_ident()

    def _ended(self, pause: float | None) -> None:
        now = time.monotonic()
        self._runner, self._not_before = 0, now + self._gap
        if self._is_closed:
            self._threads._step_ended.notify_all()
            return
        at = min(self._again, now + pause if pause is not None else _NEVER)
        if at < _NEVER:
            self._run_at(at)
