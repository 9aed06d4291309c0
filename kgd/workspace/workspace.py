"""A workspace: opening, reading, changing and closing one graph in one repository.

Reads use memory or at most one blob, and never wait for a commit, a publication or a merge. Every change is a
ChangeSet through `submit`. Opening recovers from any crash of the last process.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from kgd import tracing
from kgd.codec import documents, paths
from kgd.errors import Advice, Damaged, Do, Invalid, KgdError, Unavailable
from kgd.git import integrity
from kgd.git.history import Change as FileChange
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.graph.edges import BrokenLink, EdgeSource
from kgd.graph.live_graph import LiveGraph
from kgd.index.change_feed import Feed
from kgd.index.code_index import FileHit
from kgd.index.database import IndexDamaged
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.model.access import Policy
from kgd.model.change import ChangeSet, Revert
from kgd.model.node import Node
from kgd.model.uri import Uri, workspace_of
from kgd.workspace import memory_files
from kgd.workspace.answers import InvalidFile, Outcome, Stage, Version
from kgd.workspace.derived.derived import Derived, GraphMoment
from kgd.workspace.derived.indexed_text import Place
from kgd.workspace.derived.meaning import Meaning
from kgd.workspace.history import pushers
from kgd.workspace.history.commits import Past
from kgd.workspace.history.history import History
from kgd.workspace.publishing.publication import BranchPublication, Publication
from kgd.workspace.repository import Ownership, Upkeep, policy_at, read_settings, why_read_only
from kgd.workspace.served import Change, SentVersions, Served
from kgd.workspace.writing import settling
from kgd.workspace.writing.settling import OpenConflicts
from kgd.workspace.writing.signing import CommitSigning, Seal
from kgd.workspace.writing.surroundings import PastSurroundings, PendingBatch, Surroundings
from kgd.workspace.writing.touched_nodes import Permit
from kgd.workspace.writing.transaction import Transaction
from kgd.workspace.writing.writer import CommitPoint, Staged, Writer

if TYPE_CHECKING:
    from kgd.signatures.keys import SigningKey

log = logging.getLogger(__name__)

T = TypeVar("T")

LATER_COMMITS = 1_000
"""Largest number of commits that are searched for the commit of a graph."""

Clock = Callable[[], float]
Listener = Callable[[frozenset[Uri]], None]


class Workspace:
    """One graph in one repository, owned by this process while it is open.

    Safe for any number of threads. Use `Workspace.open`.
    """

    def __init__(self, layout: Layout, *, clock: Clock, publish: bool, key: Callable[[], SigningKey | None]) -> None:
        self.layout = layout
        self.is_published = publish and not layout.is_bare
        """Whether there is a work tree that is kept up to date."""
        self.signing = CommitSigning(key)
        self.overlay: EdgeSource | None = None
        """The code tree as nodes; set by its watcher."""
        self.code_files: Callable[[], Sequence[FileDoc]] = tuple
        """The files of the code tree for full text; set together with `overlay`."""
        self.code_docs: Callable[[], Iterable[tuple[Uri, Sequence[Doc]]]] = tuple
        """The documents read from those files, for a new index; set together with `overlay`."""
        self.files_with: Callable[[str, int], tuple[Sequence[FileHit], frozenset[str]]] = lambda *asked: (
            (),
            frozenset(),
        )
        """Finds the files of the code tree whose full text has words of a query, and which of the words occur in any
        file; set by the reader of the tree."""
        self.is_registered: Callable[[str], bool] = lambda id: False
        """Whether the registry lists another workspace. A relation into an unlisted one is a broken link."""
        self._clock, self._listeners = clock, list[Listener]()
        self._uncommitted_listeners: list[Callable[[], object]] = []
        self._displaced_listeners: list[Callable[[], object]] = []
        self._closing = list[Callable[[], None]]()
        self._stages, self._problems = list[Callable[[], Stage]](), list[Callable[[], str]]()
        self._last_commit: float | None = None
        self._beside, self._beside_lock = dict[type, object](), threading.Lock()
        self._wake_publication: Callable[[], None] = lambda: None  # recovery may commit before publication starts
        self._owner = Ownership(layout.derived_dir)
        self._spare = None if self._owner.can_write else TemporaryDirectory(prefix="kgd-")
        self.derived_dir = Path(self._spare.name) if self._spare else layout.derived_dir
        """The folder of files that may be deleted at any time."""
        opened = contextlib.ExitStack()
        opened.callback(self._owner.release)
        try:
            self._open_parts(opened, clock=clock, publish=publish)
        except BaseException as failure:
            with contextlib.suppress(Exception):  # call every callback, even if one raises
                opened.close()
            if isinstance(failure, IndexDamaged):  # git is sound, so the error must not suggest repairing it
                raise Unavailable(
                    f"the derived data cannot be rebuilt: {failure.message}",
                    at=failure.at,
                    next="Try again. No knowledge is lost: kgd rebuilds this data from git.",
                ) from failure
            if isinstance(failure, Damaged):
                raise Damaged(
                    f"the newest change cannot be read: {failure.message}",
                    at=failure.at,
                    next=integrity.recovery_advice(layout),
                ) from failure
            raise

    def _open_parts(self, opened: contextlib.ExitStack, *, clock: Clock, publish: bool) -> None:
        """Recover the repository, then open the parts of the workspace in the order in which they need each other.

        Each part that holds a thread or a file is registered with `opened`, which closes it if a later part fails.
        """
        layout, derived_dir = self.layout, self.derived_dir
        self.recovery = integrity.Report() if self._spare else integrity.recover(layout)
        self._store = layout.open()
        self.seal = self._make_seal()
        self.settings = read_settings(layout, self._store)
        self.read_only = "its disk cannot be written" if self._spare else why_read_only(self.settings)
        self.id = self.workspace = self.settings.workspace
        self.sharded = self.settings.sharded
        self._policy: tuple[ObjectId, Policy] | None = None
        """The policy at the tip of the last call of `policy`. A call over HTTP reads it four times."""
        self.past = Past(self._store, self.id, self.sharded, lambda uri: self.part_of(uri))
        self._served = Served(self._store, self.id, self.sharded, self.past.last_good)
        self.sent = SentVersions(self._store, self._served)
        self.history = History(
            self.past,
            self._served,
            self.sent,
            self.version,
            lambda path: self._derived.versions.known(path),
            lambda: self._writer.tip,
        )
        self.conflicts = OpenConflicts(self._store, self._served, self.id, self.sharded)
        self._derived = Derived(
            self._store,
            self._served,
            derived_dir,
            clock,
            lambda: self.code_files(),
            lambda: self.code_docs(),
            self.seal,
        )
        opened.callback(self._derived.close)
        around = (self.past, self._served, self.sent, self.version, self.in_overlay, lambda id: self.is_registered(id))
        self.around, self._pending = Surroundings(*around), PendingBatch(*around)
        self._writer = Writer(
            self._store,
            derived_dir,
            pending=self._pending,
            flushed=self._flushed,
            moved=self._moved,
            prepare=self._derived.versions.prepare,
            sign=self.signing,
        )
        opened.callback(self._writer.close)
        self._read_tip = self._writer.tip
        self._derived.start(self._read_tip)
        self.meaning = Meaning(self.feed, self.index_place, derived_dir, clock)
        """Vectors of texts; idle until `follow`."""
        self.on_indexed(self.meaning.wake)
        self.on_close(self.meaning.close)
        self._problems += [self._derived.indexed.worker.problem, self.meaning.problem, self.signing.problem]
        self._upkeep = Upkeep(self._store, clock)
        opened.callback(self._upkeep.close)
        is_published = publish and not self.read_only
        self._publication: Publication | BranchPublication = (
            BranchPublication(self, clock=clock, in_place=self._look_around)
            if layout.is_bare and is_published
            else Publication(self, publish=is_published, clock=clock, in_place=self._look_around)
        )
        self._wake_publication = self._publication.wake
        if not self._store.commit(self._writer.tip).parents:
            self._writer.unsigned.append(self._writer.tip)
            self._attest()

    @classmethod
    def open(
        cls,
        layout: Layout,
        *,
        clock: Clock = time.time,
        publish: bool = True,
        key: Callable[[], SigningKey | None] = lambda: None,
    ) -> Workspace:
        """Open a workspace and update its derived data to the tip.

        Args:
            publish: Whether its work tree is kept up to date; off for tools that only read or write objects.
            key: Returns the key that signs commits; None if they are not signed. Raises Unavailable.

        Raises:
            Unavailable: Another process has it open (the message names it), or the repository cannot be used.
            Damaged: The tip cannot be read, and no copy of it was found.
        """
        return cls(layout, clock=clock, publish=publish, key=key)

    # ---- reading

    @property
    def graph(self) -> LiveGraph:
        return self._served.graph

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def tip(self) -> str:
        return self._writer.tip.hex()

    @property
    def policy(self) -> Policy:
        """The rules for writing and proposing, from ``kgd.yaml`` at the tip."""
        tip = self._writer.tip
        known = self._policy
        if known is None or known[0] != tip:
            self._policy = known = tip, policy_at(self._store, tip, self.id)
        return known[1]

    @property
    def conflict_count(self) -> int:
        """The number of open conflicts, from memory."""
        return self._served.conflict_count

    def now(self) -> int:
        """Unix seconds, by the workspace's clock."""
        return int(self._clock())

    def graph_moment(self, *, anew: bool = False) -> tuple[str, GraphMoment]:
        """The stored graph for another process, and the commit that it shows; see `GraphFile.moment`.

        Raises:
            Unavailable: The file cannot be written, or the graph does not yet follow the tip.
        """
        moment, commit = self._derived.graph_file.moment(anew=anew), self._writer.tip
        for _ in range(LATER_COMMITS):  # further flushes since that moment
            found = self._store.commit(commit)
            if found.tree.hex() == moment.now:
                return commit.hex(), moment
            if not found.parents:
                break
            commit = found.parents[0]
        raise Unavailable("the graph is being reloaded", at=self.id, next="Try again.")

    def sources(self) -> list[EdgeSource]:
        """The sources of a traversal: the stored graph, then the code tree."""
        return [self.graph, *([self.overlay] if self.overlay else [])]

    def exists(self, uri: Uri) -> bool:
        return uri in self.graph or self.in_overlay(uri)

    def node(self, uri: Uri, as_of: str | None = None) -> Node | None:
        """The stored node, now or at a commit; None if absent. Aliases are not followed.

        Raises:
            NotFound: There is no such commit.
            Damaged: The node's blob cannot be read."""
        if as_of is not None:
            return self.past.node_at(uri, self.past.commit_id(as_of))
        data = self._served.bytes_of(uri)
        return documents.decode(data, at=uri) if data is not None else None

    def stored(self, uri: Uri) -> bytes | None:
        """The bytes of the node's file; for a node in a part, of the separate file that it would have. Raises as
        `node`."""
        return self._served.bytes_of(uri)

    def readable(self, uri: Uri) -> Node | None:
        """As `node`, but None for a damaged file as well; `kgd fsck` reports the damage."""
        try:
            return self.node(uri)
        except KgdError:
            return None

    @property
    def knows_versions(self) -> bool:
        """Whether `node_version` does not wait for a count of history."""
        return self._derived.versions.is_ready

    def node_version(self, uri: Uri) -> Version | None:
        """The node's version. Waits while versions are counted after startup without a cache."""
        return self._derived.versions.version(self.path(uri))

    def version_at(self, uri: Uri, as_of: str) -> int:
        """The node's version at a commit, counted as in `node_version`. Errors as `node`."""
        commit, path = self.past.commit_id(as_of), self.path(uri)
        while True:
            tip = self.tip
            count = self._derived.versions.version_at(path, commit, bytes.fromhex(tip))
            if tip == self.tip:  # a commit in between may be counted on only one side
                return count

    def detail(self, node: Node, as_of: str | None = None) -> tuple[str, str] | None:
        """Path and text of the detail file of a memory, now or at a commit; None if it has none.

        Raises:
            NotFound: There is no such commit.
            Damaged: The file's blob cannot be read.
        """
        if memory_files.file_of(node) is None:
            return None
        if as_of:
            tree: ObjectId | None = self._store.tree_of(self.past.commit_id(as_of))
        else:
            with self.graph.lock:  # during a flush, nodes may be new while the tree is still old
                tree = self._served.tree
        found = memory_files.detail_of(node, lambda path: memory_files.read_blob(self._store, tree, path))
        return (found[0], found[1].text) if found else None

    def text(self) -> TextIndex:
        """Full text of stored nodes and of the code tree, with every change acknowledged before the call.

        Raises:
            Unavailable: The index is being built, and is not ready after two minutes.
        """
        return self._derived.text()

    def text_so_far(self) -> TextIndex:
        """As `text`, but does not wait if `is_text_partial`. For searches, whose answers then report this."""
        return self._derived.text_so_far()

    @property
    def is_text_partial(self) -> bool:
        """Whether the text index, which takes long to build, has only some of the texts."""
        return self._derived.is_partial

    @property
    def text_problem(self) -> str:
        """Why the text index may lack texts or changes; empty while it is maintained."""
        stage = self._derived.stage
        return stage.blocker if stage.state == "degraded" else ""

    def misspelt_keys(self) -> list[str]:
        """A sentence for each unknown key of a node that is probably a misspelt field, with the node's file."""
        return self._served.misspelt_keys()

    def invalid_files(self) -> tuple[InvalidFile, ...]:
        """Unreadable files, both committed and waiting in the work tree."""
        return tuple({f.path: f for f in (*self._served.invalid_files(), *self._publication.invalid_files())}.values())

    def unreadable_edits(self) -> tuple[InvalidFile, ...]:
        """A person's edits of nodes, settings and other files of the workspace that are not committed, because the
        files cannot be read; without unreadable files that are committed."""
        tree = self._served.tree
        return tuple(
            one
            for one in self._publication.invalid_files()
            if self._served.invalid_file(one.path) is None
            and (one.uri is not None or (tree and self._store.entry(tree, one.path)))
        )

    @property
    def branch_refusal(self) -> KgdError | None:
        """Why a person's own commits on the visible branch are not merged; None if they are, or soon will be."""
        return self._publication.refusal

    def broken_links(self, limit: int | None = None) -> list[BrokenLink]:
        return self.graph.broken_links(limit, known=lambda target: not self.is_broken(target))

    def is_broken(self, target: Uri) -> bool:
        """Whether a relation to the target is a broken link: a missing node here, or an unknown workspace.

        Whether another known workspace has the node is found only by a traversal.
        """
        owner = workspace_of(target)
        if owner not in (None, self.id):
            return not self.is_registered(owner)
        return target not in self.graph and not self.exists(self.resolve(target))

    def counted(self, changes: Sequence[FileChange]) -> list[str]:
        """The paths whose versions a commit increases; see `Served.counted`."""
        return self._served.counted(changes)

    # ---- changing

    def submit(self, changes: ChangeSet, *, dry_run: bool = False, permit: Permit | None = None) -> Outcome:
        """Apply a ChangeSet as one commit; return when it is durable.

        `permit` is called in the thread that flushes with everything the change touches and the current policy.

        A repeated request id returns the first result. After an error nothing was written. There is one exception:
        after `Unavailable` because the disk did not confirm a write, repeat the request with the same id to learn the
        result.

        Raises:
            KgdError: The change was refused; the error gives the problem and the next step.
        """
        self._check_writable(dry_run)
        if len(changes.request_id) > 200 or not changes.request_id.isprintable():
            raise Invalid("a request id is at most 200 printable characters", at="request_id")
        if repeated := self.repeated(changes.request_id):
            return repeated
        if any(isinstance(edit, Revert) for edit in changes.edits):
            changes = settling.named_in_message(changes, self.past)
        now = int(self._clock())
        transaction = Transaction(changes, self._pending, now, dry_run, permit, self.seal)

        def stage(staging: Staging, parent: ObjectId) -> Staged[Outcome]:
            self._check_writable(dry_run)  # the writer may have moved to a tip written by a newer kgd
            # Checked again, since an earlier call with this id may have finished in between.
            done = self.repeated(changes.request_id)
            return Staged(done) if done else transaction.stage(staging, parent)

        with tracing.span("commit", workspace=self.id):
            request = "" if dry_run else changes.request_id
            outcome = self._writer.run(stage, request=request, counted=self._counted(changes))
        # Similar nodes are optional: finding them must not delay other writers, and an import of a document needs none.
        if outcome.created and not self._writer.is_busy and changes.operation != "ingest":
            replaced: dict[Uri, list[Uri]] = {}
            if outcome.would:
                nodes = [one.after for one in outcome.would.nodes if one.before is None and one.after]
                named = {node.uri: node.label for node in nodes}
                replaced = {node.uri: node.supersedes for node in nodes}
            else:
                cards = map(self.graph.card, outcome.created)
                named = {card.uri: card.name for card in cards if card}
            outcome = replace(outcome, similar=self._derived.similar(named, replaced))
        return outcome

    def _counted(self, changes: ChangeSet) -> list[str]:
        """The paths whose versions staging will ask for, as far as the edits name them."""
        try:
            return [self.path(self.resolve(uri)) for uri in changes.named]
        except (KgdError, ValueError):  # staging refuses the name as well, and says which edit has it
            return []

    def commit_at(self, point: CommitPoint) -> None:
        """Let an upstream's ref decide from the next flush on. Commits that the upstream lacks reach it with the
        next flush."""
        self._writer.commit_point = point

    def share_seal(self, key: Callable[[bytes], bytes]) -> None:
        """Seal with the key that hubs share, and recognise the requests of the commits that it sealed.

        Args:
            key: Returns the shared key; called with this workspace's own.
        """
        own = self.seal.key()
        if (shared := key(own)) != own:
            self.seal.replace(shared)
            self._derived.count_again()
        self.past.was_made_by_kgd = lambda commit: self.seal.is_on(self._store, commit)

    @property
    def read_tip(self) -> ObjectId:
        """The commit that reads see: during a flush, still the tip before it."""
        return self._read_tip

    def holds(self, commit: ObjectId) -> bool:
        """Whether reads see a commit."""
        tip = self._read_tip
        return tip == commit or (self._store.exists(commit) and self._store.is_ancestor(commit, tip))

    def catch_up(self, told: ObjectId | None = None) -> None:
        """Follow the upstream of `commit_at`. Writes wait only while the ref moves, not for the fetch.

        Args:
            told: The tip that another hub reported.

        Raises:
            Unavailable: The upstream cannot be reached, or does not contain this hub's last commit.
        """
        point = self._writer.commit_point
        if point and not (told and self.holds(told)):
            with point.newest(told) as tip:
                self._writer.follow(tip)

    def run(self, job: Callable[..., Staged[object]], *, alone: bool = True) -> object:
        """Run a job in the thread that flushes. Publication and sync bring in commits from elsewhere in this way.

        The job shares a flush with other changes only if `Staged.nodes` lists its effect on nodes.
        """
        try:
            return self._writer.run(job, alone=alone)
        finally:
            self._attest()

    @property
    def waiting(self) -> int:
        """The number of changes in the writer's queue."""
        return self._writer.waiting

    @property
    def has_committed(self) -> bool:
        """Whether there was a commit since the workspace was opened."""
        return self._last_commit is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be written, published or indexed."""
        return self._writer.is_idle and self._publication.is_in_step and self._derived.is_in_step

    def hint(self, changed: Iterable[str] | None = None) -> None:
        """Report changed paths in the work tree or the repository; None for any path. Never blocks."""
        self._publication.hint(changed)

    def settle(self) -> None:
        """Commit files that a person has just saved, and merge their own commits, before returning.

        Files that cannot be read, and an unfinished operation of git, stay as they are.

        Raises:
            Unavailable: A git command runs, or an editor still writes.
        """
        if not self._publication.settle():
            raise Unavailable(
                "the files that you have saved are not committed yet",
                next=Advice("Repeat the command in a moment; ", Do("status"), " shows the reason."),
            )

    @property
    def scan_seconds(self) -> float:
        """CPU time of the last scan of all files in the work tree."""
        return self._publication.scan_seconds

    def confirm_deletions(self) -> None:
        """Confirm the deletion of missing files, which is held because there are many."""
        self._publication.confirm_deletions()

    def note_files(self, present: Sequence[FileDoc], gone: Sequence[Uri] = (), *, complete: bool = False) -> None:
        """Add files of the code tree to search; see `Derived.note_files`. Returns at once."""
        self._derived.note_files(present, gone, complete=complete)

    def note_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Replace the indexed content of one file of the code tree. May be called from any thread; returns at once."""
        self._derived.note_tree(file, docs)

    @property
    def index_place(self) -> Place:
        """The text index, for a child process."""
        return self._derived.place

    def feed(self) -> Feed:
        """Additions to and removals from the text index. Waits and raises as `text`."""
        return self._derived.feed()

    def on_indexed(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each step of the text index, in its thread: it must not block."""
        self._derived.followers.append(listener)

    def on_health(self, stage: Callable[[], Stage]) -> None:
        """Include `stage` in the workspace's health."""
        self._stages.append(stage)

    def on_problem(self, problem: Callable[[], str]) -> None:
        """Include the sentence that `problem` returns in `degraded`, unless it is empty."""
        self._problems.append(problem)

    def on_close(self, listener: Callable[[], None]) -> None:
        """Call `listener` before the workspace closes, so that it can stop background work."""
        self._closing.append(listener)

    def on_commit(self, listener: Listener) -> None:
        """Call `listener` in the thread that flushes with the nodes of each flush, including nodes whose conflicts were
        added or removed. `listener` must not block."""
        self._listeners.append(listener)

    def on_uncommitted(self, listener: Callable[[], object]) -> None:
        """Call `listener` when a proposal or an unreadable file appears or disappears: it must not block."""
        self._uncommitted_listeners.append(listener)

    def tell_uncommitted(self) -> None:
        """Notify listeners of a change that is not a commit."""
        for listener in self._uncommitted_listeners:
            listener()

    def on_displaced(self, listener: Callable[[], object]) -> None:
        """Call `listener` once if the workspace's folder is moved or removed: it must not block."""
        self._displaced_listeners.append(listener)

    @property
    def is_in_place(self) -> bool:
        """Whether the folder of derived data is still the one that was opened. If not, the workspace must be
        reopened."""
        return self._owner.is_in_place()

    def beside(self, kind: type[T], make: Callable[[Workspace], T]) -> T:
        """In-memory state of a feature for this workspace: created at the first call, dropped with the workspace."""
        if (found := self._beside.get(kind)) is None:
            with self._beside_lock:
                if kind not in self._beside:
                    self._beside[kind] = make(self)
                found = self._beside[kind]
        assert isinstance(found, kind)
        return found

    # ---- health

    def health(self) -> dict[str, Stage]:
        """Each stage of the work with its state, last success and blocker."""
        commit = Stage("commit", "blocked" if self._writer.failure else "ok", self._last_commit, self._writer.failure)
        return {
            stage.name: stage
            for stage in (
                commit,
                *self._publication.health(),
                self._derived.stage,
                *self.meaning.health(),
                self._upkeep.health(),
                *(stage() for stage in self._stages),
            )
        }

    def degraded(self) -> tuple[str, ...]:
        """Problems, one sentence each."""
        found = [f"read-only: {self.read_only}"] if self.read_only else []
        found += [
            f"{stage.name}: {stage.blocker}"
            for stage in self.health().values()
            if stage.state in ("blocked", "degraded")
        ]
        found += self.recovery.notes if self.recovery.damaged else []
        found += integrity.kept_notes(self._store)
        found += filter(None, (problem() for problem in self._problems))
        return tuple(found)

    @property
    def index_work(self) -> tuple[str, int, int]:
        """The running indexing: its name, and the number of finished and of all items. See `Work`."""
        return self._derived.indexed.work

    def reindex(self) -> None:
        """Rebuild all derived data; answers stay the same."""
        self._writer.run(self._load_anew, alone=True)
        self._derived.rebuild()
        self.meaning.rebuild()

    def close(self) -> None:
        """Finish pending work, publish once more, write the snapshot and release the workspace. A full disk is not an
        error."""
        self._derived.stop_soon()
        try:
            with contextlib.ExitStack() as ends:  # in reverse order, and all of them, even if one fails
                for end in (self._derived.close, self._upkeep.close, self._writer.close, self._publication.stop):
                    ends.callback(end)
                for listener in reversed(self._closing):
                    ends.callback(listener)
            self._served.close()
            if self._spare:
                self._spare.cleanup()
            else:
                integrity.checkpoint(self.layout)
            with contextlib.suppress(KgdError):  # the repository may have been deleted
                self._store.renew(anew=True)  # close its packs, even if a caller still has this object
        except OSError as error:  # acknowledged changes are durable; the next startup only checks more
            log.warning("the workspace could not be closed cleanly", extra={"reason": str(error)})
        finally:
            self._owner.release()

    # ---- places and versions

    def path(self, uri: Uri) -> str:
        return paths.path_of(uri, self.sharded)

    def resolve(self, uri: Uri) -> Uri:
        return self.graph.resolve(uri)

    def twin(self, uri: Uri) -> Uri | None:
        """Another node whose name some file systems cannot distinguish from this node's name, including changes in this
        flush."""
        return self._pending.twin(uri)

    def surroundings_at(self, commit: ObjectId) -> PastSurroundings:
        """The surroundings of a change that is based on an older commit."""
        return self.around.at(commit, self._writer.tip)

    def in_overlay(self, uri: Uri) -> bool:
        return self.overlay is not None and self.overlay.card(uri) is not None

    def version(self, path: str, *, anew: bool = False) -> int:
        found = self._derived.versions.version(path, anew=anew)
        return found.count if found else 0

    def part_of(self, uri: Uri) -> str:
        """The part from which the node is served; empty if there is no part."""
        at = self._served.locations.part_with(uri)
        return at.path if at else ""

    def doubled(self) -> list[tuple[Uri, str]]:
        """Nodes stored more than once, with each additional path; they are served from the first path."""
        return self._served.locations.doubled()

    # ---- inside

    def _flushed(self, staged: Sequence[Staged[object]], new: ObjectId, tree: ObjectId) -> None:
        """Update memory in the thread that flushes, before callers are answered."""
        if any(one.changed is None for one in staged):
            changes = self._served.load(tree)
        else:
            files, nodes = dict[str, ObjectId | None](), dict[str, Node]()
            for one in staged:  # a later change may rewrite the file of an earlier one's node
                for path in one.changed or ():
                    nodes.pop(path, None)
                files.update(one.changed or {})
                nodes.update((self.path(uri), node) for uri, node in one.nodes.items() if node)
            changes = self._served.follow(files.items(), tree, nodes)
        self._derived.note(staged, changes, new, tree)
        self._read_tip = new
        self._last_commit = self._clock()
        self._upkeep.note_flush()
        self._tell(changes)
        self._wake_publication()

    def _tell(self, changes: Iterable[Change]) -> None:
        touched = frozenset((*(change.uri for change in changes), *self._served.disputed()))
        for listener in self._listeners:
            listener(touched)

    def _look_around(self) -> bool:
        """`is_in_place`; if it is False, tell the listeners once."""
        if self.is_in_place:
            return True
        listeners, self._displaced_listeners = self._displaced_listeners, []
        for listener in listeners:
            listener()
        return False

    def _load_anew(self, staging: Staging, tip: ObjectId) -> Staged[None]:
        """Load the graph from the tip's files, and replace the old graph in one step."""
        fresh = Served(self._store, self.id, self.sharded, self.past.last_good)
        fresh.load(self._store.tree_of(tip))
        _, frozen, care = fresh.export()
        self._served.restore(self._store.tree_of(tip), frozen.arrays(), care)
        return Staged(None)

    def _moved(self, tip: ObjectId, left: ObjectId) -> None:
        """Follow a ref that was moved by hand, and keep the commits that are reachable only from `left`."""
        integrity.keep(self.layout, left, tip)
        changes = self._served.load(self._store.tree_of(tip))
        self._derived.start(tip)
        self._read_tip = tip
        self._tell(changes)
        with contextlib.suppress(KgdError):  # if a newer kgd wrote the tip, the workspace becomes read-only
            self.read_only = self.read_only or why_read_only(read_settings(self.layout, self._store))

    def _attest(self) -> None:
        """Record kgd's own unsigned commits in the signed ledger. A failure is only logged: `is_pure` proves them."""
        made = list[ObjectId]()
        with contextlib.suppress(IndexError):
            while True:
                made.append(self._writer.unsigned.popleft())
        if made and self.signing.is_on:
            try:
                pushers.attest(self.layout, self._store, made, self.now(), self.signing)
            except KgdError as error:
                log.warning("not attested", extra={"reason": str(error)[:200]})

    def _make_seal(self) -> Seal:
        seal = Seal(self.layout.git_dir)
        if not self._spare:
            with contextlib.suppress(OSError):  # the first change that needs it tries again and reports the error
                seal.make()
        return seal

    def _check_writable(self, dry_run: bool) -> None:
        if self.read_only and not dry_run:
            way_out = "Make its disk writable, then `kgd down`." if self._spare else "Install a newer kgd."
            raise Unavailable(f"this workspace is read-only: {self.read_only}", next=way_out)

    def repeated(self, request: str) -> Outcome | None:
        """The result of an earlier change with this request id, from the history of the tip; None if there is no such
        change."""
        commit = self._derived.versions.request(request) if request else None
        if commit is None:
            return None
        uris = self.past.entry(self.past.commit(commit), limit=2_000).nodes
        return Outcome(commit.hex(), tuple((uri, self.version(self.path(uri))) for uri in uris), repeated=True)
