"""A full or read-only disk: no false promise, reads continue, and writes resume when possible."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.faults.audit import Findings

pytestmark = [pytest.mark.needs("mount"), pytest.mark.timeout(300)]


def in_a_namespace(program: str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["unshare", "-m", sys.executable, "-m", f"tests.faults.{program}", str(place), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def on_small_disks(tmp_path: Path, sizes: Iterable[int]) -> Findings:
    return Findings(**in_a_namespace("small_disks", tmp_path, str(tmp_path), *map(str, sizes)))


@pytest.mark.slow
def test_a_full_disk_acknowledges_nothing_that_is_not_there(tmp_path: Path) -> None:
    found = on_small_disks(tmp_path, (6, 33, 50, 81))
    assert found.complaints == []
    assert found.acked > 50, found
    assert found.unsure > 20, found


@pytest.mark.slow
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.large)])
def test_a_full_disk_acknowledges_nothing_that_is_not_there_at_many_sizes(tmp_path: Path, step: int) -> None:
    found = on_small_disks(tmp_path, range(0, 125, step))
    print(found)
    assert found.complaints == []
    assert found.acked > 3000 // step, found
    assert found.unsure > 1000 // step, found


@pytest.mark.slow
def test_a_disk_that_turns_read_only_is_served_from_and_named(tmp_path: Path) -> None:
    seen = in_a_namespace("read_only_disk", tmp_path)
    assert seen["refused"].startswith("UNAVAILABLE nothing was written")
    assert "Read-only file system" in seen["refused"]
    assert seen["again"] == seen["refused"]
    assert seen["reads"] == ["known", None]
    assert any("Read-only file system" in line for line in seen["status"]), seen["status"]
    assert seen["later"] == [True, []]
    assert seen["opening"].startswith("serves known; UNAVAILABLE"), seen["opening"]
    assert "read-only" in seen["opening"]
