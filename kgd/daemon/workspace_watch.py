"""The watches of an open workspace on its work tree and its code tree."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kgd.areas.atlas import Atlas
from kgd.code_history.history import CodeHistory
from kgd.config import person_environment
from kgd.daemon.code_history import HistoryReader
from kgd.daemon.code_index import ReadingTree
from kgd.daemon.watch import Folder, Watch
from kgd.errors import KgdError
from kgd.freshness.freshness import Freshness
from kgd.git.index_file import Stamp, stamp
from kgd.index.text import FileDoc
from kgd.model.uri import CODE_TREE, Uri, from_path, path_of, scheme_of
from kgd.overlay.listing import MACHINE_MADE, NEVER
from kgd.overlay.overlay import Overlay
from kgd.overlay.tree import Delta
from kgd.workspace.answers import Stage
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace

FIRST_LOOK_SECONDS = 2.0
"""Seconds that opening a workspace waits for the code tree; a larger tree is served later."""

log = logging.getLogger("kgd.tending")

_scans = dict[Path, tuple[int, int]]()


def scanned(code_tree: Path) -> tuple[int, int] | None:
    """The progress of the first scan of a code tree: files read, and files to read or 0 if they are not listed yet.
    None if no first scan is running."""
    return _scans.get(code_tree)


class WorkspaceWatch:
    """Keeps the overlay in step with the code tree and reports hand edits, until it is closed.

    `changed` is called with the files, directories, symbols and chunks of the code that were added, removed or changed,
    and with nodes that these changes made stale or current.
    """

    def __init__(
        self,
        workspace: Workspace,
        rescan_seconds: float,
        changed: Callable[[frozenset[Uri]], object] = lambda uris: None,
    ) -> None:
        self._workspace, layout, self._changed = workspace, workspace.layout, changed
        self._stop = threading.Event()
        self._freshness, self._usage = Freshness.of(workspace), Usage.of(workspace)
        self._freshness.on_change = changed
        self._overlay: Overlay | None = None
        self.reading: ReadingTree | None = None
        self._history: HistoryReader | None = None
        self._code_git_dir = CodeHistory.of(workspace).git_dir
        self._watches = []
        self._code_watch: Watch | None = None
        self._rule_stamps: list[Stamp] | None = None
        """Of git's files that decide which paths are ignored, before the last scan."""
        self._passed_over = False
        """Whether changes of ignored files have caused no scan since the last one."""
        if workspace.is_published:
            watch = Watch(
                self._own_folders(),
                self._work_tree_changed,
                rescan_seconds=rescan_seconds,
                scan_seconds=lambda: workspace.scan_seconds,
            )
            self._watches = [watch]
        if layout.code_tree is not None:
            self._overlay = Overlay(
                layout.code_tree, workspace.id, environment=person_environment(), cache=layout.derived_dir / "overlay"
            )
            workspace.overlay = overlay = self._overlay
            workspace.code_files = lambda: _files(overlay, overlay.uris())
            try:
                self.reading = ReadingTree(workspace, overlay, workspace.derived_dir, changed)
            except KgdError as error:
                log.exception("symbols and documents of the code tree are not indexed")
                why = f"the index of the code tree cannot be opened: {error}. After `kgd down`, any command tries again"
                workspace.on_health(lambda: Stage("code", "degraded", blocker=why))
            if self._code_git_dir is not None:
                self._history = HistoryReader(CodeHistory.of(workspace), layout.code_tree)
            code = Folder(layout.code_tree, skip=NEVER | MACHINE_MADE)
            self._code_watch = Watch([code], self._code_tree_changed, rescan_seconds=rescan_seconds)
            self._watches.append(self._code_watch)
        self._first_look = threading.Thread(target=self._look, name="kgd-first-look", daemon=True)

    def start(self) -> None:
        """Start the watches, then the first scan, so that no change is missed."""
        for watch in self._watches:
            watch.start()
        if (root := self._workspace.layout.code_tree) is not None:
            self._freshness.start(root, Atlas.of(self._workspace), self._belongs)
        self._usage.start()
        if self.reading:
            self.reading.start()
        if self._history:
            self._history.start()
        if self._overlay:
            self._first_look.start()
            self._first_look.join(FIRST_LOOK_SECONDS)

    @property
    def is_watching(self) -> bool:
        """Whether hand edits or a code tree are watched. Closing the workspace ends this."""
        return bool(self._watches)

    def degraded(self) -> list[str]:
        return [watch.degraded for watch in self._watches if watch.degraded]

    def close(self) -> None:
        self._stop.set()
        for watch in self._watches:
            watch.close()
        self._freshness.close()
        self._usage.close()
        if self._first_look.is_alive():
            self._first_look.join(30)
        if self.reading:
            self.reading.close()
        if self._history:
            self._history.close()
        if self._overlay:
            try:
                self._overlay.save()
            except OSError:
                log.exception("the scan of the code tree could not be saved")

    def _own_folders(self) -> list[Folder]:
        layout, code = self._workspace.layout, self._code_git_dir
        # In repositories, watch only files that the user's git commands change; objects and kgd's own refs are noise.
        return [
            Folder(layout.work_tree, skip=frozenset({".git"})),
            *(
                folder
                for git_dir in (layout.git_dir, *([code] if code is not None else []))
                for folder in (Folder(git_dir, recursive=False), Folder(git_dir / "refs" / "heads"))
            ),
        ]

    def _look(self) -> None:
        assert self._overlay
        self._count(0, 0)
        try:
            try:
                found = self._overlay.scan(self._count, self._stop)
            finally:
                _scans.pop(self._overlay.root, None)
                self._overlay.on_change = self._tree_changed
            if found.complete:
                self._workspace.note_files(_files(self._overlay, self._overlay.uris()), complete=True)
                self._freshness.look_through()
                if self.reading:
                    self.reading.note(None)
        except (KgdError, OSError):
            log.exception("the code tree cannot be read")

    def _count(self, done: int, total: int) -> None:
        assert self._overlay
        _scans[self._overlay.root] = done, total

    def _code_tree_changed(self, changed: frozenset[str] | None) -> None:
        if self._overlay is None or self._stop.is_set():
            return
        top, git_dir = str(self._overlay.root), self._code_git_dir
        stamps = [stamp(git_dir / name) for name in ("index", "info/exclude")] if git_dir else []
        if changed is not None and stamps == self._rule_stamps:
            self._passed_over = all(self._overlay.ignores(os.path.relpath(path, top)) for path in changed)
            if self._passed_over:
                return
        self._rule_stamps, self._passed_over = stamps, False
        self._overlay.rescan()

    def _tree_changed(self, delta: Delta) -> None:
        """Called after each scan that found a difference, including scans that a call requested."""
        if self._overlay and not self._stop.is_set():
            self._workspace.note_files(_files(self._overlay, (*delta.added, *delta.changed)), delta.removed)
            changed_now = (*delta.added, *delta.changed, *delta.removed)
            if self.reading:
                self.reading.note(changed_now)
            self._freshness.files_changed(path_of(uri) for uri in changed_now if scheme_of(uri) in CODE_TREE)
            self._changed(frozenset(changed_now))

    def _belongs(self, path: str) -> bool:
        """Whether the code tree has this file or folder and git does not ignore it."""
        overlay, home = self._overlay, self._workspace.id
        try:
            return overlay is not None and any(overlay.exists(from_path(kind, home, path)) for kind in CODE_TREE)
        except KgdError:
            return False

    def _work_tree_changed(self, changed: frozenset[str] | None) -> None:
        if self._stop.is_set():
            return
        if changed is None:
            self._workspace.hint(None)
            if self._history:
                self._history.note()
            return
        if self._history and (of_code := {path for path in changed if self._is_of_code(path)}):
            self._history.note()
            if self._passed_over and self._code_watch:
                self._code_watch.hint(None)  # git writes its index after the files, which may not be ignored any more
            changed -= of_code
        top, git_dir = self._workspace.layout.work_tree, str(self._workspace.layout.git_dir)
        inside = {path for path in changed if not path.startswith(f"{git_dir}/")}
        # A moved branch is only a reason to check: publication also moves it, and can tell when a person's git command
        # did.
        if inside or any(_moves_a_branch(path, git_dir) for path in changed - inside):
            self._workspace.hint(sorted(str(Path(path).relative_to(top)) for path in inside if path != str(top)))

    def _is_of_code(self, path: str) -> bool:
        """Whether the path is in the code's git directory, outside the workspace's own."""
        own = str(self._workspace.layout.git_dir)
        return path.startswith(f"{self._code_git_dir}/") and path != own and not path.startswith(f"{own}/")


def _files(overlay: Overlay, uris: Iterable[Uri]) -> list[FileDoc]:
    """Entries of code files for the text index: path and kind."""
    cards = [card for uri in uris if (card := overlay.card(uri))]
    return [FileDoc(card.uri, path_of(card.uri) or "/", card.summary.partition(",")[0]) for card in cards]


def _moves_a_branch(path: str, git_dir: str) -> bool:
    """Whether the path is HEAD, a branch, or a file of a rebase or merge. The index is not included, since it changes
    even when git reads it.
    """
    name = path[len(git_dir) + 1 :]
    return not name.endswith(".lock") and name not in ("index", "kgd", "config", "objects", "logs")
