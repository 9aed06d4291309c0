"""Usage of a workspace: reads are noted, and counted in a file on this machine."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kgd.errors import KgdError
from kgd.index.usage_file import UsageFile
from kgd.model.uri import Uri
from kgd.model.usage import LEAST_TOGETHER, Conversations, Link, Suggestion, Tally, suggestions
from kgd.shared_threads import Task
from kgd.workspace.repository import THREADS
from kgd.workspace.served import Beside
from kgd.workspace.workspace import Workspace

WAITING, MANY = 1_000, 500
"""Maximum number of uncounted notes, above which notes are dropped; the number from which they are counted early."""
COUNT_SECONDS = 5.0
AGAIN = 2
"""A suggestion that was decided on is made again once its evidence has grown by this factor."""

log = logging.getLogger(__name__)


class Evidence(Protocol):
    """A suggestion, whose `count` is its evidence."""

    @property
    def id(self) -> str: ...
    @property
    def count(self) -> int: ...


class _Note(NamedTuple):
    conversation: str
    read: Sequence[Uri]
    shown: Sequence[Link]
    at: float


class Usage(Beside):
    """The nodes that conversations of this machine read in one workspace. Counting begins with `start`.

    A crash loses the notes that are not on disk yet.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._file = UsageFile(workspace.layout.derived_dir / "usage.sqlite")
        self._notes: deque[_Note] = deque()
        self._conversations = Conversations()
        self._task: Task | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = Task(THREADS, self._step)
            self._task.wake(COUNT_SECONDS)

    def close(self) -> None:
        """Count the last notes, and stop."""
        if self._task is not None:
            self._task.close(30)
            self._count()

    def note(self, conversation: str, read: Sequence[Uri], shown: Sequence[Link] = ()) -> None:
        """Record that a conversation read these nodes and was then shown these relations. Never blocks."""
        if self._task is not None and conversation and len(self._notes) < WAITING:
            self._notes.append(_Note(conversation, read, shown, time.monotonic()))
            if len(self._notes) >= MANY:  # waking the task for each note would double the cost of a short read
                self._task.wake()

    def suggestions(self) -> list[Suggestion]:
        """Suggestions from usage that have not been decided on.

        Raises:
            Unavailable: The counts cannot be read.
        """
        self._count()
        decided = self._file.decided()
        found = suggestions(self._file.tally(LEAST_TOGETHER), self._between, self._weight_of)
        exists = self._workspace.exists
        return [one for one in found if not self.is_decided(one, decided) and exists(one.source) and exists(one.target)]

    def tally(self) -> Tally:
        """All counts. Raises as `suggestions`; O(read nodes and relations)."""
        self._count()
        return self._file.tally(LEAST_TOGETHER)

    def read_since(self, at: int) -> set[Uri]:
        """Nodes that a conversation read at or after a time (Unix seconds). Raises as `suggestions`."""
        self._count()
        return self._file.read_since(at)

    def decide(self, id: str, count: int) -> None:
        """Record a decision about a suggestion, with its evidence."""
        self._file.decide(id, count)

    def is_decided(self, one: Evidence, decided: Mapping[str, int]) -> bool:
        """Whether a decision was made on a suggestion whose evidence has not doubled since then."""
        return one.count < AGAIN * decided.get(one.id, 0)

    def decided(self) -> Mapping[str, int]:
        """Suggestions that were decided on, with their evidence at that time.

        Raises:
            Unavailable: The file cannot be read."""
        return self._file.decided()

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

    # ---- counting

    def _step(self) -> float:
        self._count()
        return COUNT_SECONDS

    def _count(self) -> None:
        """Add the notes to the file."""
        with self._lock:
            tally = Tally()
            for _ in range(len(self._notes)):
                note = self._notes.popleft()
                self._conversations.read(tally, note.conversation, note.read, note.at)
                self._conversations.shown(tally, note.conversation, note.shown, note.at)
            if tally:
                self._write(tally)

    def _write(self, tally: Tally) -> None:
        try:
            self._file.add(tally, self._workspace.now())
        except KgdError as error:  # a lost count is harmless
            log.warning("usage was not counted", extra={"reason": str(error)[:200]})
