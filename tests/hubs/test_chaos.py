"""Hubs that are killed, and whose surroundings fail, lose nothing that they acknowledged and make nothing twice."""

from __future__ import annotations

import contextlib
import random
import signal
import time

import pytest

from tests.hubs.balancer import balancer
from tests.hubs.chaos import NODES, Clients, audited, git_server, kill_and_restart, lose_disk
from tests.hubs.conftest import Team
from tests.hubs.relay import Relay
from tests.hubs.test_operating import behind, started
from tests.postgres_server import Server
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")


def started_over_http(team: Team, port: int, hubs: int = 3) -> str:
    """The hubs, over HTTP; returns a token."""
    team.address = f"http://127.0.0.1:{port}/infra.git"
    first = team.start(hubs)[0]
    first.put("concept://infra/n0", summary="x")
    for number in range(1, NODES):
        first.put(f"concept://infra/n{number}", summary="x")
    # Each kill costs the token a part of its quotas.
    return first.mint("read,write", requests_per_minute=1_000_000, nodes_per_day=1_000_000, bytes_per_day=1 << 40)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.requirement("N6")
@pytest.mark.parametrize(("clients", "kills"), [(6, 3), pytest.param(32, 50, marks=pytest.mark.large)])
def test_killed_hubs_lose_nothing_and_make_nothing_twice(team: Team, clients: int, kills: int) -> None:
    dice = random.Random(18)
    with git_server(team.folder) as (_, port):
        running = Clients(team, started_over_http(team, port), clients, 18)
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
@pytest.mark.needs("haproxy")
@pytest.mark.timeout(3_600)
@pytest.mark.requirement("N6")
@pytest.mark.parametrize(
    ("clients", "kills", "pause", "outage"),
    [(6, 1, 5.0, 3.0), pytest.param(32, 50, 60.0, 30.0, marks=pytest.mark.large)],
)
def test_all_faults_together_cost_only_time(
    team: Team, postgres: Server, clients: int, kills: int, pause: float, outage: float
) -> None:
    """Kills, a deleted disk, a hub that hangs, a restart of PostgreSQL, an upstream that is down, and a cut network."""
    dice = random.Random(20)
    with contextlib.ExitStack() as made:
        server, port = made.enter_context(git_server(team.folder))
        relays = [made.enter_context(contextlib.closing(Relay(port))) for _ in range(3)]
        token = started(team, addresses=[f"http://127.0.0.1:{one.port}/infra.git" for one in relays])
        url = made.enter_context(balancer(team.hubs, team.folder))
        running = Clients(behind(team, url), token, clients, 20)

        def kill() -> None:
            kill_and_restart(team, dice, running.ledger)

        def delete_disk() -> None:
            lose_disk(dice.choice(team.hubs))

        def hang() -> None:
            paused = dice.choice(team.hubs).process
            assert paused is not None
            paused.send_signal(signal.SIGSTOP)
            time.sleep(pause)
            paused.send_signal(signal.SIGCONT)

        def restart_postgres() -> None:
            postgres.stop()
            postgres.start()

        def stop_upstream() -> None:
            server.kill()
            server.wait()
            time.sleep(outage)
            made.enter_context(git_server(team.folder, port))

        def cut_network() -> None:
            with dice.choice(relays).cut():
                time.sleep(outage)

        faults = [*[kill] * kills, delete_disk, hang, restart_postgres, stop_upstream, cut_network]
        dice.shuffle(faults)
        for fault in faults:
            enough = len(running.ledger.acknowledged) + 8
            until(
                lambda enough=enough: len(running.ledger.acknowledged) > enough,  # type: ignore[misc]
                120,
                lambda: running.ledger.refusals,
            )
            fault()
        ledger = audited(team, running)
    print(len(ledger.acknowledged), "acknowledged,", ledger.kills, "kills,", dict(ledger.refusals))
