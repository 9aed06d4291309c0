"""One line with a bar, counts, rate and remaining time."""

from __future__ import annotations

import sys
from typing import Literal

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.text import Text

BAR = 24
LEAST_BAR = 8
"""Columns of the longest and of the shortest bar; where no bar fits, none is shown."""
COUNTS = 40
"""Columns kept for counts, rate and remaining time."""
FEW = 20
"""Largest total that counts unequal steps, which have no rate."""


class Bar:
    """The line of one command. `clear` removes it. The cursor stays visible however the process ends."""

    def __init__(self, has_color: bool) -> None:
        color: Literal["256"] | None = "256" if has_color else None
        self._console = Console(stderr=True, force_terminal=True, highlight=False, color_system=color)
        self._console.width -= 1
        self._progress = Progress(_Line(self._console.width), console=self._console, auto_refresh=False)
        self._task = self._progress.add_task("", total=None)
        self._doing = ""

    def show(self, doing: str, done: int, total: int | None, waits: float | None) -> None:
        """Renew the line.

        Args:
            waits: Seconds since the start if nothing was reported lately; otherwise None.
        """
        if doing != self._doing:
            self._doing = doing
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(doing, total=total)
        self._progress.update(self._task, completed=done, total=total, waits=waits)
        with self._console.capture() as captured:
            self._console.print(self._progress.get_renderable(), no_wrap=True, crop=True)
        self._write(captured.get().partition("\n")[0].rstrip())

    def clear(self) -> None:
        self._write("")

    @staticmethod
    def _write(line: str) -> None:
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


class _Line(ProgressColumn):
    """The current step, with a bar, counts, rate and remaining time, as far as they are known and fit the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def render(self, task: Task) -> Text:
        counts = _counts(task)
        if len(task.description) + 1 + len(counts) > self._width:
            counts = counts.partition("  ")[0]
        line = Text(task.description)
        line.truncate(max(self._width - len(counts) - 1, 0), overflow="ellipsis")
        room = self._width - len(line) - COUNTS
        bar = (_bar(int(task.completed), task.total, min(room, BAR)), "  ") if task.total and room >= LEAST_BAR else ()
        return Text.assemble(line, " ", *bar, (counts, "dim"))


def _counts(task: Task) -> str:
    done, total, waits = int(task.completed), task.total, task.fields.get("waits")
    parts = [f"{done:,} of {int(total):,}" if total else f"{done:,}"] if total or done else []
    if waits is not None:
        parts.append(f"{_span(waits)} so far" + ("" if total else ", Ctrl-C stops waiting"))
    elif task.speed and (total is None or total > FEW):
        parts.append(f"{task.speed:,.0f}/s")
        if task.time_remaining:
            parts.append(f"{_span(task.time_remaining)} left")
    return "  ".join(parts)


def _bar(done: int, total: float, width: int) -> Text:
    filled = min(width, round(width * done / total))
    return Text.assemble(("━" * filled, "color(28)"), ("─" * (width - filled), "dim"))


def _span(seconds: float) -> str:
    """``8 s``, ``2 min 5 s``, ``3 h``."""
    whole = round(seconds)
    return (
        f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s" if whole < 3_600 else f"{whole // 3_600} h"
    )
