"""The code tree as checked out: served as nodes, kept current, and stored on request."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from kgd.errors import KgdError
from kgd.graph.edges import Card, Edge
from kgd.index.code_index import ChunkRow, CodeIndex, EdgeRow, FileHit, SymbolRow
from kgd.model.change import Upsert
from kgd.model.escaping import one_line
from kgd.model.node import NAME_LIMIT, Node, Relation, cut_at_word
from kgd.model.uri import Uri, build, from_path, path_of, scheme_of, segments_of, workspace_of
from kgd.overlay.facts import BINARY, LARGE, SYMLINK, TEXT, UNREADABLE, File
from kgd.overlay.listing import IGNORED, Progress, Rules, Stopped, Walk, belongs, rules_of, settle
from kgd.overlay.tree import (
    CONTAINS,
    ORIGIN,
    Delta,
    Directory,
    Tree,
    difference,
    facts_of,
    load_facts,
    members,
    save_facts,
    title_of,
)

Mode = Literal["unscanned", "ready", "absent"]


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of the tree, for `kgd bootstrap` and `kgd status`.

    `mode` is `absent`, with a `reason`, while the tree is moved away or unmounted; then nothing is served. `reason`
    also reports why git could not list ignored files. `ignored` counts an ignored directory once.
    """

    mode: Mode
    reason: str = ""
    repository: bool = False
    files: int = 0
    directories: int = 0
    bytes: int = 0
    text: int = 0
    binary: int = 0
    large: int = 0
    unreadable: int = 0
    symlinks: int = 0
    ignored: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


