"""Upkeep of a repository: memory after a burst of changes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kgd.codec.settings import first_files
from kgd.git.layout import create_in_code_repository
from kgd.workspace import upkeep
from tests.sync.people import git
from tests.waiting import until


def test_memory_of_a_burst_of_changes_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory below a block in use would stay in a heap of glibc."""
    monkeypatch.setattr(upkeep, "QUIET_SECONDS", 0.05)
    git(tmp_path, "init", "-q")
    store = create_in_code_repository(tmp_path, "ws", first_files("ws")).open()
    before = resident()
    burst = [bytes(1_000) for _ in range(60_000)]
    pin = bytes(1_000)
    del burst
    assert resident() > before + 40_000
    made = upkeep.Upkeep(store, time.time)
    try:
        for _ in range(upkeep.LOOK_FLUSHES):
            made.note_flush()
        until(lambda: resident() < before + 20_000, 20, say=resident)
    finally:
        made.close()
    assert pin


def resident() -> int:
    """KiB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
