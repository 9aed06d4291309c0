"""The ref that decides whether a flush has happened, if it is not this repository's own.

Several hubs may write one workspace. Each of them stages a change on its tip, but the change is made when the
upstream's ref moves, by compare-and-swap. Only then does the hub move its own head and answer. A hub that
was overtaken drops what it staged, takes over the new tip, and stages the same changes again; it never merges its own
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kgd.errors import Stale, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import RefUpdate


class CommitPoint(Protocol):
    """`turn` and `advance` are called only by the thread that flushes."""

    def turn(self) -> AbstractContextManager[object]:
        """A context for each flush. Hubs may take turns in it, to lose fewer races; correctness is unaffected."""

    def newest(self, told: ObjectId | None = None) -> AbstractContextManager[ObjectId]:
        """A context with the ref's value, whose objects are as in `advance`. Called by any thread.

        Args:
            told: The value that another hub reported.

        Raises:
            Unavailable: The upstream cannot be reached, or has an unrelated history.
        """

    def advance(
        self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate] = ()
    ) -> AbstractContextManager[tuple[ObjectId, bool]]:
        """Move the upstream's ref from `old` to `new`, a descendant whose objects are durable here, together with other
        refs of the upstream. If both are equal, only read the ref.

        The context's value is the ref afterwards, and whether this hub has moved it to `new`. If not, the ref is at the
        tip of a faster hub, which may have made an equal commit. Its objects are vetted, durable here, and safe from a
        gc.

        Raises:
            Overruled: A ref of `also` has another value. Nothing moved.
            Undecided: The upstream may or may not have accepted `new`.
            Unavailable: The ref did not move, and its value is not known.
        """


class Undecided(Unavailable):
    """The connection was lost while the upstream may have moved its ref. A retry with the same request id is safe."""


class Overruled(Stale):
    """Another hub was faster to decide about, or to change, what this push would have settled. Nothing was written."""

    def __init__(self, at: str) -> None:
        super().__init__("another hub changed this first", current=0, at=at, next="Read it again, and then decide.")


class Overtaken(Exception):
    """Another hub moved the upstream's ref first, to `tip`."""

    def __init__(self, tip: ObjectId) -> None:
        super().__init__(tip.hex())
        self.tip = tip
