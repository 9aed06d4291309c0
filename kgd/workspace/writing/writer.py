"""The writer: commits queued changes in batches, one flush per batch.

There is no thread for it: the caller whose change has waited longest flushes all queued changes, and then hands over
to the next. A flush has these steps: each change is staged in memory as its own commit; all new objects are written as
one flushed pack; the ref is moved by compare-and-swap, flushed and read back; then callers are answered (DESIGN section
4). After a failed flush, no change is acknowledged, and the ref determines the true state.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from kgd import metrics
from kgd.errors import Advice, Damaged, Do, KgdError, Stale, Unavailable, reason_of
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import HEAD, RefMoved, RefUpdate, move_ref, repair_ref, value_of
from kgd.git.staging import Sign, Staging
from kgd.git.store import ObjectStore
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.writing.surroundings import PendingBatch

MAX_WAITING = 32
"""Changes that wait for the next flush if an upstream decides. More are refused, so that the callers of one slow
upstream, with those of the running flush, hold at most half of a hub's threads."""
MAX_BATCH = 256
"""Maximum number of changes in one flush. More would only delay the first of them."""
MOST_RACES = 30
"""Number of times that a flush is staged again after other hubs wrote first."""

log = logging.getLogger(__name__)
R = TypeVar("R")


@dataclass(slots=True)
class Staged(Generic[R]):
    """The result of a job on the tip: its answer, and the changed files."""

    answer: R
    commit: ObjectId | None = None
    changed: dict[str, bytes | None] | None = field(default_factory=dict)
    """Blob ids by path (None: removed). None instead of a mapping if the changes are found only by a tree diff."""
    author: Signature | None = None
    request: str = ""
    nodes: Mapping[Uri, Node | None] = field(default_factory=dict)
    """The nodes after the change. A job that does not list them must run alone, since later jobs would not see its
    effect."""
    also: Sequence[RefUpdate] = ()
    """Refs of the upstream that move together with its tip, if there is a `CommitPoint`. The job must run alone."""
    verifies: bool = False
    """Whether the commit only verifies nodes."""


_UNKNOWN = object()


@dataclass(slots=True)
class _Waiting:
    job: Callable[[Staging, ObjectId], Staged[Any]]
    request: str
    alone: bool
    counted: Collection[str] = ()
    """Paths whose versions the job asks for."""
    follows: ObjectId | None = None
    """A tip of the upstream to move to, instead of a job."""
    outcome: object = _UNKNOWN
    """The answer of the job, or the exception that the caller raises."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Released when the change has its outcome, or its caller has to flush. A bare lock, because a future and an event
    take longer than the rest of the queue."""

    def __post_init__(self) -> None:
        self.turn.acquire()

    def answer(self, outcome: object) -> None:
        self.outcome = outcome
        self.turn.release()


Flushed = Callable[[list[Staged[object]], ObjectId, ObjectId], None]
"""Receives the staged changes, the new tip and its tree."""


