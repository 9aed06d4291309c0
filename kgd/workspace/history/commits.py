"""Reading commits: their changes, and nodes and graph at a commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from kgd.codec import documents, paths
from kgd.errors import Advice, Do, KgdError, NotFound
from kgd.git import is_revision
from kgd.git.history import Change as FileChange
from kgd.git.history import LogEntry, changes_of
from kgd.git.history import log as git_log
from kgd.git.history import walk as git_walk
from kgd.git.objects import Commit, ObjectId, trailers
from kgd.git.program import GitFailed, run
from kgd.git.refs import HEAD, NOTES
from kgd.git.store import ObjectStore
from kgd.graph.edges import Card, Edge, EdgeSource
from kgd.graph.live_graph import LiveGraph
from kgd.model.change import Author
from kgd.model.conflict import Conflict
from kgd.model.dates import span_of
from kgd.model.fields import join, plain, plain_relation
from kgd.model.node import FIELDS, Json, Node
from kgd.model.uri import Uri, is_settings_uri, workspace_of
from kgd.workspace import memory_files, parts
from kgd.workspace.answers import Entry, FieldChange, InvalidFile, NodeChange, Version
from kgd.workspace.history import pushers
from kgd.workspace.parts import NodeFiles, node_changes, node_of, resolved_conflict, uri_in_part

ACCEPTED_BY = "Kgd-Accepted-By"
"""The trailer with the name of the person who accepted a proposal."""
_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]{0,200}(?:[~^][0-9]*)*\Z").match
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""For checking whether a text is a date, which does not depend on the current time."""

Blobs = tuple[str, ObjectId | None, ObjectId | None]
File = Blobs | FileChange
Files = Sequence[File]
"""(path, blob before, blob after); None means absent."""
Select = Callable[[Sequence[FileChange]], Sequence[FileChange]]


def _no_such_commit(text: str) -> NotFound:
    if len(text) <= 60 and span_of(text, _ANY_TIME):
        first = Advice("Take the first commit of ", Do("history", until=text), ".")
        return NotFound("this is a date, but a commit is needed", at=text, next=first)
    return NotFound("there is no such commit", at=text[:60], next=Advice("Find one with ", Do("history"), "."))


class NodeVersion(NamedTuple):
    """A version of a node. If its file cannot be read, `unreadable` is the place and the reason, and `node` is the last
    readable version before it, which kgd serves; None if there is none."""

    node: Node | None
    unreadable: str = ""


