"""The file of the lean graph: whole and true, or not there."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from kgd.graph import arrays

CARE = {"invalid": ["nodes/a", "nodes/ß"]}
ARRAYS: list[bytes | memoryview] = [b"some", memoryview(b"bytes"), b""]


def content(path: Path) -> tuple[str, Any, bytes] | None:
    found = arrays.read_snapshot(path)
    return found and (found.tree, found.care, bytes(found.arrays))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.snapshot"


def test_a_written_snapshot_is_read_back(path: Path) -> None:
    arrays.write_snapshot(path, "ab" * 20, CARE, ARRAYS)
    first = arrays.read_snapshot(path)
    assert content(path) == ("ab" * 20, CARE, b"somebytes")
    arrays.write_snapshot(path, "cd" * 20, {}, [b"other"])
    assert content(path) == ("cd" * 20, {}, b"other")
    assert first is not None
    assert bytes(first.arrays) == b"somebytes"  # a process with the earlier file keeps its content
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_file_is_no_snapshot(path: Path) -> None:
    assert arrays.read_snapshot(path) is None
    path.mkdir(parents=True)
    assert arrays.read_snapshot(path) is None


@pytest.mark.requirement("B2")
def test_any_damage_is_no_snapshot(path: Path) -> None:
    arrays.write_snapshot(path, "ab" * 20, CARE, ARRAYS)
    whole = path.read_bytes()
    chance = random.Random(0)
    spoiled = [whole[:cut] for cut in range(len(whole))] + [whole + b"x"]
    for at in range(len(whole)):
        spoiled.append(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
    for data in spoiled:
        path.write_bytes(data)
        assert arrays.read_snapshot(path) is None
    path.write_bytes(whole)
    assert arrays.read_snapshot(path) is not None


def test_another_format_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "FORMAT", arrays.FORMAT + 1)
    arrays.write_snapshot(path, "ab" * 20, CARE, ARRAYS)
    monkeypatch.undo()
    assert arrays.read_snapshot(path) is None


def test_a_write_that_fails_leaves_the_snapshot_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays.write_snapshot(path, "ab" * 20, CARE, ARRAYS)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        arrays.write_snapshot(path, "cd" * 20, {}, [])
    assert content(path) == ("ab" * 20, CARE, b"somebytes")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
