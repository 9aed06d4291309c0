"""Derived data: text index, versions and graph snapshot, kept in step with the tip.

One thread follows the writer. It learns of each flush after the callers were answered, so no write waits for SQLite. A
search waits for this thread, so it finds every acknowledged change. All files may be deleted at any time: they are
rebuilt from git and give the same answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kgd.codec import documents
from kgd.errors import KgdError
from kgd.git.files import replace as replace_file
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.arrays import Arrays
from kgd.index import graph_snapshot
from kgd.index.change_feed import Feed
from kgd.index.database import Database, IndexDamaged
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.answers import Similar, Stage, Version
from kgd.workspace.derived import search_words
from kgd.workspace.derived.version_cache import READY_WITHIN, VersionCache, come_back
from kgd.workspace.files import memory_files
from kgd.workspace.given_back import give_memory_back
from kgd.workspace.tip.served import Change, Served
from kgd.workspace.writing.seal import Seal
from kgd.workspace.writing.writer import Staged

log = logging.getLogger(__name__)

SNAPSHOT_AFTER = 500
"""Changed nodes after which an idle moment is used to rewrite the snapshot."""
IDLE = 5.0
"""Seconds without a flush that count as an idle moment."""
CHUNK = 400
"""Documents in one SQLite transaction of a rebuild."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """One flush, as the follower sees it."""

    changes: Sequence[Change]
    versions: dict[str, Version] | None
    """None if foreign commits came in: then versions are counted from history."""
    requests: dict[str, ObjectId]
    tip: ObjectId
    tree: ObjectId


class _Interrupted(Exception):
    """The workspace is closing during a rebuild; the next start continues it."""


class Derived:
    """Text index, versions and snapshot of one workspace. Call `start` first.

    Args:
        folder: Holds the files; everything in it that belongs to this class may be deleted.
        code_files: The current files of the code tree, for a new index.
        code_docs: The documents read from them, for the same purpose.
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
        self._snapshot_file, self._sum_file = folder / "graph.snapshot", folder / "index.sum"
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._noted = self._applied = 0
        self._behind: list[_Batch] = []
        """Flushes that the database lacks because it could not be written; then it is brought to the tip as a whole."""
        self._code_files, self._code_docs = code_files, code_docs
        self._state = Stage("index", "waiting", blocker="starting")
        self._unsaved = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._tip = self._tree = b""
        self._database = Database(folder / "index.sqlite")
        self._is_mending = False
        self._database.on_damage = self._met_damage
        self._text = TextIndex(self._database)
        self._feed = Feed(self._database)
        self.followers: list[Callable[[], None]] = []
        """Called in the follower's thread after each step; they must not block."""
        self.versions = VersionCache(store, self._database, self._mend, seal, served.counted)
        """Versions by path and commits by request id."""

    # ---- life

    def start(self, tip: ObjectId) -> None:
        """Load the graph of `tip`, then follow it in the background. Called again if the tip was moved by hand."""
        tree = self._store.tree_of(tip)
        self._load_graph(tree)
        self.versions.begin(anew=True)
        # Queued like a flush, so that a search waits for it instead of answering from half an index.
        self._enqueue(partial(self._apply_flush, _Batch((), None, {}, tip, tree)))
        if self._thread is None:
            thread = threading.Thread(target=self._follow, name="kgd-derived", daemon=True)
            thread.start()
            self._thread = thread

    def _load_graph(self, tree: ObjectId) -> None:
        """Bring the served graph to `tree`, from the snapshot if it is usable."""
        saved = graph_snapshot.read(self._snapshot_file) if self._served.tree is None else None
        if saved is not None and self._store.exists(bytes.fromhex(saved.tree)):
            try:
                self._served.restore(bytes.fromhex(saved.tree), Arrays(saved.arrays), saved.care)
            except (KgdError, KeyError, TypeError, ValueError):
                log.warning("the snapshot could not be used")
                self._served.reset()
        self._unsaved = len(self._served.load(tree))

    def close(self) -> None:
        """Finish the queue and write the snapshot."""
        self._closing = True
        self._queue.put(None)
        if self._thread:
            self._thread.join()
        self._save_snapshot()
        self._database.close()
        if self._thread and not self._behind:
            # SQLite notices a torn file, but not a flipped bit in a version or a word.
            with contextlib.suppress(OSError):
                replace_file(self._sum_file, _digest(self._database.path), flush=False)

    # ---- notes from other threads

    def note(self, staged: Sequence[Staged[object]], changes: Sequence[Change], tip: ObjectId, tree: ObjectId) -> None:
        """Record a flush, in the writer's thread: memory now, the database later in the follower's thread."""
        requests = {one.request: one.commit for one in staged if one.request and one.commit}
        self.versions.remember(requests)
        versions = None if any(one.changed is None for one in staged) else self.versions.bump(staged)
        if versions is None:
            self.versions.begin(anew=True)
        self._enqueue(partial(self._apply_flush, _Batch(changes, versions, requests, tip, tree)))

    def note_files(self, present: Sequence[FileDoc], gone: Sequence[Uri] = (), *, complete: bool = False) -> None:
        """Index files of the code tree. Any thread; with `complete`, `present` are all files there are."""
        self._enqueue(partial(self._apply_files, present, gone, complete))

    def note_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Replace the documents read from a file of the code tree. Any thread; returns at once."""
        self._enqueue(lambda: self._text.apply_tree(file, docs))

    def _enqueue(self, step: Callable[[], None]) -> None:
        with self._changed:
            self._noted += 1
        self._queue.put(step)

    # ---- reads

    def text(self) -> TextIndex:
        """The text index, with every change acknowledged before the call.

        Raises:
            Unavailable: It is being built and is not ready after two minutes.
        """
        self._catch_up()
        return self._text

    def feed(self) -> Feed:
        """The additions to and removals from the text index, as current as `text`."""
        self._catch_up()
        return self._feed

    def similar(self, named: Mapping[Uri, str]) -> tuple[Similar, ...]:
        """Older nodes with similar names to some new ones; none while the index is behind."""
        return search_words.similar(named, self._served.graph, self._text) if self._state.state == "ok" else ()

    def health(self) -> tuple[Stage, ...]:
        return (self._state,)

    def rebuild(self) -> None:
        """Rebuild index and versions from git; callers wait for it as after a start."""
        self._unsaved += 1  # the snapshot is rewritten too
        self._mend()
        self._catch_up()

    def _mend(self) -> None:
        self.versions.begin()
        self._enqueue(self._anew)

    def _met_damage(self) -> None:
        """A reader hit the damage. Its call fails; later calls wait for the rebuild."""
        if threading.current_thread() is self._thread:
            return  # `_attempt` mends it
        with self._changed:
            if self._is_mending or self._thread is None:
                return
            self._is_mending = True
        log.warning("the index is damaged and is being rebuilt")
        self._mend()

    def _catch_up(self) -> None:
        with self._changed:
            goal = self._noted
            done = self._changed.wait_for(lambda: self._applied >= goal and self.versions.is_ready, READY_WITHIN)
        if not done:
            raise come_back(self._state.blocker or "the text index is being built")

    # ---- following (the follower's thread)

    def _follow(self) -> None:
        self._attempt(self._verify)
        while True:
            try:
                step = self._queue.get(timeout=IDLE)
            except queue.Empty:
                if self._behind:
                    self._attempt(lambda: self._apply_flush(_Batch((), {}, {}, self._tip, self._tree)))
                if self._unsaved >= SNAPSHOT_AFTER:
                    self._save_snapshot()
                continue
            if step is None:
                return
            self._attempt(step)
            with self._changed:
                self._applied += 1
                self._changed.notify_all()
            for follower in self.followers:
                follower()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step; rebuild a damaged index, and report every other failure in `kgd status`."""
        try:
            try:
                step()
            except IndexDamaged:
                log.warning("the index was damaged and is being rebuilt")
                self.versions.begin()
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

    def _apply_files(self, present: Sequence[FileDoc], gone: Sequence[Uri], complete: bool) -> None:
        """Index files in chunks, so that writes do not wait for a large tree."""
        if complete:
            known = self._text.file_uris()
            gone = sorted(known - {file.uri for file in present})
            present = [file for file in present if file.uri not in known]
        for start in range(0, max(len(present), 1), CHUNK):
            self._text.apply_files(present[start : start + CHUNK], gone if not start else ())

    def _apply_flush(self, batch: _Batch) -> None:
        self._tip, self._tree = batch.tip, batch.tree
        self._behind.append(batch)
        if batch.versions is None:
            self._bring_to(batch.tip, self.versions.end)
        elif len(self._behind) > 1:
            self._bring_to(batch.tip)
        else:
            with self._database.write():
                self.versions.write(batch.versions, batch.requests, batch.tip)
                self._index_uris([change.uri for change in batch.changes], batch.tree)
        for done in self._behind:
            self.versions.written(done.versions or {}, done.requests)
            self._unsaved += len(done.changes)
        self._behind.clear()

    def _anew(self) -> None:
        """Create an empty database and fill it. Callers have waited since `VersionCache.begin`."""
        try:
            self._database.recreate()
        except BaseException:
            self.versions.end()
            raise
        finally:
            self._is_mending = False
        self._bring_to(self._tip, self.versions.end)
        self._apply_files(self._code_files(), (), True)
        for file, docs in self._code_docs():
            self._text.apply_tree(file, docs)

    def _bring_to(self, tip: ObjectId, counted: Callable[[], None] = lambda: None) -> None:
        """Bring versions, request ids and text index to a tip from any state."""
        self._state = Stage("index", "waiting", self._state.last_success, "versions are being counted from history")
        try:
            self._database.reopen()  # a connection that met a full or read-only disk stays read-only
            self.versions.count(tip)
        finally:
            counted()
        self._state = Stage("index", "waiting", self._state.last_success, "the text index is being built")
        self._index_from(self._text.tree(), self._tree)

    def _index_from(self, tree: str | None, goal: ObjectId) -> None:
        """Bring the text index to the current graph by the difference of the two trees, in chunks."""
        start = bytes.fromhex(tree) if tree else None
        if start == goal:
            return
        if start is None or not self._store.exists(start):
            uris = list(self._served.graph.uris())
        else:
            uris = self._served.uris_between(start, goal)
        last = max(len(uris) - 1, 0) // CHUNK * CHUNK
        for at in range(0, last, CHUNK):
            self._index_uris(uris[at : at + CHUNK], None)
            if self._closing:
                raise _Interrupted
        self._index_uris(uris[last:], goal)
        if len(uris) > CHUNK:
            give_memory_back()

    def _index_uris(self, uris: Sequence[Uri], tree: ObjectId | None) -> None:
        """Index nodes as they are served at this moment; remove the missing ones."""
        docs = {uri: self._doc(uri) for uri in uris}
        present = [doc for doc in docs.values() if doc]
        self._text.apply(present, [uri for uri in docs if not docs[uri]], tree=tree.hex() if tree else None)

    def _doc(self, uri: Uri) -> Doc | None:
        data = self._served.bytes_of(uri)
        if data is None:
            return None
        node = documents.decode(data, at=uri)
        version = self.versions.look(self._served.path_of(uri))
        return search_words.doc(node, self._detail(node), version.updated_at if version else 0)

    def _detail(self, node: Node) -> str:
        """The text of the node's detail file; a change of that file counts as one of its node (`Served.follow`)."""
        tree = self._served.tree
        found = memory_files.detail_of(node, lambda path: memory_files.read_blob(self._store, tree, path))
        return found[1].text if found else ""

    # ---- files

    def _verify(self) -> None:
        """Compare the index with the sum that a clean stop left; any other stop left none."""
        try:
            expected = self._sum_file.read_bytes()
            self._sum_file.unlink()
            sound = _digest(self._database.path) == expected
        except OSError:
            return
        if not sound:
            log.warning("the index changed while kgd was stopped and is being rebuilt")
            self._database.recreate()

    def _save_snapshot(self) -> None:
        """Write the snapshot, and map it in place of the changes in memory."""
        if not self._unsaved:
            return
        tree, frozen, care = self._served.export()
        try:
            graph_snapshot.write(self._snapshot_file, tree, care, frozen.parts())
        except OSError as error:
            log.warning("the snapshot could not be written", extra={"reason": str(error)})
            return
        written = graph_snapshot.read(self._snapshot_file)
        if written is not None and written.tree == tree and not self._closing:
            self._served.graph.rest_on(frozen, Arrays(written.arrays))
            del frozen
            if self._unsaved >= SNAPSHOT_AFTER:
                give_memory_back()
        self._unsaved = 0


def _digest(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest().encode()