class Past:
    """History of one workspace, read only from git.

    Args:
        part_of: The part that holds a node now; it is searched first.
    """

    def __init__(
        self,
        store: ObjectStore,
        workspace: str,
        sharded: frozenset[str],
        part_of: Callable[[Uri], str | None] = lambda uri: None,
    ) -> None:
        self.store, self.workspace, self.sharded, self._part_of = store, workspace, sharded, part_of
        self.was_made_by_kgd: Callable[[ObjectId], bool] = lambda commit: pushers.of(store, commit) is None
        """Whether the trailers of a commit can be trusted. Replaced if other hubs also receive pushes."""

    def nodes(self) -> NodeFiles:
        """The repository with nodes instead of parts, for one computation."""
        return NodeFiles(self.store, self.sharded, self._part_of)

    def commit_id(self, text: str, *, of: ObjectId | None = None) -> ObjectId:
        """The commit named by a full or short id, ``HEAD``, ``HEAD~2`` or another revision.

        Args:
            of: Restricts the answer to this commit and its ancestors, given by id or relative to ``HEAD``, but not by a
                ref.

        Raises:
            NotFound: There is no such commit.
        """
        text = text.strip()
        if of is not None:
            found = self.commit_id(text) if is_revision(text) else None
            if found is None or not self.store.is_ancestor(found, of):
                raise _no_such_commit(text)
            return found
        if re.fullmatch("[0-9a-f]{40}", text):
            id = bytes.fromhex(text)
            kind = self.store.kind_and_size(id)
            if kind and kind[0] == "commit":
                return id
        elif _REVISION(text):
            name = re.sub(r"^(HEAD|head)(?=$|[~^])", HEAD, text)
            try:
                said = run(
                    self.store.git_dir, ["rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"]
                )
                return bytes.fromhex(said.decode().strip())
            except (GitFailed, ValueError):
                pass
        raise _no_such_commit(text)

    def commit(self, id: ObjectId) -> Commit:
        return self.store.commit(id)

    def node_at(self, uri: Uri, commit: ObjectId, nodes: NodeFiles | None = None) -> Node | None:
        """The node at the commit; None if absent. A computation that asks often passes its `nodes`.

        Raises:
            Invalid: The node's file was unreadable in that commit.
        """
        path, store = paths.path_of(uri, self.sharded), nodes or self.nodes()
        blob = store.entry(store.tree_of(commit), path)
        return documents.decode(store.read(blob), at=path, expect=uri) if blob else None

    def last_good(self, path: str, tip: ObjectId | None = None) -> ObjectId | None:
        """The newest readable blob among the last fifty versions of a node's file or a part, at the served tip or
        another."""
        tip = tip or self.store.ref(HEAD)
        assert tip is not None
        for entry in git_log(self.store, tip, paths=(path,), limit=50):
            blob = self.store.entry(entry.commit.tree, path)
            try:
                if blob and paths.is_part_path(path):
                    nodes = parts.decoded(path, blob, self.store.read).ids
                    if all(workspace_of(uri) == self.workspace for uri in nodes):
                        return blob
                elif blob:
                    self._decoded(path, self.store.read(blob))
                    return blob
            except KgdError:
                continue
        return None

    def version(self, path: str, blob: ObjectId | None, commit: ObjectId, store: ObjectStore) -> NodeVersion:
        """The version of a node whose file has this blob in a commit; None if the commit has no such file.

        The search for the last readable version reads up to fifty versions of an unreadable file.
        """
        if blob is None:
            return NodeVersion(None)
        try:
            return NodeVersion(self._decoded(path, store.read(blob)))
        except KgdError as error:
            found = InvalidFile.refused(path, None, error)
            good = self.last_good(path, commit)
            node = self._decoded(path, self.store.read(good)) if good else None
            return NodeVersion(node, f"{path}:{found.line}: {found.reason}")

    def _decoded(self, path: str, data: bytes) -> Node:
        """The node in the file at a path. Raises as `paths.check_place` and `documents.decode`."""
        node = documents.decode(data, at=path)
        paths.check_place(node.uri, path, self.workspace, self.sharded)
        return node

    def files_of(self, commit: Commit) -> Sequence[Blobs]:
        """The files that a commit changed; for a merge, compared with every parent. The old version is the first
        parent's."""
        return self._files(commit, self.store)

    @staticmethod
    def _files(commit: Commit, store: ObjectStore) -> list[Blobs]:
        trees = [store.tree_of(parent) for parent in commit.parents]
        first = list(store.diff(trees[0] if trees else None, commit.tree))
        others = [{path for path, _, _ in store.diff(tree, commit.tree)} for tree in trees[1:]]
        return [(path, old, new) for path, old, new in first if all(path in other for other in others)]

    def changes(self, commit: ObjectId, only: Collection[Uri] | None = None) -> tuple[NodeChange, ...]:
        """The node changes of a commit: all, or only the changes to the nodes in `only`, in which case no other node is
        read."""
        store, made = self.nodes(), self.store.commit(commit)
        files = self._files(made, store)
        if only is not None:
            files = [one for one in files if self.about(one[0], one[2] or one[1], store) in only]
        return self._changes(files, next(iter(made.parents), None), commit, store)

    def resolved(self, commit: ObjectId) -> Iterator[Conflict]:
        """The conflicts that a commit resolved: the readable records that it removed."""
        for path, old, new in self._files(self.store.commit(commit), self.store):
            if path.startswith("conflicts/") and old and not new:
                with suppress(KgdError):
                    yield documents.decode_conflict(self.store.read(old), at=path)

    def changes_of(self, commits: Sequence[str], only: Collection[Uri]) -> Iterator[tuple[NodeChange, ...]]:
        """The changes to the nodes in `only`, commit by commit, compared by one git process."""
        for one in changes_of(self.store, commits):
            store = self.nodes()
            files = node_changes(self.store, self.sharded, one.changes)
            about = [file for file in files if self.about(file.path, file.new or file.old, store) in only]
            yield self._changes(about, next(iter(one.commit.parents), None), one.commit.id, store)

    def entries_of(self, commits: Sequence[str], *, limit: int) -> Iterator[Entry]:
        """The `entry` of each commit, compared by one git process."""
        ledger = self.store.ref(NOTES)
        for one in changes_of(self.store, commits):
            yield self._entry(one.commit, node_changes(self.store, self.sharded, one.changes), limit, ledger)

    def without_nodes(self, commits: Iterable[str]) -> list[Entry]:
        """The `entry` of each commit, without its nodes. Reads no trees."""
        ledger = self.store.ref(NOTES)
        return [self._entry(self.commit(bytes.fromhex(id)), (), 0, ledger) for id in commits]

    def changes_between(self, a: ObjectId, b: ObjectId) -> tuple[NodeChange, ...]:
        store = self.nodes()
        return self._changes(store.diff(store.tree_of(a), store.tree_of(b)), a, b, store)

    def entry(self, commit: Commit, files: Files | None = None, *, limit: int = 50) -> Entry:
        """One line of history. `files` are its changes with nodes instead of parts, if known."""
        return self._entry(commit, files, limit, self.store.ref(NOTES))

    def _entry(self, commit: Commit, files: Files | None, limit: int, ledger: ObjectId | None) -> Entry:
        store = self.nodes()
        changed = self._files(commit, store) if files is None else files
        is_merge = len(commit.parents) > 1
        about = (
            self._resolved_node(path, old, new)
            if not is_merge and path.startswith(paths.CONFLICTS)
            else self.about(path, new or old, store)
            for path, old, new, *_ in changed
        )
        uris = list(dict.fromkeys(uri for uri in about if uri))
        noted = dict(trailers(commit.message))
        author = Author.of(commit.author.name)
        subject, _, rest = commit.message.partition("\n")
        pusher, accepted = pushers.in_ledger(self.store, ledger, commit.id), noted.get(ACCEPTED_BY, "")
        if accepted and not self.was_made_by_kgd(commit.id):
            accepted = ""  # a trailer written by the pusher proves nothing
        return Entry(
            commit=commit.id.hex(),
            parents=tuple(parent.hex() for parent in commit.parents),
            subject=subject,
            body=_without_trailers(rest),
            author=author.name,
            email=commit.author.email,
            client=author.client,
            at=commit.author.time,
            operation=noted.get("Kgd-Op", "commit"),
            nodes=tuple(uris[:limit]),
            more_nodes=max(0, len(uris) - limit),
            pushed_by=str(pusher or ""),
            pushed_by_agent=pusher is not None and pusher.kind != "person",
            accepted_by=accepted,
        )

    def removal_of(self, path: str, tip: ObjectId) -> Entry | None:
        """The newest commit that touched a file, if it removed the file."""
        for found in self.log(tip, (path,), limit=1):
            if all(change.new is None for change in found.changes if change.path == path):
                return self.entry(found.commit, found.changes)
        return None

    def removal_below(self, folder: str, tip: ObjectId) -> Entry | None:
        """The newest of the last fifty commits that removed a file directly in a folder."""
        for found in git_log(self.store, tip, paths=(folder,), limit=50):
            if any(change.new is None and change.path.rpartition("/")[0] == folder for change in found.changes):
                return self.entry(found.commit, found.changes)
        return None

    def log(
        self,
        tip: ObjectId,
        files: Sequence[str],
        *,
        limit: int,
        version: Version | None = None,
        author: str | None = None,
        since: int | None = None,
        until: int | None = None,
        after: ObjectId | None = None,
    ) -> list[LogEntry]:
        """The newest commits that changed one of these files or, for a node in a part, changed the node.

        Args:
            version: The node's version, if known. Fewer files may then suffice, and commits outside of the span from
                the node's newest commit to its oldest are not read.

        Raises:
            As `kgd.git.history.log`.
        """
        folders = list(filter(None, map(paths.part_folder_of, self._in_parts(files)[:1])))
        wanted = [*files, *folders]
        select = self._selected(files if folders or any(file.startswith(paths.CONFLICTS) for file in files) else ())
        if version and (fewer := self._fewer(files)):
            newest, count = bytes.fromhex(version.updated_commit) or tip, version.count
            found = git_log(self.store, newest, paths=fewer, limit=count, select=select) if count else []
            if len(found) == count:
                places: dict[ObjectId | None, int] = {one.commit.id: place for place, one in enumerate(found, 1)}
                places[None] = 0
                if after in places and (author, since, until) == (None, None, None):
                    return found[places[after] :][:limit]
                wanted = fewer
        return git_log(
            self.store,
            tip,
            paths=wanted,
            author=author,
            since=since,
            until=until,
            limit=limit,
            after=after,
            select=select,
        )

    def _fewer(self, files: Sequence[str]) -> list[str]:
        """The files in which all versions of a node probably are: without its conflicts, whose resolutions mostly
        change its file, or with its current part only. Empty if there is no such guess.

        Older git (2.39) uses the changed paths in the commit-graph only to search for a single path: 0.16 s instead of
        6 s among 200,000 commits.
        """
        if in_parts := self._in_parts(files)[:1]:
            at = self._part_of(in_parts[0])
            return [*files, at] if at else []
        own = [file for file in files if not file.startswith(paths.CONFLICTS)]
        return own if len(own) == 1 else []

    def walk(self, tips: Sequence[ObjectId], files: Sequence[str]) -> Iterator[LogEntry]:
        """As `log`, from several tips, for as long as the caller reads."""
        in_parts = self._in_parts(files)
        folders = dict.fromkeys(filter(None, map(paths.part_folder_of, in_parts)))
        return git_walk(self.store, tips, paths=[*files, *folders], select=self._selected(files if in_parts else ()))

    def _in_parts(self, files: Sequence[str]) -> list[Uri]:
        """The nodes among these files that are in a part."""
        uris = filter(None, (uri_in_part(path, self.sharded) for path in files))
        return [Uri(uri.replace("://x/", f"://{self.workspace}/", 1)) for uri in uris]

    def _selected(self, files: Sequence[str]) -> Select:
        """The changes of nodes in a commit; if files are given, only their changes."""
        wanted = frozenset(files)
        folders = tuple(file for file in files if file.startswith(paths.CONFLICTS))

        def is_wanted(change: FileChange) -> bool:
            if change.path in wanted or change.path.rpartition("/")[0] not in folders:
                return change.path in wanted
            return resolved_conflict(self.store.read, change, self.sharded) is not None

        def select(changes: Sequence[FileChange]) -> Sequence[FileChange]:
            found = node_changes(self.store, self.sharded, changes)
            return list(filter(is_wanted, found)) if wanted else found

        return select

    def graph_at(self, commit: ObjectId, tip: ObjectId, graph: LiveGraph) -> PastGraph:
        """The graph at a commit: the served graph, with nodes that changed later restored. O(changes)."""
        return PastGraph(graph, self.changes_between(tip, commit))

    def _resolved_node(self, path: str, old: ObjectId | None, new: ObjectId | None) -> Uri | None:
        """The node whose conflict a change of a record resolved."""
        found = resolved_conflict(self.store.read, FileChange(path, old, new), self.sharded)
        return found.uri if found and not is_settings_uri(found.uri) else None

    def about(self, path: str, blob: ObjectId | None, store: ObjectStore) -> Uri | None:
        """The node stored in a file, or described by a detail file."""
        if not paths.is_memory_path(path):
            return self._uri(path, blob, store)
        return memory_files.owner_of(memory_files.memory_of(path, blob, store.read))

    def _changes(
        self, files: Iterable[File], before: ObjectId | None, after: ObjectId, store: ObjectStore
    ) -> tuple[NodeChange, ...]:
        """Node changes from file changes, which lead from the commit `before` to the commit `after`."""
        found: dict[Uri, NodeChange] = {}
        details: dict[Uri, list[str | None]] = {}
        for path, old, new, *_ in files:
            if paths.is_memory_path(path):
                for side, blob in enumerate((old, new)):
                    memory = memory_files.memory_of(path, blob, store.read)
                    if memory and (owner := memory_files.owner_of(memory)) is not None:
                        details.setdefault(owner, [None, None])[side] = memory.text
            elif uri := self._uri(path, new or old, store):
                was = self.version(path, old, before, store) if before else NodeVersion(None)
                now = self.version(path, new, after, store)
                found[uri] = NodeChange(uri, was.node, now.node, unreadable=now.unreadable)
        for uri, (text, new_text) in details.items():
            if uri not in found:
                try:
                    node = self.node_at(uri, after)
                except KgdError:
                    continue
                if node is None:
                    continue
                found[uri] = NodeChange(uri, node, node)
            if text != new_text:
                found[uri] = replace(found[uri], detail=(text, new_text))
        return tuple(found.values())

    def _uri(self, path: str, blob: ObjectId | None, store: ObjectStore) -> Uri | None:
        if not paths.is_node_path(path):
            return None
        try:
            uri = paths.uri_of(path, self.workspace, self.sharded)
        except KgdError:
            return None
        node = node_of(path, blob, store.read) if uri is None else None
        return uri or (node.uri if node else None)


