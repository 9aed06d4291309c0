"""This file is where it is kept when each workspace elsewhere was last reached, for whoever misses it now."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

SEEN_EVERY = 30.0
"""How often, in seconds, it is written down that a hub was seen; a daemon that ends in order writes the last time."""

log = logging.getLogger("kgd.elsewhere")


class LastSeen:
    """When each workspace elsewhere was last reached: the time of an empty file, so that it outlives the daemon."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        self._known: dict[str, float] = {}
        self._written: dict[str, float] = {}

    def note(self, workspaces: Iterable[str]) -> None:
        now = self._clock()
        for workspace in workspaces:
            self._known[workspace] = now
            written = self._written.get(workspace, 0.0)
            if now - written >= SEEN_EVERY or now < written:
                self._write(workspace, now)

    def at(self, workspace: str) -> float | None:
        """None for never. After a daemon that was killed, to within half a minute."""
        if workspace not in self._known:
            try:
                self._known[workspace] = self._written[workspace] = (self._folder / workspace).stat().st_mtime
            except OSError:
                return None
        return self._known[workspace]

    def close(self) -> None:
        """Write down what was only kept in memory."""
        for workspace, at in list(self._known.items()):
            if self._written.get(workspace) != at:
                self._write(workspace, at)

    def _write(self, workspace: str, at: float) -> None:
        self._written[workspace] = at
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / workspace).touch()
            os.utime(self._folder / workspace, (at, at))
        except OSError:
            log.warning("when a hub was seen is not kept", extra={"workspace": workspace})
