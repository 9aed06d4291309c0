"""This file is where it is guessed which text an editor started from, when it saves over what has changed since."""

from __future__ import annotations

import time
from collections import OrderedDict

from kgd.git.objects import ObjectId, object_id

RECENT_SECONDS = 600.0
RECENT_PATHS = 2_000
RECENT_VERSIONS = 6


class Buffers:
    """Texts that somebody's editor may hold, by path: the last few versions of the last few files."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, list[tuple[bytes, float]]] = OrderedDict()
        """Newest last, with the time."""

    def note(self, path: str, before: bytes | None, now: bytes | None) -> None:
        """What was at the path and what is; the order is that in which somebody may have opened them."""
        kept = [known for known in self._texts.pop(path, []) if known[0] != now]
        at = time.monotonic()
        if before is not None and before != now and all(before != text for text, _ in kept):
            kept.insert(0, (before, at))
        if now is not None:
            kept.append((now, at))
        self._texts[path] = kept[-RECENT_VERSIONS:]
        while len(self._texts) > RECENT_PATHS:
            self._texts.popitem(last=False)

    def ids(self, path: str) -> frozenset[ObjectId]:
        return frozenset(object_id("blob", text) for text, _ in self._texts.get(path, []))

    def closest(self, path: str, data: bytes, latest: bytes | None) -> bytes | None:
        """Of `latest` and the recent versions of a file the one that `data` was most likely made from.

        An editor with an old buffer would take back what was published since. So of the recent versions the one that
        is closest to what they saved counts; one they saved unchanged is a wish to go back.
        """
        start = time.monotonic() - RECENT_SECONDS
        recent = [text for text, when in reversed(self._texts.get(path, [])) if when >= start]
        candidates = [*([] if latest is None else [latest]), *recent]
        if data in candidates or not candidates:
            return latest
        return min(candidates, key=lambda text: _distance(text, data))


def _distance(a: bytes, b: bytes) -> int:
    """Lines that are in one text alone."""
    return len(set(a.split(b"\n")) ^ set(b.split(b"\n")))
