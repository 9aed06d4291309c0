"""The writer thread: commits queued changes in batches, one flush per batch.

In order: each change is staged in memory as its own commit; their objects go out as one flushed pack; the ref moves by
compare-and-swap, flushed and read back; then callers are answered (DESIGN section 4). A failed flush acknowledges
nothing, and the ref has the true state.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from kgd.errors import Damaged, KgdError, Unavailable
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import HEAD, RefMoved, repair_ref, value_of
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.writing.surroundings import PendingBatch

MAX_BATCH = 256
"""Changes in one flush. More would only delay the first of them."""

log = logging.getLogger(__name__)
R = TypeVar("R")


@dataclass(slots=True)
class Staged(Generic[R]):
    """The result of a job on the tip: its answer, and the changed files."""

    answer: R
    commit: ObjectId | None = None
    changed: dict[str, bytes | None] | None = field(default_factory=dict)
    """Blob ids by path (None: removed); None for the whole if only a tree diff tells."""
    author: Signature | None = None
    request: str = ""
    nodes: Mapping[Uri, Node | None] = field(default_factory=dict)
    """The nodes afterwards. A job that does not list them must run alone: later jobs would not see its effect."""


@dataclass(slots=True)
class _Waiting:
    job: Callable[[Staging, ObjectId], Staged[Any]]
    future: Future[object]
    request: str
    alone: bool


Flushed = Callable[[list[Staged[object]], ObjectId, ObjectId], None]


class Writer:
    """The one thread that moves ``refs/kgd/head``.

    Args:
        scratch: A folder on the repository's file system where ref locks are prepared.
        pending: The staged changes of the flush, for the jobs that follow.
        flushed: Called in the writer's thread after each flush, before callers are answered, with the staged changes
            and the old and new tip. It must only update memory.
        moved: Called when the ref is not where it was expected, with the true tip and the former one.
    """

    def __init__(
        self,
        store: ObjectStore,
        scratch: Path,
        *,
        pending: PendingBatch,
        flushed: Flushed,
        moved: Callable[[ObjectId, ObjectId], None],
    ) -> None:
        self._store, self._scratch, self._pending = store, scratch, pending
        self._flushed, self._moved = flushed, moved
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        tip = store.ref(HEAD)
        assert tip is not None
        self._tip = tip
        self._staging = Staging(store, store.tree_of(tip))
        self.failure = ""
        """Why the last flush failed; empty when it succeeded."""
        self._astray = False
        """Whether memory may differ from the ref."""
        self._thread = threading.Thread(target=self._run, name="kgd-writer", daemon=True)
        self._thread.start()

    @property
    def tip(self) -> ObjectId:
        """The last acknowledged tip."""
        return self._tip

    @property
    def waiting(self) -> int:
        """Changes that wait for the next flush."""
        return self._queue.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether changes wait for the next flush."""
        return not self._queue.empty()

    def run(self, job: Callable[[Staging, ObjectId], Staged[R]], *, request: str = "", alone: bool = False) -> R:
        """Run `job` against the tip and return its answer when it is durable.

        The job runs in the writer's thread with the staging area and the commit below it. Its edits are discarded if it
        raises. An `alone` job shares its flush with no other and may make a foreign commit the tip. Of two jobs with
        one `request` in a flush, only the first runs.

        Raises:
            KgdError: From the job; nothing was written.
            Unavailable: The flush failed; a retry with the same request id applies once.
        """
        if self._closed.is_set():
            raise Unavailable("this workspace is being closed", next="Repeat the call: the daemon reopens it.")
        waiting = _Waiting(job, Future(), request, alone)
        self._queue.put(waiting)
        return waiting.future.result()  # type: ignore[return-value]

    def close(self) -> None:
        """Finish the queue, then stop."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        carried: _Waiting | None = None
        while (first := carried or self._queue.get()) is not None:
            batch, carried, last = self._take(first)
            try:
                self._flush(batch)
            except Exception as defect:
                # A defect: keep the thread alive, and answer every caller.
                log.exception("a flush ended in the middle")
                self._lose_track(f"{defect!r}"[:200], [waiting.future for waiting in batch])
            if last:
                break
        # Answer callers that arrived after the end.
        while not self._queue.empty():
            late = self._queue.get()
            if late:
                late.future.set_exception(Unavailable("this workspace is being closed"))

    def _take(self, first: _Waiting) -> tuple[list[_Waiting], _Waiting | None, bool]:
        """The next batch, a job left for the batch after it, and whether this is the last batch."""
        batch = [first]
        while not first.alone and len(batch) < MAX_BATCH:
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                break
            if waiting is None:
                return batch, None, True
            if waiting.alone:
                return batch, waiting, False
            batch.append(waiting)
        return batch, None, False

    def _flush(self, batch: list[_Waiting]) -> None:
        if self._astray or value_of(self._store.git_dir, HEAD) != self._tip:
            self._find_back()
        staged: list[tuple[_Waiting, Staged[object]]] = []
        requested: dict[str, Staged[object]] = {}
        head = self._tip
        self._pending.begin()
        for waiting in batch:
            try:
                result = requested.get(waiting.request) or waiting.job(self._staging, head)
            except KgdError as refusal:
                self._staging.discard()
                waiting.future.set_exception(refusal)
            except Exception as defect:
                log.exception("a change could not be staged")
                self._staging.discard()
                waiting.future.set_exception(defect)
            else:
                staged.append((waiting, result))
                if waiting.request not in requested:
                    head = result.commit or head
                    self._pending.note(result.changed or (), result.nodes)
                if waiting.request:
                    requested[waiting.request] = result
        if head != self._tip:
            unique = list({id(result): result for _, result in staged}.values())
            failure = self._make_durable(head, unique)
            if failure:
                for waiting, _ in staged:
                    waiting.future.set_exception(failure)
                return
        for waiting, result in staged:
            waiting.future.set_result(result.answer)

    def _make_durable(self, head: ObjectId, staged: list[Staged[object]]) -> Unavailable | None:
        old = self._tip
        try:
            self._staging.advance(self._scratch, HEAD, old, head)
        except (OSError, KgdError, RefMoved) as error:
            return self._recover(old, head, staged, error)
        self._staging.flushed()
        self._tip, self.failure = head, ""
        self._announce(staged, old, head)
        return None

    def _announce(self, staged: list[Staged[object]], old: ObjectId, head: ObjectId) -> None:
        """Update memory after a durable flush. If that fails, the change still holds, and the next flush reloads
        memory."""
        try:
            self._flushed(staged, old, head)
        except Exception:
            log.exception("the served graph could not follow a flush")
            self._astray = True

    def _recover(self, old: ObjectId, head: ObjectId, staged: list[Staged[object]], error: Exception) -> Unavailable:
        """After a failed flush, continue from the state of the ref. No caller was answered."""
        self.failure = str(error)[:300]
        log.warning("flush failed", extra={"reason": self.failure})
        now = value_of(self._store.git_dir, HEAD) or old
        self._staging.reset(self._store.tree_of(now))
        self._tip = now
        if now == head:
            self._announce(staged, old, head)
            return Unavailable(
                "the change was written, but the disk did not confirm that it will stay",
                next="Ask again with the same request_id: it applies once.",
            )
        if now != old:
            self._moved(now, old)
        if isinstance(error, KgdError) and error.next:
            return Unavailable(f"nothing was written: {error.message}", at=error.at, next=error.next)
        return Unavailable(
            f"nothing was written: {self.failure}",
            next="Free or repair the disk, then ask again with the same request_id.",
        )

    def _lose_track(self, reason: str, futures: list[Future[object]]) -> None:
        self._astray, self.failure = True, reason
        for future in futures:
            if not future.done():
                future.set_exception(
                    Unavailable(
                        f"whether the change was written is not known: {reason}",
                        next="Ask again with the same request_id: it applies once.",
                    )
                )

    def _find_back(self) -> None:
        """Restart from the ref, after a flush with an unknown end, a failed update of memory, or a move by hand. A lost
        ref is restored.

        Raises:
            Damaged: No value of it is known.
        """
        tip = repair_ref(self._store.git_dir, self._scratch, HEAD, self._store.exists, known_good=(self._tip,))
        if tip is None:
            raise Damaged("the ref is lost and no value of it is known", at=HEAD, next="Take it from another copy.")
        if tip != self._tip or self._astray:
            self._staging.reset(self._store.tree_of(tip))
            left, self._tip = self._tip, tip
            self._moved(tip, left)
        self._astray, self.failure = False, ""
