"""The toolset `server-memory` beside the official memory server, over the same memory.

Both are asked in turn by the official SDK's client, over stdio, with the same calls. Up to 10,000 entities the
workspace comes from an import of the peer's file, which is measured too; the largest is written as a history by git.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson

from bench import corpus, machine
from bench.corpus import WORDS, Made
from bench.house import KGD, Caller, House, connected, run, through_memory_server
from bench.limit import at_most
from bench.mcp_calls import PEER
from bench.row import Row, compare, missing, percentile, value
from kgd.exchange import Reading
from kgd.exchange import entities as memory_file

TARGETS = {
    ("create_entities", 1_000): 1 / 1.5,
    ("create_entities", 10_000): 1 / 15,
    ("create_entities", 100_000): 1 / 100,
    ("search_nodes", 10_000): 1 / 25,
    ("search_nodes", 100_000): 1 / 200,
    ("open_nodes", 10_000): 1 / 30,
    ("open_nodes", 100_000): 1 / 300,
}
SEARCHES = {
    "search_nodes, one common word": 1,
    "search_nodes, two common words": 2,
    "search_nodes, four common words": 4,
}
ASKED = ("create_entities", "add_observations", "search_nodes", *SEARCHES, "open_nodes")
IMPORTED_UP_TO = 10_000
ONE_WORD_UP_TO = 10_000
"""Above this size, the answer to one common word is larger than kgd permits."""
SECONDS = 420.0
"""For one size: 100,000 entities are written, indexed, embedded and scanned for names before the first call."""
OBSERVATIONS = 5
COMMON_WORDS = WORDS[:60]
"""Half of the words in observations; each is in a third of the entities."""


def rounds(entities: int) -> int:
    return 20 if entities <= 1_000 else 8 if entities <= 10_000 else 2


def rows(sizes: Sequence[int], folder: Path, server: Path | None) -> Iterator[Row]:
    """Rows of all sizes; `server` is the peer's program, None if it is missing."""
    for entities in sizes:
        own = folder / f"memory-{entities}"
        own.mkdir(parents=True)
        (own / "memory.jsonl").write_bytes(b"\n".join(_lines(entities)))
        found: list[Row] = []
        try:
            with at_most(SECONDS):
                run(_one_size(entities, own, server, found))
        except TimeoutError as error:
            done = {row["what"] for row in found}
            found += [missing(f"{name}, {entities:,} entities", PEER, f"{error}") for name in ASKED if name not in done]
        yield from found
        shutil.rmtree(own, ignore_errors=True)


async def _one_size(entities: int, folder: Path, server: Path | None, found: list[Row]) -> None:
    file = folder / "memory.jsonl"
    with House(folder / "home") as house:
        made = _workspace(house, file, entities, folder, found)
        house.settle()
        house.stop()
        mine: list[float] = []
        begun = time.perf_counter()
        house.start()
        async with AsyncExitStack() as stack:
            command = [*KGD, "mcp", "--tools", "only:server-memory"]
            kgd = await stack.enter_async_context(connected(command, house.environment, made.layout.work_tree))
            chance = random.Random(entities)
            await kgd.call("open_nodes", names=[_some(entities, chance)])
            mine.append(time.perf_counter() - begun)
            first = (await kgd.call("search_nodes", query=_query(entities, chance)))[0]
            found.append(value("first search_nodes after a start", "s", first, nodes=entities))
            if server is None:
                why = "npm could not install it"
                found += [missing(name, PEER, why) for name in ASKED]
                return
            begun = time.perf_counter()
            peer = await stack.enter_async_context(through_memory_server(server, file))
            await peer.call("open_nodes", names=[_some(entities, chance)])
            found.append(_beside("start and first open_nodes", entities, mine, [time.perf_counter() - begun]))
            machine.wait_for_rest(house.pid)
            asked = [name for name in ASKED if SEARCHES.get(name) != 1 or entities <= ONE_WORD_UP_TO]
            times = await _in_turn((kgd, peer), asked, entities, chance)
            found += [_beside(name, entities, *times[name]) for name in asked]
            why = "kgd refuses an answer of more than 8 MiB"
            found += [missing(f"{name}, {entities:,} entities", PEER, why) for name in ASKED if name not in asked]


