#!/usr/bin/env python3
"""Run the tests that have just failed beside thousands of others once more, alone: the machine may have been too busy.

usage: second_chance.py [PYTEST OPTIONS]

A test of a promise about data or rights gets no second chance: a single failure may be a lost write. Exits with 0 only
if all failed tests pass now.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
PROMISES = frozenset(
    {"access", "admission", "faults", "format", "git", "hooks", "hub", "hubs", "model", "postgres", "server_memory"}
    | {"signatures", "sim", "sync", "workspace"}
)
"""Rooms of `tests/` whose failures count at once."""


def main(options: list[str]) -> int:
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    final = [name for name in failed if name.split("/")[1] in PROMISES]
    if final or not failed:
        print("no second chance:", *(final or ["no test failed, so something else did"]), sep="\n  ", file=sys.stderr)
        return 1
    print("once more, alone:", *failed, sep="\n  ")
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--last-failed", *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
