"""Derived data: text index, versions and graph snapshot, kept in step with the tip.

A task in shared threads follows the writer. It learns of each flush after the callers have their answers, so no write
waits for SQLite. It takes all waiting flushes at once, writes their versions, and has a worker write the text index. A
search waits for this task, so it finds every acknowledged change. All files may be deleted at any time: they are
rebuilt from git and give the same answers.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kgd.errors import MALFORMED, Damaged, KgdError, Unavailable
from kgd.git.files import replace as replace_file
from kgd.git.objects import ObjectId
from kgd.git.program import GitFailed
from kgd.git.store import ObjectStore
from kgd.graph import live_graph
from kgd.graph.array_builder import Frozen
from kgd.graph.arrays import Arrays, read_snapshot, write_snapshot
from kgd.index.change_feed import Feed
from kgd.index.database import Database, IndexDamaged, cause_of
from kgd.index.text import FILE_NAME, Doc, FileDoc, TextIndex
from kgd.index.version_cache import VersionFile
from kgd.model.uri import Uri
from kgd.shared_threads import Task, Threads
from kgd.workspace.answers import Similar, Stage, Version
from kgd.workspace.derived import first_build, indexed_text
from kgd.workspace.derived.indexed_text import IndexedText, Interrupted, Place, place_of, read_by
from kgd.workspace.derived.version_cache import READY_WITHIN, VersionCache, come_back
from kgd.workspace.repository import give_memory_back
from kgd.workspace.served import Change, Served
from kgd.workspace.writing.signing import Seal
from kgd.workspace.writing.writer import Staged

log = logging.getLogger(__name__)

THREADS = Threads("kgd-derived", 6)

IDLE = 5.0
"""An idle moment begins after this many seconds without a flush."""
TAKEN = 200
"""Largest number of steps that are carried out together."""
LOOK_AGAIN = 0.5
"""Seconds between checks by a search that waits for the text index."""
PARTIAL_AFTER = 10.0
"""Seconds for which searches wait while the text index is brought to the tip; afterwards they answer from a part of the
texts."""

SNAPSHOT_AFTER = 500
"""Number of changed nodes after which the file is rewritten in an idle moment."""


@dataclass(frozen=True, slots=True)
class _Flush:
    """One flush, as the follower sees it."""

    changes: Sequence[Change]
    versions: dict[str, Version] | None
    """None if commits from elsewhere came in; versions are then counted from history."""
    requests: dict[str, ObjectId]
    tip: ObjectId
    tree: ObjectId


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of the code tree for the index; with `complete`, these are all files of the tree."""

    present: Sequence[FileDoc]
    gone: Sequence[Uri]
    complete: bool


@dataclass(frozen=True, slots=True)
class _Docs:
    """The documents that were read from a file of the code tree."""

    file: Uri
    docs: Sequence[Doc]


_Step = _Flush | _Files | _Docs | Callable[[], None]


