"""git's commit-graph with changed paths, which makes the history of a path quick."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from kgd.errors import KgdError, Unavailable
from kgd.git import pack, program

UNLISTED, UNLISTED_SHARE = 2_000, 20
"""Objects packed since the commit-graph was written that make a new one due, if they are also a twentieth of all."""
DEADLINE = 600.0


def is_due(git_dir: Path) -> bool:
    """Whether the commit-graph has no changed paths, or may lack many commits: after a fetch, a clone, many changes.

    Without it git compares the trees of every commit to find those of one path: 4 s for 200,000 commits, with it 0.3 s.
    Costs one read per pack.
    """
    info = git_dir / "objects" / "info"
    written = 0
    with contextlib.suppress(OSError), open(info / "commit-graph", "rb") as file:
        if b"BIDX" in file.read(200):  # the table of chunks
            written = os.fstat(file.fileno()).st_mtime_ns
    every = unlisted = 0
    for stem in pack.stems(git_dir / "objects" / "pack"):
        with contextlib.suppress(OSError, ValueError):
            count = pack.count_of(stem)
            every += count
            unlisted += count if stem.with_suffix(".pack").stat().st_mtime_ns > written else 0
    return unlisted > max(UNLISTED, every // UNLISTED_SHARE)


def renew(git_dir: Path, stop: threading.Event | None = None) -> bool:
    """Write the commit-graph; returns False if git did not, as for a shallow repository. `stop` ends it early."""
    with contextlib.suppress(program.GitFailed, KgdError):
        write(git_dir, stop)
    return not is_due(git_dir)


def write(git_dir: Path, stop: threading.Event | None = None) -> None:
    """Write parents, generations and changed paths of all commits into one file, which makes path history quick.

    Raises:
        GitFailed: Another process writes it, or history has a hole.
        Unavailable: It was stopped, or took too long.
    """
    command = ["commit-graph", "write", "--reachable", "--changed-paths", "--no-progress"]
    try:
        program.run(git_dir, command, bounds=program.Bounds(DEADLINE, DEADLINE, stop=stop))
    except Unavailable:  # git was killed, and its lock would refuse every later one
        (git_dir / "objects" / "info" / "commit-graph.lock").unlink(missing_ok=True)
        raise
