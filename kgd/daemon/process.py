"""The daemon's process: its settings for threads and memory, file descriptors, and a sampling profile.

A daemon without a free file descriptor can neither write nor report the problem. Clients are therefore refused while a
few descriptors are still free.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import resource
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from kgd.config import one_thread_each

MOST = 1 << 20
"""Upper bound for the soft limit: some programs that kgd starts close every possible descriptor."""
RESERVE = 128
"""Descriptors reserved for packs, locks, databases and the git program; at most a quarter of the limit."""
COLLECT_EVERY = 10_000
"""New objects after which the youngest are searched for cycles. The default of 700 costs a sixth of a wide walk."""
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
"""Constants of glibc's malloc.h."""
MAPPED_ALONE = 128 << 10
"""Size in bytes from which freed memory returns to the system. Glibc would raise it to 32 MB, and then keep memory."""
SWITCH_SECONDS = 0.0005
"""Seconds that a thread may keep the interpreter while others wait; with the default, 5 ms, writes delay every read."""
SAMPLE_SECONDS = 0.01
WAITING = ("threading.py", "selectors.py", "queue.py", "futures/thread.py", "socket.py", "inotify_c.py")
"""Files whose functions only wait: a thread in one of them is idle and is not sampled."""


def prepare(crash_log: str) -> None:
    """Set up this process as a daemon: crash log, threads, file descriptors and memory."""
    faulthandler.enable(os.open(crash_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    sys.setswitchinterval(SWITCH_SECONDS)
    one_thread_each()
    raise_limit()
    gc.set_threshold(COLLECT_EVERY)
    with contextlib.suppress(AttributeError, OSError):  # only glibc has mallopt
        # Glibc makes a heap for nearly every thread and never returns it; two heaps are enough.
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_ALONE)


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS allows less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else soft


def for_clients() -> int:
    """Number of descriptors that all connections together may use."""
    return limit() - min(RESERVE, limit() // 4)


def in_use() -> int:
    """Number of open descriptors of this process. Costs about 0.1 ms per thousand."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # no descriptor is free to list them
        return limit()


def shortage() -> str:
    """A sentence if new connections are refused for lack of descriptors; otherwise empty."""
    used = in_use()
    if used < for_clients():
        return ""
    return f"too few file descriptors: {used} of {limit()} are open, and new connections are refused"


class Profile:
    """Samples the stacks of all busy threads, from `start` to `stop`.

    `stop` writes collapsed stacks, one ``thread;function;function COUNT`` per line, as flame graph tools read them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kgd-profile", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._path.write_text("".join(f"{stack} {count}\n" for stack, count in self._counts.most_common()))

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():
                if ident != self._thread.ident and not frame.f_code.co_filename.endswith(WAITING):
                    self._counts[";".join([names.get(ident, "thread"), *_stack(frame)])] += 1


def _stack(frame: FrameType | None) -> list[str]:
    """The functions on a stack, outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        found.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}".replace(" ", "_"))
        frame = frame.f_back
    return found[::-1]
