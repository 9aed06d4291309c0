"""The program of `make profile`: flame graphs of 32 writers, `get`, `search` and a start, in docs/pictures.

The daemon's own `--profile` takes the samples; the writers run in this process, as in the bench.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from bench import commits, corpus, flame
from bench.corpus import Made
from bench.host import INITIALIZE
from bench.house import Caller, House, through_kgd
from kgd.client import EARLY, start
from kgd.daemon.process import SWITCH_SECONDS, Profile
from kgd.workspace.workspace import Workspace

NODES, SECONDS = 10_000, 10.0
STARTS = 8


class Profiled(House):
    """A daemon that writes its samples to `stacks` when it stops."""

    @property
    def stacks(self) -> Path:
        return self.folder / "stacks"

    def command(self) -> list[str]:
        return [*super().command(), "--profile", str(self.stacks)]

    def samples(self) -> list[str]:
        self.stop()
        return self.stacks.read_text().splitlines()


def writers(made: Made, folder: Path, seconds: float) -> flame.Frame:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    workspace = Workspace.open(made.layout)
    try:
        mine = commits.Mine(workspace, made)
        mine.settled()
        profile = Profile(folder / "stacks")
        profile.start()
        commits.rate(mine.commit, commits.WRITERS, seconds)
        profile.stop()
    finally:
        workspace.close()
        sys.setswitchinterval(interval)
    return flame.read((folder / "stacks").read_text().splitlines())


def calls(made: Made, folder: Path, seconds: float, name: str, below: str) -> flame.Frame:
    """Calls of one tool over MCP, one after the other."""
    chance = random.Random(1)

    def some() -> str:
        return corpus.uri_of(chance.randrange(made.nodes))

    async def ask(caller: Caller) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await (caller.call("get", uris=[some()]) if name == "get" else _search(caller, some()))

    async def connected(house: House, use: Callable[[Caller], Awaitable[None]]) -> None:
        async with through_kgd(house, made) as caller:
            await use(caller)

    with Profiled(folder) as house:
        house.up(made)
        house.settle()
        asyncio.run(connected(house, ask))
        return flame.read(house.samples(), below=below)


async def _search(caller: Caller, uri: str) -> None:
    await caller.call("search", query=uri.rpartition("/")[2])


def starts(made: Made, folder: Path, times: int) -> flame.Frame:
    """Starts of the daemon until its first answered `get`, with the files of an earlier run."""
    samples: list[str] = []
    with Profiled(folder) as house:
        house.up(made)
        house.settle()
        _get(house, "0")
        house.stop()
        for _ in range(times):
            house.start()
            _get(house, EARLY)
            samples += house.samples()
    return flame.read(samples)


def _get(house: House, key: str) -> None:
    """The greeting of `kgd mcp` with this id, and a `get`; waits for the answer to the last."""
    read = {"name": "get", "arguments": {"uris": [corpus.uri_of(0)]}}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(house.home.socket)
        sock.sendall(start.hello("mcp", "bench"))
        with sock.makefile("rwb") as stream:
            stream.readline()
            for id, method, params in ((key, "initialize", INITIALIZE), (1, "tools/call", read)):
                stream.write(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n")
            stream.flush()
            while orjson.loads(stream.readline())["id"] != 1:
                pass


def pictures(folder: Path, nodes: int, seconds: float, times: int = STARTS) -> dict[str, tuple[str, flame.Frame]]:
    """Title and samples of each picture."""
    made = corpus.build(folder / "made", nodes)
    return {
        "start": ("a start until the first answered get", starts(made, folder / "start", times)),
        "get": ("get over MCP", calls(made, folder / "get", seconds, "get", "short_reads.py:")),
        "search": ("search over MCP", calls(made, folder / "search", seconds, "search", "Operation.answer")),
        "writers": (f"{commits.WRITERS} writers", writers(made, folder, seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--into", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kgd-profile-") as name:
        found = pictures(Path(name), options.nodes, options.seconds)
    for what, (title, frames) in found.items():
        path = options.into / f"profile-{what}.svg"
        path.write_text(flame.picture(frames, f"{title}, {options.nodes:,} nodes"))
        sys.stdout.write(f"{path}: {frames.samples:,} samples\n")


if __name__ == "__main__":
    main()
