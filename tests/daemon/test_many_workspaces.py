"""A daemon with many workspaces at full size: 300 workspaces of 1,000 nodes with 50 open, and 1,000 registered ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kgd.client import start
from kgd.config import Home
from kgd.config.entries import Entry
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, to, upsert
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.faults.endurance import Served
from tests.git.support import git
from tests.waiting import until

NODES, OPEN = 1_000, 50


@pytest.mark.large
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("count", "registered"), [(300, 1_000)])
def test_fifty_of_three_hundred_workspaces_are_open(tmp_path: Path, count: int, registered: int) -> None:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    lines = [f"settings:\n  open_workspaces: {OPEN}\nworkspaces:\n"]
    for number in range(registered):
        lines.append(entry_of(made(tmp_path / "all", f"w{number}", NODES if number < count else 0)))
    Path(home.registry).write_text("".join(lines))
    with running(home, tmp_path / "all/w0") as (served, ready):
        print(f"\n{registered} registered: ready within {ready:.2f} s")
        began = time.monotonic()
        served.call("status", workspace="w0")
        print(f"status {time.monotonic() - began:.2f} s")
        for number in range(count):
            served.call("put", workspace=f"w{number}", changes=[{"op": "upsert", "uri": node(number, 0), "name": "A"}])
        until(lambda: served.call("status", workspace="w0")["daemon"]["open"] <= OPEN, 120)
        first = vitals(served)
        print(f"after a write to each of {count}: {first}")
        reopening, threads, chance = [], first[1], Random(7)
        for turn in range(3 * count):
            number = chance.randrange(count)
            began = time.monotonic()
            got = served.call("get", workspace=f"w{number}", uris=[node(number, turn % NODES)])
            reopening.append(time.monotonic() - began)
            assert len(got["nodes"]) == 1
            if turn % 50 == 0:
                threads = max(threads, vitals(served)[1])
        reopening.sort()
        p50, p99 = reopening[len(reopening) // 2], reopening[len(reopening) * 99 // 100]
        last = vitals(served)
        print(f"a random workspace of {count}: p50 {p50:.3f} s, p99 {p99:.3f} s, longest {reopening[-1]:.3f} s")
        print(f"at the end {last}, at most {threads} threads")
        assert ready < 5
        assert p99 < 1
        assert max(threads, last[1]) <= 80
        assert max(first[0], last[0]) <= 1.5e6


def node(number: int, at: int) -> str:
    return f"concept://w{number}/k{at % 20}/n{at}"


def made(place: Path, id: str, nodes: int) -> Path:
    """A bare workspace with that many nodes."""
    layout = new_layout(place / id, id)
    if nodes:
        workspace = Workspace.open(layout, publish=False)
        edits = [
            upsert(
                f"concept://{id}/k{at % 20}/n{at}",
                *([to(f"concept://{id}/k{(at // 2) % 20}/n{at // 2}")] if at else []),
                name=f"Node {at} of {id}",
                summary=f"the number {at} is written down here, with a few more words about it",
            )
            for at in range(nodes)
        ]
        workspace.submit(change(*edits))
        workspace.close()
    git(layout.git_dir, "config", "core.bare", "true")
    return layout.git_dir


def entry_of(git_dir: Path) -> str:
    entry = Entry.of(git_dir.parent.name, git_dir, None)
    return f"  {entry.id}:\n    path: {entry.path}\n    standalone: true\n"


@contextmanager
def running(home: Home, directory: Path) -> Iterator[tuple[Served, float]]:
    """A daemon, and the seconds from its start to the first answer."""
    around = {**os.environ, "KGD_HOME": home.config, "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    command = [sys.executable, "-P", "-m", "kgd.cli", "get", "-w", "w5", str(Uri(node(5, 5))), "--quiet"]
    subprocess.run(command, cwd=directory, env=around, check=True, stdout=subprocess.DEVNULL)
    ready = time.monotonic() - began
    assert start.running(home)
    served = Served(home, directory)
    try:
        yield served, ready
    finally:
        served.close()
        end_daemon(home)


def vitals(served: Served) -> tuple[int, int]:
    """Resident memory in KB, and threads."""
    status = Path(f"/proc/{served.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmRSS"].split()[0]), int(fields["Threads"])