class Writer:
    """Moves ``refs/kgd/head``; nothing else does. At most one thread works in it at a time.

    Args:
        scratch: A folder on the repository's file system where ref locks are prepared.
        pending: The staged changes of the flush, for the jobs that follow.
        flushed: Called after each flush, before callers are answered. It must only update memory.
        moved: Called when the ref is not at the expected commit, with the actual tip and the former one.
        prepare: Called before jobs run, with the paths whose versions they ask for. One query for a whole flush: after
            each query, the thread waits for the interpreter lock behind all callers.
        sign: Signs the commits that jobs make.
    """

    def __init__(
        self,
        store: ObjectStore,
        scratch: Path,
        *,
        pending: PendingBatch,
        flushed: Flushed,
        moved: Callable[[ObjectId, ObjectId], None],
        prepare: Callable[[Collection[str]], None],
        sign: Sign | None = None,
    ) -> None:
        self._store, self._scratch, self._pending = store, scratch, pending
        self._flushed, self._moved, self._prepare = flushed, moved, prepare
        self._queue: deque[_Waiting] = deque()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._is_led = self._is_closed = False
        """Whether a caller flushes, or is about to."""
        tip = store.ref(HEAD)
        assert tip is not None
        self._tip = tip
        self._staging = Staging(store, store.tree_of(tip), sign)
        self.failure = ""
        """Why the last flush failed; empty if it succeeded."""
        self._shared = False
        """Whether the last flush had several changes."""
        self._astray = False
        """Whether memory may differ from the ref."""
        self.unsigned = deque[ObjectId](maxlen=MAX_BATCH)
        """Durable unsigned commits that still need an attestation; the reader removes them."""
        self.commit_point: CommitPoint | None = None
        """The upstream's ref, if it decides."""

    @property
    def tip(self) -> ObjectId:
        """The last acknowledged tip."""
        return self._tip

    @property
    def waiting(self) -> int:
        """The number of changes that are waiting for the next flush."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether no change is waiting or being flushed."""
        return not self._is_led

    @property
    def is_busy(self) -> bool:
        """Whether changes are waiting or being flushed, or several changes shared the last flush."""
        return self._shared or self._is_led

    def run(
        self,
        job: Callable[[Staging, ObjectId], Staged[R]],
        *,
        request: str = "",
        alone: bool = False,
        counted: Collection[str] = (),
    ) -> R:
        """Run `job` against the tip and return its answer when it is durable.

        The job runs in this or another caller's thread, with the staging area and the commit that it is based on. Its
        edits are discarded if it raises. A job that runs `alone` does not share its flush with other jobs, and may move
        the tip to a commit from elsewhere. If two jobs in a flush have the same `request`, only the first runs.
        `counted` has the paths whose versions the job probably asks for.

        Raises:
            KgdError: From the job; nothing was written.
            Unavailable: The flush failed; a retry with the same request id cannot apply the change twice.
        """
        return self._answer_to(_Waiting(job, request, alone, counted))  # type: ignore[return-value]

    def follow(self, tip: ObjectId) -> None:
        """Move to a tip of the commit point, whose objects are durable here. The upstream is not asked again.

        Raises:
            Unavailable: The tip does not contain the last commit of this hub, or the ref could not be moved.
        """
        self._answer_to(_Waiting(lambda staging, tip: Staged(None), "", alone=True, follows=tip))

    def _answer_to(self, waiting: _Waiting) -> object:
        with self._lock:
            if self._is_closed:
                raise Unavailable(
                    "this workspace is being closed", next="Repeat the call: the daemon reopens the workspace."
                )
            if self.commit_point and not waiting.follows and len(self._queue) >= MAX_WAITING:
                raise Unavailable(
                    "too many changes wait for the upstream of this workspace",
                    next="Repeat the call with the same request_id in a moment.",
                )
            self._queue.append(waiting)
            leads, self._is_led = not self._is_led, True
        if not leads:
            waiting.turn.acquire()
        if waiting.outcome is _UNKNOWN:
            self._lead()
        try:
            if isinstance(waiting.outcome, BaseException):
                raise waiting.outcome
            return waiting.outcome
        finally:
            del waiting  # otherwise the exception and this frame would refer to each other until a collection

    def close(self) -> None:
        """Finish the queue; later changes are refused."""
        with self._lock:
            self._is_closed = True
            self._idle.wait_for(lambda: not self._is_led)

    def _lead(self) -> None:
        """Flush the batch that begins with the caller's own change, then hand over."""
        batch = self._take()
        try:
            with metrics.FLUSH_SECONDS.timed():
                self._flush(batch)
            metrics.FLUSHED_CHANGES.add(amount=len(batch))
        except BaseException as defect:  # a defect in kgd: answer every caller
            log.exception("a flush ended in the middle")
            self._lose_track(f"{defect!r}"[:200], batch)
            if not isinstance(defect, Exception):
                raise
        finally:
            with self._lock:
                self._is_led = bool(self._queue)
                if self._is_led:
                    self._queue[0].turn.release()
                else:
                    self._idle.notify_all()

    def _take(self) -> list[_Waiting]:
        """The next batch: the oldest change, and those behind it that may share its flush."""
        with self._lock:
            batch = [self._queue.popleft()]
            while self._queue and len(batch) < MAX_BATCH and not (batch[0].alone or self._queue[0].alone):
                batch.append(self._queue.popleft())
        return batch

    def _flush(self, batch: list[_Waiting]) -> None:
        self._shared = len(batch) > 1
        if self._astray or value_of(self._store.git_dir, HEAD) != self._tip:
            self._find_back()
        if (newest := batch[0].follows) is not None:
            return _answer([(batch[0], self._follow_newer(newest))])
        with self.commit_point.turn() if self.commit_point else contextlib.nullcontext():
            for _ in range(MOST_RACES):
                with contextlib.ExitStack() as held:  # what another hub wrote, until the ref leads to it
                    try:
                        return self._flush_once(batch, held)
                    except Overtaken as race:
                        metrics.RACES.add()
                        if failure := self._follow(race.tip):
                            return _answer([(waiting, failure) for waiting in batch])
        late = Unavailable("nothing was written: other hubs were faster each time", next="Repeat the call.")
        _answer([(waiting, late) for waiting in batch])

    def _flush_once(self, batch: list[_Waiting], held: contextlib.ExitStack) -> None:
        """Stage the batch on the tip, make it durable, and answer its callers.

        Raises:
            Overtaken: The tip was not the newest. Nothing was written, and no caller has been answered.
        """
        staged: list[tuple[_Waiting, Staged[object]]] = []
        refused: list[tuple[_Waiting, Exception]] = []
        requested: dict[str, Staged[object]] = {}
        head = self._tip
        self._pending.begin()
        self._prepare([path for waiting in batch for path in waiting.counted])
        for waiting in batch:
            mark = self._staging.mark
            try:
                result = requested.get(waiting.request) or waiting.job(self._staging, head)
            except Exception as error:
                if not isinstance(error, KgdError):
                    log.exception("a change could not be staged")
                self._staging.discard(mark)  # also a tree whose commit could not be made
                refused.append((waiting, error))
            else:
                staged.append((waiting, result))
                if waiting.request not in requested:
                    head = result.commit or head
                    self._pending.note(result.changed or (), result.nodes)
                if waiting.request:
                    requested[waiting.request] = result
        unique = list({id(result): result for _, result in staged}.values())
        failure = self._make_durable(head, unique, held)
        stale = failure if self.commit_point else None  # a refusal must be based on the newest tip
        _answer([(waiting, stale or error) for waiting, error in refused])
        _answer([(waiting, failure or result.answer) for waiting, result in staged])

    def _make_durable(
        self, head: ObjectId, staged: list[Staged[object]], held: contextlib.ExitStack
    ) -> KgdError | None:
        old, has_agreed = self._tip, False

        def agree() -> None:
            nonlocal has_agreed
            self._agree(old, head, [update for one in staged for update in one.also], held)
            has_agreed = self.commit_point is not None

        try:
            if head != old:
                self._staging.advance(self._scratch, HEAD, old, head, agree=agree)
            else:
                agree()  # an answer without a change must be based on the newest tip as well
        except Overruled as error:
            self._staging.reset(self._store.tree_of(old))
            return error
        except (OSError, KgdError, RefMoved) as error:
            if head == old:
                return _unavailable(error)
            failure = self._recover(old, head, staged, error)
            return _only_there(error) if has_agreed else failure
        if head != old:
            self.failure = ""
            self.unsigned += self._staging.unsigned
            self._staging.flushed()
            self._tip = head
            self._announce(staged, head)
        return None

    def _agree(self, old: ObjectId, head: ObjectId, also: Sequence[RefUpdate], held: contextlib.ExitStack) -> None:
        """Move the upstream's ref, if that ref decides."""
        if self.commit_point is None:
            return
        now, is_ours = held.enter_context(self.commit_point.advance(old, head, also))
        if is_ours or now == old == head:
            return
        if head == old and self._store.is_ancestor(now, old):
            return  # an upstream that was restored from a backup lacks commits, and has nothing newer
        if self._store.is_ancestor(old, now):
            raise Overtaken(now)
        raise _diverged(old)

    def _follow_newer(self, tip: ObjectId) -> Unavailable | None:
        """Move to a tip unless this hub has it already."""
        if self._store.is_ancestor(tip, self._tip):
            return None
        return self._follow(tip) if self._store.is_ancestor(self._tip, tip) else _diverged(self._tip)

    def _follow(self, tip: ObjectId) -> Unavailable | None:
        """Move to the tip that another hub wrote."""
        old = self._tip
        if tip == old:
            self._staging.reset(self._store.tree_of(tip))
            return None
        try:
            move_ref(self._store.git_dir, self._scratch, HEAD, old, tip, note="kgd: another hub")
        except (OSError, KgdError, RefMoved) as error:
            # A move that the disk did not confirm is enough, since the upstream has the tip.
            if value_of(self._store.git_dir, HEAD) != tip:
                return self._recover(old, tip, [], error)
        self.failure = ""
        self._staging.reset(self._store.tree_of(tip))
        self._tip = tip
        self._announce([Staged(None, tip, None)], tip)
        return None

    def _announce(self, staged: list[Staged[object]], head: ObjectId) -> None:
        """Update memory after a durable flush. If that fails, the change is still in effect, and the next flush reloads
        memory."""
        try:
            self._flushed(staged, head, self._staging.tree)
        except Exception:
            log.exception("the served graph could not be updated after a flush")
            self._astray = True

    def _recover(self, old: ObjectId, head: ObjectId, staged: list[Staged[object]], error: Exception) -> Unavailable:
        """After a failed flush, continue from the state of the ref. No caller has been answered yet."""
        self.failure = reason_of(error)[:300]
        log.warning("flush failed", extra={"reason": self.failure})
        now = value_of(self._store.git_dir, HEAD) or old
        self._staging.reset(self._store.tree_of(now))
        self._tip = now
        if now == head:
            self._announce(staged, head)
            return Unavailable(
                "the change was written, but the disk did not confirm that it will stay",
                next="Ask again with the same request_id: it applies once.",
            )
        if now != old:
            self._moved(now, old)
        if isinstance(error, Undecided):
            return error
        if isinstance(error, KgdError) and (error.next or isinstance(error, Unavailable)):
            next = error.next or "Repeat the call with the same request_id."
            return Unavailable(f"nothing was written: {error.message}", at=error.at, next=next)
        return Unavailable(
            f"nothing was written: {self.failure}",
            next="Free or repair the disk, then ask again.",
        )

    def _lose_track(self, reason: str, batch: Iterable[_Waiting]) -> None:
        self._astray, self.failure = True, reason
        for waiting in batch:
            if waiting.outcome is _UNKNOWN:
                waiting.answer(
                    Unavailable(
                        f"whether the change was written is not known: {reason}",
                        next="Ask again with the same request_id: it applies once.",
                    )
                )

    def _find_back(self) -> None:
        """Restart from the ref, after a flush with an unknown result, a failed update of memory, or a move by hand. A
        lost ref is restored.

        Raises:
            Damaged: No value of the ref is known.
        """
        tip = repair_ref(self._store.git_dir, self._scratch, HEAD, self._store.exists, known_good=(self._tip,))
        if tip is None:
            raise Damaged("the ref is lost and no value of it is known", at=HEAD, next="Take it from another copy.")
        if tip != self._tip or self._astray:
            self._staging.reset(self._store.tree_of(tip))
            left, self._tip = self._tip, tip
            self._moved(tip, left)
        self._astray, self.failure = False, ""


