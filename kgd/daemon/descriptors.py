"""File descriptors of the daemon: how many it may have open, how many it has, and how many are kept for its own work.

A daemon without a free descriptor can neither write nor say so. Clients are therefore refused while some are left.
"""

from __future__ import annotations

import contextlib
import os
import resource

MOST = 1 << 20
"""The soft limit is raised no further: some programs that kgd starts close every number below it."""
RESERVE = 128
"""Kept for packs, locks, databases and the git program. A quarter of the limit where that is less."""


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS allows less than its hard limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else soft


def for_clients() -> int:
    """Descriptors that connections may take in all."""
    return limit() - min(RESERVE, limit() // 4)


def in_use() -> int:
    """Open descriptors of this process. Takes some 0.1 ms for every thousand."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # none is left for the listing
        return limit()


def shortage() -> str:
    """Empty, or one sentence where new connections are refused for lack of descriptors."""
    used = in_use()
    if used < for_clients():
        return ""
    return f"too few file descriptors: {used} of {limit()} are open, and new connections are refused"
