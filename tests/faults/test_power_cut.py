"""Power cuts: acknowledged changes are on the disk, and the test notices missing flushes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.needs("mount"), pytest.mark.timeout(200)]


def cuts(place: Path, kind: str, first: int, count: int) -> dict[str, Any]:
    return _answer("tests.faults.power_cut", place, kind, first, count)


def publication_cuts(place: Path, kind: str, file_system: str, first: int, count: int) -> dict[str, Any]:
    place.mkdir(parents=True, exist_ok=True)
    return _answer("tests.faults.publication_cut", place, kind, file_system, first, count)


def _answer(program: str, place: Path, *words: object) -> dict[str, Any]:
    command = ["unshare", "-m", sys.executable, "-m", program, str(place), *map(str, words)]
    count = int(str(words[-1]))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60 + 60 * count)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seen = cuts(tmp_path, "flushed", 1, 8)
    print(seen)
    assert seen["found"]["complaints"] == []
    assert seen["found"]["acked"] > 200, seen


def test_a_power_cut_loses_unflushed_changes(tmp_path: Path) -> None:
    """The control: if it passes without flushes, the test above proves nothing."""
    seen = cuts(tmp_path, "unflushed", 1, 4)
    assert seen["failed"] == seen["cuts"], seen


def test_published_files_come_back_after_a_power_cut(tmp_path: Path) -> None:
    """The control forgets its publications and is left with damaged files."""
    seen = publication_cuts(tmp_path / "healed", "healed", "ext4", 1, 4)
    assert (seen["found"]["complaints"], seen["damaged"] > 0) == ([], True), seen
    control = publication_cuts(tmp_path / "control", "unhealed", "ext4", 1, 2)
    assert control["failed"] > 0, control