def _unavailable(error: Exception) -> Unavailable:
    return error if isinstance(error, Unavailable) else Unavailable(f"nothing was written: {reason_of(error)}")


def _diverged(tip: ObjectId) -> Unavailable:
    return Unavailable(
        "the upstream does not contain the last commit of this hub",
        at=tip.hex()[:10],
        next=Advice("Run ", Do("sync"), " to see how the upstream's history has changed."),
    )


def _only_there(error: Exception) -> Unavailable:
    return Unavailable(
        f"the upstream has accepted the change, but this hub could not follow it: {str(error)[:200]}",
        next="Repeat the call with the same request_id: the change is made once.",
    )


def _answer(outcomes: Iterable[tuple[_Waiting, object]]) -> None:
    for waiting, outcome in outcomes:
        waiting.answer(outcome)


class CommitPoint(Protocol):
    """The ref that decides whether a flush has happened, if it is not this repository's own.

    Several hubs may write one workspace. Each of them stages a change on its tip, but the change is made when the
    upstream's ref moves, by compare-and-swap. Only then does the hub move its own head and answer. If another hub moved
    the ref first, the hub drops its staged commits, adopts the new tip, and stages the same changes again; it never
    merges its own changes. `turn` and `advance` are called only by the thread that flushes.
    """

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
