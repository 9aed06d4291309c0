"""This file is where the code tree as it is checked out is served and kept current."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from kgd.errors import KgdError
from kgd.graph.edges import Card, Edge
from kgd.model.node import Node
from kgd.model.uri import Uri, path_of, scheme_of, workspace_of
from kgd.overlay import persist
from kgd.overlay.facts import BINARY, LARGE, SYMLINK, TEXT, UNREADABLE, utc
from kgd.overlay.inside import Inside
from kgd.overlay.listing import IGNORED, Rules, belongs, rules_of
from kgd.overlay.tree import Delta, Directory, Tree, difference, title_of
from kgd.overlay.walk import Progress, Stopped, Walk, settle

Mode = Literal["unscanned", "ready", "absent"]


@dataclass(frozen=True, slots=True)
class Report:
    """What there is in the tree and what was left out, for `kgd bootstrap` and `kgd status`.

    `mode` is `absent`, with a `reason`, while the tree is moved away or unmounted: then nothing of it is served.
    `reason` also says why git could not be asked what is ignored. `ignored` counts an ignored directory once.
    """

    mode: Mode
    root: str
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
    scanned_at: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Overlay:
    """The code tree of one workspace as an `EdgeSource`: nothing is served before the first `scan`.

    Reads come from memory, take no lock, see the state before or after a scan and never half of one, and never raise
    for what happened to the tree. `view` gives one state for as long as the reader keeps it.

    Args:
        root: The top of the tree.
        environment: The person's own, so that their global ignore file counts; without it git's own rules only.
        cache: Where facts are kept over a restart; without it every start reads every file.
        clock: Nanoseconds of wall time, the clock that stamps the files.
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
        self.told: Callable[[Delta], object] = _nobody
        """Called with what each scan found different, whoever asked for it; whoever follows the tree sets this."""
        self.inside: Inside | None = None
        """What is inside of the files; whoever has it read sets this."""
        self._known: Directory | None = None
        """The last facts, also while the tree is absent: when it is back its files are not read again."""
        self._kept: Directory | None = None
        """What the cache file holds."""
        self._rules: Rules | None = None
        self._mode: Mode = "unscanned"
        self._reason = ""
        self._skipped: Counter[str] = Counter()
        self._counted: tuple[Tree, Counter[str], int] | None = None
        """How many files of which kind, and how many directories, a state has that was asked about."""
        self._scanned_at, self._seconds = 0, 0.0

    @property
    def view(self) -> Tree:
        """The present state; it stays as it is while the overlay moves on."""
        return self._tree

    def out(self, uri: Uri) -> Sequence[Edge]:
        edges = self._tree.out(uri)
        inside = self.inside.out(uri) if self.inside is not None and self._tree.root is not None else ()
        return sorted([*edges, *inside]) if inside else edges

    def into(self, uri: Uri) -> Sequence[Edge]:
        edges = self._tree.into(uri)
        inside = self.inside.into(uri) if self.inside is not None and self._tree.root is not None else ()
        return sorted([*edges, *inside]) if inside else edges

    def card(self, uri: Uri) -> Card | None:
        return self._tree.card(uri) or (
            self.inside.card(uri) if self.inside is not None and self._tree.root is not None else None
        )

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        return self._tree.node(uri) or (
            self.inside.node(uri) if self.inside is not None and self._tree.root is not None else None
        )

    def uris(self) -> Iterator[Uri]:
        """Every file and directory that is served, from one state."""
        return self._tree.uris()

    def exists(self, uri: Uri) -> bool:
        """Whether the tree has this file or directory now, also when it came after the last scan. A few system calls;
        for a path that was not listed yet one run of git."""
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

    def scan(self, progress: Progress | None = None, stop: threading.Event | None = None) -> Delta:
        """Brings the overlay in step with the tree and keeps the facts in the cache.

        Lists the tree and reads the files whose stamps are new. One scan at a time; a second caller waits. Stopped by
        `stop` it leaves what is served as it was, but what it has read is not read again.
        """
        with self._scanning:
            delta = self._scan(progress, stop or threading.Event())
            if delta.complete:
                self._save()
        if delta:
            self.told(delta)
        return delta

    def rescan(self) -> Delta:
        """The same after a hint that something changed, without writing the cache: `save` does that at the end."""
        with self._scanning:
            delta = self._scan(None, threading.Event())
        if delta:
            self.told(delta)
        return delta

    def save(self) -> None:
        """Keeps the facts over a restart, where there is a cache and they are not in it yet."""
        with self._scanning:
            self._save()

    def report(self) -> Report:
        """Counts of the state that is served. O(files), from memory, the first time."""
        tree, rules = self._tree, self._rules or Rules(repository=False)
        if self._counted is None or self._counted[0] is not tree:
            self._counted = tree, Counter(file.content for file in tree.files()), tree.directory_count()
        _, kinds, directories = self._counted
        skipped = dict(self._skipped)
        return Report(
            mode=self._mode,
            root=str(self.root),
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
            scanned_at=utc(self._scanned_at) if self._scanned_at else "",
            seconds=self._seconds,
        )

    def _scan(self, progress: Progress | None, stop: threading.Event) -> Delta:
        began = self._clock()
        if self._known is None and self._cache is not None:
            self._known = self._kept = persist.load(self._cache)
        absence = self._absence()
        if absence:
            return self._be_absent(absence)
        self._rules = rules_of(self.root, self._environment, self._rules)
        walk = Walk(str(self.root), self.workspace, self._rules, stop)
        try:
            made = walk.list(self._known)
        except Stopped:
            return Delta(complete=False)
        # A tree that goes away under the walk looks like one whose files were all deleted.
        absence = self._absence() if made is not None else "it went away while it was read"
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
        self._scanned_at, self._seconds = began, (self._clock() - began) / 1e9
        return delta

    def _absence(self) -> str:
        """Why the tree cannot be served; empty where it can."""
        try:
            with os.scandir(self.root) as entries:
                empty = next(entries, None) is None
        except (FileNotFoundError, NotADirectoryError):
            return "the directory is not there"
        except OSError as error:
            return f"the directory cannot be read: {error.strerror}"
        if empty and self._known is not None and self._known.file_count:
            return "the directory is empty, as one that is not mounted is"
        return ""

    def _be_absent(self, reason: str) -> Delta:
        self._mode, self._reason = "absent", reason
        return self._serve(None)

    def _serve(self, root: Directory | None) -> Delta:
        """Swaps the state that readers see. One assignment: there is no moment with half of it."""
        old = self._tree.root
        if old is root:
            return Delta()
        delta = difference(self.workspace, old, root)
        self._tree = Tree(self.workspace, root, self._name)
        return delta

    def _save(self) -> None:
        if self._cache is not None and self._known is not None and self._known is not self._kept:
            persist.save(self._cache, self._known)
            self._kept = self._known


def _nobody(delta: Delta) -> None:
    """Told in place of whoever follows the tree."""
