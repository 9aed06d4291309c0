"""Fetches and pushes whose requests a load balancer sends to different hubs.

Each request relies on the refs that the previous request showed, so a hub first catches up with the others. If it
cannot, git serves the hub's present state.
"""

from __future__ import annotations

import contextlib
import re
import time
import zlib
from typing import IO

from kgd.daemon.daemon import REACH_SECONDS, Daemon
from kgd.errors import KgdError
from kgd.hub.push_execution import ZERO, wait_until_published
from kgd.workspace.workspace import Workspace

HEAD_BYTES = 64 << 10
"""The part of a body in which commits are looked for; git names them first."""
LISTING = b"command=ls-refs"

_NAMED = re.compile(rb"want ([0-9a-f]{40})|\A[0-9a-f]{4}([0-9a-f]{40}) [0-9a-f]{40} refs/").findall
"""The commits that a fetch wants, and the old value of a push's first ref."""


def follow_listed(daemon: Daemon, workspace: Workspace) -> None:
    """Wait, for at most a few seconds, until the branch has all changes that this hub and the others acknowledged."""
    daemon.follow_told(workspace)
    wait_until_published(workspace, bytes.fromhex(workspace.tip))


def follow_named(daemon: Daemon, workspace: Workspace, body: IO[bytes], encoding: str) -> None:
    """Wait, for at most a few seconds, until this hub has the commits that a request names and another hub showed."""
    if daemon.shared is None:
        return
    head = body.read(HEAD_BYTES)
    body.seek(0)
    if encoding in ("gzip", "x-gzip"):
        with contextlib.suppress(zlib.error):
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    named = {(wanted or old).decode() for wanted, old in _NAMED(head)} - {ZERO}
    missing = [one for one in map(bytes.fromhex, named) if not workspace.store.exists(one)]
    if missing:
        with contextlib.suppress(KgdError):
            daemon.syncing(workspace).wake()
            daemon.syncing(workspace).wake(proposals=True)
        deadline = time.monotonic() + REACH_SECONDS
        while not all(map(workspace.store.exists, missing)) and time.monotonic() < deadline:
            time.sleep(0.01)
    if missing or LISTING in head:
        follow_listed(daemon, workspace)
