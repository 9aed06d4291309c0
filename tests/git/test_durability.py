"""Acknowledged means on the disk, with a ref on the disk that leads to it; tested with kills and full disks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kgd.git import files, integrity, refs
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from tests.git.support import Pen, fsck

ROOT = Path(__file__).resolve().parents[2]
CALLS = "write,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat"


def traced(layout: Layout, tmp_path: Path, word: str, *more: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """One write in a process of its own under strace, and the calls that touched the repository, in order."""
    log = tmp_path / "strace.log"
    command = ["strace", "-f", "-y", "-s", "8", "-e", f"trace={CALLS}", *more, "-o", str(log)]
    command += [sys.executable, "-B", "-m", "tests.git.one_write", str(layout.work_tree), word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    lines = [re.sub(r"^\d+ +", "", line) for line in log.read_text().splitlines()]
    return done, [line for line in lines if str(layout.git_dir) in line]


def shape(layout: Layout, lines: list[str]) -> list[str]:
    """``fsync .pack`` and the like: what happened to which kind of file."""
    found = []
    for line in lines:
        if " = -1 " in line:
            continue
        call = line.split("(")[0]
        names = re.findall(rf"{layout.git_dir}[^\">]*", line)
        kinds = [Path(name).suffix or Path(name).name.split(",")[0] for name in names]
        found.append(" ".join([call, *kinds]))
    return found


@pytest.mark.needs("strace")
def test_everything_is_flushed_before_the_ref_moves_and_the_ref_before_it_is_acknowledged(
    workspace: Layout, tmp_path: Path
) -> None:
    """libgit2's own commit flushes nothing at all by default (F2), and its refs not even when told to later (F3)."""
    done, lines = traced(workspace, tmp_path, "x")
    assert done.returncode == 0, done.stderr
    steps = [step for step in shape(workspace, lines) if not step.startswith(("write", "mkdir"))]
    assert steps == [
        "fsync .pack",
        "fsync .kgd",
        "rename .kgd .idx",
        "fsync pack",
        "fsync ref",
        "link ref .lock",
        "rename .lock head",
        "fsync kgd",
        "unlink ref",
        "unlink .keep",
    ]


def points(lines: list[str], before: list[str]) -> list[tuple[str, int]]:
    """Every mutating call of the write as (name, how many-eth of its name in the whole process)."""
    counts: Counter[str] = Counter()
    found = []
    for line in before:
        call = line.split("(")[0]
        counts[call] += 1
        if line in lines:
            found.append((call, counts[call]))
    return found


def all_calls(layout: Layout, tmp_path: Path) -> list[tuple[str, int]]:
    _, lines = traced(layout, tmp_path, "rehearsal")
    whole = [re.sub(r"^\d+ +", "", line) for line in (tmp_path / "strace.log").read_text().splitlines()]
    return points(lines, [line for line in whole if re.match(r"\w+\(", line)])


def settled(layout: Layout, before: ObjectId, acknowledged: str) -> ObjectId:
    """After any stop: recovery needs no hand, the change is there whole or not at all, and writing goes on."""
    report = integrity.recover(layout)
    assert not report.damaged, report
    tip = refs.read_ref(layout.git_dir, refs.HEAD)
    assert tip is not None
    assert tip == before or layout.open().commit(tip).parents == (before,)
    assert not acknowledged or tip.hex() == acknowledged
    after = Pen(layout).write({"nodes/after.yaml": tip.hex().encode()})
    assert fsck(layout.git_dir) == []
    left = [path for path in layout.git_dir.rglob("*") if path.suffix in (".keep", ".kgd", ".lock")]
    assert left == []
    return after


@pytest.mark.slow
@pytest.mark.needs("strace")
@pytest.mark.timeout(110)
def test_a_kill_at_every_step_of_a_write_leaves_all_of_it_or_nothing(workspace: Layout, tmp_path: Path) -> None:
    steps = all_calls(workspace, tmp_path)
    assert len(steps) >= 14
    tip = refs.read_ref(workspace.git_dir, refs.HEAD)
    for n, (call, number) in enumerate(steps):
        assert tip is not None
        inject = f"inject={call}:signal=KILL:when={number}"
        done, _ = traced(workspace, tmp_path, f"kill {n}", "-e", inject)
        assert done.returncode != 0, f"{inject} was not reached"
        tip = settled(workspace, tip, "".join(done.stdout.split()[1:]))


@pytest.mark.slow
@pytest.mark.needs("strace")
@pytest.mark.timeout(110)
@pytest.mark.parametrize("error", ["ENOSPC", pytest.param("EIO", marks=pytest.mark.large)])
def test_an_error_at_any_step_is_never_answered_with_success(workspace: Layout, tmp_path: Path, error: str) -> None:
    """An error does not mean that nothing happened (F9): the last flush fails after the ref has moved."""
    steps = [step for step in all_calls(workspace, tmp_path) if step[0] in ("write", "fsync", "link", "rename")]
    tip = refs.read_ref(workspace.git_dir, refs.HEAD)
    for n, (call, number) in enumerate(steps):
        assert tip is not None
        done, _ = traced(workspace, tmp_path, f"{error} {n}", "-e", f"inject={call}:error={error}:when={number}")
        said = "".join(done.stdout.split()[1:])
        assert (done.returncode == 0) == bool(said)
        tip = settled(workspace, tip, said)


def on_small_disks(tmp_path: Path, kind: str, sizes: int) -> dict[str, object]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["unshare", "-m", sys.executable, "-B", "-m", "tests.git.disk_full", str(place), kind, str(sizes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.needs("mount")
@pytest.mark.timeout(110)
def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    answer = on_small_disks(tmp_path, "careful", 30)
    assert answer["complaints"] == []
    assert answer.get("lost", 0) == 0
    assert int(str(answer["acknowledged"])) > 200
    assert int(str(answer["refused"])) > 100


@pytest.mark.slow
@pytest.mark.needs("mount")
@pytest.mark.timeout(110)
def test_libgit2s_own_commit_succeeds_on_a_full_disk(tmp_path: Path) -> None:
    """Why commits are not made with it (F1). When this fails, libgit2 was repaired; our way stays."""
    answer = on_small_disks(tmp_path, "naive", 60)
    assert int(str(answer.get("lost", 0))) > 0, answer


def test_two_writers_of_one_file_leave_the_whole_file_of_one(tmp_path: Path) -> None:
    file, versions = tmp_path / "state.json", [bytes([letter]) * 100_000 for letter in b"ab"]

    def write(data: bytes) -> None:
        for _ in range(200):
            files.replace(file, data, flush=False)
            assert file.read_bytes() in versions

    with ThreadPoolExecutor(2) as writers:
        assert list(writers.map(write, versions)) == [None, None]
    assert os.listdir(tmp_path) == [file.name]
