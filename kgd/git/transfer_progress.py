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
    """Report the newest step of each phase in each piece of git's error output, as in ``receiving objects``."""

    def hear(part: bytes) -> None:
        newest = {step[1] + b" " + step[2]: (int(step[3]), int(step[4])) for step in _STEPS(part)}
        with contextlib.suppress(KgdError):  # the client has disconnected; the transfer continues
            for phase, (done, total) in newest.items():
                report(done, total, phase.decode().lower())

    return hear
