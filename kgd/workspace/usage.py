"""Usage of a workspace: reads are queued, and counted in a file on this machine."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kgd.errors import KgdError
from kgd.index.usage_file import UsageFile
from kgd.model.uri import Uri
from kgd.model.usage import LEAST_TOGETHER, Conversations, Link, Suggestion, Tally, suggestions
from kgd.workspace.workspace import Workspace

WAITING = 1_000
"""Queued notes; further ones are not counted."""
FLUSH_SECONDS = 5.0
AGAIN = 2
"""A decided suggestion returns when its evidence has grown by this factor."""

log = logging.getLogger(__name__)


class Evidence(Protocol):
    """A suggestion, with `count` as its evidence."""

    @property
    def id(self) -> str: ...
    @property
    def count(self) -> int: ...


class _Note(NamedTuple):
    conversation: str
    read: Sequence[Uri]
    shown: Sequence[Link]
    at: float


class Usage:
    """The nodes that conversations of this machine read in one workspace. Counts after `start`.

    `note` only adds to a queue. A crash loses the notes that are not on disk yet.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._file = UsageFile(workspace.layout.derived_dir / "usage.sqlite")
        self._queue: queue.Queue[_Note | threading.Event | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, workspace: Workspace) -> Usage:
        return workspace.beside(cls, cls)

    def start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._follow, name="kgd-usage", daemon=True)
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Count the queued notes, and stop."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(30)

    def note(self, conversation: str, read: Sequence[Uri], shown: Sequence[Link] = ()) -> None:
        """Note that a conversation read these nodes and was then shown these relations. Never blocks."""
        if self._thread is not None and conversation:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(_Note(conversation, read, shown, time.monotonic()))

    def suggestions(self) -> list[Suggestion]:
        """Suggestions from usage that are not decided yet. Waits for queued notes.

        Raises:
            Unavailable: The counts cannot be read.
        """
        self._counted()
        decided = self._file.decided()
        found = suggestions(self._file.tally(LEAST_TOGETHER), self._between, self._weight_of)
        exists = self._workspace.exists
        return [one for one in found if not self.is_decided(one, decided) and exists(one.source) and exists(one.target)]

    def tally(self) -> Tally:
        """All counts. Raises as `suggestions`; O(read nodes and relations)."""
        self._counted()
        return self._file.tally(LEAST_TOGETHER)

    def read_since(self, at: int) -> set[Uri]:
        """Nodes that a conversation read at or after a time (Unix seconds). Raises as `suggestions`."""
        self._counted()
        return self._file.read_since(at)

    def decide(self, id: str, count: int) -> None:
        """Record a decision about a suggestion, with its evidence."""
        self._file.decide(id, count)

    def is_decided(self, one: Evidence, decided: Mapping[str, int]) -> bool:
        """Whether it was decided, and its evidence has not doubled since."""
        return one.count < AGAIN * decided.get(one.id, 0)

    def decided(self) -> Mapping[str, int]:
        """Decided suggestions with their evidence at that time.

        Raises:
            Unavailable: It cannot be read.
        """
        return self._file.decided()

    def _counted(self) -> None:
        """Wait for the queued notes."""
        if self._thread is not None:
            counted = threading.Event()
            self._queue.put(counted)
            counted.wait(FLUSH_SECONDS)

    # ---- edges between nodes

    def _between(self, a: Uri, b: Uri) -> tuple[Link, float] | None:
        graph = self._workspace.graph
        found = [(edge.weight, (a, b, edge.type)) for edge in graph.out(a) if edge.target == b]
        found += [(edge.weight, (b, a, edge.type)) for edge in graph.out(b) if edge.target == a]
        if not found:
            return None
        weight, link = min(found)
        return link, weight

    def _weight_of(self, link: Link) -> float | None:
        source, target, type = link
        edges = self._workspace.graph.out(source)
        return next((edge.weight for edge in edges if (edge.target, edge.type) == (target, type)), None)

    # ---- counting (its own thread)

    def _follow(self) -> None:
        conversations, tally = Conversations(), Tally()
        due = 0.0
        while True:
            try:
                note = self._queue.get(timeout=max(0.1, due - time.monotonic()) if tally else None)
            except queue.Empty:
                note = _NOTHING
            if isinstance(note, _Note) and note is not _NOTHING:
                due = due if tally else note.at + FLUSH_SECONDS
                conversations.read(tally, note.conversation, note.read, note.at)
                conversations.shown(tally, note.conversation, note.shown, note.at)
            if tally and (not isinstance(note, _Note) or time.monotonic() >= due):
                self._write(tally)
                tally = Tally()
            if isinstance(note, threading.Event):
                note.set()
            if note is None:
                return

    def _write(self, tally: Tally) -> None:
        try:
            self._file.add(tally, self._workspace.now())
        except KgdError as error:  # a lost count does no harm
            log.warning("usage was not counted", extra={"reason": str(error)[:200]})


_NOTHING = _Note("", (), (), 0.0)