def _workspace(house: House, file: Path, entities: int, folder: Path, found: list[Row]) -> Made:
    if entities > IMPORTED_UP_TO:
        nodes = [one.node for one in memory_file.read(file, Reading(corpus.WORKSPACE)).wanted]
        made = corpus.build(folder / "workspace", entities, nodes=nodes)
        house.up(made)
        return made
    made = corpus.build(folder / "workspace", entities, work_tree=False, nodes=())
    house.up(made)
    begun = time.perf_counter()
    house.call("import", source=str(file), workspace=corpus.WORKSPACE)
    took = time.perf_counter() - begun
    found.append(value("import of memory.jsonl, as many relations", "s", took, nodes=entities))
    house.call("search", workspace=corpus.WORKSPACE, query="lease")
    return made


async def _in_turn(
    callers: tuple[Caller, Caller], asked: Sequence[str], entities: int, chance: random.Random
) -> dict[str, tuple[list[float], list[float]]]:
    """Each call of both servers in turn; the first round warms up."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in asked}
    for number in range(rounds(entities) + 1):
        for name in asked:
            arguments = _arguments(name, entities, chance)
            answers = []
            for which, caller in enumerate(callers):
                took, answer = await caller.call(name.partition(",")[0], **arguments)
                answers.append(answer.structured_content)
                if number:
                    times[name][which].append(took)
            if answers[0] != answers[1]:
                raise RuntimeError(f"{name}: the two do not answer alike")
    return times


def _arguments(name: str, entities: int, chance: random.Random) -> dict[str, Any]:
    if name == "create_entities":
        return {"entities": [_entity(entities + chance.randrange(10**12), chance)]}
    if name == "add_observations":
        return {"observations": [{"entityName": _some(entities, chance), "contents": [_said(chance)]}]}
    if name in SEARCHES:
        return {"query": " ".join(chance.sample(COMMON_WORDS, SEARCHES[name]))}
    if name == "search_nodes":
        return {"query": _query(entities, chance)}
    return {"names": [_some(entities, chance)]}


def _beside(what: str, entities: int, mine: Sequence[float], theirs: Sequence[float]) -> Row:
    ours, peers = (percentile(times, 0.5) * 1e3 for times in (mine, theirs))
    target = 1.0 if what in SEARCHES else TARGETS.get((what, entities))
    return compare(what, PEER, "ms", ours, peers, target, nodes=entities, calls=len(mine))


def _lines(entities: int) -> Iterator[bytes]:
    chance = random.Random(1)
    for number in range(entities):
        yield orjson.dumps({"type": "entity", **_entity(number, chance)})
    for number in range(entities):
        other = _name(chance.randrange(entities))
        yield orjson.dumps({"type": "relation", "from": _name(number), "to": other, "relationType": "works_with"})


def _entity(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "name": _name(number),
        "entityType": ("person", "service", "project")[number % 3],
        "observations": [_said(chance) for _ in range(OBSERVATIONS)],
    }


def _name(number: int) -> str:
    return f"{WORDS[100 + number % 7_000].title()} {number:07d}"


def _some(entities: int, chance: random.Random) -> str:
    return _name(chance.randrange(entities))


def _query(entities: int, chance: random.Random) -> str:
    """The end of a name, in lower case: it finds a few texts, at any position."""
    return _some(entities, chance)[2:].lower()


def _said(chance: random.Random) -> str:
    words = (chance.choice(COMMON_WORDS if chance.random() < 0.5 else WORDS) for _ in range(9))
    return " ".join(words).capitalize() + "."
