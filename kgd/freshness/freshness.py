"""The stale nodes of a workspace, kept in step with nodes and code.

One thread follows both: when nodes are written or files change, it checks the affected nodes. So a read takes only one
look-up for each node in its answer, regardless of the size of the workspace. A node that was just written is checked by
its first reader, so that an answer never shows a new verification as stale.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.codec import documents
from kgd.errors import KgdError
from kgd.freshness import areas, citations
from kgd.freshness.citations import Citation, Finding, Unverified, judge, summed_up
from kgd.freshness.code import Code
from kgd.model.fields import CITES
from kgd.model.node import Node
from kgd.model.uri import Uri

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

log = logging.getLogger(__name__)

SETTLED_WITHIN = 20.0
MOVED_WITHIN = 1.0
_AREA = "atom:"
AGAIN_AFTER = 5.0
"""Seconds before the text index is tried again after an error."""
LOOK_AGAIN = 5.0
"""Seconds before the commits are searched again for an uncommitted change."""


class Freshness:
    """The stale nodes of one workspace. Call `start` once its code tree is watched.

    Any thread may call it. Before `start`, and without a code tree, no node is reported as stale.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.code: Code | None = None
        self._lock = threading.RLock()
        self._citing: dict[Uri, tuple[Citation, ...]] = {}
        self._by_path: dict[str, set[Uri]] = {}
        self._at: dict[tuple[str, str, str], str | None] = {}
        self._dirty: set[Uri] = set()
        self._by_citation: dict[Uri, Unverified] = {}
        self._by_area: dict[Uri, Unverified] = {}
        self._doubted: frozenset[Uri] = frozenset()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._noted = self._done = 0
        self._progress = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._looked, self._has_looked, self._problem = 0.0, False, ""
        self._areas: areas.Areas | None = None
        self.on_change: Callable[[frozenset[Uri]], object] = lambda uris: None
        """Called with the nodes that became stale or verified; set by the daemon."""

    @classmethod
    def of(cls, workspace: Workspace) -> Freshness:
        return workspace.beside(cls, cls)

    # ---- life

    def start(
        self, root: Path, atlas: areas.Atlas | None = None, belongs: Callable[[str], bool] = lambda path: True
    ) -> None:
        """Follow the code tree at `root`; citations of its files are found in the background. With an `atlas`, areas
        are followed as well. `belongs` tells whether a path is a file of the tree that is not ignored."""
        if self._thread is not None:
            return
        self.code = Code(root, belongs)
        self._areas = areas.Areas(self._workspace, self.code, atlas) if atlas else None
        self._workspace.on_commit(self._written)
        self._workspace.on_problem(lambda: self._problem)
        self._enqueue(_Job(everything=True))
        thread = threading.Thread(target=self._follow, name="kgd-freshness", daemon=True)
        thread.start()
        self._thread = thread

    def close(self) -> None:
        self._stop.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(30)

    # ---- notifications

    def files_changed(self, paths: Iterable[str]) -> None:
        """Report changed or removed files and folders of the code tree. Returns at once."""
        if self._thread is not None:
            self._enqueue(_Job(paths=frozenset(paths)))

    def _written(self, uris: frozenset[Uri]) -> None:
        """Record written nodes. Runs in the thread that flushes, before the write is acknowledged."""
        with self._lock:
            self._dirty |= uris
        self._enqueue(_Job(uris=uris))

    def _enqueue(self, job: _Job) -> None:
        with self._progress:
            self._noted += 1
        self._queue.put(job)

    # ---- reads

    def unverified(self, uris: Iterable[Uri]) -> dict[Uri, Unverified]:
        """The stale nodes among these nodes. Takes one look-up per node."""
        if self.code is None or not (self._dirty or self._by_citation or self._by_area):
            return {}
        asked = list(uris)
        self._check_written(asked)
        found = {uri: mark for uri in asked if (mark := self._by_citation.get(uri) or self._by_area.get(uri))}
        if any(not mark.since_commit for mark in found.values()):
            self._look_again(found)
        return found

    @property
    def doubted(self) -> frozenset[Uri]:
        """All stale nodes, without any look-up."""
        return self._doubted

    def moved(self, within: float = MOVED_WITHIN) -> Mapping[Uri, areas.Moved]:
        """The areas whose files changed since they were confirmed. Returns an earlier result if a new one takes longer
        than `within` seconds."""
        if self._areas is None:
            return {}
        if self._thread is not None:
            self._enqueue(_Job(looks=True))  # a commit does not change any file, so there was no notification
            self.settle(within)
        return self._areas.moved

    def citing(self, path: str) -> list[Uri]:
        """The nodes known to cite a file, sorted. Takes one look-up."""
        with self._lock:
            return sorted(self._by_path.get(path, ()))

    def citations(self, uri: Uri) -> tuple[Citation, ...]:
        """The known citations of a node. Takes one look-up, unless the node was just written."""
        self._check_written((uri,))
        return self._citing.get(uri, ())

    def citing_among(self, uris: Sequence[Uri]) -> dict[Uri, tuple[Citation, ...]]:
        """The known citations of these nodes; nodes without any are omitted."""
        self._check_written(uris)
        return {uri: found for uri in uris if (found := self._citing.get(uri))}

    @property
    def citing_count(self) -> int:
        """The number of nodes known to cite code, which grows for a while after the start."""
        return len(self._citing)

    def _check_written(self, uris: Iterable[Uri]) -> None:
        """Check those of these nodes that were just written."""
        if not self._dirty:
            return
        with self._lock:
            fresh = [uri for uri in uris if uri in self._dirty]
        for uri in fresh:
            self._judge(uri, deep=False)
        if fresh:
            self._sum_up()

    def checked(self, uri: Uri, node: Node) -> list[Checked]:
        """The citations of the node `uri`, each compared with the code. Runs git for code that has changed."""
        if self.code is None:
            return []
        notes, blob = citations.notes_of(node), self._blob(uri)
        answer = []
        for one in citations.of(node, self._workspace.id):
            ids = self._verified(uri, blob, one, notes.get(one.text, set()), deep=True)
            if (finding := judge(one, ids, self.code, deep=False)) is not None:
                self.code.look()
                finding = judge(one, ids, self.code, deep=True)
            answer.append(Checked(one, frozenset(ids), finding))
        return answer

    def settle(self, within: float = SETTLED_WITHIN) -> bool:
        """Wait until all earlier notifications are processed; returns False after the timeout."""
        if self._thread is None:
            return True
        with self._progress:
            goal = self._noted
            return self._progress.wait_for(lambda: self._done >= goal, within)

    def look_through(self) -> None:
        """Check all citing nodes again, because there may be new commits; used before listing stale nodes."""
        if self._thread is not None:
            self._enqueue(_Job(uris=frozenset(self._citing), looks=True))

    def _look_again(self, found: Mapping[Uri, Unverified]) -> None:
        """Check nodes again if the change to their code was not committed, because it may be committed now."""
        now = time.monotonic()
        if now - self._looked > LOOK_AGAIN:
            self._looked = now
            self._enqueue(_Job(uris=frozenset(found)))

    # ---- following (its own thread)

    def _follow(self) -> None:
        while (job := self._queue.get()) is not None and not self._stop.is_set():
            jobs = [job]
            with contextlib.suppress(queue.Empty):  # jobs are combined: git runs once for a thousand writes
                while (another := self._queue.get_nowait()) is not None:
                    jobs.append(another)
                self._stop.set()
            before = self._doubted
            try:
                self._carry_out(jobs)
                self._problem = ""
                if changed := self._doubted ^ before:
                    self.on_change(changed)
            except Exception as error:
                # The thread survives any error caused by a node or by git; the next job may succeed.
                self._problem = f"stale nodes: {error}"[:200]
                log.exception("stale nodes could not be updated")
            finally:
                with self._progress:
                    self._done += len(jobs)
                    self._progress.notify_all()

    def _carry_out(self, jobs: Sequence[_Job]) -> None:
        uris = {uri for job in jobs for uri in job.uris}
        everything, moved = any(job.everything for job in jobs), any(job.paths for job in jobs)
        if everything:
            uris |= self._citing_at_start()
        with self._lock:
            for path in {path for job in jobs for path in job.paths}:
                uris |= self._by_path.get(path, set())
        self._has_looked = False
        for uri in sorted(uris):
            if self._stop.is_set():
                return
            self._judge(uri, deep=True)
        self._sum_up()
        has_areas = any(job.looks or any(uri.startswith(_AREA) for uri in job.uris) for job in jobs)
        if self._areas is not None and (everything or moved or has_areas):
            self._by_area = self._areas.unverified()
            self._sum_up()

    def _citing_at_start(self) -> set[Uri]:
        """The nodes that may cite code, by the text index and the relations in memory; reads no other node."""
        found: set[Uri] = set()
        try:
            found.update(self._workspace.text().with_data_keys((CITES, citations.VERIFIED)))
        except KgdError as error:  # the index may take minutes to build
            log.warning("citations of code are not known yet", extra={"reason": str(error)[:200]})
            self._stop.wait(AGAIN_AFTER)
            self._enqueue(_Job(everything=True))
        found |= self._workspace.graph.sources_with_data("file", frozenset(("commit", "blob")))
        return found

    def _judge(self, uri: Uri, *, deep: bool) -> None:
        code = self.code
        assert code is not None
        blob = self._blob(uri)
        node = self._read(blob, uri)
        cited = tuple(citations.of(node, self._workspace.id)) if node else ()
        notes = citations.notes_of(node) if node and cited else {}
        if cited and deep and not self._has_looked:
            self._has_looked = True
            code.look()
        findings: list[Finding] = []
        for one in cited:
            verified = self._verified(uri, blob, one, notes.get(one.text, set()), deep=deep)
            if finding := judge(one, verified, code, deep=deep):
                findings.append(finding)
        mark = summed_up(findings)
        with self._lock:
            if blob != self._blob(uri):
                return  # written in the meantime: the job of that write checks the new version
            self._dirty.discard(uri)  # not earlier: until now, readers had to check for themselves
            self._index(uri, cited)
            if mark is None:
                self._by_citation.pop(uri, None)
            else:
                self._by_citation[uri] = mark

    def _blob(self, uri: Uri) -> bytes | None:
        card = self._workspace.graph.card(uri)
        return card.blob if card else None

    def _verified(self, uri: Uri, blob: bytes | None, one: Citation, noted: set[str], *, deep: bool) -> set[str]:
        """The ids of verified content: the recorded ids; otherwise the content at the commit in the citation; otherwise
        the content at the time of the node's last write, as for a file edited by hand."""
        if noted or self.code is None:
            return noted
        key = (one.path, one.symbol, one.at or f"{uri}@{blob.hex() if blob else ''}")
        if key not in self._at and deep:
            self._at[key] = self.code.id_at(one.at, one.path, one.symbol) if one.at else self._at_time(uri, one)
        id = self._at.get(key)
        return {id} if id else set()

    def _at_time(self, uri: Uri, one: Citation) -> str | None:
        assert self.code is not None
        return self.code.id_before(areas.written_at(self._workspace, uri), one.path, one.symbol)

    def _read(self, blob: bytes | None, uri: Uri) -> Node | None:
        """The node if it may cite something; other nodes need not be parsed."""
        try:
            data = self._workspace.store.read(blob) if blob else b""
            return documents.decode(data, at=uri) if citations.may_cite(data) else None
        except KgdError:
            return None

    def _index(self, uri: Uri, cited: tuple[Citation, ...]) -> None:
        for one in self._citing.pop(uri, ()):
            citing = self._by_path.get(one.path, set())
            citing.discard(uri)
            if not citing:
                self._by_path.pop(one.path, None)
        if cited:
            self._citing[uri] = cited
            for one in cited:
                self._by_path.setdefault(one.path, set()).add(uri)

    def _sum_up(self) -> None:
        with self._lock:
            if self._doubted or self._by_citation or self._by_area:
                self._doubted = frozenset((*self._by_citation, *self._by_area))


@dataclass(frozen=True, slots=True)
class Checked:
    """A citation, the ids of its verified content, and its problem, if the code has changed."""

    citation: Citation
    verified: frozenset[str]
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class _Job:
    """A change to nodes, to files, to everything or, with `looks`, perhaps only to the checked-out commit."""

    uris: frozenset[Uri] = frozenset()
    paths: frozenset[str] = frozenset()
    everything: bool = False
    looks: bool = False
