"""The registry at run time: registered paths with their workspaces, and the shared registry of an organisation.

An entry whose path holds a workspace with another id is an error; the entry is then not used to read or write.

The shared registry is fetched periodically; its last good copy is kept, and `kgd.config.registry` reads it. It names
workspaces only by address, and a user's own entries override its entries.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kgd.config.entries import SHARED_LIMIT, Entry, is_shared_file
from kgd.config.registry import RegistryFile
from kgd.errors import Invalid, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git.discovery import find_place
from kgd.git.incoming import scratch_repository
from kgd.git.layout import Layout, check_configuration
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_settings import parse_url
from kgd.git.store import ObjectStore
from kgd.shared_threads import Task, Threads
from kgd.workspace.repository import read_settings


class Places:
    """The paths in a registry. Thread-safe.

    Args:
        locate: Returns the layout of the workspace that a directory belongs to, or None.
    """

    def __init__(self, registry: RegistryFile, locate: Callable[[Path], Layout | None]) -> None:
        self._registry, self._locate = registry, locate
        self._ids: dict[tuple[Path, int], str] = {}

    def layout(self, entry: Entry) -> Layout:
        """The layout of an entry's workspace.

        Raises:
            Unavailable: The workspace is not at its path.
            Damaged: Its configuration cannot be read.
        """
        if (found := self.find(entry)) is not None:
            return found
        if entry.remote:
            raise Unavailable(
                f"workspace '{entry.id}' is not cloned yet",
                at=entry.path,
                next=f"`kgd clone {entry.id}` clones it from {entry.remote}.",
            )
        check_configuration(Path(entry.path))
        raise Unavailable(
            f"workspace '{entry.id}' is not at its registered path",
            at=entry.path,
            next="If you moved it, run `kgd up` in its new folder; if not, remove its entry from workspaces.yaml.",
        )

    def find(self, entry: Entry) -> Layout | None:
        """The layout of the workspace at an entry's path, which may have another id; None if there is no workspace."""
        layout = self._locate(Path(entry.path)) if entry.path else None
        return _with_code(layout, entry) if layout is not None else None

    def around(self, directory: Path) -> Layout | None:
        """The workspace that a directory belongs to, or a registered workspace about the code there.

        Raises:
            Damaged: The configuration of the directory's repository cannot be read.
        """
        entries = [one for one in self._registry.current().entries.values() if one.path and one.code]
        if (layout := self._locate(directory)) is None:
            inside = (one for one in entries if directory.resolve().is_relative_to(Path(one.code).resolve()))
            found = next((found for one in inside if (found := self.find(one)) is not None), None)
            if found is None:
                check_configuration(directory)
            return found
        for one in entries:
            if self._locate(Path(one.path)) == layout and Path(one.code).is_dir():
                return _with_code(layout, one)
        place = find_place(directory) if layout.in_code and layout.code_tree is None else None
        if place is not None and place.common_dir == layout.git_dir.parent:  # a worktree of a bare repository
            return replace(layout, code_tree=place.top)
        return layout

    def id_at(self, entry: Entry) -> str | None:
        """The id of the workspace at an entry's path, or None. Does not open it.

        Raises:
            KgdError: The workspace cannot be read.
        """
        layout = self.find(entry)
        if layout is None:
            return None
        key = layout.git_dir, layout.git_dir.stat().st_ino
        if key not in self._ids:
            self._ids[key] = read_settings(layout, layout.open()).workspace
        return self._ids[key]

    def is_there(self, entry: Entry) -> bool:
        """Whether the workspace of an entry is at its path, or is there but cannot be read. Does not open it."""
        try:
            return self.id_at(entry) == entry.id
        except (KgdError, OSError):
            return True

    def problems(self) -> list[str]:
        """A sentence for each entry whose path holds another workspace."""
        found = []
        for entry in self._registry.current().entries.values():
            try:
                if (id := self.id_at(entry)) not in (None, entry.id):
                    found.append(f"'{entry.id}': its path {entry.path} holds the workspace '{id}'")
            except (KgdError, OSError):
                continue  # opening the workspace raises the reason
        return found


