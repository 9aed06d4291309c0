"""A daemon with a low limit of open files: its use does not grow, and it refuses clients before it runs out."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.client import start
from kgd.git.store import OPEN_PACKS
from tests.conftest import OPEN_FILES
from tests.faults.endurance import Served, complaints, line, lived_through, most_derived, most_packs, serving
from tests.waiting import until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Served]:
    """A daemon with a soft and hard limit of 256."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(tmp_path) as made:
        resource.prlimit(made.pid, resource.RLIMIT_NOFILE, (256, 256))
        yield made
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_every_daemon_of_the_tests_has_the_limit_of_an_ordinary_machine(served: Served) -> None:
    assert open_files_limits(served) == (OPEN_FILES, OPEN_FILES)


@pytest.mark.slow
def test_the_soft_limit_is_raised_to_the_hard_limit(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
    try:
        with serving(tmp_path) as served:
            assert open_files_limits(served) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.mark.slow
def test_packs_that_were_rolled_up_are_closed_in_a_daemon_that_writes(served: Served) -> None:
    for first in range(0, 120, 2):
        served.many("put", [write(first), write(first + 1)], under_way=1)
        served.call("get", uris=["concept://knowledge/a"])
    until(lambda: removed_and_mapped(served) == [], say=lambda: removed_and_mapped(served))
    until(lambda: len(open_packs(served)) <= OPEN_PACKS, say=lambda: open_packs(served))


def test_clients_are_refused_while_descriptors_are_left_for_writing(few_files: Served) -> None:
    with crowded(few_files) as refusal:
        assert refusal["code"] == "UNAVAILABLE"
        assert "file descriptors" in str(refusal["message"])
        few_files.many("put", [write(number) for number in range(100)])
        status = few_files.call("status")
        assert any("too few file descriptors" in told for told in status["degraded"])
        assert few_files.call("doctor")["ok"] is False
    until(lambda: not few_files.call("status")["degraded"])


@pytest.mark.slow
def test_down_ends_a_daemon_that_refuses_clients(few_files: Served) -> None:
    environment = {**os.environ, "KGD_HOME": few_files.home.config}
    with crowded(few_files):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "kgd.cli", "down"], env=environment, capture_output=True, text=True, check=True
        )
    assert done.stdout == f"the daemon (pid {few_files.pid}) has stopped\n"
    assert not start.running(few_files.home)


@contextlib.contextmanager
def crowded(served: Served) -> Iterator[dict[str, object]]:
    """So many clients that the daemon refuses the next one, with this answer."""
    greeting = start.hello("call", "crowd", cwd="/")
    crowd, refusals = [], []
    try:
        for _ in range(400):
            try:
                crowd.append(start.connect(served.home, greeting, start=False))
            except start.Refused as refused:
                refusals.append(refused.answer)
                break
        (refusal,) = refusals
        yield refusal
    finally:
        for one in crowd:
            if one:
                one.close()


def test_a_flood_of_silent_clients_does_not_stop_a_writer(few_files: Served) -> None:
    flood = [silent(few_files) for _ in range(300)]
    try:
        few_files.many("put", [write(number) for number in range(100)])
    finally:
        for one in flood:
            one.close()


def test_growth_of_packs_and_derived_data_is_a_complaint(served: Served) -> None:
    first = served.vitals()
    most = replace(first, packs=most_packs(served.objects()), derived=most_derived(first))
    assert complaints(served, [first, most]) == []
    later = replace(most, packs=most.packs + 1, derived=most.derived + 1)
    assert [found.partition(":")[0] for found in complaints(served, [first, later])] == ["packs", "derived data"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_daemon_in_long_use_does_not_grow(served: Served) -> None:
    """A small part of the endurance run of `make soak`, with a longer warm-up: caches of recent versions still fill."""
    seen = []
    for half, vitals in enumerate(lived_through(served, 3_000, 6_000, warm=3_000, parts=2)):
        seen.append(vitals)
        print(line(50 * half, vitals))
    assert complaints(served, seen) == []


@pytest.mark.large
@pytest.mark.timeout(1200)
def test_a_thousand_nodes_in_one_folder_are_overwritten_twenty_thousand_times(served: Served) -> None:
    seen = []
    for tenth, vitals in enumerate(lived_through(served, 20_000, 0, folders=1)):
        seen.append(vitals)
        print(line(10 * tenth, vitals))
    assert complaints(served, seen) == []


def write(number: int) -> dict[str, object]:
    return {"changes": [{"op": "upsert", "uri": "concept://knowledge/a", "name": "A", "summary": f"version {number}"}]}


def silent(served: Served) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.connect(served.home.socket)
    return made


def open_packs(served: Served) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{served.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since
            found.append(os.readlink(f"/proc/{served.pid}/fd/{name}"))
    return [path for path in found if ".pack" in path]


def removed_and_mapped(served: Served) -> list[str]:
    """Deleted packs and indexes that the daemon still maps."""
    lines = Path(f"/proc/{served.pid}/maps").read_text().splitlines()
    return [line for line in lines if "/objects/pack/" in line and line.endswith(" (deleted)")]


def open_files_limits(served: Served) -> tuple[int, int]:
    limits = Path(f"/proc/{served.pid}/limits").read_text()
    found = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits)
    assert found
    return int(found[1]), int(found[2])
