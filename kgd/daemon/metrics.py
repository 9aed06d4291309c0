"""Metrics of a daemon: the counters of its process, and gauges that each call reads."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from kgd import __version__, metrics
from kgd.daemon import process
from kgd.daemon.daemon import Daemon
from kgd.daemon.syncing import Syncing
from kgd.metrics import Family, Sample
from kgd.workspace.workspace import Workspace

WORKSPACES = 300
"""Largest number of workspaces with time series of their own."""

_STARTED = time.time()


def text(daemon: Daemon, workspaces: Collection[str] | None = None) -> str:
    """All metrics. Metrics per workspace are limited to these ids, and to `WORKSPACES` open workspaces."""
    opened, registered = daemon.opened(), len(daemon.workspace_ids())
    shown = [one for one in opened if workspaces is None or one.id in workspaces][:WORKSPACES]
    return metrics.exposition(
        [
            *metrics.counted(),
            *_process(),
            Family(
                "kgd_workspaces",
                "gauge",
                "Workspaces of this hub.",
                [Sample(registered, {"state": "registered"}), Sample(len(opened), {"state": "open"})],
            ),
            *_per_workspace(daemon, shown),
        ]
    )


def _process() -> Iterator[Family]:
    yield Family("kgd_build_info", "gauge", "The version of kgd.", [Sample(1, {"version": __version__})])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    for name, kind, help, value in (
        ("process_cpu_seconds_total", "counter", "Processor seconds.", usage.ru_utime + usage.ru_stime),
        ("process_resident_memory_bytes", "gauge", "Resident memory.", _resident()),
        ("process_start_time_seconds", "gauge", "Start of the process in Unix seconds.", _STARTED),
        ("process_open_fds", "gauge", "Open file descriptors.", process.in_use()),
        ("process_max_fds", "gauge", "Largest number of file descriptors.", process.limit()),
        ("process_threads", "gauge", "Threads.", threading.active_count()),
    ):
        yield Family(name, kind, help, [Sample(value)])


def _per_workspace(daemon: Daemon, opened: Collection[Workspace]) -> Iterator[Family]:
    def gauge(name: str, help: str, value: Callable[[Workspace], float | None]) -> Family:
        found = ((one.id, value(one)) for one in opened)
        return Family(name, "gauge", help, [Sample(n, {"workspace": id}) for id, n in found if n is not None])

    syncings = daemon.syncings()
    yield gauge("kgd_nodes", "Nodes in the graph.", lambda one: len(one.graph))
    yield gauge("kgd_queue_changes", "Changes that wait for the next batch.", lambda one: one.waiting)
    yield gauge("kgd_open_conflicts", "Open conflicts.", lambda one: one.conflict_count)
    yield gauge(
        "kgd_blocked_stages",
        "Stages of kgd status that are blocked, such as commit or push.",
        lambda one: sum(stage.state == "blocked" for stage in daemon.stages(one)),
    )
    yield gauge(
        "kgd_sync_age_seconds",
        "Seconds since the last successful round with the upstream.",
        lambda one: _sync_age(syncings.get(one.id)),
    )


def _sync_age(syncing: Syncing | None) -> float | None:
    upstream = syncing.upstream_machine if syncing else None
    return time.time() - upstream.fetched_at if upstream and upstream.fetched_at else None


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # not Linux: the largest size so far
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