class PastGraph:
    """An `EdgeSource`: the graph at another commit, made of the live graph with some nodes restored.

    The live graph may change during a traversal, and the traversal may see such changes.
    """

    def __init__(self, graph: LiveGraph, changes: Sequence[NodeChange]) -> None:
        self._graph: EdgeSource = graph
        self._nodes = {change.uri: change.after for change in changes}
        self._aliases = {alias: node.uri for node in self._nodes.values() if node for alias in node.aliases}
        self._into: dict[Uri, list[Edge]] = {}
        for node in self._nodes.values():
            for relation in node.relations if node else ():
                self._into.setdefault(relation.target, []).append(Edge(relation.weight, node.uri, relation.type))  # type: ignore[union-attr]

    def card(self, uri: Uri) -> Card | None:
        if uri not in self._nodes:
            return self._graph.card(uri)
        node = self._nodes[uri]
        return Card(uri, node.type, node.label, node.summary, None, "") if node else None

    def out(self, uri: Uri) -> Sequence[Edge]:
        if uri not in self._nodes:
            return self._graph.out(uri)
        node = self._nodes[uri]
        return sorted(Edge(r.weight, self.resolve(r.target), r.type) for r in node.relations) if node else ()

    def into(self, uri: Uri) -> Sequence[Edge]:
        kept = [edge for edge in self._graph.into(uri) if edge.target not in self._nodes]
        return sorted([*kept, *self._into.get(uri, ())])

    def resolve(self, uri: Uri) -> Uri:
        if self._nodes.get(uri) is not None:
            return uri
        return self._aliases.get(uri) or self._graph.resolve(uri)