def misnamed(entry: Entry, id: str) -> InvariantViolation:
    """The error for an entry whose path holds the workspace `id`."""
    return InvariantViolation(
        f"in workspaces.yaml, the path of '{entry.id}' holds the workspace '{id}'",
        at=entry.path,
        next=f"Rename the entry to '{id}', or give it the path of '{entry.id}'. Nothing was read or written.",
    )


def _with_code(layout: Layout, entry: Entry) -> Layout:
    """The layout, with the registry's code tree if it has none itself."""
    return layout if layout.code_tree or not entry.code else replace(layout, code_tree=Path(entry.code))


LOOK_SECONDS = 5.0
"""Seconds between two checks of the address and of a plain file."""
FETCH_SECONDS = 300.0
RETRY_SECONDS = 30.0
FILE = "workspaces.yaml"
BRANCHES = ("refs/heads/main", "refs/heads/master")
PACK_BYTES = 64 << 20
CLOSE_SECONDS = 3.0
THREADS = Threads("kgd-organisation", 1)

log = logging.getLogger("kgd.organisation")


class Organisation:
    """Follows ``registry:`` of a home's workspaces.yaml, from `start` to `close`. Thread-safe.

    `problem` is the reason why the current version is not used, or empty.
    """

    def __init__(self, registry: RegistryFile, scratch: Path, network: Callable[[threading.Event], Network]) -> None:
        self._registry, self._scratch, self._network = registry, scratch, network
        self.problem = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done: tuple[str, float] = "", 0.0
        self._task: Task | None = None

    def start(self) -> None:
        self._task = Task(THREADS, self._step)
        self._task.wake()

    def close(self) -> None:
        self._stop.set()
        if self._task:
            self._task.close(CLOSE_SECONDS)

    def refresh(self) -> None:
        """Fetch the registry now. A failure is recorded in `problem`, and the last good version stays in use."""
        address = self._registry.current().organisation
        with self._lock:
            if not address:
                self.problem = ""
                return
            try:
                data = _plain_file(address) if is_shared_file(address) else self._from_git(address)
                self._registry.keep_shared(address, data)
                self.problem = ""
            except (KgdError, OSError) as error:
                reason = str(error) if isinstance(error, KgdError) else error.strerror or "it cannot be read"
                self.problem = f"{reason.rstrip('.')}. The last good version is used."
                log.warning("the organisation's registry is not used", extra={"reason": reason[:300]})

    def _step(self) -> float:
        address = self._registry.current().organisation
        known, at = self._done
        pause = RETRY_SECONDS if self.problem else FETCH_SECONDS
        if address != known or time.monotonic() - at >= (LOOK_SECONDS if is_shared_file(address) else pause):
            self.refresh()
            self._done = address, time.monotonic()
        return LOOK_SECONDS

    def _from_git(self, address: str) -> bytes:
        home = scratch_repository(self._scratch)
        try:
            network = self._network(self._stop)
            remote = GitRemote(parse_url(address), ObjectStore(home), network)
            for ref in BRANCHES:
                tip = remote.ls(ref).get(ref)
                if tip is not None:
                    break
            else:
                raise NotFound("the organisation's repository has no branch main or master", at=address)
            with remote.fetch({ref: tip}) as incoming:
                blob = incoming.entry(incoming.tree_of(incoming.tips[ref]), FILE)
                if blob is None:
                    raise NotFound(f"the organisation's repository has no {FILE} at its top", at=address)
                found = incoming.kind_and_size(blob)
                if found is None or found[0] != "blob" or found[1] > SHARED_LIMIT:
                    raise Invalid(
                        f"the organisation's {FILE} is not a file of at most {SHARED_LIMIT} bytes", at=address
                    )
                return incoming.read(blob, SHARED_LIMIT)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _plain_file(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Unavailable(f"the organisation's registry cannot be read: {error.strerror}", at=path) from None
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Invalid("the organisation's registry is not a plain file", at=path)
        return opened.read(SHARED_LIMIT + 1)