class Derived:
    """Text index, versions and snapshot of one workspace. Call `start` first.

    Args:
        folder: The folder of the files; all files of this class in it may be deleted.
        code_files: The current files of the code tree, for a new index.
        code_docs: The documents read from these files, also for a new index.
    """

    def __init__(
        self,
        store: ObjectStore,
        served: Served,
        folder: Path,
        clock: Callable[[], float],
        code_files: Callable[[], Sequence[FileDoc]],
        code_docs: Callable[[], Iterable[tuple[Uri, Sequence[Doc]]]],
        seal: Seal,
    ) -> None:
        self._store, self._served, self._clock = store, served, clock
        self._sum_file = folder / "index.sum"
        self.graph_file = GraphFile(served, folder / "graph.snapshot")
        self._queue: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        self._carried: list[_Step] = []
        """The step taken from the queue that did not fit to those before it."""
        self._changed = threading.Condition()
        self._noted = self._applied = 0
        self._behind: list[_Flush] = []
        """Flushes that the database lacks because it could not be written; it is later brought to the tip in one
        step."""
        self._code_files, self._code_docs = code_files, code_docs
        self.stage = Stage("index", "waiting", blocker="starting")
        self._partial_from = float("inf")
        """The moment from which searches do not wait for the text index."""
        self._sums = dict[Database, bytes]()
        """The checksums of a clean stop, until they are compared."""
        self._closing = False
        self._task: Task | None = None
        self._worked_at = 0.0
        self._tip = self._tree = b""
        self._database, self._version_file = Database(folder / FILE_NAME), VersionFile(folder / "versions.sqlite")
        self._database.own()
        self._is_mending = False
        self._database.on_damage = self._met_damage
        self._feed = Feed(self._database, read_by(store))
        self.place: Place = place_of(store, self._database.path)
        self.followers: list[Callable[[], None]] = []
        """Called after each step, in the thread that carried it out; they must not block."""
        self.versions = VersionCache(store, self._version_file, self._mend, seal, served.counted)
        """Versions by path and commits by request id."""
        self.indexed = IndexedText(store, served, self._database, self.versions, lambda: self._closing)

    # ---- life

    def start(self, tip: ObjectId) -> None:
        """Load the graph of `tip`, then follow it in the background. Called again if the tip was moved by hand."""
        tree = self._store.tree_of(tip)
        self._load_graph(tip, tree)
        self.versions.begin(anew=True)
        # Queued like a flush, so that a search waits for it instead of answering from half an index.
        self._enqueue(_Flush((), None, {}, tip, tree))
        if self._task is None:
            self._sums = self._read_sums()
            self._task = Task(THREADS, self._step)
            self._task.wake()

    def _load_graph(self, tip: ObjectId, tree: ObjectId) -> None:
        """Update the served graph to `tree`, from the snapshot if it is usable."""
        store = self._store
        if self._served.tree is None and not self.graph_file.restore(store) and first_build.is_worth_it(store):
            files = {first_build.GRAPH: self.graph_file.path}
            with contextlib.suppress(KgdError, OSError):  # the task reports it
                if self._version_file.head() is None:
                    self._sum_file.unlink(missing_ok=True)
                    files[first_build.VERSIONS] = self._version_file.path
            first_build.run(store, self._served, tip, files)
            self.graph_file.restore(store)
        is_first = self._served.tree is None
        changed = self._served.load(tree)
        self.graph_file.unsaved = len(self._served.graph) if is_first else len(changed)

    def stop_soon(self) -> None:
        """Interrupt long work, which the next start continues, and callers that wait for it. `close` follows."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._partial_from < float("inf"):
            self.indexed.worker.stop()

    def close(self) -> None:
        """Finish the queue and write the snapshot."""
        self.stop_soon()
        if self._task:
            self._task.close()
            while self._carry_out_next():
                pass
            self.indexed.worker.end()
        self.graph_file.save(closing=True)
        for file in self._files:
            file.close()
        if self._task and not self._behind:
            # SQLite detects a torn file, but not a flipped bit in a version or a word.
            with contextlib.suppress(OSError):
                replace_file(self._sum_file, b"\n".join(file.digest() for file in self._files), flush=False)

    @property
    def _files(self) -> tuple[Database, ...]:
        return self._database, self._version_file

    # ---- notes from other threads

    def note(self, staged: Sequence[Staged[object]], changes: Sequence[Change], tip: ObjectId, tree: ObjectId) -> None:
        """Record a flush, in the thread that flushed. Memory is updated now, the database later."""
        requests = {one.request: one.commit for one in staged if one.request and one.commit}
        self.versions.remember(requests)
        versions = None if any(one.changed is None for one in staged) else self.versions.bump(staged)
        if versions is None:
            self.versions.begin(anew=True)
        self._enqueue(_Flush(changes, versions, requests, tip, tree))

    def note_files(self, present: Sequence[FileDoc], gone: Sequence[Uri] = (), *, complete: bool = False) -> None:
        """Index files of the code tree. May be called from any thread. With `complete`, `present` lists all existing
        files."""
        self._enqueue(_Files(present, gone, complete))

    def note_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Replace the documents read from a file of the code tree. May be called from any thread; returns at once."""
        self._enqueue(_Docs(file, docs))

    def _enqueue(self, step: _Step) -> None:
        with self._changed:
            self._noted += 1
        self._queue.put(step)
        if self._task:
            self._task.wake()

    # ---- reads

    def text(self) -> TextIndex:
        """The text index, with every change acknowledged before the call.

        Raises:
            Unavailable: The index is being built, and is not ready after two minutes.
        """
        self._catch_up()
        return self.indexed.text

    @property
    def is_partial(self) -> bool:
        """Whether the text index has only some of the texts, and `text_so_far` does not wait for the others."""
        return time.monotonic() > self._partial_from

    @property
    def is_in_step(self) -> bool:
        """Whether the follower has carried out every step."""
        return self._applied >= self._noted

    def text_so_far(self) -> TextIndex:
        """As `text`, but does not wait while `is_partial`."""
        self._catch_up(so_far=True)
        return self.indexed.text

    def feed(self) -> Feed:
        """The additions to and removals from the text index, as current as `text`."""
        self._catch_up()
        return self._feed

    def similar(self, named: Mapping[Uri, str], replaced: Mapping[Uri, Collection[Uri]]) -> tuple[Similar, ...]:
        """Older nodes whose names are similar to those of some new nodes; none while the index is behind. See
        `indexed_text.similar`."""
        if self.stage.state != "ok":
            return ()
        return indexed_text.similar(named, replaced, self._served.graph, self.indexed.text)

    def rebuild(self) -> None:
        """Rebuild index and versions from git; callers wait for this as they do after startup."""
        self.graph_file.unsaved += 1  # the snapshot is rewritten too
        self._mend()
        self._catch_up()

    def count_again(self) -> None:
        """Update versions and request ids after the key of the seals was replaced; callers wait for this."""
        self.versions.begin()
        self._enqueue(lambda: self._bring_to(self._tip, self.versions.end))

    def _mend(self) -> None:
        self.versions.begin()
        self._enqueue(self._anew)

    def _met_damage(self, damage: IndexDamaged) -> None:
        """A reader hit the damage. Its call fails; later calls wait for the rebuild."""
        if self._task is None or self._task.is_mine or self._closing:
            return  # `_attempt` or the next start repairs it
        with self._changed:
            if self._is_mending:
                return
            self._is_mending = True
        log.warning("the index is damaged and is being rebuilt", extra={"reason": cause_of(damage)})
        self._mend()

    def _catch_up(self, *, so_far: bool = False) -> None:
        def is_done() -> bool:
            return (so_far and self.is_partial) or (self._applied >= goal and self.versions.is_ready)

        deadline = time.monotonic() + READY_WITHIN
        with self._changed:
            goal = self._noted
            while not (done := is_done()) and not self._closing and time.monotonic() < deadline:
                self._changed.wait(LOOK_AGAIN if so_far else READY_WITHIN)
        if not done:
            raise come_back(self.stage.blocker or "the text index is being built")

    # ---- following (one shared thread at a time)

    def _step(self) -> float | None:
        """Carry out the next steps; seconds until the next run, None to wait for a step."""
        if self._carry_out_next():
            self._worked_at = time.monotonic()
            return 0.0
        if (left := self._worked_at + IDLE - time.monotonic()) > 0:
            return left
        if self._behind:
            self._attempt(lambda: self._apply_flushes([]))
        if self.graph_file.unsaved >= SNAPSHOT_AFTER:
            self.graph_file.save()
        self.indexed.worker.end()
        trimmed = [database.trim() for database in (self._database, self._version_file)]
        is_done = all(trimmed) and not self._behind and self.graph_file.unsaved < SNAPSHOT_AFTER
        return None if is_done else IDLE

    def _carry_out_next(self) -> bool:
        """Carry out the steps that are next in the queue; return whether there were any."""
        steps = self._take()
        if steps:
            self._attempt(partial(self._carry_out, steps))
            with self._changed:
                self._applied += len(steps)
                self._changed.notify_all()
            for follower in self.followers:
                follower()
        return bool(steps)

    def _take(self) -> list[_Step]:
        """The next steps to carry out together; empty if there are none."""
        steps = list[_Step]()
        while len(steps) < TAKEN and (not steps or _is_joined(steps[0])):
            try:
                step = self._carried.pop() if self._carried else self._queue.get_nowait()
            except queue.Empty:
                break
            if steps and (type(step) is not type(steps[0]) or not _is_joined(step)):
                self._carried.append(step)
                break
            steps.append(step)
        return steps

    def _carry_out(self, steps: Sequence[_Step]) -> None:
        """Carry out steps of one type."""
        match steps[0]:
            case _Flush():
                self._apply_flushes([step for step in steps if isinstance(step, _Flush)])
            case _Docs():
                self.indexed.index_docs((step.file, step.docs) for step in steps if isinstance(step, _Docs))
            case _Files(present, gone, complete):
                self.indexed.index_files(present, gone, complete)
            case step:
                step()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step. A damaged index is rebuilt; any other failure is reported in `kgd status`."""
        try:
            try:
                step()
            except IndexDamaged as damage:
                log.warning("the index was damaged and is being rebuilt", extra={"reason": cause_of(damage)})
                self.versions.begin()
                self._anew()
            if not (uncounted := self.versions.problem):
                self.stage = Stage("index", "ok", self._clock())
            elif self.stage.state != "degraded":
                self.stage = Stage("index", "degraded", self.stage.last_success, uncounted, self._clock())
        except Interrupted:
            self.stage = Stage("index", "waiting", self.stage.last_success, "the text index is not complete")
        except Exception as error:
            log.exception("the index could not be updated")
            self.stage = Stage("index", "degraded", self.stage.last_success, f"{error}"[:200], self._clock())
        finally:
            with self._changed:
                self._changed.notify_all()

    def _apply_flushes(self, flushes: Sequence[_Flush]) -> None:
        is_behind = bool(self._behind)
        self._behind += flushes
        if flushes:
            self._tip, self._tree = flushes[-1].tip, flushes[-1].tree
        if any(flush.versions is None for flush in flushes):
            self._bring_to(self._tip, self.versions.end)
        elif is_behind:
            self._bring_to(self._tip)
        else:
            self.versions.write([(flush.versions or {}, flush.requests) for flush in flushes], self._tip)
            self.indexed.index(list({change.uri for flush in flushes for change in flush.changes}), self._tree)
        for done in self._behind:
            self.versions.written(done.versions or {}, done.requests)
            self.graph_file.unsaved += len(done.changes)
        self._behind.clear()

    def _anew(self) -> None:
        """Create empty databases and fill them. Callers wait, since `VersionCache.begin` was called."""
        self.indexed.worker.end()
        try:
            for file in self._files:
                file.recreate()
        except BaseException:
            self.versions.end()
            raise
        finally:
            self._is_mending = False
        self._bring_to(self._tip, self.versions.end)
        self.indexed.index_files(self._code_files(), (), True)
        self.indexed.index_docs(self._code_docs())

    def _bring_to(self, tip: ObjectId, counted: Callable[[], None] = lambda: None) -> None:
        """Update versions, request ids and text index from any state to a tip."""
        self.stage = Stage("index", "waiting", self.stage.last_success, "versions are being counted from history")
        try:
            self._verify(self._version_file)
            for file in self._files:
                file.reopen()  # a connection that encountered a full or read-only disk stays read-only
            self.versions.count(tip)
        except IndexDamaged:
            raise
        except (Damaged, GitFailed):  # texts need only the tree of the tip, which may be complete
            log.exception("the history cannot be counted")
        finally:
            counted()
        self.stage = Stage("index", "waiting", self.stage.last_success, "the text index is being built")
        self._verify(self._database)
        self._partial_from = time.monotonic() + PARTIAL_AFTER
        try:
            self.indexed.bring_to(self._tree)
        finally:
            self._partial_from = float("inf")
        self.indexed.worker.end()  # now, since the followers of a large build start children of their own

    # ---- files

    def _read_sums(self) -> dict[Database, bytes]:
        """The checksums of a clean stop, which are used once; after any other stop there are none."""
        try:
            sums = self._sum_file.read_bytes().split(b"\n")
            self._sum_file.unlink()
        except OSError:
            return {}
        return dict(zip(self._files, [*sums, *[b""] * len(self._files)], strict=False))

    def _verify(self, file: Database) -> None:
        """Compare a file with its checksum, before its first use."""
        expected = self._sums.pop(file, None)
        if expected is not None and file.digest() != expected:
            log.warning(
                "derived data changed while kgd was stopped and is being rebuilt", extra={"file": file.path.name}
            )
            file.recreate()


def _is_joined(step: _Step) -> bool:
    return isinstance(step, _Docs) or (isinstance(step, _Flush) and step.versions is not None)


class GraphMoment(NamedTuple):
    """The graph at one moment: a snapshot file and the changes since. Trees are in hex."""

    file: Path
    tree: str
    """The root tree that the file describes."""
    now: str
    """The root tree of the graph with the changes."""
    graph: Frozen


class GraphFile:
    """The snapshot of one served graph. Thread-safe."""

    def __init__(self, served: Served, path: Path) -> None:
        self._served, self.path = served, path
        self._lock = threading.Lock()
        self._arrays: Arrays | None = None
        self._tree = ""
        self._closing = False
        self.unsaved = 0
        """Number of changed nodes since the file was written."""

    def restore(self, store: ObjectStore) -> bool:
        """Serve the graph of the file; False if it cannot be used."""
        saved = read_snapshot(self.path)
        if saved is None or not store.exists(bytes.fromhex(saved.tree)):
            return False
        try:
            arrays = Arrays(saved.arrays)
            self._served.restore(bytes.fromhex(saved.tree), arrays, saved.care)
        except (KgdError, *MALFORMED):
            log.warning("the snapshot could not be used")
            self._served.reset()
            return False
        self._arrays, self._tree = arrays, saved.tree
        return True

    def moment(self, *, anew: bool) -> GraphMoment:
        """The graph as a file and a few changes. The file is written first if there are many changes, if there is no
        file, or if `anew` is set.

        Raises:
            Unavailable: The file cannot be written.
        """
        with self._lock:
            for must_write in (anew, True, True):
                if must_write:
                    self._write_or_refuse()
                now, frozen = self._served.freeze()
                if frozen.layers.arrays is self._arrays and live_graph.are_few(frozen.layers):
                    return GraphMoment(self.path, self._tree, now, frozen)
        raise Unavailable("the graph changes faster than its snapshot can be written", at=str(self.path))

    def save(self, *, closing: bool = False) -> None:
        """Write the file if the graph has changed. A failure costs only time at startup: it is logged and not
        raised."""
        with self._lock:
            self._closing = closing
            if not self.unsaved:
                return
            try:
                self._write()
            except Exception as error:  # the follower's thread survives it
                log.warning(
                    "the snapshot could not be written",
                    exc_info=not isinstance(error, OSError),
                    extra={"reason": str(error)[:300]},
                )

    def _write_or_refuse(self) -> None:
        try:
            self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f"the snapshot cannot be written: {reason}", at=str(self.path)) from error

    def _write(self) -> None:
        tree, frozen, care = self._served.export()
        write_snapshot(self.path, tree, care, frozen.parts())
        self._arrays = None
        written = None if self._closing else read_snapshot(self.path)
        if written is not None and written.tree == tree:
            arrays = Arrays(written.arrays)
            if self._served.graph.rest_on(frozen, arrays):
                self._arrays, self._tree = arrays, tree
            del frozen
            if self.unsaved >= SNAPSHOT_AFTER:
                give_memory_back()
        self.unsaved = 0