def changed_fields(change: NodeChange) -> tuple[FieldChange, ...]:
    """The changed fields, as in `field_diff`, with the memory's text as the field `detail`."""
    own = field_diff(change.before, change.after)
    return (*own, FieldChange("detail", *change.detail)) if change.detail[0] != change.detail[1] else own


def field_diff(before: Node | None, after: Node | None) -> tuple[FieldChange, ...]:
    """The changed fields, sorted; relations by type and target, data by key."""
    one, two = _flat(before), _flat(after)
    return tuple(
        FieldChange(field, one.get(field), two.get(field))
        for field in sorted({*one, *two})
        if one.get(field) != two.get(field)
    )


def _flat(node: Node | None) -> dict[str, Json]:
    if node is None:
        return {}
    values = plain(node)
    values.pop("uri")
    flat: dict[str, Json] = {f: values[f] for f in FIELDS if f in values and f not in ("relations", "data")}
    flat |= {join(key): value for key, value in node.others.items()}
    flat |= {join("data", key): value for key, value in node.data.items()}
    for relation in node.relations:
        edge = plain_relation(relation)
        rest = {key: value for key, value in edge.items() if key not in ("type", "target")}
        flat[join("relations", relation.type, relation.target)] = {"weight": 1} | rest
    return flat


def _without_trailers(text: str) -> str:
    paragraphs = text.strip().split("\n\n")
    if paragraphs and all(re.match(r"[A-Za-z][A-Za-z-]*: ", line) for line in paragraphs[-1].splitlines()):
        paragraphs.pop()
    return "\n\n".join(paragraphs).strip()
