"""The daemon's process: file descriptors and memory.

A daemon without a free descriptor can neither write nor report it. Clients are therefore refused while some are free.
"""

from __future__ import annotations

import contextlib
import os
import resource

MOST = 1 << 20
"""Upper bound for the soft limit: some programs that kgd starts close every number below it."""
RESERVE = 128
"""Reserved for packs, locks, databases and the git program; at most a quarter of the limit."""


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS allows less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else soft


def for_clients() -> int:
    """Descriptors that all connections together may use."""
    return limit() - min(RESERVE, limit() // 4)


def in_use() -> int:
    """Open descriptors of this process. Costs about 0.1 ms per thousand."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # no descriptor is free to list them
        return limit()


def shortage() -> str:
    """One sentence if new connections are refused for lack of descriptors, else empty."""
    used = in_use()
    if used < for_clients():
        return ""
    return f"too few file descriptors: {used} of {limit()} are open, and new connections are refused"
