"""The shared registry of an organisation: fetched periodically; its last good copy is kept.

`kgd.config.registry` reads it. It names workspaces by address only, and a user's own entries override it.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kgd.config.registry import SHARED_LIMIT, RegistryFile, is_shared_file
from kgd.errors import Invalid, KgdError, NotFound, Unavailable
from kgd.git.incoming import scratch_repository
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_url import parse
from kgd.git.store import ObjectStore

LOOK_SECONDS = 5.0
"""Seconds between two checks of the address and of a plain file."""
FETCH_SECONDS = 300.0
RETRY_SECONDS = 30.0
FILE = "workspaces.yaml"
BRANCHES = ("refs/heads/main", "refs/heads/master")
PACK_BYTES = 64 << 20
CLOSE_SECONDS = 3.0

log = logging.getLogger("kgd.organisation")


class Organisation:
    """Follows ``registry:`` of a home's workspaces.yaml, from `start` to `close`. Safe for threads.

    `problem` is the reason why the current version is not used, or empty.
    """

    def __init__(self, registry: RegistryFile, scratch: Path, network: Callable[[threading.Event], Network]) -> None:
        self._registry, self._scratch, self._network = registry, scratch, network
        self.problem = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done: tuple[str, float] = "", 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="kgd-organisation", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(CLOSE_SECONDS)

    def refresh(self) -> None:
        """Fetch it now. A failure is recorded in `problem`, and the last good version stays."""
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
                self.problem = f"{reason.rstrip('.')}. The last good one is used."
                log.warning("the organisation's registry is not used", extra={"reason": reason[:300]})

    def _run(self) -> None:
        while not self._stop.is_set():
            address = self._registry.current().organisation
            known, at = self._done
            pause = RETRY_SECONDS if self.problem else FETCH_SECONDS
            if address != known or time.monotonic() - at >= (LOOK_SECONDS if is_shared_file(address) else pause):
                self.refresh()
                self._done = address, time.monotonic()
            self._stop.wait(LOOK_SECONDS)

    def _from_git(self, address: str) -> bytes:
        home = scratch_repository(self._scratch)
        try:
            network = self._network(self._stop)
            remote = GitRemote(parse(address), ObjectStore(home), network)
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
