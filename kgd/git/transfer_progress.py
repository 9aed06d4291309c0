"""Progress of a transfer, read from the error output of git."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from kgd.errors import KgdError

Progress = Callable[[int, int | None, str], None]

_STEPS = re.compile(
    rb"(Counting|Compressing|Receiving|Writing|Unpacking|Resolving) (objects|deltas): +\d+% \((\d+)/(\d+)\)"
).finditer


def listener(report: Progress) -> Callable[[bytes], None]:
    """Report the newest step in each piece of git's error output, with its own count: ``receiving objects``."""

    def hear(part: bytes) -> None:
        steps = list(_STEPS(part))
        if steps:
            verb, noun, done, total = steps[-1].groups()
            with contextlib.suppress(KgdError):  # the client has disconnected; the transfer continues
                report(int(done), int(total), f"{verb.decode().lower()} {noun.decode()}")

    return hear
