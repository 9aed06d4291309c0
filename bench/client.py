"""Short processes, an idle daemon, and many clients at once.

`kgd mcp` and `kgd --help` are started as a host and a person start them, in turn with the peers, by the same
interpreter. The clients of the load are `kgd mcp` processes that speak MCP.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import corpus, machine
from bench.corpus import Made
from bench.host import INITIALIZE, Host
from bench.house import KGD, House
from bench.row import Row, compare, percentile, value
from kgd.client import start

START, ROUND_TRIP, HELP_MS, IDLE_PERCENT, LOAD_P99 = 2.0, 2.0, 150.0, 1.0, 1.5
FIRST_CONTACT, FIRST_GET = 3.0, 0.8
STARTS, TRIPS, COLD_STARTS = 15, 400, 5
CLIENTS, LOAD_SECONDS = 64, 8.0
FOLDERS, IDLE_SECONDS = 10_000, 65.0
"""More than two of the full scans of all folders, which run every thirty seconds beside the watcher."""


def rows(made: Made, folder: Path, *, starts: int = STARTS, trips: int = TRIPS) -> list[Row]:
    with House(folder) as house:
        house.up(made)
        short = [*_starts(house, made, starts), _round_trip(house, made, trips)]
        return [*short, *_first_contact(house, made, min(starts, COLD_STARTS))]


def load(made: Made, folder: Path, *, clients: int = CLIENTS, seconds: float = LOAD_SECONDS) -> list[Row]:
    """Many processes at once: of ten calls six get, two traverse, one search, one put."""
    times: list[float] = []
    errors: list[str] = []
    with House(folder) as house:
        house.up(made)
        hosts = [kgd_host(house, made) for _ in range(clients)]
        end = time.monotonic() + seconds

        def ask(host: Host) -> None:
            chance = random.Random()
            while time.monotonic() < end:
                begun = time.perf_counter()
                try:
                    answer = host.request("tools/call", some_call(made, chance))
                    if answer.get("result", {}).get("isError", True):
                        errors.append(str(answer)[:200])
                except (OSError, ValueError) as error:
                    errors.append(str(error))
                    return
                times.append(time.perf_counter() - begun)

        threads = [threading.Thread(target=ask, args=(host,)) for host in hosts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for host in hosts:
            host.close()
    rate = f"{len(times) / seconds:.0f} calls/s, p50 {percentile(times, 0.5) * 1e3:.0f} ms"
    worst = percentile(times, 0.99)
    return [
        value(f"p99 of calls of {clients} clients", "s", worst, LOAD_P99, nodes=made.nodes, note=rate),
        value(
            f"errors among the calls of {clients} clients",
            "calls",
            len(errors),
            0.0,
            nodes=made.nodes,
            note="; ".join(sorted(set(errors))[:2]) or f"of {len(times)}",
        ),
    ]


def idle(folder: Path, *, folders: int = FOLDERS, seconds: float = IDLE_SECONDS) -> list[Row]:
    """An idle daemon with this many folders in its code tree, after a client has used it."""
    tree = folder / "tree"
    for number in range(folders):
        part = tree / f"package{number // 100:03d}" / f"module{number % 100:02d}"
        part.mkdir(parents=True)
        (part / "code.py").write_text(f"VALUE = {number}\n")
    subprocess.run(["git", "init", "-q", tree], check=True)
    with House(folder / "home") as house:
        house.call("up", directory=str(tree), id="idle")
        host = Host([*KGD, "mcp"], house.environment, tree)
        host.request("tools/call", {"name": "search", "arguments": {"query": "value"}})
        host.request("prompts/list")  # the first request of this kind loads the MCP library, once
        host.close()
        machine.wait_for_rest(house.pid)
        before = machine.cpu_seconds(house.pid)
        time.sleep(seconds)
        used = machine.cpu_seconds(house.pid) - before
    what = f"idle daemon over {folders + folders // 100:,} folders"
    return [value(what, "% of a core", used / seconds * 100, IDLE_PERCENT, note=f"over {seconds:.0f} s")]


def kgd_host(house: House, made: Made) -> Host:
    return Host([*KGD, "mcp"], house.environment, made.layout.work_tree)


def _starts(house: House, made: Made, rounds: int) -> list[Row]:
    def pump() -> None:
        hosts.append(kgd_host(house, made))

    def plain() -> None:
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    def help() -> None:
        subprocess.run([*KGD, "--help"], check=True, stdout=subprocess.DEVNULL, env=house.environment)

    hosts: list[Host] = []
    times: dict[str, list[float]] = {"pump": [], "plain": [], "help": []}
    for number in range(rounds + 1):
        for name, run in (("pump", pump), ("plain", plain), ("help", help)):
            took = _timed(run)
            if number:
                times[name].append(took)
        hosts.pop().close()
    middle = {name: statistics.median(found) * 1e3 for name, found in times.items()}
    return [
        compare(
            "`kgd mcp` from its start to the answer of initialize",
            "`python -c pass`",
            "ms",
            middle["pump"],
            middle["plain"],
            START,
        ),
        value("`kgd --help`", "ms", middle["help"], HELP_MS),
    ]


def _first_contact(house: House, made: Made, rounds: int) -> list[Row]:
    """`kgd mcp` without a daemon, after an earlier session of the same host."""
    get = {"name": "get", "arguments": {"uris": [corpus.uri_of(0)]}}
    earlier = kgd_host(house, made)
    earlier.request("tools/list")
    earlier.close()
    house.stop()
    times: dict[str, list[float]] = {"lists": [], "get": [], "plain": []}
    for _ in range(rounds):
        begun = time.perf_counter()
        host = kgd_host(house, made)
        host.request("tools/list")
        times["lists"].append(time.perf_counter() - begun)
        assert not host.request("tools/call", get)["result"]["isError"]
        times["get"].append(time.perf_counter() - begun)
        host.close()
        subprocess.run([*KGD, "down", "--quiet"], check=True, env=house.environment)
        times["plain"].append(_timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
    middle = {name: statistics.median(found) for name, found in times.items()}
    return [
        compare(
            "first contact: `initialize` and `tools/list` without a daemon",
            "`python -c pass`",
            "ms",
            middle["lists"] * 1e3,
            middle["plain"] * 1e3,
            FIRST_CONTACT,
        ),
        value("first answered `get` without a daemon", "s", middle["get"], FIRST_GET, nodes=made.nodes),
    ]


def _round_trip(house: House, made: Made, rounds: int) -> Row:
    """An MCP ping through `kgd mcp`, and the same bytes on the daemon's socket."""
    host = kgd_host(house, made)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(house.home.socket)
    sock.sendall(start.hello("mcp", "bench"))
    stream = sock.makefile("rwb")
    stream.readline()

    def bare(message: dict[str, Any]) -> None:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()
        if "id" in message:
            stream.readline()

    bare({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE})
    bare({"jsonrpc": "2.0", "method": "notifications/initialized"})
    times: dict[str, list[float]] = {"pump": [], "bare": []}
    for _ in range(rounds):
        times["pump"].append(_timed(lambda: host.request("ping")))
        times["bare"].append(_timed(lambda: bare({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})))
    host.close()
    stream.close()
    sock.close()
    ours, theirs = (statistics.median(found) * 1e6 for found in times.values())
    return compare("round trip of a ping through `kgd mcp`", "the bare socket", "us", ours, theirs, ROUND_TRIP)


def some_call(made: Made, chance: random.Random) -> dict[str, Any]:
    uri = corpus.uri_of(chance.randrange(made.nodes))
    kind = chance.randrange(10)
    if kind < 6:
        return {"name": "get", "arguments": {"uris": [uri]}}
    if kind < 8:
        return {"name": "traverse", "arguments": {"start": [uri]}}
    if kind < 9:
        return {"name": "search", "arguments": {"query": " ".join(chance.sample(corpus.WORDS[200:2000], 2))}}
    return {"name": "put", "arguments": {"changes": [corpus.upsert(corpus.newcomer(made.nodes, chance))]}}


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
