"""The stale nodes of a workspace, updated as nodes and code change; and the recording of verifications.

One thread follows both: when nodes are written or files change, it checks the affected nodes. So a read takes only one
look-up for each node in its answer, regardless of the size of the workspace. A node that was just written is checked by
its first reader, so that an answer never shows a new verification as stale.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgd.code_history.history import CodeHistory
from kgd.codec import documents
from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.freshness import areas, citations
from kgd.freshness.citations import (
    RENAMED,
    VERIFIED,
    Citation,
    Finding,
    Unverified,
    former_paths,
    judge,
    note,
    notes_of,
    renames_of,
    summed_up,
    under_former_path,
)
from kgd.freshness.code import ID, Code
from kgd.model.change import ChangeSet, Edit, Relate, Upsert
from kgd.model.fields import CITES
from kgd.model.node import Json, Node, Relation
from kgd.model.uri import Uri, scheme_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

log = logging.getLogger(__name__)

SETTLED_WITHIN = 20.0
MOVED_WITHIN = 1.0
_AREA = "atom:"
CHECKED_AT_ONCE = 50
"""Largest number of nodes just written that a reader checks; more, as after an import, are left to the thread."""
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
        self._renames: dict[Uri, Mapping[str, str]] = {}
        self._by_former_path: dict[str, dict[Uri, str]] = {}
        self._at: dict[tuple[str, str, str], str | None] = {}
        self._dirty: set[Uri] = set()
        self._by_citation: dict[Uri, Unverified] = {}
        self._gone: dict[Uri, list[Finding]] = {}
        """The findings of stale nodes that cite a missing file."""
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
        renamed = cache(CodeHistory.of(self._workspace).renamed)  # many nodes may cite one missing file
        for uri in found:
            if gone := self._gone.get(uri):
                found[uri] = summed_up([_with_new_path(one, renamed) for one in gone]) or found[uri]
        return found

    def renamed(self, uri: Uri) -> dict[str, str]:
        """The new paths of files and folders that a stale node cites, by their former paths."""
        paths = {one.citation.path for one in self._gone.get(uri, ()) if one.is_gone}
        history = CodeHistory.of(self._workspace)
        return {path: now for path in sorted(paths) if (now := history.renamed(path))}

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
        """The nodes known to cite a file, sorted. Takes one look-up, unless nodes were just written."""
        self._check_newest()
        with self._lock:
            return sorted(self._by_path.get(path, ()))

    def renames_from(self, path: str) -> list[str]:
        """The new paths of facts that were moved from a path of the code, sorted. The code here may have only the
        former path. Takes one look-up, unless nodes were just written."""
        self._check_newest()
        with self._lock:
            return sorted(set(self._by_former_path.get(path, {}).values()))

    def renames_of(self, uri: Uri) -> Mapping[str, str]:
        """The new paths of renamed code that a node names, by former paths. Takes one look-up, unless the node was just
        written."""
        self._check_written((uri,))
        return self._renames.get(uri, {})

    def citing_below(self, path: str) -> list[Uri]:
        """The nodes known to cite a file or folder or anything in it, sorted. O(cited paths)."""
        with self._lock:
            paths = [one for one in self._by_path if one == path or one.startswith(f"{path}/")]
            return sorted(set().union(*(self._by_path[one] for one in paths)))

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

    def _check_newest(self) -> None:
        """Check the nodes that were just written, unless they are many."""
        with self._lock:
            written = tuple(self._dirty) if len(self._dirty) <= CHECKED_AT_ONCE else ()
        self._check_written(written)

    def _check_written(self, uris: Iterable[Uri]) -> None:
        """Check the nodes among these that were just written."""
        if not self._dirty:
            return
        with self._lock:
            fresh = [uri for uri in uris if uri in self._dirty]
        for uri in fresh:
            self._judge(uri, deep=False)
        if fresh:
            self._sum_up()

    def checked(self, uri: Uri, node: Node) -> list[Checked]:
        """The citations of the node `uri`, each compared with the code. Runs git for code that has changed. A citation
        has the former path of a file that the code here has only there."""
        if self.code is None:
            return []
        notes, blob, renames = citations.notes_of(node), self._blob(uri), renames_of(node)
        answer = []
        for cited in citations.of(node, self._workspace.id):
            one = self._as_checked_out(cited, renames, self.code)
            ids = self._verified(uri, blob, one, notes.get(one.text, set()), deep=True)
            former = former_paths(one, renames)
            if (finding := judge(one, ids, self.code, deep=False)) is not None:
                self.code.look()
                finding = judge(one, ids, self.code, former, deep=True)
            finding = finding and _with_new_path(finding, CodeHistory.of(self._workspace).renamed)
            answer.append(Checked(one, frozenset(ids), finding, tuple(former)))
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
                uris |= {*self._by_path.get(path, ()), *self._by_former_path.get(path, ())}
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
            found.update(self._workspace.text().with_data_keys((CITES, VERIFIED, RENAMED)))
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
        renames = renames_of(node) if node else {}
        if cited and deep and not self._has_looked:
            self._has_looked = True
            code.look()
        findings: list[Finding] = []
        for one in (self._as_checked_out(one, renames, code) for one in cited):
            verified = self._verified(uri, blob, one, notes.get(one.text, set()), deep=deep)
            if finding := judge(one, verified, code, former_paths(one, renames), deep=deep):
                findings.append(finding)
        mark = summed_up(findings)
        with self._lock:
            if blob != self._blob(uri):
                return  # written in the meantime: the job of that write checks the new version
            self._dirty.discard(uri)  # not earlier: until now, readers had to check for themselves
            self._index(uri, cited)
            self._index_renames(uri, renames)
            self._gone.pop(uri, None)
            if mark is None:
                self._by_citation.pop(uri, None)
            else:
                self._by_citation[uri] = mark
            if any(one.is_gone for one in findings):
                self._gone[uri] = findings

    def _as_checked_out(self, one: Citation, renames: Mapping[str, str], code: Code) -> Citation:
        """The citation with the former path of a file whose rename is not checked out. A file that was renamed back has
        its new path only after a move of its facts."""
        former = under_former_path(one, renames, code)
        return one if former is one or CodeHistory.of(self._workspace).renamed(one.path) else former

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

    def _index_renames(self, uri: Uri, renames: Mapping[str, str]) -> None:
        for path in self._renames.pop(uri, ()):
            moved = self._by_former_path.get(path, {})
            moved.pop(uri, None)
            if not moved:
                self._by_former_path.pop(path, None)
        if renames:
            self._renames[uri] = renames
            for path, now in renames.items():
                self._by_former_path.setdefault(path, {})[uri] = now

    def _sum_up(self) -> None:
        with self._lock:
            if self._doubted or self._by_citation or self._by_area:
                self._doubted = frozenset((*self._by_citation, *self._by_area))


@dataclass(frozen=True, slots=True)
class Checked:
    """A citation, the ids of its verified content, its problem, if the code has changed, and the former paths of its
    file."""

    citation: Citation
    verified: frozenset[str]
    finding: Finding | None
    former: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Job:
    """A change to nodes, to files, to everything or, with `looks`, perhaps only to the checked-out commit."""

    uris: frozenset[Uri] = frozenset()
    paths: frozenset[str] = frozenset()
    everything: bool = False
    looks: bool = False


_LINE = re.compile(r".:\d+(?:-\d+)?\Z").search
KEPT = 6
"""Number of verified contents kept per citation, so that a node stays verified when switching branches."""


def noted(
    workspace: Workspace, changes: ChangeSet, other: Callable[[], Code | None] = lambda: None
) -> tuple[ChangeSet, tuple[str, ...]]:
    """The changes, with the current contents of the cited code recorded in them, and warnings about unresolved
    citations.

    A citation with a commit is verified by that commit. Writing `content` or `summary` of a citing node restates it:
    from then on, only the current content of the code is verified.

    Args:
        other: Returns the code that the author has checked out, if it is not the followed code. Then both contents are
            recorded, so that neither this difference nor a merge of the two makes the node stale. Not called for a
            change without citations, because finding the author's work tree reads the disk.
    """
    freshness = Freshness.of(workspace)
    if (followed := freshness.code) is None:
        return changes, _unchecked(workspace, changes)
    code = cache(lambda: other() or followed)
    edits: list[Edit] = []
    warnings: list[str] = []
    for edit in changes.edits:
        if isinstance(edit, Upsert) and VERIFIED not in edit.data:
            edit = _with_notes(workspace, freshness, code, edit, warnings)
        edits.append(edit)
        if isinstance(edit, Relate):
            alike = Upsert(edit.source, relations=(edit.relation,))
            notes = _with_notes(workspace, freshness, code, alike, warnings)
            edits += [replace(notes, relations=())] if notes.data else []
    return replace(changes, edits=tuple(edits)), tuple(warnings)


def _unchecked(workspace: Workspace, changes: ChangeSet) -> tuple[str, ...]:
    """A warning about the first citation of code in a workspace without a code tree."""
    for edit in changes.edits:
        cites = edit.data.get(CITES) if isinstance(edit, Upsert) else None
        for text in (one for one in (cites if isinstance(cites, list) else [cites]) if isinstance(one, str)):
            cited = citations.parse(text, workspace.id)
            if cited is not None and citations.looks_like_a_path(cited.path):
                return (f"{text[:200]} cannot be checked: this workspace has no code tree here",)
    return ()


def _with_new_path(one: Finding, renamed: Callable[[str], str]) -> Finding:
    """The finding with the new path of a renamed file. It is looked up for each answer, since the history of the code
    may be read after the node was checked."""
    now = renamed(one.citation.path) if one.is_gone else ""
    return replace(one, change=f"{one.change}, now {now}") if now else one


def verification(workspace: Workspace, uri: Uri) -> Upsert:
    """The change that records the current content of the code behind a node, which verifies it.

    Earlier verifications stay valid for their versions of the code. A relation to a file is turned into a citation.

    Raises:
        NotFound: The node does not exist.
        Invalid: The node does not cite code, or cites a file that does not exist (any more).
    """
    current = workspace.resolve(uri)
    node = workspace.node(current)
    if node is None:
        raise NotFound("there is no such node", at=uri, next=Advice("Find it with ", Do("search"), "."))
    code = Freshness.of(workspace).code
    if code is None:
        raise Invalid("this workspace has no code tree on this machine to verify against", at=uri)
    cited = {one.text: one for one in citations.of(node, workspace.id)}
    for relation in node.relations:
        if one := citations.by_relation(relation, workspace.id):
            cited.setdefault(one.text, one)
    data: dict[str, Json] = {}
    if marks := dict(_verified_now(code, workspace.id, node, cited)):
        data[VERIFIED] = marks
    if isinstance(node.data.get("paths"), list) and (head := code.look()):
        older = {note("", commit): None for commit in citations.confirmed_at(node)}
        data[VERIFIED] = {**marks, **older, note("", head[:ID]): True}
    if not data and not any(one.at or one.text in notes_of(node) for one in cited.values()):
        raise Invalid(
            "this node does not cite any code",
            at=uri,
            next=Advice("Add a citation with ", Do("put", uri=uri, data='{"cites": ["PATH#NAME"]}'), "."),
        )
    return Upsert(current, data=data)


def _verified_now(code: Code, workspace: str, node: Node, cited: Mapping[str, Citation]) -> Iterator[tuple[str, Json]]:
    notes, own = notes_of(node), {one.text for one in citations.of(node, workspace)}
    for text, one in cited.items():
        now = code.shareable(one.path, one.symbol)
        is_outside = text not in own or not citations.is_missing(one, code)
        if not now.id and not one.at and text not in notes and is_outside:
            continue  # not a file of this tree, but a book or code elsewhere
        if not now.id:
            why = citations.ABSENT if now.known else "cannot be read here"
            raise Invalid(
                f"{one.path[:200]} {why}",
                at=node.uri,
                next="Cite its replacement (data.cites, or the relation), then verify.",
            )
        if now.id not in notes.get(text, ()):
            yield note(text, now.id), True
        for id in sorted(notes.get(text, set()) - {now.id})[KEPT - 1 :]:
            yield note(text, id), None


def _is_only_there(freshness: Freshness, one: Citation) -> bool:
    """Whether the served code lacks a symbol that another work tree has."""
    return freshness.code is not None and not freshness.code.shareable(one.path, one.symbol).has_symbol


def _with_notes(
    workspace: Workspace, freshness: Freshness, checked_out: Callable[[], Code], edit: Upsert, warnings: list[str]
) -> Upsert:
    uri = workspace.resolve(edit.uri)
    restated = edit.content is not None or edit.summary is not None
    cites = edit.data.get(CITES)
    symbols = [one for relation in edit.relations if (one := _about_symbol(relation, workspace.id))]
    if cites is None and not symbols and not (restated and freshness.citations(uri)):
        return edit
    code, before = checked_out(), workspace.node(uri) or Node(uri)
    texts = [one for one in (cites if isinstance(cites, list) else [cites]) if isinstance(one, str)]
    after = replace(before, data={**before.data, **({CITES: texts} if cites is not None else {})})
    old = notes_of(before)
    known = {one.text for one in citations.of(before, workspace.id)}
    marks: dict[str, Any] = {}
    for one in {one.text: one for one in [*citations.of(after, workspace.id), *symbols]}.values():
        now = code.shareable(one.path, one.symbol)
        is_new = one.text not in old and not one.at
        if one.at and one.text not in known and code.id_at(one.at, one.path) is None:
            warnings.append(f"{one.text[:200]} has an unknown commit or blob, so changes cannot be detected")
            continue
        if not now.id:
            if now.known and one.text in texts and _is_path(one.path, one.text):
                cure = "; cite a file or PATH#SYMBOL, without line numbers" if _LINE(one.text) else ""
                lacks = f"the code tree has no such file{cure}"
                if code.has(one.path):
                    lacks = "kgd detects no changes of files that are ignored, linked, in a submodule or over 8 MiB"
                warnings.append(f"{one.text[:200]} is cited, but {lacks}")
            continue
        if one.symbol and not now.has_symbol and one.text in texts:
            warnings.append(f"{one.symbol[:80]} was not found in {one.path[:200]}; the whole file is compared instead")
        elif one.symbol and code is not freshness.code and one.text in texts and _is_only_there(freshness, one):
            lacks = f"{one.path[:200]} in {workspace.layout.code_tree} does not have it"
            warnings.append(f"{one.symbol[:80]} is only in this work tree: {lacks}")
        if is_new or (restated and one.text in known):
            marks[note(one.text, now.id)] = True
            if code is not freshness.code and freshness.code is not None:
                followed = freshness.code.shareable(one.path, one.symbol)
                marks.update({note(one.text, followed.id): True} if followed.id else {})
    kept = {one.text for one in citations.of(after, workspace.id)}
    for text in texts:
        if text not in kept and citations.names_a_file(text):
            warnings.append(f"{text[:200]} is cited, but the code tree has no such file")
    renewed = {key.rpartition("@")[0] for key in marks}
    for text, ids in old.items():
        if text in renewed or text not in kept:
            marks.update({note(text, id): None for id in ids if note(text, id) not in marks})
    return replace(edit, data={**edit.data, VERIFIED: marks}) if marks else edit


def _is_path(path: str, text: str) -> bool:
    return citations.looks_like_a_path(path) or citations.names_a_file(text)


def _about_symbol(relation: Relation, workspace: str) -> Citation | None:
    is_about = relation.type == "about" and scheme_of(relation.target) == "symbol"
    return citations.by_relation(relation, workspace) if is_about else None
