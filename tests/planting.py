"""Planted bugs: plants a bug into a copy of the code and checks that its tests find it.

The catalogues are beside the tests: ``python -m tests.faults.planted [NAME...]``, and so in tests.access and tests.sim.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT


class Bug(NamedTuple):
    what: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]
    """Each of these must fail."""

    def planted(self, root: Path) -> str:
        """The text of its file below `root`, with the bug."""
        text = (root / self.file).read_text()
        assert self.right in text, f"{self.file} does not hold: {self.right}"
        return text.replace(self.right, self.wrong)


NOT_OURS = shutil.ignore_patterns(
    ".git", ".venv*", "node_modules", "__pycache__", ".*_cache", ".hypothesis", "dist", "site", "bench-results"
)
"""Names left out of a copy of the repository: git's folder and everything that git ignores."""

_CONTROL = Bug("nothing", "kgd/errors.py", "class KgdError", "class KgdError", ())


def main(bugs: Mapping[str, Bug]) -> int:
    """Print a row for each named bug, or for all; returns 1 if a test missed one."""
    missed = 0
    chosen = [bugs[name] for name in sys.argv[1:] or bugs]
    with tempfile.TemporaryDirectory(prefix="kgd-planted-") as place:
        plant(_CONTROL, Path(place))
        for test in failing(Path(place), *sorted({test for bug in chosen for test in bug.tests})):
            assert not failing(Path(place), test), f"{test} fails without any bug"
    for bug in chosen:
        with tempfile.TemporaryDirectory(prefix="kgd-planted-") as place:
            plant(bug, Path(place))
            for test in bug.tests:
                found = bool(failing(Path(place), test))
                missed += not found
                print(f"| {bug.what} | {test.removeprefix('tests/')} | {'found' if found else 'MISSED'} |", flush=True)
    return min(missed, 1)


def plant(bug: Bug, place: Path) -> None:
    """Copy the repository to `place`, with the bug, as a repository without a commit: some tests list its files."""
    shutil.copytree(ROOT, place, ignore=NOT_OURS, dirs_exist_ok=True)
    subprocess.run(["git", "init", "-q", place], check=True)
    (place / bug.file).write_text(bug.planted(place))


def failing(place: Path, *tests: str) -> list[str]:
    """Those of the tests, or of their cases, that fail in the copy."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    command += ["-x"] * (len(tests) == 1)
    done = subprocess.run([*command, *tests], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:]
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return failed or list(tests) * (done.returncode == 1)  # the last if a bug ends pytest itself
