"""Lines on a terminal, without control sequences from stored text, and the progress of a long call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kgd.config import wants_color


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and wants_color() else text


def red(text: str) -> str:
    """The colour for missing or unreadable things; colour is never the only sign."""
    return f"\033[31m{text}\033[0m" if sys.stdout.isatty() and wants_color() else text


def clean(value: Any) -> Any:
    """The value with control and direction characters escaped: stored text is untrusted."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


OnProgress = Callable[[int, int | None, str], None]

SILENT_SECONDS = 1.0
"""Seconds until the first message."""


@contextmanager
def told(what: str, options: dict[str, Any]) -> Iterator[OnProgress | None]:
    """Show progress on one line of standard error, which is cleared at the end. Shows nothing if this is not a
    terminal.

    Yields a function to call with done, total and a message. A message that stays for a second is shown with the
    elapsed time.
    """
    if options.get("quiet") or options.get("json") or not sys.stderr.isatty():
        yield None
        return
    from threading import Event, Lock, Thread

    began = last = time.monotonic()
    ended, lock, is_shown, doing = Event(), Lock(), False, f"kgd {what}"

    def write(text: str) -> None:
        nonlocal is_shown, last
        with lock:
            if not ended.is_set():
                sys.stderr.write(f"\r\033[K{text}")
                sys.stderr.flush()
                is_shown, last = bool(text), time.monotonic()

    def progress(done: int, total: int | None, message: str) -> None:
        nonlocal doing
        if done == total:
            write("")
            return
        doing = f"{message} {done}/{total}" if total else f"{message} {done}"
        write(doing)

    def tick() -> None:
        while not ended.wait(SILENT_SECONDS / 4):
            if time.monotonic() - last >= SILENT_SECONDS:
                write(f"{doing}: {time.monotonic() - began:.0f} s so far, Ctrl-C stops waiting")

    Thread(target=tick, daemon=True).start()
    try:
        yield progress
    finally:
        ended.set()
        with lock:
            if is_shown:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
