#!/usr/bin/env python3
"""Run the tests that have just failed beside thousands of others once more, alone: the machine may have been too busy.

usage: second_chance.py EXIT-CODE [PYTEST OPTIONS]

EXIT-CODE is the exit code of the first run. If that run was interrupted, some tests did not run, so there is no second
chance. Tests of promises about data or permissions get none either: a single failure may be a lost write. Exits with 0
only if all failed tests pass now.
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


FAILED = 1
"""Exit code of pytest if all chosen tests ran and some failed."""


def main(code: int, options: list[str]) -> int:
    if code != FAILED:
        print(f"no second chance: pytest did not complete (exit code {code})", file=sys.stderr)
        return code
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    final = [name for name in failed if name.split("/")[1] in PROMISES]
    if final or not failed:
        print("no second chance:", *(final or ["no test failed, so something else did"]), sep="\n  ", file=sys.stderr)
        return 1
    print("once more, alone:", *failed, sep="\n  ")
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--last-failed", *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
