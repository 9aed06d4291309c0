"""Simulated desks: repositories on disk that run the shipped code, step by step.

Real: objects, packs, refs and their locks, staging, transactions, merges, vetting, rounds of sync. Simulated or absent:
the writer's thread, publication, index and network, which have their own tests (tests/faults, tests/sync).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kgd.codec import documents, paths
from kgd.codec.settings import first_files
from kgd.errors import KgdError
from kgd.git import pack
from kgd.git.creation import create_standalone
from kgd.git.incoming import Incoming, scratch_repository
from kgd.git.layout import Layout
from kgd.git.objects import EMPTY_TREE, FOLDER, Object, ObjectId, Signature
from kgd.git.refs import HEAD, move_ref
from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import Remote, parse_url
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.model.change import Author, ChangeSet, Edit
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace.answers import InvalidFile, Outcome
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.writing.signing import CommitSigning
from kgd.workspace.writing.surroundings import Surroundings
from kgd.workspace.writing.transaction import Transaction
from kgd.workspace.writing.writer import Staged

WS = "ws"
MAIN = "refs/heads/main"
SHARDED: frozenset[str] = frozenset()
Answer = TypeVar("Answer")
Step = Callable[[str], None]
"""Called between any two steps; raises `Crash` where the process is to end."""


class Crash(BaseException):
    """The process ends here. No handler may delay it."""


def template(place: Path) -> Path:
    """An empty workspace; every desk starts with a copy."""
    return create_standalone(place / "template", WS, first_files(WS)).work_tree


def new_objects(source: ObjectStore, target: ObjectStore, tip: ObjectId) -> list[Object]:
    """The objects reachable from `tip` that `target` lacks, parts before wholes."""
    found: dict[ObjectId, Object] = {}

    def take(id: ObjectId, kind: str) -> None:
        if id in found or id == EMPTY_TREE or target.exists(id):
            return
        body = source.read(id)
        if kind == "tree":
            for mode, child in source.tree(id).values():
                take(child, "tree" if mode == FOLDER else "blob")
        elif kind == "commit":
            commit = source.commit(id)
            for parent in commit.parents:
                take(parent, "commit")
            take(commit.tree, "tree")
        found[id] = Object(id, kind, body)

    take(tip, "commit")
    return list(found.values())


class Upstream:
    """A git server with one branch: objects, and a ref that moves by compare-and-swap."""

    def __init__(self, copy: Path) -> None:
        self.git_dir = copy / ".git"
        self.store = ObjectStore(self.git_dir)
        self.tips: list[ObjectId] = []
        tip = self.store.ref(MAIN)
        assert tip is not None
        self.tips.append(tip)

    @property
    def tip(self) -> ObjectId:
        return self.tips[-1]

    def push(self, source: ObjectStore, old: ObjectId | None, new: ObjectId) -> None:
        if old != self.tip:
            raise LostRace("the ref holds something else")
        assert source.is_ancestor(old, new), "a push was forced"
        self.store.release(self.store.write(new_objects(source, self.store, new)))
        move_ref(self.git_dir, self.git_dir / "kgd", MAIN, old, new)
        self.tips.append(new)


class Desk:
    """One repository and its user. `tip` is the last durable commit; a crash leaves the state of the disk."""

    ref = HEAD

    def __init__(self, copy: Path, name: str, step: Step) -> None:
        self.name, self._step = name, step
        self.layout = Layout(copy / ".git", copy, None, MAIN)
        self._known: dict[ObjectId, Node] = {}
        self.start()

    def start(self) -> None:
        """Start again from the state of the disk."""
        self.store = self.layout.open()
        tip = self.store.ref(self.ref)
        assert tip is not None
        self._tip = tip
        self.staging = Staging(self.store, self.store.tree_of(tip))

    @property
    def tip(self) -> str:
        return self._tip.hex()

    @property
    def tree(self) -> ObjectId:
        return self.store.tree_of(self._tip)

    def nodes(self) -> dict[Uri, Node]:
        """Every node that can be read, at the tip."""
        found = {}
        for file in self.store.files(self.tree):
            if paths.is_node_path(file.path):
                node = self._known.get(file.id)
                if node is None:
                    node = self._known[file.id] = documents.decode(self.store.read(file.id), at=file.path)
                found[node.uri] = node
        return found

    def _advance(self, staged: Staged[Answer]) -> None:
        """The writer's steps for the staged changes of one job, in order."""
        if staged.commit is None or staged.commit == self._tip:
            self.staging.reset(self.store.tree_of(self._tip))
            return
        self._step("before the pack")
        held = self.store.write(objects) if (objects := self.staging.objects) else None
        self._step("before the ref")
        move_ref(self.layout.git_dir, self.layout.derived_dir, self.ref, self._tip, staged.commit)
        self._step("before the answer")
        self.store.release(held)
        self.staging.flushed()
        self._tip = staged.commit


