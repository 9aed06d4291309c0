"""A hub with many clients at once, and the way of one node through it.

The hub is a separate process; its clients speak plain HTTP over persistent connections, each with its own token. The
time of a change is compared with git's own push and fetch through the same hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import corpus, sync
from bench.client import some_call
from bench.corpus import Made
from bench.house import settle
from bench.row import Row, compare, percentile, value
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile

CLIENTS, LOAD_SECONDS = 64, 8.0
LOAD_P99, LOAD_RATE, ONE_NODE = 1.5, 250.0, 2.0
ROUNDS, BY_ITSELF = 10, 3
PLENTY = 1_000_000
LINE_LIMIT = 64 << 20


def rows(made: Made, folder: Path, *, clients: int = CLIENTS, seconds: float = LOAD_SECONDS) -> Iterator[Row]:
    with serving(made, folder / "load") as hub:
        yield from load(hub, made, clients, seconds)


def one_node(made: Made, folder: Path, rounds: int = ROUNDS, by_itself: int = BY_ITSELF) -> Iterator[Row]:
    """The time of two calls of `sync`, one on each side; and the time without a call."""
    with serving(made, folder / "hub") as hub, contextlib.ExitStack() as left:
        token = hub.mint("write")
        kept = folder / "token"
        kept.touch(0o600)
        kept.write_text(token)
        url = f"{hub.url}/git/{corpus.WORKSPACE}"
        first, second = (sync.Replica(made, folder / name, url, token=f"file:{kept}") for name in ("first", "second"))
        left.callback(second.daemon.close)
        left.callback(first.daemon.close)
        address = url.replace("://", f"://anybody:{token}@")
        plain = [folder / "plain-a", folder / "plain-b"]
        for clone in plain:
            sync.git("clone", "-q", "--bare", address, str(clone))
        chance, times = random.Random(7), {"kgd": list[float](), "git": list[float]()}
        for _ in range(rounds):
            outcome = first.submit(corpus.newcomer(made.nodes, chance))
            begun = time.perf_counter()
            first.call("sync")
            second.call("sync")
            times["kgd"].append(time.perf_counter() - begun)
            assert second.workspace.tip == outcome.commit
            _commit(plain[0])
            times["git"].append(sync.timed(lambda: _exchange(plain[0], plain[1])))
            for replica in (first, second):
                replica.call("sync")
        ours, theirs = (statistics.median(found) * 1e3 for found in times.values())
        what = "one node from daemon to daemon, a hub, both asked"
        yield compare(what, "git push and git fetch", "ms", ours, theirs, ONE_NODE, nodes=made.nodes)
        waits = []
        for _ in range(by_itself):
            second.came.clear()
            outcome = first.submit(corpus.newcomer(made.nodes, chance))
            waits.append(second.arrival(str(outcome.commit)))
        yield value(
            "one node from daemon to daemon, a hub, without a call",
            "s",
            statistics.median(waits),
            nodes=made.nodes,
            note="a hub is looked at every 5 s",
        )


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub that listens, and its keeper's way to it."""

    home: Home
    url: str
    pid: int

    def call(self, tool: str, **args: Any) -> dict[str, Any]:
        with Connection(self.home, start=False) as connection:
            return connection.call(tool, args)

    def mint(self, verb: str = "read") -> str:
        verbs = ["read", "write"] if verb == "write" else [verb]
        asked = {
            "workspace": corpus.WORKSPACE,
            "name": "bench",
            "verbs": verbs,
            "paths": ["/**"],
            "requests_per_minute": PLENTY,
            "nodes_per_day": PLENTY,
            "expires": "1d",
        }
        return str(self.call("token_mint", **asked)["token"])


@contextlib.contextmanager
def serving(made: Made, folder: Path, *, begun: Callable[[], None] | None = None) -> Iterator[Hub]:
    """A hub over a copy of the workspace; see `listening`."""
    home = Home.at(str(folder / "home"))
    home.prepare()
    tree = folder / "tree"
    shutil.copytree(made.layout.work_tree, tree)
    RegistryFile(home).register(Entry(corpus.WORKSPACE, str(tree), standalone=True))
    with listening(home, folder, begun=begun) as hub:
        yield hub


