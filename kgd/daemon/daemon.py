"""The daemon of one home: its open workspaces, by id or directory, and their background work."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgd import __version__
from kgd.config import Home, is_program_replaced, person_environment, program_stamp
from kgd.config.credentials import secret
from kgd.config.entries import AT_START, Entry
from kgd.config.registry import RegistryFile
from kgd.daemon import process
from kgd.daemon.calls import ContextStore
from kgd.daemon.history_check import heal_closed
from kgd.daemon.jobs import Jobs, unfinished
from kgd.daemon.open_workspaces import (
    LEAST_SECONDS,
    RECENT_SECONDS,
    ClosedSync,
    Opened,
    OpenWorkspaces,
    most_open,
    quietly,
)
from kgd.daemon.other_workspaces import Elsewhere
from kgd.daemon.registry import PACK_BYTES, Organisation, Places, misnamed
from kgd.daemon.syncing import PROPOSALS, Syncing, Upstream
from kgd.daemon.tokens import Tokens
from kgd.daemon.workspace_watch import WorkspaceWatch
from kgd.errors import Advice, Damaged, Do, Invalid, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git.discovery import is_workspace
from kgd.git.files import inode
from kgd.git.objects import is_id
from kgd.git.remote import Network
from kgd.git.remote_settings import remotes
from kgd.index.hub_state import SqliteHubState
from kgd.model.uri import Uri
from kgd.resolution import Attempts
from kgd.shared_threads import Task, Threads
from kgd.sync.cloning import Clones
from kgd.sync.hub_sign_in import bearer, network_of
from kgd.sync.hubs import MOST
from kgd.workspace.writing.signing import key_for

if TYPE_CHECKING:
    from kgd.daemon.shared_state import SharedState
    from kgd.git.layout import Layout
    from kgd.model.browser_state import Pages
    from kgd.workspace.answers import Stage
    from kgd.workspace.workspace import Workspace

OnChange = Callable[[str, frozenset[Uri]], object]
"""Called with a workspace id and the changed URIs, on the thread that changed them; must not block."""

REACH_SECONDS = 2.0
"""Longest wait of a call for a commit of another hub."""

LOOK_SECONDS = 5.0
"""Seconds between two searches for idle workspaces."""
CLOSE_SECONDS = 10.0
SLACK = 8
"""Number of workspaces above the limit that may be open until the background task closes some."""
THREADS = Threads("kgd-closing", 2)

log = logging.getLogger("kgd.daemon")


class _Looked(threading.local):
    opened: list[Workspace] | None = None


class Daemon:
    """The open workspaces of one home, its tokens, hubs and remotes. Thread-safe.

    The first call that needs a workspace opens it. A second call for this workspace waits for the first; calls for
    other workspaces do not wait. A workspace is closed again if it is idle, or if too many are open; see
    `kgd.daemon.open_workspaces`.

    Args:
        locate: Returns the layout of the workspace that a directory belongs to, or None.
        open_workspace: Opens a layout; may read the whole graph.
        shared: The state that this hub shares with others; the daemon closes it.
    """

    def __init__(
        self,
        home: Home,
        *,
        since: str,
        locate: Callable[[Path], Layout | None],
        open_workspace: Callable[..., Workspace],
        shared: SharedState | None = None,
    ) -> None:
        self.home, self.version, self.pid, self.since = home, __version__, os.getpid(), since
        self._program = program_stamp()
        self.registry = RegistryFile(home)
        self._settings = self.registry.current().settings
        self.contexts = ContextStore(secrets.token_bytes, capacity=self._settings.context_size)
        self.shared = shared
        self.tokens = Tokens(
            shared.hub_state if shared else lambda: SqliteHubState(Path(home.state) / "hub.db"),
            time.time,
            secrets.token_bytes,
            shared.revocations(self._with_syncing) if shared else None,
        )
        self.upstream = Upstream(lambda id: self.syncing(self.workspace(id)))
        self.listening = ""
        """URL of the hub that this daemon serves; empty if it is not a hub."""
        self.is_warm = False
        """Whether the workspaces that `open_shared` opens are open."""
        self.pages: Pages | None = None
        """The web pages; None in a process without a server."""
        self.attempts = Attempts(time.monotonic)
        self.elsewhere = Elsewhere(self, self.registry, Path(home.state) / "seen", bearer)
        self.clones = Clones(Path(home.state) / "clones", lambda entry, stop: network_of(entry.token, stop=stop))
        self.organisation = Organisation(
            self.registry,
            Path(home.state) / "organisation",
            lambda stop: Network(person_environment(), pack_bytes=PACK_BYTES, stop=stop),
        )
        self.places = Places(self.registry, locate)
        self._open_workspace = open_workspace
        self._lock = threading.Lock()
        self._looked = _Looked()
        self.open_workspaces = OpenWorkspaces()
        self._upkeep: list[Task] = []
        self._listeners: list[OnChange] = []
        self._watchers: list[OnChange] = []
        self._calls = 0
        self._announced = threading.Condition()
        self._told: dict[str, str] = {}
        """The tip that another hub last reported, by workspace."""
        if shared:
            shared.listen(self._moved_elsewhere)

    def workspace_ids(self) -> list[str]:
        return sorted(self.registry.current().entries)

    def workspace(self, id: str | None = None, *, directory: Path | None = None) -> Workspace:
        """The workspace with that id, or the workspace that the directory or one of its parents belongs to.

        A workspace found by directory is registered, and its path in the registry corrected.

        Raises:
            NotFound: There is no such workspace.
            Unavailable: The workspace is not at its registered path.
            InvariantViolation: Another repository has this id, or the registered path holds another workspace.
        """
        if directory is not None:
            layout = self.places.around(directory)
            if layout is None:
                raise NotFound("there is no workspace here", at=str(directory), next="`kgd up` creates one.")
            found = self._at(layout)
            if layout.code_tree is not None and _lacks_code(found):
                self.forget(found)
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
                f"workspace '{entry.id}' is on a hub, not on this machine",
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
                    " submits changes, and `kgd ui -w ",
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
        for one in self.opened((id,)):
            known = self.open_workspaces.get(one.layout.git_dir)
            place = known and known.path if entry.path else str(self.clones.place(entry))
            if (entry.path or str(one.layout.work_tree)) in (place, str(one.layout.git_dir)):
                return one if self.use(one) else None
        return None

    def use(self, workspace: Workspace) -> bool:
        """Note a use of a workspace, which keeps it open until the current call ends; False if it has been closed."""
        return self.open_workspaces.use(workspace.layout.git_dir, workspace) is not None

    def register(self, workspace: Workspace, *, replace: bool = False) -> None:
        """Register an open workspace at its current path.

        Raises:
            InvariantViolation: Another existing repository already has this workspace's id, and `replace` is not set.
        """
        entry = _entry(workspace)
        known = self.registry.current().entries.get(workspace.id)
        is_code_new = bool(entry.code and known and not (known.code and Path(known.code).is_dir()))
        if known is None or known.path != entry.path or is_code_new:
            self.registry.register(entry, replace=replace, is_alive=self._still_there)

    def opened(self, ids: Collection[str] | None = None) -> list[Workspace]:
        """The open workspaces with these ids, or all, that have not been moved, sorted by id. Looks at a file of each
        of them."""
        if self._looked.opened is not None:
            return [one for one in self._looked.opened if ids is None or one.id in ids]
        known = (one.workspace for one in self.open_workspaces.all())
        there = [one for one in known if (ids is None or one.id in ids) and one.is_in_place]
        return sorted(there, key=lambda one: one.id)

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Within the block, this thread looks only once at the registry file and at the paths of open workspaces. Used
        for calls that need only memory: looking at files would cost more than their answers.
        """
        with self.registry.steady(), self.open_workspaces.holding():
            self._looked.opened = self.opened()
            try:
                yield
            finally:
                self._looked.opened = None

    def degraded(self, workspace: Workspace) -> list[str]:
        """Problems with watching and syncing an open workspace, one sentence each."""
        found = self.open_workspaces.get(workspace.layout.git_dir)
        return [*found.tending.degraded(), *found.syncing.degraded()] if found else []

    def stages(self, workspace: Workspace) -> list[Stage]:
        """The stages of an open workspace, followed by the stages of its remotes."""
        stages = list(workspace.health().values())
        if found := self.open_workspaces.get(workspace.layout.git_dir):
            found.syncing.follow()
            stages += found.syncing.stages()
        return stages

    def syncing(self, workspace: Workspace) -> Syncing:
        """The sync of an open workspace with its remotes. Raises Unavailable if the workspace has been closed."""
        syncing = self._opened_of(workspace).syncing
        syncing.follow()
        return syncing

    def _with_syncing(self, id: str) -> tuple[Workspace, Syncing]:
        workspace = self.workspace(id)
        return workspace, self.syncing(workspace)

    def syncings(self) -> dict[str, Syncing]:
        """The sync of each open workspace, by id. Looking at them does not keep the workspaces open."""
        return {one.workspace.id: one.syncing for one in self.open_workspaces.all()}

    def jobs(self, workspace: Workspace) -> Jobs:
        """The background jobs of an open workspace. Raises Unavailable if the workspace has been closed."""
        return self._opened_of(workspace).jobs

    def reach(self, id: str, positions: Sequence[str], *, required: bool = True) -> None:
        """Wait until the workspace with this id contains these commits (hex), which other hubs may have written.

        Args:
            required: Whether to fail without them. A write needs no more than a good chance to find what the same
                client wrote before: it is decided by the upstream.

        Raises:
            Invalid: A position is not a commit id, or there are too many.
            Unavailable: A required commit did not arrive within `REACH_SECONDS`.
        """
        if len(positions) > MOST or not all(map(is_id, positions)):
            raise Invalid(
                f"a position must be a commit id of 40 hex digits, and a read may send at most {MOST}",
                at="X-Kgd-At",
                next="Send the value that a hub returned.",
            )
        workspace, deadline = self.workspace(id), time.monotonic() + REACH_SECONDS
        with contextlib.nullcontext() if required else contextlib.suppress(Unavailable):
            for position in positions:
                self._reach(workspace, position, deadline)

    def _reach(self, workspace: Workspace, position: str, deadline: float) -> None:
        commit, tip = bytes.fromhex(position), workspace.read_tip
        if workspace.holds(commit):
            return
        self.syncing(workspace).wake()
        while not workspace.holds(commit):  # may read much history, so without the lock that every commit takes
            with self._announced:
                while workspace.read_tip == tip and (left := deadline - time.monotonic()) > 0:
                    self._announced.wait(left)
                tip = workspace.read_tip
            if time.monotonic() >= deadline:
                raise Unavailable(
                    "this hub does not have the commit of your last write yet",
                    at=position,
                    next="Repeat the call in a moment.",
                )

    def follow_told(self, workspace: Workspace) -> None:
        """Wait until a workspace holds the tip that another hub last reported, at most `REACH_SECONDS`."""
        if told := self._told.get(workspace.id):
            try:
                self._reach(workspace, told, time.monotonic() + REACH_SECONDS)
            except Unavailable:
                self._told.pop(workspace.id, None)  # the upstream may have lost it

    def position(self, id: str) -> str:
        """The commit (hex) that answers of this hub include, for clients that may use several hubs; otherwise empty."""
        opened = self.opened_as(id) if self.shared else None
        return opened.tip if opened else ""

    def open_shared(self) -> None:
        """Open workspaces with interrupted jobs, and workspaces with remotes up to the limit, so that changes arrive
        before the first call. Calls do not wait for it."""
        settings = self.registry.current().settings
        for entry in list(self.registry.current().entries.values()):
            try:
                layout = self.places.find(entry)
                if layout is None:
                    continue
                is_shared = (entry.remote or remotes(layout)) and len(self.open_workspaces) < most_open(settings)
                if is_shared or unfinished(layout):
                    self.workspace(entry.id)
            except Exception as error:  # the other workspaces are opened nevertheless
                if self.open_workspaces.is_closed:
                    return
                is_defect = not isinstance(error, KgdError | OSError)
                log.warning("not opened", exc_info=is_defect, extra={"workspace": entry.id, "reason": str(error)[:300]})
        self.is_warm = True
        self._start_upkeep()

    def close_unused(self) -> int:
        """Close idle workspaces, and those above the limit; returns how many were closed."""
        return self.open_workspaces.close_unused(self.registry.current().settings, time.monotonic())

    def troubles(self) -> list[str]:
        """Problems of the process, of the registry and of workspaces elsewhere, one sentence each."""
        found = [f"registry: {problem}"] if (problem := self.registry.problem) else []
        found += [f"organisation's registry: {self.organisation.problem}"] if self.organisation.problem else []
        found += [f"registry entry {problem}" for problem in self.places.problems()]
        if is_program_replaced(self._program, program_stamp()):
            found += [
                f"program: kgd was reinstalled, and this daemon still runs the previous installation ({self.version})"
            ]
        found += [shortage] if (shortage := process.shortage()) else []
        now = self.registry.current().settings
        found += [
            f"settings: {name} is {getattr(now, name)} in the file and {getattr(self._settings, name)} in force"
            for name in AT_START
            if getattr(now, name) != getattr(self._settings, name)
        ]
        found += self.shared.degraded() if self.shared else []
        return [*found, *(f"clone {problem}" for problem in self.clones.problems()), *self.elsewhere.problems()]

    def on_commit(self, listener: OnChange) -> None:
        """Call `listener` after each commit to any workspace, including those opened later."""
        self._listeners.append(listener)

    def on_code(self, watcher: OnChange) -> None:
        """Call `watcher` with changes that have no commit: with URIs for code and stale nodes, without any for
        proposals and unreadable files.
        """
        self._watchers.append(watcher)

    def forget(self, workspace: Workspace) -> None:
        """Close a workspace; the next call opens it again."""
        with self.set_aside(workspace):  # so that a call waits, and does not find the lock taken
            pass

    @contextmanager
    def set_aside(self, workspace: Workspace) -> Iterator[Layout]:
        """Close a workspace for the duration of the block. Calls for it wait, and then open it again."""
        place = workspace.layout.git_dir
        with self.open_workspaces.opening(place):
            taken = self.open_workspaces.take(lambda one: one.workspace.layout.git_dir == place)
            for one in taken:
                one.close()
            if not taken:
                workspace.close()
            yield workspace.layout

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a call while it runs; the workspaces that it uses stay open."""
        with self._lock:
            self._calls += 1
        try:
            with self.open_workspaces.holding():
                yield
        finally:
            with self._lock:
                self._calls -= 1

    def describe(self) -> dict[str, Any]:
        """Process id, version, start and running calls, for `status`."""
        return {"pid": self.pid, "version": self.version, "since": self.since, "calls": self._calls}

    def close(self) -> None:
        """Close every workspace, even if one fails to close. No workspace is opened afterwards."""
        self.open_workspaces.is_closed = True
        self.organisation.close()
        self.clones.close()
        with self._lock:
            upkeep, self._upkeep = self._upkeep, []
        for task in upkeep:
            task.close(CLOSE_SECONDS)
        self.open_workspaces.close()
        self.tokens.close()
        if self.shared:
            self.shared.close()
        self.elsewhere.close()

    def _opened_of(self, workspace: Workspace) -> Opened:
        found = self.open_workspaces.use(workspace.layout.git_dir)
        if found is None:
            raise Unavailable("this workspace is being closed", next="Repeat the call: the daemon reopens it.")
        return found

    def _at(self, layout: Layout, *, publish: bool = True) -> Workspace:
        place, known = layout.git_dir, self.open_workspaces
        if known.is_closed:
            raise Unavailable("the daemon is stopping", next="Ask again.")
        found = known.get(place)
        is_there = found and (found.workspace in (self._looked.opened or ()) or found.workspace.is_in_place)
        if is_there and (used := known.use(place)):
            return used.workspace
        with known.opening(place):
            self._close_moved()
            if used := known.use(place):
                return used.workspace
            how: dict[str, Any] = {"key": key_for(self.registry, layout)}
            workspace = self._opened_or_healed(layout, how if publish else {**how, "publish": False})
            with contextlib.ExitStack() as undo:
                undo.callback(quietly, workspace.close)
                opened = self._start_parts(workspace, undo)
                if not known.put(place, opened):
                    raise Unavailable("the daemon is stopping", next="Ask again.")
                undo.pop_all()
            known.use(place)
            opened.jobs.start()
            if told := self._told.get(workspace.id):  # perhaps since the workspace was synced
                opened.syncing.wake(bytes.fromhex(told))
            log.info("opened", extra={"workspace": workspace.id, "path": place})
        self._start_upkeep()
        self._make_room(place)
        return workspace

    def _make_room(self, opened: Path) -> None:
        """Close workspaces now if calls open them faster than the background task closes them."""
        settings, known = self.registry.current().settings, self.open_workspaces
        if len(known) > most_open(settings) + SLACK:
            with known.holding():
                known.use(opened)
                known.close_unused(settings, time.monotonic() + RECENT_SECONDS)

    def _start_upkeep(self) -> None:
        """Close unused workspaces in the background from now on, sooner if too many are open."""
        with self._lock:
            if not self._upkeep and not self.open_workspaces.is_closed:
                self._upkeep = [Task(THREADS, self._close_some), Task(THREADS, ClosedSync(self).step)]
                self._upkeep[1].wake(LEAST_SECONDS)
            for task in self._upkeep[:1]:
                is_full = len(self.open_workspaces) > most_open(self.registry.current().settings)
                task.wake(0.0 if is_full else LOOK_SECONDS)

    def _close_some(self) -> float:
        self.close_unused()
        return LOOK_SECONDS

    def _start_parts(self, workspace: Workspace, undo: contextlib.ExitStack) -> Opened:
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
        undo.callback(quietly, tending.close)
        tending.start()
        syncing = Syncing(workspace, lambda: self.registry.current().entries.get(workspace.id))
        undo.callback(quietly, syncing.close)
        syncing.patience = self.registry.current().settings.remote_seconds
        syncing.start()
        if self.shared:
            self.shared.adopt(workspace, syncing)
        board = self.shared.job_board if self.shared else None
        jobs = Jobs(workspace, lambda: self.registry.current().settings.document_mb << 20, board)
        return Opened(workspace, tending, syncing, jobs, inode(workspace.layout.git_dir), _entry(workspace).path)

    def _open_anew(self, layout: Layout) -> None:
        """Reopen a workspace whose derived data was removed while it was open."""
        try:
            if is_workspace(layout.git_dir):
                self._at(layout)
        except (KgdError, OSError):
            log.exception("could not be opened again", extra={"path": layout.git_dir})

    def _opened_or_healed(self, layout: Layout, how: Mapping[str, Any]) -> Workspace:
        """Open a workspace; if its tip lacks objects, fetch them from a remote and try again."""
        try:
            return self._open_workspace(layout, **how)
        except Damaged:
            if not heal_closed(layout, self.registry.current()):
                raise
            return self._open_workspace(layout, **how)

    def _close_other_copies(self, found: Workspace) -> None:
        """Close a copy of the workspace that was opened before the registry named this path."""
        for one in self.opened((found.id,)):
            if one is not found:
                log.warning("another copy is registered now", extra={"workspace": one.id, "path": one.layout.git_dir})
                self.forget(one)

    def _close_moved(self) -> None:
        """Close workspaces that were moved: their locks moved too, and would block opening them at the new path."""
        for one in self.open_workspaces.take(_is_moved):
            log.warning("moved or deleted while it was open", extra={"workspace": one.workspace.id})
            one.close()

    def _moved_elsewhere(self, id: str, tip: str) -> None:
        """Follow the upstream of an open workspace after another hub moved it to `tip`, or changed its proposals."""
        if is_id(tip):
            self._told[id] = tip
        for one in self.open_workspaces.all():
            if one.workspace.id != id:
                continue
            if tip == PROPOSALS:
                one.syncing.wake(proposals=True)
            elif is_id(tip) and one.workspace.tip != tip:
                one.syncing.wake(bytes.fromhex(tip))

    def _announce(self, id: str, uris: frozenset[Uri]) -> None:
        with self._announced:
            self._announced.notify_all()
        for listener in self._listeners:
            listener(id, uris)

    def _announce_code(self, id: str, uris: frozenset[Uri]) -> None:
        for watcher in self._watchers:
            watcher(id, uris)

    def _still_there(self, entry: Entry) -> bool:
        """Whether a registered path still holds a workspace with that id."""
        try:
            layout = self.places.find(entry)
            return layout is not None and self._at(layout).id == entry.id
        except (KgdError, OSError):
            return False


def _entry(workspace: Workspace) -> Entry:
    return Entry.of(workspace.id, workspace.layout.folder, workspace.layout.code_tree)


def _lacks_code(workspace: Workspace) -> bool:
    """Whether a workspace was opened without code, or its code tree is gone, as a worktree of a bare repository may
    be."""
    tree = workspace.layout.code_tree
    return tree is None or (workspace.layout.in_code and not tree.is_dir())


def _is_moved(one: Opened) -> bool:
    return inode(one.workspace.layout.git_dir) != one.inode or not one.workspace.is_in_place