class Overlay:
    """The code tree of one workspace as an `EdgeSource`. Nothing is served before the first `scan`.

    Reads come from memory without a lock. They see the state before or after a scan, never part of one, and never raise
    for changes in the tree. `view` returns one state that stays unchanged.

    Args:
        root: The top of the tree.
        environment: The user's environment, so that their global ignore file applies; without it, only git's own rules
            apply.
        cache: The file that keeps the facts across restarts; without it, all files are read at each startup.
        clock: Returns the wall time in nanoseconds, by the clock that stamps the files.
    """

    def __init__(
        self,
        root: Path,
        workspace: str,
        *,
        environment: Mapping[str, str] | None = None,
        cache: Path | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.root, self.workspace = root, workspace
        self._environment, self._cache, self._clock = environment, cache, clock
        self._scanning = threading.Lock()
        self._name = title_of(root.name) or workspace
        self._tree = Tree(workspace, None, self._name)
        self.on_change: Callable[[Delta], object] = lambda delta: None
        """Called with the changes of each scan; set by the follower of the tree."""
        self.inside: FileParts | None = None
        """The parts of the files; set by their reader."""
        self._known: Directory | None = None
        """The last facts, kept even while the tree is absent, so that its files need not be read again."""
        self._kept: Directory | None = None
        """The facts in the cache file."""
        self._rules: Rules | None = None
        self._mode: Mode = "unscanned"
        self._reason = ""
        self._skipped: Counter[str] = Counter()
        self._counted: tuple[Tree, Counter[str], int] | None = None
        """Files by kind, and the number of directories, of the last state that was counted."""

    @property
    def view(self) -> Tree:
        """The current state, which does not change while the overlay is updated."""
        return self._tree

    def out(self, uri: Uri) -> Sequence[Edge]:
        edges, parts = self._tree.out(uri), self._parts
        inside = parts.out(uri) if parts else ()
        return sorted([*edges, *inside]) if inside else edges

    def into(self, uri: Uri) -> Sequence[Edge]:
        edges, parts = self._tree.into(uri), self._parts
        inside = parts.into(uri) if parts else ()
        return sorted([*edges, *inside]) if inside else edges

    def card(self, uri: Uri) -> Card | None:
        return self._tree.card(uri) or (self._parts.card(uri) if self._parts else None)

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        return self._tree.node(uri) or (self._parts.node(uri) if self._parts else None)

    @property
    def _parts(self) -> FileParts | None:
        return self.inside if self._tree.root is not None else None

    def uris(self) -> Iterator[Uri]:
        """The URIs of all files and directories, from one state."""
        return self._tree.uris()

    def exists(self, uri: Uri) -> bool:
        """Whether the tree has this file or directory now, even if it was created after the last scan. Takes a few
        system calls and, for a path that was not listed yet, one run of git."""
        if workspace_of(uri) != self.workspace or scheme_of(uri) not in ("file", "dir"):
            return False
        directory = scheme_of(uri) == "dir"
        try:
            path = path_of(uri)
        except KgdError:
            return False
        if not path:
            return directory and self.root.is_dir()
        listed = self._tree.find(uri) is not None
        rules = self._rules or Rules(repository=True)
        return belongs(self.root, path, rules, directory=directory, listed=listed, environment=self._environment)

    def ignores(self, path: str) -> bool:
        """Whether git ignored the file, relative to the root, or a folder above it at the last scan. Never true for
        ``.gitignore``, which may change that."""
        rules, steps = self._rules or Rules(repository=False), path.split("/")
        if steps[-1] == ".gitignore":
            return False
        above = ("/".join(steps[:depth]) for depth in range(1, len(steps)))
        return (path in rules.ignored and path not in rules.folders) or any(folder in rules.folders for folder in above)

    def scan(self, progress: Progress | None = None, stop: threading.Event | None = None) -> Delta:
        """Update the overlay and save the facts to the cache.

        Lists the tree and reads the files whose stamps changed. One scan at a time; a second caller waits. When `stop`
        is set, the served state stays unchanged, but files that were already read are not read again.
        """
        delta = self.rescan(progress, stop)
        if delta.complete:
            self.save()
        return delta

    def rescan(self, progress: Progress | None = None, stop: threading.Event | None = None) -> Delta:
        """A `scan` that does not write the cache, for hints that files changed; `save` writes it at the end."""
        with self._scanning:
            delta = self._scan(progress, stop or threading.Event())
        if delta:
            self.on_change(delta)
        return delta

    def catch_up(self, path: str, within: float) -> bool:
        """Scan the tree if it has a file or directory at this path that is newer than the last scan.

        Returns False if another scan takes longer than `within` seconds. Takes one `lstat` if the path is known.
        """
        uri = self._newer(path)
        if uri is None or not self.exists(uri):
            return True
        if not self._scanning.acquire(timeout=within):
            return False
        try:
            delta = self._scan(None, threading.Event()) if self._newer(path) else Delta()
        finally:
            self._scanning.release()
        if delta:
            self.on_change(delta)
        return True

    def _newer(self, path: str) -> Uri | None:
        """The file or directory on disk at this path, unless the served state has it with the same stamps."""
        try:
            stamps = os.lstat(self.root / path)
            uri = from_path("dir" if stat.S_ISDIR(stamps.st_mode) else "file", self.workspace, path)
        except (OSError, ValueError, KgdError):
            return None
        known = self._tree.find(uri)
        is_known = known.has_stamps_of(stamps) if isinstance(known, File) else known is not None
        return None if is_known else uri

    def save(self) -> None:
        """Write the facts to the cache if they changed."""
        with self._scanning:
            if self._cache is not None and self._known is not None and self._known is not self._kept:
                save_facts(self._cache, self._known)
                self._kept = self._known

    def report(self) -> Report:
        """Counts of the served state. The first call per state is O(files), from memory."""
        tree, rules = self._tree, self._rules or Rules(repository=False)
        if self._counted is None or self._counted[0] is not tree:
            self._counted = tree, Counter(file.content for file in tree.files()), sum(1 for _ in tree.directories())
        _, kinds, directories = self._counted
        skipped = dict(self._skipped)
        return Report(
            mode=self._mode,
            reason=self._reason or rules.trouble,
            repository=rules.repository,
            files=tree.root.file_count if tree.root else 0,
            directories=directories,
            bytes=tree.root.total_size if tree.root else 0,
            text=kinds[TEXT],
            binary=kinds[BINARY],
            large=kinds[LARGE],
            unreadable=kinds[UNREADABLE],
            symlinks=kinds[SYMLINK],
            ignored=skipped.pop(IGNORED, 0),
            skipped=skipped,
        )

    def _scan(self, progress: Progress | None, stop: threading.Event) -> Delta:
        if self._known is None and self._cache is not None:
            self._known = self._kept = load_facts(self._cache)
        absence = self._absence()
        if absence:
            return self._be_absent(absence)
        try:
            walk, made = self._list(stop)
        except Stopped:
            return Delta(complete=False)
        # A tree that disappears during the walk looks as if all its files were deleted.
        gone = self._rules.unknown if self._rules else ""
        absence = self._absence() if made is not None else gone or "the directory disappeared while it was read"
        if absence or made is None:
            return self._be_absent(absence)
        before = self._known
        self._known = made
        try:
            walk.read(self._clock, progress)
        except Stopped:
            return Delta(complete=False)
        made = self._known = settle(before, made)
        delta = self._serve(made)
        self._mode, self._reason, self._skipped = "ready", "", walk.skipped
        return delta

    def _list(self, stop: threading.Event) -> tuple[Walk, Directory | None]:
        """List the tree; None if it disappeared, or if its ignored files are unknown.

        git names the ignored files that exist when it is asked. New files of the walk may have appeared after that, so
        git is asked again about them. If there are more ignored files now, the tree is listed without them and without
        files that are newer still.

        Raises:
            Stopped: `stop` was set.
        """
        rules = self._rules = rules_of(self.root, self._environment, self._rules)
        walk = Walk(str(self.root), self.workspace, rules, stop)
        if rules.unknown:
            return walk, None
        made = walk.list(self._known)
        if rules.repository and walk.new:
            self._rules = rules_of(self.root, self._environment, rules)
            if not self._rules.ignored <= rules.ignored:
                walk = Walk(str(self.root), self.workspace, self._rules, stop, candidates=walk.new)
                made = walk.list(self._known)
        return walk, made

    def _absence(self) -> str:
        """The reason why the tree cannot be served, or an empty string."""
        try:
            with os.scandir(self.root) as entries:
                empty = next(entries, None) is None
        except (FileNotFoundError, NotADirectoryError):
            return "the directory does not exist"
        except OSError as error:
            return f"the directory cannot be read: {error.strerror}"
        if empty and self._known is not None and self._known.file_count:
            return "the directory is empty, as if it were not mounted"
        return ""

    def _be_absent(self, reason: str) -> Delta:
        self._mode, self._reason = "absent", reason
        return self._serve(None)

    def _serve(self, root: Directory | None) -> Delta:
        """Replace the served state in one assignment, so that readers never see part of it."""
        old = self._tree.root
        if old is root:
            return Delta()
        delta = difference(self.workspace, old, root)
        self._tree = Tree(self.workspace, root, self._name)
        return delta


BATCH = 500
"""Number of nodes in one commit: few enough to be readable in the history, and enough to be fast."""

_RELATION_BYTES = 160 << 10
"""Maximum bytes for a directory's relations, out of the 256 KiB that a node's file may have."""
_AROUND_A_TARGET = 40


def store_changes(overlay: Overlay, *, batch: int = BATCH) -> Iterator[tuple[Upsert, ...]]:
    """Batches of changes that store every served node with its facts; members come first, so that no relation is
    broken.

    If they are applied again to the same tree, nothing changes. A directory with more members than fit in its file
    keeps the first members and counts the others in `data.contains_left_out`.
    """
    tree = overlay.view
    root = from_path("dir", tree.workspace, "")
    edits = iter(_edits_below(tree, root, tree.root) if tree.root is not None else ())
    while some := tuple(islice(edits, batch)):
        yield some


def _edits_below(tree: Tree, uri: Uri, directory: Directory) -> Iterator[Upsert]:
    inside = members(tree.workspace, uri, directory)
    for member in inside:
        found = tree.find(member)
        if isinstance(found, Directory):
            yield from _edits_below(tree, member, found)
        elif found is not None:
            yield Upsert(member, summary=_summary(tree, member), data=facts_of(member, found))
    relations = _relations(inside)
    data = facts_of(uri, directory)
    if len(relations) < len(inside):
        data["contains_left_out"] = len(inside) - len(relations)
    yield Upsert(uri, summary=_summary(tree, uri), data=data, relations=relations)


def _relations(inside: list[Uri]) -> tuple[Relation, ...]:
    room = _RELATION_BYTES
    kept: list[Relation] = []
    for member in inside:
        room -= len(member.encode()) + _AROUND_A_TARGET
        if room < 0:
            break
        kept.append(Relation(CONTAINS, member))
    return tuple(kept)


def _summary(tree: Tree, uri: Uri) -> str:
    card = tree.card(uri)
    return card.summary if card else ""


DEFINES: Final = "defines"
HAS_CHUNK: Final = "has_chunk"
PART_OF: Final = "part_of"
NEXT_CHUNK: Final = "NEXT_CHUNK"
_CHUNK_WEIGHT = 0.5
"""The same weight as for chunks of ingested documents."""

T = TypeVar("T")

log = logging.getLogger("kgd.overlay")


class FileParts:
    """The parts of the files of one workspace's code tree, as an `EdgeSource`. Any thread may read."""

    def __init__(self, index: CodeIndex, workspace: str) -> None:
        self._index, self._workspace = index, workspace
        self.report: Callable[[], dict[str, Any]] = dict
        """Progress of reading; set by the reader."""
        self.catch_up: Callable[[str, float], bool] = lambda path, within: True
        """Reads the file at a path before all others, and returns False if this takes longer than the given number of
        seconds; set by the reader."""

    def out(self, uri: Uri) -> Sequence[Edge]:
        place = self._place(uri)
        if place is None:
            return ()
        scheme, path, name = place
        if scheme == "chunk":
            return self._rows(lambda: self._chunk_out(path, int(name)))
        edges = [self._edge(row) for row in self._rows(lambda: self._index.out(path, name))]
        if scheme == "file":
            edges += [
                Edge(1.0, self.symbol_uri(path, row.name), DEFINES)
                for row in self._rows(lambda: self._index.symbols(path))
            ]
            if self._one(lambda: self._index.chunk(path, 1)):
                edges.append(Edge(_CHUNK_WEIGHT, self.chunk_uri(path, 1), HAS_CHUNK))
        return sorted(edges)

    def into(self, uri: Uri) -> Sequence[Edge]:
        place = self._place(uri)
        if place is None:
            return ()
        scheme, path, name = place
        if scheme == "chunk":
            return self._rows(lambda: self._chunk_into(path, int(name)))
        edges = [self._edge(row) for row in self._rows(lambda: self._index.into(path, name))]
        if scheme == "symbol" and self.node(uri) is not None:
            edges.append(Edge(1.0, self.file_uri(path), DEFINES))
        if scheme == "file":
            edges += [
                Edge(_CHUNK_WEIGHT, self.chunk_uri(path, row.number), PART_OF)
                for row in self._rows(lambda: self._index.chunks(path))
            ]
        return sorted(edges)

    def card(self, uri: Uri) -> Card | None:
        node = self.node(uri)
        return Card(uri, node.type, node.name, node.summary, None, ORIGIN, node.data.get("line", 0)) if node else None

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        place = self._place(uri)
        if place is None or place[0] == "file":
            return None
        scheme, path, name = place
        if scheme == "symbol":
            symbol = self._one(lambda: self._index.symbol(path, name))
            return self._symbol(uri, symbol) if symbol else None
        chunk = self._one(lambda: self._index.chunk(path, int(name)))
        return self._chunk(uri, path, chunk) if chunk else None

    def nodes(self, path: str) -> list[Node]:
        """The parts of one file: symbols by line, then chunks in order."""
        parts = [(self._built("symbol", path, row.name), row) for row in self._rows(lambda: self._index.symbols(path))]
        found = [self._symbol(uri, row) for uri, row in parts if uri]
        for chunk in self._rows(lambda: self._index.chunks(path)):
            if uri := self._built("chunk", path, f"{chunk.number:04d}"):
                found.append(self._chunk(uri, path, chunk))
        return found

    def files(self) -> Iterator[str]:
        """The paths of files that have parts. O(files)."""
        yield from self._rows(self._index.with_content)

    def files_with(self, query: str, limit: int) -> tuple[list[FileHit], frozenset[str]]:
        """Files with words of the query in their path or whole text; see `CodeIndex.files_with`."""
        try:
            return self._index.files_with(query, limit)
        except KgdError:
            log.warning("the code index cannot be read")
            return [], frozenset()

    def symbol_uri(self, path: str, name: str) -> Uri:
        return build("symbol", self._workspace, [*path.encode().split(b"/"), name.encode()])

    def chunk_uri(self, path: str, number: int) -> Uri:
        return from_path("chunk", self._workspace, f"{path}/{number:04d}")

    def file_uri(self, path: str) -> Uri:
        return from_path("file", self._workspace, path)

    def _symbol(self, uri: Uri, symbol: SymbolRow) -> Node:
        name = symbol.name if len(symbol.name) <= NAME_LIMIT else symbol.name[-NAME_LIMIT:]
        content = "\n".join(filter(None, (symbol.signature, symbol.doc)))
        data = {"kind": symbol.kind, "line": symbol.line, "end_line": symbol.end, "signature": symbol.signature}
        summary = cut_at_word(one_line(symbol.doc or symbol.signature))
        return Node(uri, name=one_line(name), summary=summary, content=_lines(content), data=data)

    def _chunk(self, uri: Uri, path: str, chunk: ChunkRow) -> Node:
        name = cut_at_word(one_line(chunk.heading), NAME_LIMIT)
        return Node(uri, name=name, content=_lines(chunk.text))

    def _chunk_out(self, path: str, number: int) -> list[Edge]:
        if self._index.chunk(path, number) is None:
            return []
        edges = [Edge(_CHUNK_WEIGHT, self.file_uri(path), PART_OF)]
        if self._index.chunk(path, number + 1):
            edges.append(Edge(_CHUNK_WEIGHT, self.chunk_uri(path, number + 1), NEXT_CHUNK))
        return sorted(edges)

    def _chunk_into(self, path: str, number: int) -> list[Edge]:
        if self._index.chunk(path, number) is None:
            return []
        if number == 1:
            return [Edge(_CHUNK_WEIGHT, self.file_uri(path), HAS_CHUNK)]
        return [Edge(_CHUNK_WEIGHT, self.chunk_uri(path, number - 1), NEXT_CHUNK)]

    def _edge(self, row: EdgeRow) -> Edge:
        end = self.symbol_uri(row.path, row.name) if row.name else self.file_uri(row.path)
        return Edge(1.0, end, row.type)

    def _place(self, uri: Uri) -> tuple[str, str, str] | None:
        """The scheme, the path of the file, and the name of the part; None for a URI outside this tree."""
        scheme = scheme_of(uri)
        if scheme not in ("file", "symbol", "chunk") or workspace_of(uri) != self._workspace:
            return None
        try:
            segments = [one.decode() for one in segments_of(uri)]
            if scheme == "file":
                return scheme, "/".join(segments), ""
            *above, name = segments
            number = scheme == "chunk"
            if not above or (number and not (len(name) < 9 and name.isascii() and name.isdigit())):
                return None
            if number and f"{int(name):04d}" != name:
                return None
            return scheme, "/".join(above), name
        except (KgdError, UnicodeDecodeError):
            return None

    def _built(self, scheme: str, path: str, name: str) -> Uri | None:
        try:
            return build(scheme, self._workspace, [*path.encode().split(b"/"), name.encode()])
        except (KgdError, UnicodeEncodeError):
            return None

    def _rows(self, read: Callable[[], list[T]]) -> list[T]:
        try:
            return read()
        except KgdError:
            log.warning("the code index cannot be read")
            return []

    def _one(self, read: Callable[[], T | None]) -> T | None:
        return next(iter(self._rows(lambda: [read()])), None)


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
