"""The daemon of one home: its open workspaces, by id or directory, and their background work."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd import __version__
from kgd.config import Home, person_environment
from kgd.config.credentials import secret
from kgd.config.entries import AT_START
from kgd.config.registry import Entry, RegistryFile
from kgd.daemon import process
from kgd.daemon.history_check import heal_closed
from kgd.daemon.jobs import Jobs, unfinished
from kgd.daemon.other_workspaces import Elsewhere
from kgd.daemon.registered_paths import Places, misnamed
from kgd.daemon.shared_registry import PACK_BYTES, Organisation
from kgd.daemon.syncing import Syncing
from kgd.daemon.tokens import Tokens
from kgd.daemon.upstream import Upstream
from kgd.daemon.workspace_watch import WorkspaceWatch
from kgd.errors import Advice, Damaged, Do, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git.discovery import is_workspace
from kgd.git.remote import Network
from kgd.git.remote_settings import remotes
from kgd.graph.working_set import ContextStore
from kgd.index.hub_state import SqliteHubState
from kgd.model.uri import Uri
from kgd.resolution.provider import Attempts
from kgd.sync.cloning import Clones
from kgd.sync.network import network_of

if TYPE_CHECKING:
    from kgd.daemon.browser_sessions import Pages
    from kgd.git.layout import Layout
    from kgd.workspace.answers import Stage
    from kgd.workspace.workspace import Workspace

OnChange = Callable[[str, frozenset[Uri]], object]
"""Called with a workspace id and the changed URIs, on the thread that changed them; must not block."""

log = logging.getLogger("kgd.daemon")


class Daemon:
    """The open workspaces of one home, its tokens, hubs and remotes. Safe for threads.

    The first call that needs a workspace opens it; it stays open. A second call for the same workspace waits for the
    first; calls for other workspaces do not wait.

    Args:
        locate: Returns the layout of the workspace that a directory belongs to, or None.
        open_workspace: Opens a layout; may read the whole graph.
    """

    def __init__(
        self,
        home: Home,
        *,
        since: str,
        locate: Callable[[Path], Layout | None],
        open_workspace: Callable[..., Workspace],
    ) -> None:
        self.home, self.version, self.pid, self.since = home, __version__, os.getpid(), since
        self.registry = RegistryFile(home)
        self._settings = self.registry.current().settings
        self.contexts = ContextStore(secrets.token_bytes, capacity=self._settings.context_size)
        self.tokens = Tokens(lambda: SqliteHubState(Path(home.state) / "hub.db"), time.time, secrets.token_bytes)
        self.upstream = Upstream(lambda id: self.syncing(self.workspace(id)))
        self.listening = ""
        """URL of the hub that this daemon serves; empty if it serves none."""
        self.pages: Pages | None = None
        """The web pages; None in a process without a server."""
        self.attempts = Attempts(time.monotonic)
        self.elsewhere = Elsewhere(self, self.registry, Path(home.state) / "seen", secret)
        self.clones = Clones(Path(home.state) / "clones", lambda entry, stop: network_of(entry.token, stop=stop))
        self.organisation = Organisation(
            self.registry,
            Path(home.state) / "organisation",
            lambda stop: Network(person_environment(), pack_bytes=PACK_BYTES, stop=stop),
        )
        self.places = Places(self.registry, locate)
        self._open_workspace = open_workspace
        self._lock = threading.Lock()
        self._open: dict[Path, _Opened] = {}
        self._opening: dict[Path, threading.Lock] = {}
        self._listeners: list[OnChange] = []
        self._watchers: list[OnChange] = []
        self._calls = 0
        self._closed = False

    def workspace_ids(self) -> list[str]:
        return sorted(self.registry.current().entries)

    def workspace(self, id: str | None = None, *, directory: Path | None = None) -> Workspace:
        """The workspace of that id, or of that directory or one above it.

        A workspace found by directory is registered, and its path in the registry corrected.

        Raises:
            NotFound: There is no such workspace.
            Unavailable: It is not at its registered path.
            InvariantViolation: Another repository has its id, or its path holds another workspace.
        """
        if directory is not None:
            layout = self.places.around(directory)
            if layout is None:
                raise NotFound("there is no workspace here", at=str(directory), next="`kgd up` makes one.")
            found = self._at(layout)
            try:
                self.register(found)
            except InvariantViolation:
                self.forget(found)  # a copy of another workspace must not be found under its id
                raise
            return found
        entry = self.registry.current().entries.get(id or "")
        if entry is None:
            raise NotFound(
                f"no workspace '{(id or '')[:63]}' is registered", next="`kgd up` in its folder registers it."
            )
        if entry.hub:
            raise Unavailable(
                f"workspace '{entry.id}' is on a hub, and not here",
                at=entry.hub,
                next=Advice(
                    Do("get"),
                    ", ",
                    Do("search"),
                    ", ",
                    Do("traverse"),
                    " and ",
                    Do("history"),
                    " read it there; ",
                    Do("submit_subgraph"),
                    " hands in changes, and `kgd ui -w ",
                    entry.id,
                    "` opens its pages.",
                ),
            )
        if not entry.path:
            return self._at(self.clones.layout(entry), publish=False)
        found = self._at(self.places.layout(entry))
        if found.id != entry.id:
            raise misnamed(entry, found.id)
        self._close_other_copies(found)
        return found

    def opened_as(self, id: str) -> Workspace | None:
        """The workspace registered under this id, if it is open."""
        entry = self.registry.current().entries.get(id)
        if entry is None:
            return None
        for one in self.opened():
            place = _entry(one).path if entry.path else str(self.clones.place(entry))
            if one.id == id and place == (entry.path or str(one.layout.work_tree)):
                return one
        return None

    def register(self, workspace: Workspace, *, replace: bool = False) -> None:
        """Register an open workspace at its current path.

        Raises:
            InvariantViolation: Another existing repository has its id, and `replace` is not set.
        """
        entry = _entry(workspace)
        known = self.registry.current().entries.get(workspace.id)
        if known is None or known.path != entry.path:
            self.registry.register(entry, replace=replace, is_alive=self._still_there)

    def opened(self) -> list[Workspace]:
        """The open workspaces that have not been moved, sorted by id."""
        with self._lock:
            there = [one.workspace for one in self._open.values() if one.workspace.is_in_place]
        return sorted(there, key=lambda one: one.id)

    def degraded(self, workspace: Workspace) -> list[str]:
        """Problems with watching and syncing an open workspace, one sentence each."""
        found = self._open.get(workspace.layout.git_dir)
        return [*found.tending.degraded(), *found.syncing.degraded()] if found else []

    def stages(self, workspace: Workspace) -> list[Stage]:
        """The stages of an open workspace, followed by the stages of its remotes."""
        stages = list(workspace.health().values())
        if found := self._open.get(workspace.layout.git_dir):
            found.syncing.follow()
            stages += found.syncing.stages()
        return stages

    def syncing(self, workspace: Workspace) -> Syncing:
        """The sync of an open workspace with its remotes. Raises Unavailable if it was closed meanwhile."""
        syncing = self._opened_of(workspace).syncing
        syncing.follow()
        return syncing

    def jobs(self, workspace: Workspace) -> Jobs:
        """The background jobs of an open workspace. Raises Unavailable if it was closed meanwhile."""
        return self._opened_of(workspace).jobs

    def open_shared(self) -> None:
        """Open workspaces with remotes, so that changes arrive before the first call, and those with open jobs."""
        for entry in self.registry.current().entries.values():
            try:
                layout = self.places.find(entry)
                if layout is not None and (entry.remote or remotes(layout) or unfinished(layout)):
                    self.workspace(entry.id)
            except (KgdError, OSError) as error:
                log.warning("not opened", extra={"workspace": entry.id, "reason": str(error)[:300]})

    def troubles(self) -> list[str]:
        """Problems of the process, the registry and the workspaces elsewhere, one sentence each."""
        found = [f"registry: {problem}"] if (problem := self.registry.problem) else []
        found += [f"organisation's registry: {self.organisation.problem}"] if self.organisation.problem else []
        found += [f"registry entry {problem}" for problem in self.places.problems()]
        found += [shortage] if (shortage := process.shortage()) else []
        now = self.registry.current().settings
        found += [
            f"settings: {name} is {getattr(now, name)} in the file and {getattr(self._settings, name)} in force"
            for name in AT_START
            if getattr(now, name) != getattr(self._settings, name)
        ]
        return [*found, *(f"clone {problem}" for problem in self.clones.problems()), *self.elsewhere.problems()]

    def on_commit(self, listener: OnChange) -> None:
        """Call `listener` after each commit to any workspace, including those opened later."""
        self._listeners.append(listener)

    def on_code(self, watcher: OnChange) -> None:
        """Call `watcher` with changes without a commit: of code and stale nodes, or without URIs of proposals and
        unreadable files."""
        self._watchers.append(watcher)

    def forget(self, workspace: Workspace) -> None:
        """Close a workspace; the next call opens it again."""
        with self._lock:
            found = self._open.pop(workspace.layout.git_dir, None)
        if found:
            found.close()
        else:
            workspace.close()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a call while it runs."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def describe(self) -> dict[str, Any]:
        """Process id, version, start and running calls, for `status`."""
        return {"pid": self.pid, "version": self.version, "since": self.since, "calls": self._calls}

    def close(self) -> None:
        """Close every workspace, also after one fails to close. No workspace is opened afterwards."""
        with self._lock:
            self._closed = True
            closing, self._open = list(self._open.values()), {}
        self.organisation.close()
        self.clones.close()
        for one in closing:
            _quietly(one.close)
        self.tokens.close()
        self.elsewhere.close()

    def _opened_of(self, workspace: Workspace) -> _Opened:
        found = self._open.get(workspace.layout.git_dir)
        if found is None:
            raise Unavailable("this workspace is being closed", next="Repeat the call: the daemon reopens it.")
        return found

    def _at(self, layout: Layout, *, publish: bool = True) -> Workspace:
        place = layout.git_dir
        with self._lock:
            if self._closed:
                raise Unavailable("the daemon is stopping", next="Ask again.")
            found = self._open.get(place)
            if found and found.workspace.is_in_place:
                return found.workspace
            opening = self._opening.setdefault(place, threading.Lock())
        with opening:
            self._close_moved()
            with self._lock:
                if found := self._open.get(place):
                    return found.workspace
            workspace = self._opened_or_healed(layout, {} if publish else {"publish": False})
            with contextlib.ExitStack() as undo:
                undo.callback(_quietly, workspace.close)
                opened = self._start_parts(workspace, undo)
                with self._lock:
                    self._open[place] = opened
                undo.pop_all()
            opened.jobs.start()
            log.info("opened", extra={"workspace": workspace.id, "path": place})
            return workspace

    def _start_parts(self, workspace: Workspace, undo: contextlib.ExitStack) -> _Opened:
        """Start the background work of an open workspace; `undo` ends it."""
        workspace.is_registered = lambda id: id in self.registry.current().entries
        workspace.on_commit(lambda uris: self._announce(workspace.id, uris))
        workspace.on_uncommitted(lambda: self._announce_code(workspace.id, frozenset()))
        workspace.on_displaced(
            lambda: threading.Thread(target=self._open_anew, args=(workspace.layout,), daemon=True).start()
        )
        workspace.meaning.follow(lambda: self.registry.current().settings.embedder, secret)
        tending = WorkspaceWatch(
            workspace,
            self.registry.current().settings.rescan_seconds,
            lambda uris: self._announce_code(workspace.id, uris),
        )
        undo.callback(_quietly, tending.close)
        tending.start()
        syncing = Syncing(workspace, lambda: self.registry.current().entries.get(workspace.id))
        undo.callback(_quietly, syncing.close)
        syncing.patience = self.registry.current().settings.remote_seconds
        syncing.start()
        jobs = Jobs(workspace, lambda: self.registry.current().settings.document_mb << 20)
        return _Opened(workspace, tending, syncing, jobs, _inode(workspace.layout.git_dir))

    def _open_anew(self, layout: Layout) -> None:
        """Open a workspace again whose derived data was removed while it was open."""
        try:
            if is_workspace(layout.git_dir):
                self._at(layout)
        except (KgdError, OSError):
            log.exception("could not be opened again", extra={"path": layout.git_dir})

    def _opened_or_healed(self, layout: Layout, how: Mapping[str, bool]) -> Workspace:
        """Open a workspace; if its tip lacks objects, fetch them from a remote and try again."""
        try:
            return self._open_workspace(layout, **how)
        except Damaged:
            if not heal_closed(layout, self.registry.current()):
                raise
            return self._open_workspace(layout, **how)

    def _close_other_copies(self, found: Workspace) -> None:
        """Close a copy of the workspace that was opened before the registry named this path."""
        for one in self.opened():
            if one.id == found.id and one is not found:
                log.warning("another copy is registered now", extra={"workspace": one.id, "path": one.layout.git_dir})
                self.forget(one)

    def _close_moved(self) -> None:
        """Close workspaces that were moved: their locks moved along and would block opening them at the new path."""
        with self._lock:
            gone = [
                place
                for place, one in self._open.items()
                if _inode(place) != one.inode or not one.workspace.is_in_place
            ]
            closing = [self._open.pop(place) for place in gone]
        for one in closing:
            log.warning("moved or deleted while it was open", extra={"workspace": one.workspace.id})
            _quietly(one.close)

    def _announce(self, id: str, uris: frozenset[Uri]) -> None:
        for listener in self._listeners:
            listener(id, uris)

    def _announce_code(self, id: str, uris: frozenset[Uri]) -> None:
        for watcher in self._watchers:
            watcher(id, uris)

    def _still_there(self, entry: Entry) -> bool:
        """Whether a registered path still holds a workspace of that id."""
        try:
            layout = self.places.find(entry)
            return layout is not None and self._at(layout).id == entry.id
        except (KgdError, OSError):
            return False


class _Opened(NamedTuple):
    workspace: Workspace
    tending: WorkspaceWatch
    syncing: Syncing
    jobs: Jobs
    inode: int
    """Inode of the git directory: a different one at the same path is another workspace."""

    def close(self) -> None:
        for part in (self.jobs, self.syncing, self.tending, self.workspace):
            part.close()


def _entry(workspace: Workspace) -> Entry:
    return Entry.of(workspace.id, workspace.layout.work_tree, workspace.layout.code_tree)


def _inode(place: Path) -> int:
    try:
        return place.stat().st_ino
    except OSError:
        return 0


def _quietly(close: Callable[[], object]) -> None:
    """Close a workspace or a part of one; log an error."""
    try:
        close()
    except Exception:
        log.exception("a workspace did not close")
