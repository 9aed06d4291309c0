"""Several clients write at once, each through its own server: the share of acknowledged changes that is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from kgd.tools import call
from kgd.tools.session import Session
from tests.e2e.conftest import Machine
from tests.server_memory.conftest import kgds
from tests.server_memory.script import Asked, entity, official, relation

ROUNDS = 12
SHARED = "everybody"


def write(server: Asked, writer: int, together: Barrier) -> list[str]:
    """Create entities, add observations to a shared entity, relate both; return the acknowledged changes."""
    promised = []
    together.wait()
    for number in range(ROUNDS):
        name, said = f"entity {writer}.{number}", f"said by {writer}.{number}"
        steps: list[tuple[str, dict[str, Any], str]] = [
            ("create_entities", {"entities": [entity(name)]}, name),
            ("add_observations", {"observations": [{"entityName": SHARED, "contents": [said]}]}, said),
            ("create_relations", {"relations": [relation(name, SHARED, "is_of")]}, f"{name} is_of"),
        ]
        for tool, arguments, what in steps:
            if not server.call(tool, arguments).get("isError", False):
                promised.append(what)
    return promised


def lost(start: Callable[[], Asked], writers: int) -> tuple[int, int, int]:
    """(promised, lost, refused) when so many clients, each with a server process of its own, write at once."""
    with start() as first:
        first.call("create_entities", {"entities": [entity(SHARED)]})
    servers = [start() for _ in range(writers)]
    together = Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        told = list(pool.map(lambda each: write(each[1], each[0], together), enumerate(servers)))
    for server in servers:
        server.__exit__(None, None, None)
    with start() as last:
        graph = last.call("read_graph", {}).get("structuredContent", {"entities": [], "relations": []})
    there = {one["name"] for one in graph["entities"]} | {f"{one['from']} is_of" for one in graph["relations"]}
    there |= {said for one in graph["entities"] if one["name"] == SHARED for said in one["observations"]}
    promised = [what for each in told for what in each]
    return len(promised), len([what for what in promised if what not in there]), 3 * ROUNDS * writers - len(promised)


@pytest.mark.slow
@pytest.mark.needs("server-memory")
@pytest.mark.parametrize("writers", [2, pytest.param(8, marks=pytest.mark.large)])
def test_kgd_loses_nothing_where_the_official_server_does(machine: Machine, tmp_path: Path, writers: int) -> None:
    machine("up")
    promised, gone, refused = lost(lambda: kgds(machine.directory), writers)
    file = tmp_path / "memory.jsonl"
    theirs, theirs_gone, theirs_refused = lost(lambda: official(file), writers)
    print(
        f"{writers} writers: kgd lost {gone} of {promised}, refused {refused}; "
        f"the official server lost {theirs_gone} of {theirs}, refused {theirs_refused}"
    )
    assert (promised, gone, refused) == (3 * ROUNDS * writers, 0, 0)
    assert theirs_gone + theirs_refused > 0


@pytest.mark.slow
def test_eight_clients_that_write_the_same_entities_lose_nothing_and_get_correct_answers(session: Session) -> None:
    def work(writer: int) -> tuple[int, int, int]:
        made = related = added = 0
        for number in range(10):
            made += len(call(session, "create_entities", {"entities": [entity(f"e{number}")]})["entities"])
            said = {"entityName": f"e{number}", "contents": [f"by {writer}", "by all"]}
            (result,) = call(session, "add_observations", {"observations": [said]})["results"]
            added += len(result["addedObservations"])
            link = relation(f"e{number}", "e0")
            related += len(call(session, "create_relations", {"relations": [link]})["relations"])
        return made, related, added

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(work, range(8)))
    graph = call(session, "read_graph")
    assert [sum(each) for each in zip(*told, strict=True)] == [10, 10, 90]
    assert {one["name"]: len(one["observations"]) for one in graph["entities"]} == {f"e{n}": 9 for n in range(10)}
    assert len(graph["relations"]) == 10
