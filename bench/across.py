"""Walks that cross into a hub, measured against the same walk with the other workspace local.

The cost of the crossing is given in floor calls: the hub's shortest authorised answer, over the same connection. The
hub is a separate process. `python -m bench.across` prints one JSON object a row.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.row import Row, compare, percentile
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.sync.hubs import HubClient
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

NODES = 1_000
REACHED = 50
TIMES = 60
READY_SECONDS = 60.0
KGD = [sys.executable, "-P", "-m", "kgd.cli"]


def rows(folder: Path) -> Iterator[Row]:
    """First walks, whose answer the hub computes, and second walks without a change."""
    with _hub(folder / "there") as (url, token), _daemon(folder / "here") as session:
        _fill(session, folder / "here", "far")
        call(session, "up", {"directory": str(_made(folder / "here" / "shop")), "standalone": True, "id": "shop"})
        starts = [_node(f"concept://shop/{where}", [(f"concept://{where}/n0", 0.0)]) for where in ("far", "beyond")]
        call(session, "put", {"workspace": "shop", "changes": starts})
        call(session, "join", {"url": url, "token": token})
        client = HubClient(url, lambda: token)
        limits = iter(range(1, 1_000_000))

        def walk(where: str, *, anew: bool) -> Callable[[], Any]:
            def once() -> Any:
                # A new limit has no cached answer.
                cost = 1.0 + (next(limits) * 1e-6 if anew else 0.0)
                args = {
                    "start": [f"concept://shop/{where}"],
                    "max_cost": cost,
                    "max_nodes": REACHED + 1,
                    "budget": 10_000,
                }
                found = call(session, "traverse", args)
                assert len(found["nodes"]) == REACHED + 1
                return found

            return once

        for anew in (True, False):
            home, across, floor = _alternating(walk("far", anew=anew), walk("beyond", anew=anew), client.workspaces)
            what = "a walk into a hub against the same at home, " + ("first" if anew else "second")
            for share in (0.5, 0.99):
                here, there, least = (percentile(times, share) * 1e3 for times in (home, across, floor))
                known: dict[str, Any] = {"home_ms": round(here, 3), "across_ms": round(there, 3)}
                if share != 0.5:
                    known["percentile"] = share
                yield compare(what, "a floor call", "ms", there - here, least, 2.0 if share == 0.5 else None, **known)
        client.close()


def _alternating(*jobs: Callable[[], Any]) -> list[list[float]]:
    """Wall-clock seconds of each job, in turn, so that all run under the same load of the machine."""
    times: list[list[float]] = [[] for _ in jobs]
    for number in range(TIMES + 5):
        for job, taken in zip(jobs, times, strict=True):
            begun = time.perf_counter()
            job()
            if number >= 5:
                taken.append(time.perf_counter() - begun)
    return times


def _node(uri: str, links: list[tuple[str, float]]) -> dict[str, Any]:
    relations = [{"type": "uses", "target": target, "weight": weight} for target, weight in links]
    return {"op": "upsert", "uri": uri, "summary": f"What {uri[-12:]} is for, in some words", "relations": relations}


def _fill(session: Session, root: Path, id: str) -> None:
    call(session, "up", {"directory": str(_made(root / id)), "standalone": True, "id": id})
    links = [[(f"concept://{id}/n{(3 * n + k) % NODES}", 0.1) for k in (1, 2, 3)] for n in range(NODES)]
    changes = [_node(f"concept://{id}/n{n}", own) for n, own in enumerate(links)]
    for first in range(0, NODES, 250):
        call(session, "put", {"workspace": id, "changes": changes[first : first + 250]})


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@contextlib.contextmanager
def _daemon(folder: Path) -> Iterator[Session]:
    home = Home.at(str(_made(folder) / "home"))
    home.prepare()
    daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    try:
        yield Session(daemon, context_id=None)
    finally:
        daemon.close()


@contextlib.contextmanager
def _hub(folder: Path) -> Iterator[tuple[str, str]]:
    """A hub in a process of its own that serves the workspace `beyond`: its address, and a token that reads it."""
    with _daemon(folder) as session:
        _fill(session, folder, "beyond")
    env = {**os.environ, "KGD_HOME": str(folder / "home")}
    hub = subprocess.Popen(
        [*KGD, "serve", "--listen", "127.0.0.1:0"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield _address(env), _said(env, "token", "mint", "beyond", "--name", "bench", "--quiet").strip()
    finally:
        hub.terminate()
        hub.wait(20)


def _address(env: dict[str, str]) -> str:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.CalledProcessError, json.JSONDecodeError):
            if address := json.loads(_said(env, "status", "--json"))["daemon"].get("listening"):
                return str(address)
        time.sleep(0.1)
    raise TimeoutError("the hub did not begin to listen")


def _said(env: dict[str, str], *words: str) -> str:
    return subprocess.run([*KGD, *words], env=env, capture_output=True, text=True, check=True, cwd="/").stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for row in rows(Path(made)):
            print(orjson.dumps(row).decode(), flush=True)
