"""The background check, at each start, of a workspace's history. It fetches missing objects from a remote.

Objects go missing through a gc at a bad moment, a failing disk or a deleted pack. Until they are restored, work
continues where possible, and `kgd status` shows the problem.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kgd.config.entries import Registry
from kgd.errors import KgdError
from kgd.git import refs
from kgd.git.files import replace
from kgd.git.history import first_missing
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, parse_id
from kgd.git.program import GitFailed
from kgd.git.remote import GitRemote
from kgd.git.remote_settings import Remote, remotes
from kgd.git.store import ObjectStore
from kgd.sync.hub_sign_in import credential_of, network_of
from kgd.workspace.workspace import Workspace

RETRY_SECONDS = 60.0
_CHECKED = "history.checked"

log = logging.getLogger("kgd.history")

Sources = Callable[[], Iterable[tuple[Remote, GitRemote]]]


class HistoryCheck:
    """Checks the history of one open workspace, from `start` to `close`. Thread-safe.

    Args:
        sources: The workspace's remotes.
        healed: Called after missing objects were restored.
    """

    def __init__(self, workspace: Workspace, sources: Sources, healed: Callable[[], None]) -> None:
        self._workspace, self._sources, self._healed = workspace, sources, healed
        self._file = workspace.derived_dir / _CHECKED
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._whole_at = b""
        """The tip of the last successful check of the whole history."""
        self.problem = ""

    def start(self, *, whole: bool = False) -> None:
        """Check the commits since the last check, or the `whole` history; returns at once."""
        with self._lock:
            if self._stopping.is_set() or (self._thread and self._thread.is_alive()):
                return
            if whole and self._whole_at == self._tip:
                return
            self._thread = threading.Thread(target=self._run, args=(whole,), name="kgd-history", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stopping.set()

    @property
    def _tip(self) -> ObjectId:
        return bytes.fromhex(self._workspace.tip)

    def _run(self, whole: bool) -> None:
        try:
            tip = self._tip
            found = first_missing(self._workspace.store.git_dir, tip, None if whole else self._checked(tip))
            if found:
                self._heal(found)
            self._whole_at = tip if whole else self._whole_at
            if not self._stopping.is_set():
                replace(self._file, tip.hex().encode(), flush=False)
        except (KgdError, OSError):
            log.exception("the history could not be checked")

    def _heal(self, found: str) -> None:
        """Try until no object is missing or the workspace is closed."""
        workspace = self._workspace
        git_dir = workspace.layout.git_dir
        log.warning("objects are missing in the history", extra={"workspace": workspace.id, "reason": found})
        self.problem = f"history: objects are missing ({found}); kgd fetches them from a remote"
        while not self._stopping.is_set():
            if heal(workspace.store, self._sources()):
                workspace.reindex()
                self.problem = ""
                self._healed()
                log.info("the history is whole again", extra={"workspace": workspace.id})
                return
            self.problem = (
                f"history: objects are missing ({found}), and no remote has them; in {git_dir}: "
                "`git fetch --refetch COPY` gets them from a clone that has them, then `kgd reindex`"
            )
            if self._stopping.wait(RETRY_SECONDS) or not first_missing(git_dir, self._tip):
                self.problem = "" if not self._stopping.is_set() else self.problem
                return

    def _checked(self, tip: ObjectId) -> ObjectId | None:
        try:
            known = parse_id(self._file.read_bytes())
        except (OSError, KgdError):
            return None
        store = self._workspace.store
        return known if store.exists(known) and store.is_ancestor(known, tip) else None


def heal(store: ObjectStore, sources: Iterable[tuple[Remote, GitRemote]]) -> bool:
    """Fetch the tip's missing objects from the first remote that has all of them; returns False if there is no such
    remote.

    Costs a fetch of a remote's whole history.
    """
    tip = refs.value_of(store.git_dir, refs.HEAD)
    for remote, transport in sources:
        if tip is None:
            break
        try:
            with transport.fetch_missing(transport.ls(remote.ref, remote.proposals), tip) as found:
                found.keep()
            if not first_missing(store.git_dir, tip):
                return True
        except (KgdError, GitFailed, OSError) as error:
            log.warning("missing objects cannot be fetched", extra={"remote": remote.name, "reason": f"{error}"[:300]})
    return False


def heal_closed(layout: Layout, registry: Registry) -> bool:
    """`heal` for a workspace that cannot be opened, with the registry's credentials for its path."""
    store, places = layout.open(), (layout.work_tree, layout.code_tree)
    entry = next((one for one in registry.entries.values() if one.path and Path(one.path) in places), None)
    sources = []
    for remote in remotes(layout):
        network = network_of(credential_of(remote, layout, entry), patience=registry.settings.remote_seconds)
        sources.append((remote, GitRemote(remote.url, store, network)))
    return heal(store, sources)
