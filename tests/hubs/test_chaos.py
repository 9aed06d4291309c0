"""Hubs that are killed, and whose surroundings fail, lose nothing that they acknowledged and make nothing twice."""

from __future__ import annotations

import random
import signal

import pytest

from tests.hubs.chaos import NODES, Clients, audited, git_server, kill_and_restart
from tests.hubs.conftest import Team
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")


def started(team: Team, port: int, hubs: int = 3) -> str:
    """The hubs, over HTTP; returns a token."""
    team.address = f"http://127.0.0.1:{port}/infra.git"
    first = team.start(hubs)[0]
    first.put("concept://infra/n0", summary="x")
    for number in range(1, NODES):
        first.put(f"concept://infra/n{number}", summary="x")
    # Each kill costs the token a part of its quotas.
    return first.mint("read,write", requests_per_minute=1_000_000, nodes_per_day=1_000_000, bytes_per_day=1 << 40)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("N6")
@pytest.mark.parametrize(
    ("clients", "kills"), [(6, 3), pytest.param(32, 50, marks=[pytest.mark.large, pytest.mark.timeout(3_600)])]
)
def test_killed_hubs_lose_nothing_and_make_nothing_twice(team: Team, clients: int, kills: int) -> None:
    dice = random.Random(18)
    with git_server(team.folder) as (_, port):
        running = Clients(team, started(team, port), clients, 18)
        for _ in range(kills):
            enough = len(running.ledger.acknowledged) + 8
            until(
                lambda enough=enough: len(running.ledger.acknowledged) > enough,  # type: ignore[misc]
                120,
                lambda: running.ledger.refusals,
            )
            kill_and_restart(team, dice, running.ledger)
        ledger = audited(team, running)
    print(len(ledger.acknowledged), "acknowledged,", ledger.kills, "kills,", dict(ledger.refusals))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_unreachable_upstream_and_a_hanging_hub_cost_only_time(team: Team) -> None:
    with git_server(team.folder) as (server, port):
        running = Clients(team, started(team, port), 6, 19)
        until(lambda: len(running.ledger.acknowledged) > 10, 60)
        paused = team.hubs[1].process
        assert paused is not None
        paused.send_signal(signal.SIGSTOP)
        server.kill()
        server.wait()
        refused = running.ledger.refusals.total()
        until(lambda: running.ledger.refusals.total() > refused + 3, 60)
        with git_server(team.folder, port):
            before = len(running.ledger.acknowledged)
            paused.send_signal(signal.SIGCONT)
            until(lambda: len(running.ledger.acknowledged) > before + 10, 120)
            ledger = audited(team, running)
    print(len(ledger.acknowledged), "acknowledged,", dict(ledger.refusals))
