"""This file is where the workspaces of one home are kept open, found by id or by directory, and closed."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd import __version__
from kgd.config import Home, person_environment
from kgd.config.credentials import secret
from kgd.config.entries import AT_START
from kgd.config.registry import Entry, RegistryFile
from kgd.daemon import descriptors
from kgd.daemon.elsewhere import Elsewhere
from kgd.daemon.history_check import heal_closed
from kgd.daemon.jobs import Jobs, unfinished
from kgd.daemon.organisation import PACK_BYTES, Organisation
from kgd.daemon.places import Places, misnamed
from kgd.daemon.syncing import Syncing
from kgd.daemon.tending import Tending
from kgd.daemon.tokens import Tokens
from kgd.daemon.upstream import Upstream
from kgd.errors import Damaged, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git.remote import Network
from kgd.git.remote_settings import remotes
from kgd.graph.context import ContextStore
from kgd.index.hub_state import SqliteHubState
from kgd.resolution.provider import Attempts
from kgd.sync.clones import Clones

if TYPE_CHECKING:
    from kgd.daemon.browsers import Pages
    from kgd.git.layout import Layout
    from kgd.workspace.outcome import Stage
    from kgd.workspace.workspace import Workspace

OnCommit = Callable[[str, frozenset[str]], None]
"""Told (workspace id, the URIs that changed) after a commit, on the thread that made it; must not block."""

log = logging.getLogger("kgd.daemon")


class Daemon:
    """What the daemon of one home knows. Safe for threads.

    A workspace is opened by the first call that needs it and stays open. While one is being opened, calls for another
    are not held up, and a second call for the same waits for the first one's result.

    Args:
        locate: The layout of the workspace that a directory belongs to, None where there is none.
        open_workspace: Opens what `locate` found; may take as long as reading the whole graph does.
        syncs: Whether workspaces are kept together with their remotes by themselves.
    """

    def __init__(
        self, home: Home, *, since: str, locate: Callable[[Path], Layout | None],
        open_workspace: Callable[..., Workspace], syncs: bool = True,
    ) -> None:  # fmt: skip
        self.home, self.version, self.pid, self.since = home, __version__, os.getpid(), since
        self.registry = RegistryFile(home)
        self._settings = self.registry.current().settings
        self.contexts = ContextStore(secrets.token_bytes, capacity=self._settings.context_size)
        self.tokens = Tokens(lambda: SqliteHubState(Path(home.state) / "hub.db"), time.time, secrets.token_bytes)
        self.upstream = Upstream(self)
        self.listening = ""
        """Where this daemon serves others as a hub; empty where it does not."""
        self.pages: Pages | None = None
        """What browsers are shown; None where there are no pages, as in a process that only borrows the tools."""
        self.attempts = Attempts(time.monotonic)
        self.elsewhere = Elsewhere(self, self.registry, Path(home.state) / "seen", secret)
        self.clones = Clones(Path(home.state) / "clones", _network)
        self.organisation = Organisation(
            self.registry, Path(home.state) / "organisation",
            lambda stop: Network(person_environment(), pack_bytes=PACK_BYTES, stop=stop),
        )  # fmt: skip
        self.places = Places(self.registry, locate)
        self._open_workspace, self._syncs = open_workspace, syncs
        self._lock = threading.Lock()
        self._open: dict[Path, _Opened] = {}
        self._opening: dict[Path, threading.Lock] = {}
        self._listeners: list[OnCommit] = []
        self._watchers: list[Callable[[str], object]] = []
        self._calls = 0
        self._closed = False

    def workspace_ids(self) -> list[str]:
        return sorted(self.registry.current().entries)

    def workspace(self, id: str | None = None, *, directory: Path | None = None) -> Workspace:
        """The workspace of that id, or of that directory or one above it.

        One that was found by directory and is not in the registry, or is there under a place that it has left, is
        registered.

        Raises:
            NotFound: There is none.
            Unavailable: The registry names a place where it is no longer, or is not yet.
            InvariantViolation: Another repository is registered under its id, or its place holds another workspace.
        """
        if directory is not None:
            layout = self.places.around(directory)
            if layout is None:
                raise NotFound("no workspace is here", at=str(directory), next="`kgd up` makes one.")
            found = self._at(layout)
            try:
                self.register(found)
            except InvariantViolation:
                self.forget(found)  # a copy of another: neither ours to hold nor to be found under its id
                raise
            return found
        entry = self.registry.current().entries.get(id or "")
        if entry is None:
            raise NotFound(
                f"no workspace '{(id or '')[:63]}' is registered", next="`kgd up` in its folder registers it."
            )
        if entry.hub:
            raise Unavailable(
                f"workspace '{entry.id}' is on a hub, and not here", at=entry.hub,
                next="get, search, traverse and history read it there; submit_subgraph hands in changes.",
            )  # fmt: skip
        if not entry.path:
            return self._at(self.clones.layout(entry), publish=False)
        found = self._at(self.places.layout(entry))
        if found.id != entry.id:
            raise misnamed(entry, found.id)
        self._close_other_copies(found)
        return found

    def opened_as(self, id: str) -> Workspace | None:
        """The open workspace that the registry has under this id; None where it has to be opened first."""
        entry = self.registry.current().entries.get(id)
        if entry is None:
            return None
        for one in self.opened():
            place = Entry.of(_Placed.of(one)).path if entry.path else str(self.clones.place(entry))
            if one.id == id and place == (entry.path or str(one.layout.work_tree)):
                return one
        return None

    def register(self, workspace: Workspace, *, replace: bool = False) -> None:
        """Put an open workspace into the registry, under the place where it is now.

        Raises:
            InvariantViolation: Another repository that still stands has its id, and `replace` is not set.
        """
        entry = Entry.of(_Placed.of(workspace))
        known = self.registry.current().entries.get(workspace.id)
        if known is None or known.path != entry.path:
            self.registry.register(entry, replace=replace, is_alive=self._still_there)

    def opened(self) -> list[Workspace]:
        """Those that are open now and where they were opened, by id."""
        with self._lock:
            there = [one.workspace for one in self._open.values() if one.workspace.is_in_place]
        return sorted(there, key=lambda one: one.id)

    def degraded(self, workspace: Workspace) -> list[str]:
        """What does not work around an open workspace, one sentence each."""
        with self._lock:
            found = self._open.get(workspace.layout.git_dir)
        return [*found.tending.degraded(), *found.syncing.degraded()] if found else []

    def stages(self, workspace: Workspace) -> list[Stage]:
        """Each stage of the work of an open workspace, those of its remotes behind its own."""
        with self._lock:
            found = self._open.get(workspace.layout.git_dir)
        if found is None:
            return list(workspace.health().values())
        found.syncing.follow()
        return [*workspace.health().values(), *found.syncing.stages()]

    def syncing(self, workspace: Workspace) -> Syncing:
        """What keeps an open workspace together with its remotes.

        Raises:
            Unavailable: It was closed meanwhile.
        """
        with self._lock:
            found = self._open.get(workspace.layout.git_dir)
        if found is None:
            raise Unavailable("this workspace is being closed", next="Ask again; the daemon will open it anew.")
        found.syncing.follow()
        return found.syncing

    def jobs(self, workspace: Workspace) -> Jobs:
        """What an open workspace is at that takes longer than a call.

        Raises:
            Unavailable: It was closed meanwhile.
        """
        with self._lock:
            found = self._open.get(workspace.layout.git_dir)
        if found is None:
            raise Unavailable("this workspace is being closed", next="Ask again; the daemon will open it anew.")
        return found.jobs

    def open_shared(self) -> None:
        """Open what is shared with others, so that their changes arrive before anybody calls; and what has jobs."""
        for entry in self.registry.current().entries.values():
            try:
                layout = self.places.find(entry)
                if layout is not None and (entry.remote or remotes(layout) or unfinished(layout)):
                    self.workspace(entry.id)
            except (KgdError, OSError) as error:
                log.warning("not opened", extra={"workspace": entry.id, "reason": str(error)[:300]})

    def troubles(self) -> list[str]:
        """What does not work around the process, the registry and the workspaces elsewhere, one sentence each."""
        found = [f"registry: {problem}"] if (problem := self.registry.problem) else []
        found += [f"organisation's registry: {self.organisation.problem}"] if self.organisation.problem else []
        found += [f"registry entry {problem}" for problem in self.places.problems()]
        found += [shortage] if (shortage := descriptors.shortage()) else []
        now = self.registry.current().settings
        found += [
            f"settings: {name} is {getattr(now, name)} in the file and {getattr(self._settings, name)} in force"
            for name in AT_START
            if getattr(now, name) != getattr(self._settings, name)
        ]
        return [*found, *(f"clone {problem}" for problem in self.clones.problems()), *self.elsewhere.problems()]

    def on_commit(self, listener: OnCommit) -> None:
        """Tell `listener` of every commit of every workspace, also of those that are opened later."""
        self._listeners.append(listener)

    def on_code(self, watcher: Callable[[str], object]) -> None:
        """Tell `watcher` of every workspace where something changed without a commit: its code, what of its nodes is
        unverified since, or what waits as a proposal."""
        self._watchers.append(watcher)

    def forget(self, workspace: Workspace) -> None:
        """Close one; the next call opens it anew. Its files stay where they are."""
        with self._lock:
            found = self._open.pop(workspace.layout.git_dir, None)
        if found:
            found.jobs.close()
            found.syncing.close()
            found.tending.close()
        workspace.close()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a call while it runs."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def describe(self) -> dict[str, Any]:
        """The process as `status` shows it."""
        return {"pid": self.pid, "version": self.version, "since": self.since, "calls": self._calls}

    def close(self) -> None:
        """Close every workspace; one that fails does not keep the others from it. No workspace is opened afterwards."""
        with self._lock:
            self._closed = True
            closing, self._open = list(self._open.values()), {}
        self.organisation.close()
        self.clones.close()
        for one in closing:
            _close(one)
        self.tokens.close()
        self.elsewhere.close()

    def _at(self, layout: Layout, *, publish: bool = True) -> Workspace:
        place = layout.git_dir
        with self._lock:
            if self._closed:
                raise Unavailable("the daemon is leaving", next="Ask again.")
            found = self._open.get(place)
            if found and found.workspace.is_in_place:
                return found.workspace
            opening = self._opening.setdefault(place, threading.Lock())
        with opening:
            self._let_go_of_moved()
            with self._lock:
                if found := self._open.get(place):
                    return found.workspace
            workspace = self._opened_or_healed(layout, {} if publish else {"publish": False})
            with contextlib.ExitStack() as undo:
                undo.callback(_quietly, workspace.close)
                opened = self._surround(workspace, undo)
                with self._lock:
                    self._open[place] = opened
                undo.pop_all()
            opened.jobs.start()
            log.info("opened", extra={"workspace": workspace.id, "path": place})
            return workspace

    def _surround(self, workspace: Workspace, undo: contextlib.ExitStack) -> _Opened:
        """Start the work beside an open workspace; `undo` ends what was started."""
        workspace.is_registered = lambda id: id in self.registry.current().entries
        workspace.on_commit(lambda uris: self._announce(workspace.id, frozenset(uris)))
        workspace.on_uncommitted(lambda: self._announce_code(workspace.id))
        workspace.on_displaced(
            lambda: threading.Thread(target=self._open_anew, args=(workspace.layout,), daemon=True).start()
        )
        workspace.meaning.follow(lambda: self.registry.current().settings.embedder, secret)
        tending = Tending(
            workspace, self.registry.current().settings.rescan_seconds, lambda: self._announce_code(workspace.id)
        )
        undo.callback(_quietly, tending.close)
        tending.start()
        syncing = Syncing(workspace, lambda: self.registry.current().entries.get(workspace.id))
        undo.callback(_quietly, syncing.close)
        syncing.patience = self.registry.current().settings.remote_seconds
        if self._syncs:
            syncing.start()
        jobs = Jobs(workspace, lambda: self.registry.current().settings.document_mb << 20)
        return _Opened(workspace, tending, syncing, jobs, _inode(workspace.layout.git_dir))

    def _open_anew(self, layout: Layout) -> None:
        """The folder of what is derived was removed under an open workspace."""
        try:
            if layout.git_dir.exists():
                self._at(layout)
        except (KgdError, OSError):
            log.exception("not opened anew", extra={"path": layout.git_dir})

    def _opened_or_healed(self, layout: Layout, how: Mapping[str, bool]) -> Workspace:
        """Open a workspace. One whose tip lacks objects gets them from a remote first, which takes a fetch."""
        try:
            return self._open_workspace(layout, **how)
        except Damaged:
            if not self._syncs or not heal_closed(layout, self.registry.current()):
                raise
            return self._open_workspace(layout, **how)

    def _close_other_copies(self, found: Workspace) -> None:
        """Close a copy of the workspace elsewhere, which was opened before the registry named this place."""
        for one in self.opened():
            if one.id == found.id and one is not found:
                log.warning("another copy is registered now", extra={"workspace": one.id, "path": one.layout.git_dir})
                self.forget(one)

    def _let_go_of_moved(self) -> None:
        """Close what is no longer where it was opened: its lock went with it and would keep us out at its new place."""
        with self._lock:
            gone = [
                place for place, one in self._open.items()
                if _inode(place) != one.inode or not one.workspace.is_in_place
            ]  # fmt: skip
            closing = [self._open.pop(place) for place in gone]
        for one in closing:
            log.warning("moved or deleted while it was open", extra={"workspace": one.workspace.id})
            _close(one)

    def _announce(self, id: str, uris: frozenset[str]) -> None:
        for listener in self._listeners:
            listener(id, uris)

    def _announce_code(self, id: str) -> None:
        for watcher in self._watchers:
            watcher(id)

    def _still_there(self, entry: Entry) -> bool:
        """Whether a registered place still holds a workspace of that id."""
        try:
            layout = self.places.find(entry)
            return layout is not None and self._at(layout).id == entry.id
        except (KgdError, OSError):
            return False


class _Opened(NamedTuple):
    workspace: Workspace
    tending: Tending
    syncing: Syncing
    jobs: Jobs
    inode: int
    """Of the git directory: another one under the same path is another workspace."""


def _network(entry: Entry, stop: threading.Event) -> Network:
    """How a remote that only the registry names is spoken to: as the person, with the credential that it refers to."""
    return Network(person_environment(), secret(entry.token) if entry.token else "", stop=stop)


def _inode(place: Path) -> int:
    try:
        return place.stat().st_ino
    except OSError:
        return 0


def _quietly(close: Callable[[], object]) -> None:
    """End a part of a workspace that could not be opened; the reason for that is what the caller hears."""
    try:
        close()
    except Exception:
        log.exception("a workspace that was not opened did not close")


def _close(one: _Opened) -> None:
    try:
        one.jobs.close()
        one.syncing.close()
        one.tending.close()
        one.workspace.close()
    except (KgdError, OSError):
        log.exception("a workspace did not close", extra={"workspace": one.workspace.id})


@dataclass(frozen=True, slots=True)
class _Placed:
    id: str
    work_tree: Path
    code_tree: Path | None

    @classmethod
    def of(cls, workspace: Workspace) -> _Placed:
        return cls(workspace.id, workspace.layout.work_tree, workspace.layout.code_tree)
