"""The size of kgd, and the code that one call runs: `python -m bench.paths` prints both as tables.

A profile function in a real daemon counts the files and functions of kgd that a call runs: on the threads
that the answer waits for, and on all threads until the daemon is idle again, with the index and the publication. The
third call of a kind counts, since the first ones import modules.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

import kgd
from bench import corpus, machine
from bench.corpus import Made
from bench.house import House, through_kgd
from kgd.tools import TABLE

PACKAGE = Path(kgd.__file__).parent
NODES, REPEATS = 1_000, 3
PATIENCE, LOOK = 30.0, 0.005
WITHIN = ".<locals>.<"
PATH = ("MainThread", "AnyIO worker", "kgd-call", "kgd-sync")
"""Names of the threads that an answer waits for."""
Functions = set[tuple[str, str]]
"""Files and functions. Comprehensions and lambdas belong to the function around them."""


class Traced(House):
    """A daemon that reports the code it ran since the last report."""

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-c", "from bench import paths; paths.daemon()", *self.home.daemon_command()[4:]]

    def ran(self) -> dict[str, Functions]:
        """Functions by thread since the last call."""
        report = self.folder / "ran.json"
        report.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE
        while not report.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the daemon does not report")
            time.sleep(LOOK)
        found: dict[str, list[list[str]]] = json.loads(report.read_text())
        return {thread: {(file, name) for file, name in ran} for thread, ran in found.items()}


def daemon() -> None:
    """Run the daemon of this process's arguments. SIGUSR1 writes the code that ran since the last one."""
    from kgd.serve.__main__ import main

    codes: dict[int, set[CodeType]] = defaultdict(set)
    report = Path(os.environ["KGD_HOME"]) / "ran.json"

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            codes[get_ident()].add(frame.f_code)

    def tell(number: int, frame: FrameType | None) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for ident, ran in list(codes.items()):
            own = [code for code in list(ran) if code.co_filename.startswith(f"{PACKAGE}/")]
            found[names.get(ident, "ended")] += [(one.co_filename, one.co_qualname.split(WITHIN)[0]) for one in own]
        codes.clear()
        report.with_suffix(".new").write_text(json.dumps(found))
        report.with_suffix(".new").rename(report)

    signal.signal(signal.SIGUSR1, tell)
    threading.setprofile(note)
    sys.setprofile(note)
    sys.exit(main())


def paths(folder: Path, *, nodes: int = NODES, repeats: int = REPEATS) -> Iterator[tuple[str, Functions, Functions]]:
    """Each call with the functions on its path, and the functions that ran until the daemon was idle."""
    made = corpus.build(folder / "made", nodes)
    with Traced(folder / "home") as house:
        house.up(made)
        house.settle()
        yield from asyncio.run(_over_mcp(house, made, repeats))
        yield _round(house, made, folder, repeats)


async def _over_mcp(house: Traced, made: Made, repeats: int) -> list[tuple[str, Functions, Functions]]:
    async with through_kgd(house, made) as client:
        asks: dict[str, Callable[[int], Awaitable[Any]]] = {
            "put": lambda number: client.call("put", changes=[_change(f"made {number}")]),
            "search": lambda number: client.call("search", query=corpus.WORDS[number]),
            "get": lambda number: client.call("get", uris=[corpus.uri_of(number)]),
        }
        found = []
        for name, ask in asks.items():
            for number in range(repeats):
                machine.wait_for_rest(house.pid)
                house.ran()
                await ask(number)
                ran = _ran(house)
            found.append((f"`{name}` over MCP", *ran))
        return found


def _round(house: Traced, made: Made, folder: Path, repeats: int) -> tuple[str, Functions, Functions]:
    """A round that fetches a commit of another daemon, merges it and pushes."""
    remote, copy = folder / "remote.git", folder / "copy"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    shutil.copytree(made.layout.git_dir, copy / ".git")
    with House(folder / "other") as other:
        other.call("up", directory=str(copy), standalone=True)
        for one in (other, house):
            one.call("remote", workspace="bench", action="add", name="origin", url=str(remote), sync=0)
            one.call("sync", workspace="bench")
        for number in range(repeats):
            for one in (other, house):
                one.call("put", workspace="bench", changes=[_change(f"{one.folder.name} {number}")])
            other.call("sync", workspace="bench")
            machine.wait_for_rest(house.pid)
            house.ran()
            house.call("sync", workspace="bench")
            ran = _ran(house)
        return "a sync round that merges and pushes", *ran


def _ran(house: Traced) -> tuple[Functions, Functions]:
    answered = house.ran()
    machine.wait_for_rest(house.pid)
    path = set[tuple[str, str]]().union(*(ran for name, ran in answered.items() if name.startswith(PATH)))
    return path, path.union(*answered.values(), *house.ran().values())


def _change(name: str) -> dict[str, Any]:
    return {"op": "upsert", "type": "concept", "name": name, "summary": "A fact.", "tags": ["bench"]}


def sizes(package: Path) -> Iterator[tuple[str, int]]:
    """The size of the Python code."""
    texts = [file.read_text() for file in package.rglob("*.py")]
    yield "lines", sum(len(text.splitlines()) for text in texts)
    yield "modules", len(texts)
    yield "statements", sum(isinstance(node, ast.stmt) for text in texts for node in ast.walk(ast.parse(text)))
    yield "operations", len(json.loads(TABLE.read_text())["operations"])


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m bench.paths", description="the size of kgd, and the code that one call runs"
    ).parse_args()
    print("| of kgd/ | |\n|---|---|")
    for what, count in sizes(PACKAGE):
        print(f"| {what} | {count:,} |")
    print("\n| in the daemon | files on the path | functions | files until it is idle | functions |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as folder:
        for what, path, idle in paths(Path(folder)):
            counts = [count for ran in (path, idle) for count in (len({file for file, _ in ran}), len(ran))]
            print(f"| {what} | {' | '.join(map(str, counts))} |", flush=True)


if __name__ == "__main__":
    main()
