"""A description of the machine: its processor, its disk, and the versions of the software."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "kgd-daemon",
    "mcp",
    "pygit2",
    "networkx",
    "orjson",
    "pydantic",
    "ruamel.yaml",
    "watchdog",
    "rustworkx",
    "PyYAML",
)


def describe(folder: Path) -> dict[str, Any]:
    """Facts about the machine and the disk of `folder`."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "disk": _file_system(folder),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 1),
        "versions": {
            "python": platform.python_version(),
            "git": _said("git", "--version").removeprefix("git version "),
            "node": _said("node", "--version"),
            "sqlite": sqlite3.sqlite_version,
            **{name: _version(name) for name in PACKAGES},
        },
    }


def memory(pid: int) -> dict[str, float]:
    """Current and peak resident memory of a process, in MB; the peak includes returned memory."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {name: int(fields[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def memory_of_all(pids: Iterable[int]) -> float:
    """Current resident memory of the processes that still exist, in MB; pages that they share count in each."""
    used = 0.0
    for pid in pids:
        with contextlib.suppress(OSError, KeyError):
            used += memory(pid)["now"]
    return used


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_all(pids: Iterable[int]) -> float:
    """CPU seconds of the processes that still exist."""
    spent = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            spent += cpu_seconds(pid)
    return spent


def cpu_of_threads(pid: int) -> float:
    """CPU seconds of the threads that a process has now, to the nanosecond; for spans of a few milliseconds."""
    spent = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            spent += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return spent / 1e9


REST_CPU = 1.5 / os.sysconf("SC_CLK_TCK")
"""CPU seconds that a process at rest uses in a second: one tick of the kernel's clock, with room for rounding."""


def wait_for_rest(*pids: int, seconds: float = 60.0) -> None:
    """Wait until these processes and their children use almost no CPU time in a second, at most this long.

    The work that opening starts is then done. Children count, because a daemon that waits for its worker looks idle.
    """
    deadline = time.monotonic() + seconds
    before: dict[int, float] = {}
    while time.monotonic() < deadline:
        now = {pid: cpu_of_all([pid]) for pid in {*pids, *(child for pid in pids for child in children(pid))}}
        if now.keys() <= before.keys() and sum(now.values()) - sum(before[pid] for pid in now) <= REST_CPU * len(pids):
            return
        before = now
        time.sleep(1)


def processes_with(variable: str) -> set[int]:
    """Your processes whose environment has this variable with this value: `NAME=VALUE`."""
    return {pid for pid, environment in _of_each_process("environ") if variable.encode() in environment.split(b"\0")}


def children(pid: int) -> set[int]:
    return {child for child, fields in _of_each_process("stat") if int(fields.rpartition(b")")[2].split()[1]) == pid}


def _of_each_process(name: str) -> Iterator[tuple[int, bytes]]:
    """A file of each process in `/proc`, without those that ended and those of other users.

    `Path.glob` with the name would raise when a process ends between its listing and the look at its file.
    """
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            yield int(pid), Path(f"/proc/{pid}/{name}").read_bytes()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or sys.platform
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _file_system(folder: Path) -> str:
    """The type of the file system, from the longest mount point above the folder."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, type, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, type
    return kind


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "missing"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
