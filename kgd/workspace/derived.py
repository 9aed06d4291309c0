"""This file is where everything that can be rebuilt is kept in step with the tip: text index, versions, snapshot.

One thread follows the writer: it is told of each flush after the callers were, so that no write waits for SQLite, and
a search waits for it, so that what was acknowledged a moment ago is found. All of it may be deleted at any time; it
then comes back from git, with the same answers.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from kgd.codec import documents
from kgd.errors import KgdError, Unavailable
from kgd.git.history import Versioned
from kgd.git.history import versions as git_versions
from kgd.git.objects import ObjectId, trailers
from kgd.git.store import ObjectStore
from kgd.index import snapshot
from kgd.index.database import Database, IndexDamaged
from kgd.index.ranking import Hit
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.index.versions import VersionRow, Versions
from kgd.model.node import Json
from kgd.model.uri import Uri
from kgd.workspace.outcome import Stage, Version
from kgd.workspace.served import Change, Served
from kgd.workspace.writer import Staged

log = logging.getLogger(__name__)

SNAPSHOT_AFTER = 500
"""Changed nodes after which an idle moment is used to write the snapshot anew."""
IDLE = 5.0
"""Seconds without a flush that count as an idle moment."""
READY_WITHIN = 120.0
"""Seconds a caller waits for versions or the text index to be rebuilt before it is told to come back."""
CHUNK = 400
"""Documents in one SQLite transaction of a rebuild."""
SERVED_KEPT = 20_000
SIMILAR_LOOKED_AT = 10
REQUESTS_READ = 20_000
"""Commits whose trailers are read for request ids when they are derived anew; a retry comes soon or never."""


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


_REBUILD = _Batch((), None, {}, b"", b"")


class Derived:
    """Text index, versions and snapshot of one workspace; `start` before anything else.

    Args:
        folder: Where the files are; everything in it that belongs to this class may be deleted.
    """

    def __init__(self, store: ObjectStore, served: Served, folder: Path, clock: Callable[[], float]) -> None:
        self._store, self._served, self._folder, self._clock = store, served, folder, clock
        self._queue: queue.SimpleQueue[_Batch | _Files | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._noted = self._applied = 0
        self._fresh: dict[str, Version] = {}
        self._requests: dict[str, ObjectId] = {}
        self._sent: OrderedDict[tuple[str, int], ObjectId] = OrderedDict()
        self._ready = threading.Event()
        self._state = Stage("index", "waiting", blocker="starting")
        self._unsaved = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._tip = self._tree = b""
        self._database = Database.open(folder / "index.sqlite")
        self._text, self._versions = TextIndex(self._database), Versions(self._database)

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
        self._ready.clear()
        # Noted like a flush, so that a search waits for it rather than answer from half an index.
        self._enqueue(_Batch((), None, {}, tip, self._store.tree_of(tip)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="kgd-derived", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Finish what is waiting and write the snapshot."""
        self._closing = True
        self._queue.put(None)
        if self._thread:
            self._thread.join()
        self._save_snapshot()
        self._database.close()

    # ---- being told (the writer's thread)

    def note(self, staged: Sequence[Staged[object]], changes: Sequence[Change], tip: ObjectId, tree: ObjectId) -> None:
        """A flush happened: memory work now, the rest when the follower comes to it."""
        requests = {one.request: one.commit for one in staged if one.request and one.commit}
        self._requests.update(requests)
        versions = None if any(one.changed is None for one in staged) else self._bump(staged)
        if versions is None:
            self._ready.clear()
        self._enqueue(_Batch(changes, versions, requests, tip, tree))

    def note_files(self, present: Sequence[FileDoc], gone: Sequence[Uri] = (), *, complete: bool = False) -> None:
        """The code tree was looked at. Any thread; `complete` says that there is nothing but what is `present`."""
        self._enqueue(_Files(present, gone, complete))

    def _enqueue(self, batch: _Batch | _Files) -> None:
        with self._changed:
            self._noted += 1
        self._queue.put(batch)

    def _bump(self, staged: Sequence[Staged[object]]) -> dict[str, Version]:
        bumped: dict[str, Version] = {}
        for one in staged:
            if one.author is None:
                continue
            who, when = f"{one.author.name} <{one.author.email}>", one.author.time
            for path in one.changed or ():
                old = self.version(path)
                if old:
                    new = replace(old, count=old.count + 1, updated_at=when, updated_by=who)
                else:
                    new = Version(1, when, who, when, who)
                self._fresh[path] = bumped[path] = new
        return bumped

    # ---- being asked

    def version(self, path: str) -> Version | None:
        """Derived from history, the newest flush included.

        Raises:
            Unavailable: They are still being counted after two minutes.
        """
        fresh = self._fresh.get(path)
        if fresh is not None:
            return fresh
        if not self._ready.wait(READY_WITHIN):
            raise _come_back("versions are being counted from history")
        row = self._versions.version(path)
        return Version(*astuple(row)) if row else None

    def request(self, request: str) -> ObjectId | None:
        """The commit that a request id made, this session or an earlier one."""
        fresh = self._requests.get(request)
        if fresh is not None:
            return fresh
        if not self._ready.wait(READY_WITHIN):
            raise _come_back("request ids are being read from history")
        commit = self._versions.request(request)
        return bytes.fromhex(commit) if commit else None

    def served(self, path: str, version: int, blob: ObjectId) -> None:
        self._sent[path, version] = blob
        while len(self._sent) > SERVED_KEPT:
            self._sent.popitem(last=False)

    def served_blob(self, path: str, version: int) -> ObjectId | None:
        return self._sent.get((path, version))

    def search(self, query: str, **filters: Any) -> list[Hit]:
        self._catch_up()
        return self._text.search(query, **filters)

    def by_tags(self, tags: Sequence[str], **filters: Any) -> list[Hit]:
        self._catch_up()
        return self._text.by_tags(tags, **filters)

    def similar(self, uri: Uri, limit: int) -> tuple[Uri, ...]:
        """Older nodes that share half of the words of this one's name; none while the index is behind."""
        card = self._served.graph.card(uri)
        if card is None or not card.name or self._state.state != "ok":
            return ()
        words = _words(card.name)
        alike = []
        for hit in self._text.search(card.name, limit=SIMILAR_LOOKED_AT):
            other = self._served.graph.card(hit.uri)
            if other and hit.uri != uri and 2 * len(words & _words(other.name)) >= len(words | _words(other.name)):
                alike.append(hit.uri)
        return tuple(alike[:limit])

    def count(self) -> int:
        """Documents in the text index, caught up."""
        self._catch_up()
        return self._text.count()

    def health(self) -> tuple[Stage, ...]:
        return (self._state,)

    def rebuild(self) -> None:
        """Forget the index and the versions and build them anew from git; callers wait for it as after a start."""
        self._ready.clear()
        self._enqueue(_REBUILD)
        self._catch_up()

    def _catch_up(self) -> None:
        with self._changed:
            goal = self._noted
            done = self._changed.wait_for(lambda: self._applied >= goal and self._ready.is_set(), READY_WITHIN)
        if not done:
            raise _come_back(self._state.blocker or "the text index is being built")

    # ---- following (the follower's thread)

    def _follow(self) -> None:
        while True:
            try:
                batch = self._queue.get(timeout=IDLE)
            except queue.Empty:
                if self._unsaved >= SNAPSHOT_AFTER:
                    self._save_snapshot()
                continue
            if batch is None:
                return
            self._attempt(lambda batch=batch: self._apply(batch))  # type: ignore[misc]
            with self._changed:
                self._applied += 1
                self._changed.notify_all()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step; a damaged index is dropped and built anew, everything else is said in `kgd status`."""
        try:
            try:
                step()
            except IndexDamaged:
                log.warning("the index was damaged and is built anew")
                self._drop()
                self._bring_to(self._tip)
            self._state = Stage("index", "ok", self._clock())
        except Exception as error:
            log.exception("the index could not follow")
            self._state = Stage("index", "degraded", self._state.last_success, f"{error}"[:200], self._clock())
        finally:
            self._ready.set()
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

    def _apply(self, batch: _Batch | _Files) -> None:
        if isinstance(batch, _Files):
            self._apply_files(batch)
            return
        if batch is _REBUILD:
            self._drop()
            self._bring_to(self._tip)
            return
        self._tip, self._tree = batch.tip, batch.tree
        if batch.versions is None:
            self._bring_to(batch.tip)
            return
        with self._database.write():
            rows = [(path, VersionRow(*astuple(version))) for path, version in batch.versions.items()]
            self._versions.bump(rows, head=batch.tip.hex())
            for request, commit in batch.requests.items():
                self._versions.remember(request, commit.hex())
            self._index_uris([change.uri for change in batch.changes], batch.tree)
        for path, version in batch.versions.items():
            if self._fresh.get(path) is version:
                del self._fresh[path]
        for request in batch.requests:
            self._requests.pop(request, None)
        self._unsaved += len(batch.changes)

    def _bring_to(self, tip: ObjectId) -> None:
        """Bring versions, request ids and text index to a tip from wherever they stand."""
        self._tip, self._tree = tip, self._store.tree_of(tip)
        self._state = Stage("index", "waiting", self._state.last_success, "versions are being counted from history")
        self._count_versions(tip)
        self._fresh.clear()
        self._ready.set()
        self._state = Stage("index", "waiting", self._state.last_success, "the text index is being built")
        self._index_from(self._text.tree(), self._tree)

    def _count_versions(self, tip: ObjectId) -> None:
        head = self._versions.head()
        if head == tip.hex():
            return
        since = bytes.fromhex(head) if head else None
        if since and not (self._store.exists(since) and self._store.is_ancestor(since, tip)):
            since = None
        counted = {row.path: row for row in git_versions(self._store.git_dir, tip, since=since)}
        before = self._versions.versions(counted) if since else {}
        rows = [(path, _added(before.get(path), row)) for path, row in counted.items()]
        with self._database.write():
            if since:
                self._versions.bump(rows, head=tip.hex())
            else:
                self._versions.replace(rows, head=tip.hex())
            for request, commit in self._requests_since(since, tip):
                self._versions.remember(request, commit.hex())

    def _requests_since(self, since: ObjectId | None, tip: ObjectId) -> Iterator[tuple[str, ObjectId]]:
        for commit in self._store.history([tip], until=[since] if since else [], limit=REQUESTS_READ):
            for key, value in trailers(commit.message):
                if key == "Kgd-Request":
                    yield value, commit.id

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
                    return
        self._index_uris(waiting, goal)

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
        card = self._served.graph.card(uri)
        if card is None or card.blob is None:
            return None
        node = documents.decode(self._store.read(card.blob), at=uri)
        version = self.version(self._served.path_of(uri))
        updated = version.updated_at if version else 0
        text = " ".join(_texts(node.data))
        return Doc(uri, node.type, node.title, node.summary, node.content, node.tags, text, updated)

    def _drop(self) -> None:
        """Make the derived file anew, empty."""
        self._database.recreate()

    # ---- files

    @property
    def _snapshot_file(self) -> Path:
        return self._folder / "graph.snapshot"

    def _save_snapshot(self) -> None:
        if not self._unsaved:
            return
        try:
            tree, graph, care = self._served.export()
            snapshot.write(self._snapshot_file, tree, {"graph": graph, "care": care})
            self._unsaved = 0
        except OSError as error:
            log.warning("the snapshot could not be written", extra={"reason": str(error)})


def _added(old: VersionRow | None, new: Versioned) -> VersionRow:
    """What was counted up to some commit, and what was counted from there."""
    if old is None:
        return VersionRow(new.count, new.created_at, new.created_by, new.updated_at, new.updated_by)
    return VersionRow(old.count + new.count, old.created_at, old.created_by, new.updated_at, new.updated_by)


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", name.casefold()))


def _texts(value: Json) -> Iterator[str]:
    """The words in a node's data, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _come_back(why: str) -> Unavailable:
    return Unavailable(f"not ready yet: {why}", next="Ask again in a moment; `kgd status` shows how far it is.")