@contextlib.contextmanager
def listening(home: Home, folder: Path, *options: str, begun: Callable[[], None] | None = None) -> Iterator[Hub]:
    """A hub of this home. `begun` runs in its process before it starts."""
    command = [sys.executable, "-P", "-m", "kgd.serve", "--foreground", "--listen", "127.0.0.1:0", *options]
    environment = {**os.environ, "KGD_HOME": home.config}
    with open(folder / "out", "w+") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd="/", preexec_fn=begun)
        try:
            yield Hub(home, _address(process, folder / "out"), process.pid)
        finally:
            process.terminate()
            process.wait(20)


def _address(process: subprocess.Popen[bytes], out: Path) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        for line in out.read_text().splitlines():
            if line.startswith("kgd: serving "):
                return line.split()[2]
        time.sleep(0.02)
    raise TimeoutError(f"the hub did not begin to listen: {out.read_text()[-500:]}")


# ---- many at once


def load(hub: Hub, made: Made, clients: int, seconds: float, seed: int = 0) -> list[Row]:
    """Many clients at once, after the work of opening: of ten calls six get, two traverse, one search, one put."""
    tokens = [hub.mint("write") for _ in range(clients)]
    settle(hub.call)
    times, errors = asyncio.run(_ask_together(hub, made, tokens, seconds, seed))
    many = f"{clients} clients of a hub"
    return [
        value(
            f"p99 of calls of {many}",
            "s",
            percentile(times, 0.99),
            LOAD_P99,
            nodes=made.nodes,
            note=f"p50 {percentile(times, 0.5) * 1e3:.0f} ms",
        ),
        value(
            f"errors among the calls of {many}",
            "calls",
            len(errors),
            0.0,
            nodes=made.nodes,
            note="; ".join(sorted(set(errors))[:2]) or f"of {len(times)}",
        ),
        {
            **value(f"calls of {many}", "per_s", len(times) / seconds, LOAD_RATE, nodes=made.nodes),
            "per_s": round(len(times) / seconds, 1),
        },
    ]


async def _ask_together(
    hub: Hub, made: Made, tokens: list[str], seconds: float, seed: int
) -> tuple[list[float], list[str]]:
    times: list[float] = []
    errors: list[str] = []
    end = time.monotonic() + seconds

    async def client(number: int, token: str) -> None:
        chance = random.Random(f"{seed} {number}")
        try:
            line = await connected(hub)
            while time.monotonic() < end:
                call = some_call(made, chance)
                begun = time.perf_counter()
                status, body = await asked(*line, token, call["name"], call["arguments"])
                times.append(time.perf_counter() - begun)
                if status != 200:
                    errors.append(f"{status} {body[:150]!r}")
            line[1].close()
        except (OSError, EOFError, ValueError) as error:
            errors.append(repr(error))

    await asyncio.gather(*(client(number, token) for number, token in enumerate(tokens)))
    return times, errors


async def connected(hub: Hub) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(hub.url)
    return await asyncio.open_connection(place.hostname, place.port, limit=LINE_LIMIT)


async def asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, tool: str, arguments: dict[str, Any]
) -> tuple[int, bytes]:
    """Status and body of one call over a persistent connection."""
    body = json.dumps(arguments).encode()
    head = (
        f"POST /v1/{corpus.WORKSPACE}/{tool} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    said = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(int(line.partition(":")[2]) for line in said if line.startswith("content-length:"))
    return int(said[0].split()[1]), await reader.readexactly(length)


# ---- plain git beside


def _commit(clone: Path) -> None:
    """A commit on top of the hub's tip."""
    sync.git("--git-dir", str(clone), "fetch", "-q", "origin", "+main:main")
    tree = sync.git("--git-dir", str(clone), "rev-parse", "main^{tree}")
    tip = sync.git("--git-dir", str(clone), "commit-tree", tree, "-p", "main", "-m", f"{time.time_ns()}")
    sync.git("--git-dir", str(clone), "update-ref", "refs/heads/main", tip)


def _exchange(one: Path, other: Path) -> None:
    sync.git("--git-dir", str(one), "push", "-q", "origin", "main")
    sync.git("--git-dir", str(other), "fetch", "-q", "origin", "+main:main")
