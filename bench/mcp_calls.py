"""Calls over MCP: beside the official memory server, alone, by size.

`kgd mcp` is a real process, asked by the official SDK's client. Beside the peer both are asked in turn, the same
client, the same knowledge; growth and the floor are measured before the peer runs. The peer rewrites one file without
flushing it; kgd acknowledges a flushed commit. Times are wall clock, medians.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench import corpus, machine
from bench.corpus import Made
from bench.house import Caller, House, run, through_kgd, through_memory_server
from bench.row import Row, compare, missing, percentile, value
from kgd.model.node import Node

PEER = "official memory server"
TARGETS = {
    ("put", 1_000): 1 / 1.5,
    ("put", 10_000): 1 / 15,
    ("put", 100_000): 1 / 100,
    ("search", 10_000): 1 / 15,
    ("search", 100_000): 1 / 100,
    ("get", 10_000): 1 / 30,
    ("get", 100_000): 1 / 300,
}
PEERS_CALL = {"put": "create_entities", "search": "search_nodes", "get": "open_nodes"}
GROWTH, GET_CPU, TRAVERSE_CPU = 1.5, 1.5, 2.0
CAP = 100
MEMORY_MB = 350.0
ALONE = 60
"""Calls of each kind without the peer."""
BLOCKS = 5
PEERS_NODES = 100_000
"""The largest workspace for the peer, which reads and writes all of it with every call."""

Ask = Callable[[], Awaitable[float]]
Times = dict[str, list[float]]


def peer_rounds(nodes: int) -> int:
    """At 100,000 nodes one call of the peer takes about two seconds."""
    return 24 if nodes <= 1_000 else 12 if nodes <= 10_000 else 5


def rows(workspaces: Sequence[Made], folder: Path, server: Path | None, *, alone: int = ALONE) -> list[Row]:
    """Rows of all sizes. Each workspace gets its own daemon; `server` is the peer's program, None if missing."""
    found: list[Row] = []
    by_size: dict[int, Times] = {}
    for made in workspaces:
        times, more = run(_one_size(made, folder / f"mcp-{made.nodes}", server, alone))
        by_size[made.nodes] = times
        found += more
    return [*found, *_growth(by_size), *_floor(max(by_size), by_size[max(by_size)])]


async def _one_size(made: Made, folder: Path, server: Path | None, alone: int) -> tuple[Times, list[Row]]:
    with House(folder) as house:
        house.up(made)
        house.settle(made.nodes)
        async with AsyncExitStack() as stack:
            kgd = await stack.enter_async_context(through_kgd(house, made))
            asks = _Questions(made, random.Random())
            mine = asks.of_kgd(kgd)
            found = _memory(house, made)
            # Reads alone: the work after a write (index, publication) would slow the next call.
            times = await _in_turn({name: mine[name] for name in ("get", "traverse", "wide", "search", "empty")}, alone)
            times |= await _cpu(house, {name: mine[name] for name in ("get", "traverse", "empty")}, alone)
            times |= await _in_turn({"put": mine["put"], "search behind put": mine["search"]}, alone)
            if server is None or made.nodes > PEERS_NODES:
                why = "npm could not install it" if server is None else "a call of the peer takes too long"
                return times, [*found, *(missing(f"{op} over MCP", PEER, why) for op in PEERS_CALL)]
            file = folder / "memory.jsonl"
            corpus.write_peer_file(file, made.nodes)
            peer = await stack.enter_async_context(through_memory_server(server, file))
            theirs = asks.of_peer(peer)
            both = {who + name: ask[name] for name in PEERS_CALL for who, ask in (("", mine), ("peer ", theirs))}
            beside = await _in_turn(both, peer_rounds(made.nodes))
            found += [_against_peer(op, made.nodes, beside) for op in PEERS_CALL]
            return times, [*found, _memory_beside(house, made, peer)]


