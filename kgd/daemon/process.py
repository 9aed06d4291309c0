"""The daemon's process: the lock of its home, its settings for threads and memory, file descriptors, a sampling
profile, and its log.

The lock allows one daemon per home; the kernel releases it when its process ends.

A daemon without a free file descriptor can neither write nor report the problem. Clients are therefore refused while a
few descriptors are still free.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import json
import logging
import logging.handlers
import os
import resource
import select
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from kgd import tracing
from kgd.config import one_thread_each
from kgd.errors import MALFORMED, Unavailable

LOCK_SECONDS = 0.3
"""Seconds to wait for a daemon that is stopping; a second daemon must give up within one second."""
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


class HomeLock:
    """The exclusive right to be the daemon of one home.

    An advisory lock on an open file, which a crash or ``kill -9`` releases at once. The text in the file (pid, version,
    since) names the holder and is not trusted without the lock. A forked child shares the lock; `note` then names it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def acquire(self, version: str, since: str, patience: float = LOCK_SECONDS) -> None:
        """Take the lock and write its holder into the file.

        Raises:
            Unavailable: Another daemon holds the lock; the message names its pid, version and start.
        """
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(fd)
                    raise _held(self.path) from None
                time.sleep(0.02)
        self._fd = fd
        self.note(version, since)

    def note(self, version: str, since: str) -> None:
        """Write this process into the file as the holder. Call this again after a fork."""
        text = json.dumps({"pid": os.getpid(), "version": version, "since": since}).encode() + b"\n"
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def is_there(self) -> bool:
        """Whether the file still exists at its path. If it does not, another daemon could take a new lock."""
        try:
            return os.fstat(self._fd).st_ino == os.stat(self.path).st_ino
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(path: str) -> dict[str, object]:
    """pid, version and start of the last holder, which may have ended; empty if unreadable."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(4096))
    except (OSError, *MALFORMED):
        return {}
    return found if isinstance(found, dict) else {}


def _held(path: str) -> Unavailable:
    who = holder(path)
    return Unavailable(
        f"a kgd daemon is already running for this home: pid {who.get('pid', 'unknown')}, "
        f"version {who.get('version', 'unknown')}, since {who.get('since', 'unknown')}",
        next="Use it, or stop it with `kgd down`; a second daemon needs its own KGD_HOME.",
    )


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


BYTES = 5 * 2**20
KEPT = 3

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class _NonBlockingHandler(logging.Handler):
    """Writes to standard error; drops lines when the pipe is full, since a blocked write would stop every thread."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd, self._left_out = fd, 0
        self._room = select.poll()
        self._room.register(fd, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
            if self._left_out:
                line = f"({self._left_out} lines are only in the log file)\n{line}"
            self._left_out = 0 if self._write(line.encode("utf-8", "replace")) else self._left_out + 1
        except OSError:  # the reader has closed the pipe
            self._left_out += 1

    def _write(self, data: bytes) -> bool:
        """Write the bytes; return whether all were written. A writable pipe takes `PIPE_BUF` bytes without blocking."""
        for start in range(0, len(data), select.PIPE_BUF):
            if not any(events & select.POLLOUT for _, events in self._room.poll(0)):
                return False
            os.write(self._fd, data[start : start + select.PIPE_BUF])
        return True


class _LineFormatter(logging.Formatter):
    """One line per record: time in UTC, level, logger, constant text, then variable parts as ``key=value``."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        extra = " ".join(f"{name}={value}" for name, value in log_fields(record).items())
        head, newline, traceback = text.partition("\n")
        return f"{head} {extra}".rstrip() + newline + traceback


class _JsonFormatter(logging.Formatter):
    """One JSON object per line, with the id of the request that the line is about."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, object] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        line["message"] = record.getMessage()
        if request := tracing.current():
            line["request_id"] = request.id
        for name, value in record.__dict__.items():
            if name not in _STANDARD:
                line[name] = value if isinstance(value, int | float) else str(value)[:200]
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_fields(record: logging.LogRecord) -> dict[str, str]:
    """The variable parts of a record; long values are cut."""
    return {name: _short(value) for name, value in record.__dict__.items() if name not in _STANDARD}


def start_log(path: str, level: str = "info", *, to_stderr: bool = False, as_json: bool = False) -> None:
    """Log to `path`, readable only by its owner, and on request also to standard error. JSON logs contain a line for
    each request to a hub."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    text = _LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    form = _JsonFormatter() if as_json else text
    before = os.umask(0o077)
    try:
        handlers: list[logging.Handler] = [
            logging.handlers.RotatingFileHandler(path, maxBytes=BYTES, backupCount=KEPT, encoding="utf-8")
        ]
    finally:
        os.umask(before)
    if to_stderr:
        handlers.append(_NonBlockingHandler(sys.stderr.fileno()))
    for handler in handlers:
        handler.setFormatter(form)
        root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for chatty in ("asyncio", "watchdog", "mcp", "uvicorn", "uvicorn.access", "httpx"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("kgd.requests").setLevel(root.level if as_json else logging.WARNING)


def _short(value: object) -> str:
    text = str(value)
    return repr(text[:200]) if " " in text or not text.isprintable() else text[:200]
