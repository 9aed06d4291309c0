"""Holes in history: objects that the tip leads to and the repository does not have."""

from __future__ import annotations

from pathlib import Path

from kgd.git import program
from kgd.git.objects import ObjectId

CHECK_SECONDS = 3600.0


def find(git_dir: Path, tip: ObjectId, known: ObjectId | None = None) -> str:
    """What git says of the first object that is missing behind `tip`; empty where none is.

    Args:
        known: An ancestor that was found whole before, so that only what came since is read.

    Raises:
        Unavailable: It took longer than an hour, or there is no git.
    """
    # A commit that the commit-graph lists would count as present.
    words = ["-c", "core.commitGraph=false", "rev-list", "--objects", "--quiet", tip.hex()]
    try:
        program.run(git_dir, [*words, f"^{known.hex()}"] if known else words, deadline=CHECK_SECONDS)
    except program.GitFailed as failed:
        return failed.said.splitlines()[-1] if failed.said else str(failed)
    return ""
