"""Two, eight and sixty-four concurrent clients, each with its own `kgd mcp`: acknowledged writes are stored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.e2e import lean
from tests.e2e.conftest import KGD, Machine, git
from tests.git.support import fsck

pytestmark = pytest.mark.slow


def write_together(machine: Machine, clients: int, own: int, shared: int) -> list[dict[str, Any]]:
    """Start `clients` writers with a `kgd mcp` each at the same moment; returns their acknowledgements."""
    plan = {"command": [*KGD, "mcp"], "directory": str(machine.directory), "own": own, "shared": shared}
    with ExitStack() as left:
        writers = [left.enter_context(_writer({**plan, "name": f"c{number}"})) for number in range(clients)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        told = []
        for writer in writers:
            said, complaint = writer.communicate(timeout=220)
            assert writer.returncode == 0, complaint
            told.append(json.loads(said))
    return told


@contextmanager
def _writer(plan: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", lean.__file__, json.dumps(plan)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as writer:  # type: ignore[call-overload]
        try:
            yield writer
        finally:
            writer.kill()


def audit(machine: Machine, told: list[dict[str, Any]], own: int, shared: int) -> None:
    """Every acknowledgement has its own commit, and every shared node has the marks of all clients."""
    git_dir = machine.directory / ".git/kgd"
    promised = [one for each in told for one in each["promised"]]
    assert len(promised) == len(told) * (own + shared)
    commits = Counter(one["commit"] for one in promised)
    assert max(commits.values()) == 1
    assert set(commits) <= set(git(git_dir, "log", "--format=%H", "refs/kgd/head").split())
    touched = Counter(git(git_dir, "log", "--format=", "--name-only", "refs/kgd/head").split())
    with machine.client() as client:
        for number in range(shared):
            (node,) = client.call("get", uris=[f"shared/{number}"])["nodes"]
            marks = {f"c{n}": True for n in range(len(told))}
            assert node["data"] == {"count": len(told), **marks}
            assert node["version"] == len(told) == touched[f"nodes/concept/shared/{number}.yaml"]
    versions = sorted(one["version"] for one in promised if "/shared/" in one["uri"])
    assert versions == sorted(list(range(1, len(told) + 1)) * shared)
    assert fsck(git_dir) == []
    assert machine.json("fsck")["ok"]


@pytest.mark.slow
@pytest.mark.requirement("B1")
@pytest.mark.requirement("B3")
@pytest.mark.parametrize("clients", [2, 8])
def test_concurrent_writes_of_clients_are_neither_lost_nor_overwritten(machine: Machine, clients: int) -> None:
    machine("up")
    told = write_together(machine, clients, own=100, shared=100)
    audit(machine, told, own=100, shared=100)
    print(f"{clients} clients: {clients * 200} writes, {sum(each['conflicts'] for each in told)} conflicts retried")


@pytest.mark.requirement("B1")
@pytest.mark.requirement("B3")
def test_three_clients_on_the_same_nodes_never_overwrite_each_other(machine: Machine) -> None:
    machine("up")
    told = write_together(machine, 3, own=5, shared=10)
    audit(machine, told, own=5, shared=10)


@pytest.mark.large
def test_sixty_four_clients_at_once_are_all_served(machine: Machine) -> None:
    machine("up")
    told = write_together(machine, 64, own=10, shared=0)
    audit(machine, told, own=10, shared=0)
    seconds = sorted(second for each in told for second in each["seconds"])
    print(f"64 clients: {len(seconds)} calls, p50 {pick(seconds, 50):.3f} s, p99 {pick(seconds, 99):.3f} s")
    assert pick(seconds, 99) < 10


def pick(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
