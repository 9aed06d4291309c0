"""The process that writes derived data: a child for much work, this process for little work.

The child starts on demand and ends when there is nothing to do, which returns its memory. It holds no state: each order
is one transaction, so killing the child at any moment costs only time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from kgd.errors import KgdError, Unavailable
from kgd.workspace.child_process import Answer, ChildProcess, Order, ProcessDied

ATTEMPTS = 3
"""Number of child processes that are tried for one order before this process carries it out."""
AGAIN_AFTER = 10.0
"""Seconds until the next attempt to start a child."""
SECONDS = 300.0
"""Time limit for an order; the largest takes some seconds."""
WHAT = "the process for derived data"

CHILDREN = 6
"""Largest number of children of all workspaces: each takes 30 MB or more, and processors are few."""
_places = threading.BoundedSemaphore(CHILDREN)

log = logging.getLogger(__name__)


class Worker:
    """Carries out orders for one thread.

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
                self._process = ChildProcess(self._program(), WHAT, SECONDS)
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
