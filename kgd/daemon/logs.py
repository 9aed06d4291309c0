"""The daemon's log for its operator: rotated, without request bodies or tokens."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import select
import sys
import time
from datetime import UTC, datetime

from kgd import tracing

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
        extra = " ".join(f"{name}={value}" for name, value in fields(record).items())
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


def fields(record: logging.LogRecord) -> dict[str, str]:
    """The variable parts of a record; long values are cut."""
    return {name: _short(value) for name, value in record.__dict__.items() if name not in _STANDARD}


def start(path: str, level: str = "info", *, to_stderr: bool = False, as_json: bool = False) -> None:
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
