"""Upkeep of a repository: memory after a burst of changes, and the list of commits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kgd.codec.settings import first_files
from kgd.git import pack_upkeep
from kgd.git.creation import create_in_code_repository
from kgd.git.objects import make
from kgd.git.store import ObjectStore
from kgd.workspace import repository
from tests.sync.people import git
from tests.waiting import until


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr(repository, "QUIET_SECONDS", 0.05)
    git(tmp_path, "init", "-q")
    return create_in_code_repository(tmp_path, "ws", first_files("ws")).open()


def test_memory_of_a_burst_of_changes_is_given_back(store: ObjectStore) -> None:
    """Free memory below a used block would stay in a glibc heap."""
    before = resident()
    pin = burst()
    assert resident() > before + 40_000
    made = repository.Upkeep(store, time.time)
    try:
        for _ in range(repository.LOOK_FLUSHES):
            made.note_flush()
        until(lambda: resident() < before + 20_000, 60, say=resident)
    finally:
        made.close()
    assert pin


def test_a_stopped_roll_up_leaves_all_packs(store: ObjectStore) -> None:
    for number in range(pack_upkeep.FANOUT):
        store.release(store.write([make("blob", b"%d" % number)]))
    before = sorted(store.pack_dir.iterdir())
    stop = threading.Event()
    stop.set()
    assert pack_upkeep.due(store.pack_dir)
    pack_upkeep.maintain(store.git_dir, stop)
    assert sorted(store.pack_dir.iterdir()) == before


def test_memory_of_changes_during_a_roll_up_is_given_back(store: ObjectStore) -> None:
    for number in range(pack_upkeep.FANOUT):
        store.release(store.write([make("blob", b"%d" % number)]))
    is_made = threading.Event()

    def rolled_up() -> float:
        """Called at the end of the roll-up."""
        is_made.wait()
        for _ in range(repository.LOOK_FLUSHES):
            made.note_flush()
        return time.time()

    before = resident()
    pin = burst()
    made = repository.Upkeep(store, rolled_up)
    is_made.set()
    try:
        until(lambda: resident() < before + 20_000, say=resident)
    finally:
        made.close()
    assert pin


def test_history_that_came_from_elsewhere_is_listed_when_it_is_opened(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_upkeep, "UNLISTED", 1)
    made = repository.Upkeep(store, time.time)
    try:
        until((store.objects_dir / "info/commit-graph").exists)
    finally:
        made.close()


def test_history_is_listed_once_another_process_releases_its_lock(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_upkeep, "UNLISTED", 1)
    monkeypatch.setattr(repository, "GRAPH_SECONDS", 0.0)
    monkeypatch.setattr(repository, "LOOK_SECONDS", 0.05)
    tries = list[bool]()
    write = pack_upkeep.write_graph

    def counted(git_dir: Path, stop: threading.Event | None = None) -> None:
        tries.append(True)
        write(git_dir, stop)

    monkeypatch.setattr(pack_upkeep, "write_graph", counted)
    lock = store.objects_dir / "info/commit-graph.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    made = repository.Upkeep(store, time.time)
    try:
        until(lambda: len(tries) > 1)
        assert not lock.with_suffix("").exists()
        lock.unlink()
        until(lock.with_suffix("").exists)
    finally:
        made.close()


def burst() -> bytes:
    """Free 60 MB below the returned block."""
    burst = [bytes(1_000) for _ in range(60_000)]
    pin = bytes(1_000)
    del burst
    return pin


def resident() -> int:
    """KiB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
