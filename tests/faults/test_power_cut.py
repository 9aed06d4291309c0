"""The power goes: what was acknowledged is on the disk. And where nothing is flushed, this very test notices."""

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
    command = [
        "unshare",
        "-m",
        sys.executable,
        "-m",
        "tests.faults.power_cut",
        str(place),
        kind,
        str(first),
        str(count),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60 + 10 * count)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seen = cuts(tmp_path, "flushed", 1, 8)
    print(seen)
    assert seen["found"]["complaints"] == []
    assert seen["found"]["acked"] > 200, seen


def test_a_power_cut_takes_what_was_never_flushed(tmp_path: Path) -> None:
    """The control: where it passes without flushes, the test above proves nothing."""
    seen = cuts(tmp_path, "unflushed", 1, 4)
    assert seen["failed"] == seen["cuts"], seen
