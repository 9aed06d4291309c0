"""This file is where waiting changes become durable commits: one thread, one flush for all that wait.

The order is DESIGN section 4: each change is staged as its own commit in memory; the objects of all of them go out as
one pack, flushed; the ref moves by compare-and-swap, flushed and read back; only then is anybody told. A flush that
fails acknowledges nothing, and the ref says what is true afterwards.
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
from kgd.workspace.surroundings import PendingBatch

MAX_BATCH = 256
"""Changes in one flush. More would only make the first of them wait longer."""

log = logging.getLogger(__name__)
R = TypeVar("R")


@dataclass(slots=True)
class Staged(Generic[R]):
    """What a job made of the tip: its answer, and the files that differ, by path (None: removed)."""

    answer: R
    commit: ObjectId | None = None
    changed: dict[str, bytes | None] | None = field(default_factory=dict)
    """Blob ids by path; None where only a comparison of the trees tells."""
    author: Signature | None = None
    request: str = ""
    nodes: Mapping[Uri, Node | None] = field(default_factory=dict)
    """The nodes as it leaves them. A job that does not say has to run alone: later ones would not see what it did."""


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
        flushed: Called in the writer's thread after each flush, before anybody is acknowledged, with what was staged
            and the old and new tip. It must only do memory work.
        moved: Called when the ref turned out to be elsewhere than expected, with the tip that is now true and the one
            that was.
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
        """Whether memory may differ from what the ref says."""
        self._thread = threading.Thread(target=self._run, name="kgd-writer", daemon=True)
        self._thread.start()

    @property
    def tip(self) -> ObjectId:
        """The last acknowledged tip."""
        return self._tip

    @property
    def waiting(self) -> int:
        """Changes that wait for the flush after the one that is under way."""
        return self._queue.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether changes wait for the next flush."""
        return not self._queue.empty()

    def run(self, job: Callable[[Staging, ObjectId], Staged[R]], *, request: str = "", alone: bool = False) -> R:
        """Carry out `job` against the tip and return its answer once it is durable.

        The job runs in the writer's thread, is given the staging area and the commit it stands on, and may leave
        half-made edits behind when it raises: they are discarded. A job that is `alone` shares its flush with no other
        and may make a foreign commit the tip. Of two jobs with one `request` in a flush, only the first is run.

        Raises:
            KgdError: What the job raised; nothing of it was written.
            Unavailable: The flush failed; a retry with the same request id applies once.
        """
        if self._closed.is_set():
            raise Unavailable("this workspace is being closed", next="Ask again; the daemon will open it anew.")
        waiting = _Waiting(job, Future(), request, alone)
        self._queue.put(waiting)
        return waiting.future.result()  # type: ignore[return-value]

    def close(self) -> None:
        """Finish what is waiting, then stop."""
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
                # Whatever it was, the thread goes on, and nobody waits for ever.
                log.exception("a flush ended in the middle")
                self._lose_track(f"{defect!r}"[:200], [waiting.future for waiting in batch])
            if last:
                break
        # Whoever slipped in behind the end is told, rather than left waiting.
        while not self._queue.empty():
            late = self._queue.get()
            if late:
                late.future.set_exception(Unavailable("this workspace is being closed"))

    def _take(self, first: _Waiting) -> tuple[list[_Waiting], _Waiting | None, bool]:
        """What is flushed together, the job that has to wait for the next flush, and whether this is the last one."""
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
        """Let memory follow what is durable. If that fails the change is no less true; the next flush makes it good."""
        try:
            self._flushed(staged, old, head)
        except Exception:
            log.exception("what is served could not follow a flush")
            self._astray = True

    def _recover(self, old: ObjectId, head: ObjectId, staged: list[Staged[object]], error: Exception) -> Unavailable:
        """Nothing was acknowledged; look where the ref is and go on from there."""
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
        """Start again from what the ref says: after a flush whose end is not known or that memory could not follow, and
        after another hand was at the ref. A lost ref gets its value again.

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