class Replica(Desk):
    """A daemon's side: what `kgd.sync.round` needs of a workspace, and changes through the shipped transaction."""

    workspace = WS
    sharded = SHARDED

    def __init__(self, copy: Path, name: str, step: Step, clock: Callable[[], int]) -> None:
        super().__init__(copy, name, step)
        self._clock = clock
        self.author = Author(name, f"{name}@example.org")
        self.remote = Remote("origin", parse_url(str(copy.parent / "upstream")), MAIN)

    def run(self, job: Callable[[Staging, ObjectId], Staged[Answer]], *, alone: bool = False) -> Answer:
        try:
            staged = job(self.staging, self._tip)
        except KgdError:
            self.staging.reset(self.tree)
            raise
        self._advance(staged)
        return staged.answer

    def submit(self, *edits: Edit) -> Outcome:
        changes = ChangeSet(edits, self.author)
        transaction = Transaction(changes, _Around(self), self._clock())
        return self.run(transaction.stage)

    signing = CommitSigning(lambda: None)

    def in_overlay(self, uri: Uri) -> bool:
        return False

    def tell_uncommitted(self) -> None:
        """Nothing is published, so nothing waits to be committed."""

    def twin(self, uri: Uri) -> Uri | None:
        return _Around(self).twin(uri)

    def resolve(self, uri: Uri) -> Uri:
        return _Around(self).resolve(uri)


class _Around(Surroundings):
    """The surroundings of a change, looked up in the few nodes of the desk."""

    def __init__(self, desk: Desk) -> None:
        self.workspace, self.sharded = WS, SHARDED
        self._nodes = desk.nodes()

    def resolve(self, uri: Uri) -> Uri:
        if uri in self._nodes:
            return uri
        return min((at for at, node in self._nodes.items() if uri in node.aliases), default=uri)

    def twin(self, uri: Uri) -> Uri | None:
        key = collision_key(uri)
        return next((known for known in self._nodes if known != uri and collision_key(known) == key), None)

    def in_overlay(self, uri: Uri) -> bool:
        return False

    def version(self, path: str) -> int:
        return 0

    def served_blob(self, path: str, version: int) -> bytes | None:
        return None

    def parts_of(self, uri: Uri) -> None:
        return None

    def memory_names(self) -> list[str]:
        return [paths.path_of(uri, self.sharded) for uri in self._nodes]

    @property
    def graph(self) -> LiveGraph:
        graph = LiveGraph(WS)
        for node in self._nodes.values():
            graph.put(Card(node.uri, node.type, node.label, node.summary, None, ""), node.relations, node.aliases)
        return graph

    def invalid_file(self, path: str) -> InvalidFile | None:
        return None

    def knows_workspace(self, workspace: str) -> bool:
        return workspace == WS


class Person(Desk):
    """A person with plain git and an editor: a clone, own commits, `git pull` and `git push`."""

    ref = MAIN

    def commit(self, files: Mapping[str, bytes | None], subject: str, now: int) -> None:
        for path, data in sorted(files.items()):
            if data is None:
                self.staging.remove(path)
            else:
                self.staging.put(path, data)
        who = Signature(self.name, f"{self.name}@example.org", now)
        made = self.staging.commit(self.staging.write_tree(), [self._tip], who, subject, committer=who)
        self._advance(Staged(None, made))

    def pull(self, upstream: Upstream, now: int) -> None:
        """`git pull` after `kgd install`: a fast-forward, or a merge commit of this person with kgd's tree."""
        theirs = upstream.tip
        self._receive(upstream, theirs)
        if self.store.is_ancestor(theirs, self._tip):
            return
        if self.store.is_ancestor(self._tip, theirs):
            self.staging.reset(self.store.tree_of(theirs))
            self._advance(Staged(None, theirs))
            return
        for path, data in sorted(merge_commits(self.store, self._tip, theirs, SHARDED).files.items()):
            if data is None:
                self.staging.remove(path)
            else:
                self.staging.put(path, data)
        who = Signature(self.name, f"{self.name}@example.org", now)
        tree = self.staging.write_tree()
        made = self.staging.commit(tree, [self._tip, theirs], who, "Merge branch 'main'", committer=who)
        self._advance(Staged(None, made))

    def push(self, upstream: Upstream) -> bool:
        """Whether the server took it: a fast-forward of what it has."""
        if not (self.store.exists(upstream.tip) and self.store.is_ancestor(upstream.tip, self._tip)):
            return False
        upstream.push(self.store, upstream.tip, self._tip)
        return True

    def _receive(self, upstream: Upstream, tip: ObjectId) -> None:
        if objects := new_objects(upstream.store, self.store, tip):
            self.store.release(self.store.write(objects))


class Line:
    """The transport between a replica and its upstream: it drops, repeats, answers late, and breaks off."""

    def __init__(self, upstream: Upstream, desk: Replica, luck: Callable[[float], bool], step: Step) -> None:
        self._upstream, self._desk, self._luck, self._step = upstream, desk, luck, step

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]:
        self._step("before asking")
        self._may_drop(0.05)
        tips = self._upstream.tips
        seen = tips[-2] if len(tips) > 1 and self._luck(0.05) else tips[-1]  # an answer from a moment ago
        return {ref: seen}

    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming:
        self._may_drop(0.05)
        scratch = scratch_repository(self._desk.layout.derived_dir / "incoming")
        for tip in wanted.values():
            objects = new_objects(self._upstream.store, self._desk.store, tip)
            if objects:
                pack.release(pack.write(scratch / "objects" / "pack", objects))
        self._step("after fetching")
        return Incoming(scratch, self._desk.store, wanted)

    def push(self, ref: str, old: ObjectId | None, new: ObjectId) -> None:
        self._may_drop(0.05)
        self._upstream.push(self._desk.store, old, new)
        self._step("after pushing")
        if self._luck(0.05):  # sent twice: the second finds the ref moved
            raise LostRace("the ref holds something else")
        self._may_drop(0.05)

    def _may_drop(self, chance: float) -> None:
        if self._luck(chance):
            raise Trouble("cut", "the connection was lost")
