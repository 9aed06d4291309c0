"""This file is where everything that can be rebuilt is kept in step with the tip: text index, versions, snapshot.

One thread follows the writer: it is told of each flush after the callers were, so that no write waits for SQLite, and
a search waits for it, so that what was acknowledged a moment ago is found. All of it may be deleted at any time; it
then comes back from git, with the same answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgd.codec import documents
from kgd.errors import KgdError
from kgd.git.files import replace as replace_file
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.index import snapshot
from kgd.index.database import Database, IndexDamaged
from kgd.index.feed import Feed
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import found_by, memory_files
from kgd.workspace.counted import READY_WITHIN, Counted, come_back
from kgd.workspace.found_by import similar
from kgd.workspace.given_back import give_memory_back
from kgd.workspace.outcome import Similar, Stage, Version
from kgd.workspace.seal import Seal
from kgd.workspace.served import Change, Served
from kgd.workspace.writer import Staged

log = logging.getLogger(__name__)

SNAPSHOT_AFTER = 500
"""Changed nodes after which an idle moment is used to write the snapshot anew."""
IDLE = 5.0
"""Seconds without a flush that count as an idle moment."""
CHUNK = 400
"""Documents in one SQLite transaction of a rebuild."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """One flush, as the follower sees it."""

    changes: Sequence[Change]
    versions: dict[str, Version] | None
    """None: commits of others came in, so they are to be counted from history."""
    requests: dict[str, ObjectId]
    tip: ObjectId
    tree: ObjectId


@dataclass(frozen=True, slots=True)
class _Files:
    """What the code tree has besides: to be added and removed, or, if `complete`, to be there and nothing else."""

    present: Sequence[FileDoc]
    gone: Sequence[Uri]
    complete: bool


@dataclass(frozen=True, slots=True)
class _TreeDocs:
    """What was read from one file of the code tree, in place of what was read from it before."""

    file: Uri
    docs: Sequence[Doc]


_REBUILD = _Batch((), None, {}, b"", b"")


class _Interrupted(Exception):
    """The workspace is being closed in the middle of a rebuild; the next start goes on."""


class Derived:
    """Text index, versions and snapshot of one workspace; `start` before anything else.

    Args:
        folder: Where the files are; everything in it that belongs to this class may be deleted.
        code_files: What the code tree has just now, for an index that is made anew.
        code_docs: What was read from its files, for the same.
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
        self._store, self._served, self._folder, self._clock = store, served, folder, clock
        self._queue: queue.SimpleQueue[_Batch | _Files | _TreeDocs | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._noted = self._applied = 0
        self._behind: list[_Batch] = []
        """Flushes that the derived file has not, since it could not be written; then it is brought to the tip anew."""
        self._code_files, self._code_docs = code_files, code_docs
        self._state = Stage("index", "waiting", blocker="starting")
        self._unsaved = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._tip = self._tree = b""
        self._database = Database.open(folder / "index.sqlite")
        self._is_mending = False
        self._database.on_damage = self._met_damage
        self._text = TextIndex(self._database)
        self._feed = Feed(self._database)
        self.followers: list[Callable[[], None]] = []
        """Called in the follower's thread after whatever was applied; they must not block."""
        self._counted = Counted(store, self._database, self._mend, seal, served.counted)

    # ---- life

    def load_graph(self, tree: ObjectId) -> None:
        """Bring what is served to `tree`, from the snapshot if there is a good one."""
        saved = snapshot.read(self._snapshot_file) if self._served.tree is None else None
        if saved is not None and self._store.exists(bytes.fromhex(saved.tree)):
            try:
                self._served.restore(bytes.fromhex(saved.tree), saved.rows["graph"], saved.rows["care"])
            except (KgdError, KeyError, TypeError, ValueError):
                log.warning("the snapshot could not be used")
                self._served.reset()
        self._unsaved = len(self._served.load(tree))

    def start(self, tip: ObjectId) -> None:
        """Load the graph of `tip`, then follow it in the background. Also after the tip turned out to be another."""
        self.load_graph(self._store.tree_of(tip))
        self._counted.begin(anew=True)
        # Noted like a flush, so that a search waits for it rather than answer from half an index.
        self._enqueue(_Batch((), None, {}, tip, self._store.tree_of(tip)))
        if self._thread is None:
            thread = threading.Thread(target=self._follow, name="kgd-derived", daemon=True)
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Finish what is waiting and write the snapshot."""
        self._closing = True
        self._queue.put(None)
        if self._thread:
            self._thread.join()
        self._save_snapshot()
        self._database.close()
        if self._thread and not self._behind:
            self._vouch()

    # ---- being told (the writer's thread)

    def note(self, staged: Sequence[Staged[object]], changes: Sequence[Change], tip: ObjectId, tree: ObjectId) -> None:
        """A flush happened: memory work now, the rest when the follower comes to it."""
        requests = {one.request: one.commit for one in staged if one.request and one.commit}
        self._counted.remember(requests)
        versions = None if any(one.changed is None for one in staged) else self._counted.bump(staged)
        if versions is None:
            self._counted.begin(anew=True)
        self._enqueue(_Batch(changes, versions, requests, tip, tree))

    def note_files(self, present: Sequence[FileDoc], gone: Sequence[Uri] = (), *, complete: bool = False) -> None:
        """The code tree was looked at. Any thread; `complete` says that there is nothing but what is `present`."""
        self._enqueue(_Files(present, gone, complete))

    def note_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """A file of the code tree was read: `docs` are what is in it now. Any thread; returns at once."""
        self._enqueue(_TreeDocs(file, docs))

    def _enqueue(self, batch: _Batch | _Files | _TreeDocs) -> None:
        with self._changed:
            self._noted += 1
        self._queue.put(batch)

    # ---- being asked

    def version(self, path: str, *, anew: bool = False) -> Version | None:
        """Derived from history, the newest flush included; see `Counted.version`.

        Raises:
            Unavailable: They are still being counted after two minutes.
        """
        return self._counted.version(path, anew=anew)

    def version_at(self, path: str, commit: ObjectId, tip: ObjectId) -> int:
        """See `Counted.version_at`."""
        return self._counted.version_at(path, commit, tip)

    def request(self, request: str) -> ObjectId | None:
        """The commit that a request id made, this session or an earlier one."""
        return self._counted.request(request)

    def text(self) -> TextIndex:
        """The text index, with everything that was acknowledged before the call.

        Raises:
            Unavailable: It is being built, and is not there after two minutes.
        """
        self._catch_up()
        return self._text

    def feed(self) -> Feed:
        """What came into the text index and went out of it, with what was acknowledged before."""
        self._catch_up()
        return self._feed

    def similar(self, named: Mapping[Uri, str]) -> tuple[Similar, ...]:
        """Which older nodes some new ones look like by their names; none while the index is behind."""
        return similar(named, self._served.graph, self._text) if self._state.state == "ok" else ()

    def health(self) -> tuple[Stage, ...]:
        return (self._state,)

    def rebuild(self) -> None:
        """Forget the index and the versions and build them anew from git; callers wait for it as after a start."""
        self._unsaved += 1  # the snapshot is made anew too
        self._mend()
        self._catch_up()

    def _mend(self) -> None:
        self._counted.begin()
        self._enqueue(_REBUILD)

    def _met_damage(self) -> None:
        """Somebody who reads did: they are refused this once, and who asks next waits until the index is made anew."""
        if threading.current_thread() is self._thread:
            return  # which mends it by itself
        with self._changed:
            if self._is_mending or self._thread is None:
                return
            self._is_mending = True
        log.warning("the index was found damaged and is built anew")
        self._mend()

    def _catch_up(self) -> None:
        with self._changed:
            goal = self._noted
            done = self._changed.wait_for(lambda: self._applied >= goal and self._counted.is_ready, READY_WITHIN)
        if not done:
            raise come_back(self._state.blocker or "the text index is being built")

    # ---- following (the follower's thread)

    def _follow(self) -> None:
        self._attempt(self._verify)
        while True:
            try:
                batch = self._queue.get(timeout=IDLE)
            except queue.Empty:
                if self._behind:
                    self._attempt(lambda: self._apply_flush(_Batch((), {}, {}, self._tip, self._tree)))
                if self._unsaved >= SNAPSHOT_AFTER:
                    self._save_snapshot()
                continue
            if batch is None:
                return
            self._attempt(lambda batch=batch: self._apply(batch))  # type: ignore[misc]
            with self._changed:
                self._applied += 1
                self._changed.notify_all()
            for follower in self.followers:
                follower()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step; a damaged index is dropped and built anew, everything else is said in `kgd status`."""
        try:
            try:
                step()
            except IndexDamaged:
                log.warning("the index was damaged and is built anew")
                self._counted.begin()
                self._anew()
            self._state = Stage("index", "ok", self._clock())
        except _Interrupted:
            self._state = Stage("index", "waiting", self._state.last_success, "the text index is not complete")
        except Exception as error:
            log.exception("the index could not follow")
            self._state = Stage("index", "degraded", self._state.last_success, f"{error}"[:200], self._clock())
        finally:
            with self._changed:
                self._changed.notify_all()

    def _apply_files(self, files: _Files) -> None:
        """Files are indexed in chunks, so that what people write meanwhile is not kept waiting by a large tree."""
        present, gone = files.present, list(files.gone)
        if files.complete:
            known = self._text.file_uris()
            gone = sorted(known - {file.uri for file in present})
            present = [file for file in present if file.uri not in known]
        for start in range(0, max(len(present), 1), CHUNK):
            self._text.apply_files(present[start : start + CHUNK], gone if not start else ())

    def _apply(self, batch: _Batch | _Files | _TreeDocs) -> None:
        if isinstance(batch, _Files):
            self._apply_files(batch)
        elif isinstance(batch, _TreeDocs):
            self._text.apply_tree(batch.file, batch.docs)
        elif batch is _REBUILD:
            self._anew()
        else:
            self._apply_flush(batch)

    def _apply_flush(self, batch: _Batch) -> None:
        self._tip, self._tree = batch.tip, batch.tree
        self._behind.append(batch)
        if batch.versions is None:
            self._bring_to(batch.tip, self._counted.end)
        elif len(self._behind) > 1:
            self._bring_to(batch.tip)
        else:
            with self._database.write():
                self._counted.write(batch.versions, batch.requests, batch.tip)
                self._index_uris([change.uri for change in batch.changes], batch.tree)
        for done in self._behind:
            self._counted.written(done.versions or {}, done.requests)
            self._unsaved += len(done.changes)
        self._behind.clear()

    def _anew(self) -> None:
        """Make the derived file anew, empty, and fill it. Those who ask wait since `Counted.begin`."""
        try:
            self._database.recreate()
        except BaseException:
            self._counted.end()
            raise
        finally:
            self._is_mending = False
        self._bring_to(self._tip, self._counted.end)
        self._apply_files(_Files(self._code_files(), (), True))
        for file, docs in self._code_docs():
            self._text.apply_tree(file, docs)

    def _bring_to(self, tip: ObjectId, counted: Callable[[], None] = lambda: None) -> None:
        """Bring versions, request ids and text index to a tip from wherever they stand."""
        self._state = Stage("index", "waiting", self._state.last_success, "versions are being counted from history")
        try:
            self._database.reopen()  # a connection that met a full or read-only disk stays read-only
            self._counted.count(tip)
        finally:
            counted()
        self._state = Stage("index", "waiting", self._state.last_success, "the text index is being built")
        self._index_from(self._text.tree(), self._tree)

    def _index_from(self, tree: str | None, goal: ObjectId) -> None:
        """Bring the text index to the graph as it is now, by what differs between the trees, in chunks."""
        start = bytes.fromhex(tree) if tree else None
        if start == goal:
            return
        if start is None or not self._store.exists(start):
            uris = list(self._served.graph.uris())
        else:
            uris = self._served.uris_between(start, goal)
        waiting: list[Uri] = []
        for uri in uris:
            waiting.append(uri)
            if len(waiting) >= CHUNK:
                self._index_uris(waiting, None)
                waiting = []
                if self._closing:
                    raise _Interrupted
        self._index_uris(waiting, goal)
        if len(uris) > CHUNK:
            give_memory_back()

    def _index_uris(self, uris: Sequence[Uri], tree: ObjectId | None) -> None:
        """Index nodes as they are served at this moment; what has gone meanwhile is removed."""
        docs, gone = [], []
        for uri in uris:
            doc = self._doc(uri)
            if doc:
                docs.append(doc)
            else:
                gone.append(uri)
        self._text.apply(docs, gone, tree=tree.hex() if tree else None)

    def _doc(self, uri: Uri) -> Doc | None:
        data = self._served.bytes_of(uri)
        if data is None:
            return None
        node = documents.decode(data, at=uri)
        version = self._counted.look(self._served.path_of(uri))
        return found_by.doc(node, self._detail(node), version.updated_at if version else 0)

    def _detail(self, node: Node) -> str:
        """What the file behind a memory says; a change of that file is one of its node (`Served.follow`)."""
        if not memory_files.file_of(node):
            return ""
        tree = self._served.tree
        found = memory_files.detail_of(node, lambda path: memory_files.read_blob(self._store, tree, path))
        return found[1].text if found else ""

    # ---- files

    @property
    def _snapshot_file(self) -> Path:
        return self._folder / "graph.snapshot"

    @property
    def _sum_file(self) -> Path:
        return self._folder / "index.sum"

    def _vouch(self) -> None:
        """At a clean stop: SQLite notices a torn file, but not a flipped bit in a version or a word."""
        with contextlib.suppress(OSError):
            replace_file(self._sum_file, _digest(self._database.path), flush=False)

    def _verify(self) -> None:
        """Whether the index is what a clean stop left; after any other stop there is nothing to compare with."""
        try:
            expected = self._sum_file.read_bytes()
            self._sum_file.unlink()
            sound = _digest(self._database.path) == expected
        except OSError:
            return
        if not sound:
            log.warning("the index is not what was left and is built anew")
            self._database.recreate()

    def _save_snapshot(self) -> None:
        if not self._unsaved:
            return
        try:
            tree, graph, care = self._served.export()
            snapshot.write(self._snapshot_file, tree, {"graph": graph, "care": care})
            self._unsaved = 0
        except OSError as error:
            log.warning("the snapshot could not be written", extra={"reason": str(error)})


def _digest(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest().encode()