class _Questions:
    """The calls: existing nodes at random, and new nodes."""

    def __init__(self, made: Made, chance: random.Random) -> None:
        self._made, self._chance = made, chance
        self.reached: list[int] = []

    def of_kgd(self, caller: Caller) -> dict[str, Ask]:
        async def put() -> float:
            return (await caller.call("put", changes=[corpus.upsert(self._new())]))[0]

        async def get() -> float:
            return (await caller.call("get", uris=[self._some()]))[0]

        async def search() -> float:
            return (await caller.call("search", query=self._name()))[0]

        async def traverse() -> float:
            return (await caller.call("traverse", start=[self._some()], max_nodes=CAP))[0]

        async def wide() -> float:
            asked = await caller.call("traverse", start=[self._some()], max_nodes=CAP, direction="both", budget=10_000)
            self.reached.append(len(asked[1].structured_content["nodes"]))
            return asked[0]

        async def empty() -> float:
            return await caller.ping()

        return {"put": put, "get": get, "search": search, "traverse": traverse, "wide": wide, "empty": empty}

    def of_peer(self, caller: Caller) -> dict[str, Ask]:
        async def create() -> float:
            return (await caller.call("create_entities", entities=[corpus.entity(self._new())]))[0]

        async def open_nodes() -> float:
            return (await caller.call("open_nodes", names=[self._some()]))[0]

        async def search() -> float:
            return (await caller.call("search_nodes", query=self._name()))[0]

        return {"put": create, "get": open_nodes, "search": search}

    def _new(self) -> Node:
        return corpus.newcomer(self._made.nodes, self._chance)

    def _some(self) -> str:
        return corpus.uri_of(self._chance.randrange(self._made.nodes))

    def _name(self) -> str:
        return self._some().rpartition("/")[2]


async def _in_turn(asks: dict[str, Ask], rounds: int) -> Times:
    """Every question once a round; the first round warms up."""
    times: Times = defaultdict(list)
    for number in range(rounds + 1):
        for name, ask in asks.items():
            took = await ask()
            if number:
                times[name].append(took)
    return times


async def _cpu(house: House, asks: dict[str, Ask], calls: int) -> Times:
    """CPU seconds of the daemon per call, of several blocks of calls of one kind."""
    times: Times = defaultdict(list)
    for _ in range(BLOCKS):
        for name, ask in asks.items():
            before = machine.cpu_of_threads(house.pid)
            for _ in range(calls):
                await ask()
            times[f"{name} cpu"].append((machine.cpu_of_threads(house.pid) - before) / calls)
    return times


def _against_peer(op: str, nodes: int, beside: Times) -> Row:
    return compare(
        f"{op} over MCP",
        f"{PEERS_CALL[op]} of the {PEER}",
        "ms",
        _ms(beside[op]),
        _ms(beside[f"peer {op}"]),
        TARGETS.get((op, nodes)),
        nodes=nodes,
        calls=len(beside[op]),
    )


def _memory(house: House, made: Made) -> list[Row]:
    found = machine.memory(house.pid)
    target = MEMORY_MB if made.nodes >= 100_000 else None
    return [
        value(
            "memory of the daemon after a start from git",
            "MB",
            found["now"],
            target,
            nodes=made.nodes,
            note=f"peak {found['peak']:.0f} MB",
        )
    ]


def _memory_beside(house: House, made: Made, peer: Caller) -> Row:
    ours = machine.memory(house.pid)["now"]
    theirs = max(machine.memory(pid)["now"] for pid in peer.pids)
    return {
        "what": "memory of the daemon",
        "nodes": made.nodes,
        "peer": PEER,
        "mb": round(ours),
        "peer_mb": round(theirs),
        "ratio": round(ours / theirs, 3),
        "target": 1.0 if made.nodes >= 100_000 else None,
    }


def _growth(by_size: dict[int, Times]) -> list[Row]:
    small, large = min(by_size), max(by_size)
    return [
        compare(
            f"{op} over MCP, growth",
            f"{small:,} nodes",
            "ms",
            _ms(by_size[large][op]),
            _ms(by_size[small][op]),
            GROWTH,
            nodes=large,
        )
        for op in ("put", "get", "traverse")
    ]


def _floor(nodes: int, times: Times) -> list[Row]:
    empty = _ms(times["empty"])
    return [
        *(
            compare(
                what,
                "an empty call (ping)",
                "ms",
                _ms(times[f"{op} cpu"]),
                _ms(times["empty cpu"]),
                target,
                nodes=nodes,
            )
            for op, what, target in (
                ("get", "get over MCP, CPU of the daemon", GET_CPU),
                ("traverse", f"traverse over MCP, cap {CAP}, CPU of the daemon", TRAVERSE_CPU),
            )
        ),
        compare(
            "traverse over MCP, both ways, up to 100 nodes or 40 KB",
            "an empty call (ping)",
            "ms",
            _ms(times["wide"]),
            empty,
            None,
            nodes=nodes,
        ),
        compare("search over MCP", "an empty call (ping)", "ms", _ms(times["search"]), empty, None, nodes=nodes),
        value("search right behind a put, which it must find", "ms", _ms(times["search behind put"]), nodes=nodes),
    ]


def _ms(seconds: Sequence[float]) -> float:
    return percentile(seconds, 0.5) * 1e3
