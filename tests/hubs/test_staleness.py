"""How far hubs lag behind each other, with an upstream over HTTP. Prints figures.

python -m pytest -q -s -m large tests/hubs/test_staleness.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import anyio
import pytest

from tests.event_loops import apart
from tests.hub.conftest import Hub
from tests.hubs.chaos import git_server
from tests.hubs.conftest import Team
from tests.hubs.test_balancer import connected
from tests.hubs.test_hubs import put, summary

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow, pytest.mark.timeout(3_600)]
PAUSE = 0.01
"""Seconds between two looks at a hub that lags."""
LONGEST = 1.0
"""Bound in seconds for the 99th percentiles of the trials. The promise is 0.3 on a machine without other work."""


@pytest.fixture
def token(team: Team) -> Iterator[str]:
    """A token without tight limits at three hubs over HTTP."""
    with git_server(team.folder) as (_, port):
        team.address = f"http://127.0.0.1:{port}/infra.git"
        first = team.start(3)[0]
        for hub in team.hubs:
            hub.call("status", workspace="infra")
        yield first.mint("read,write", requests_per_minute=1_000_000, nodes_per_day=1_000_000)


def figures(name: str, seconds: list[float]) -> float:
    """Print the median and the 99th percentile, and return the latter in seconds."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    print(
        f"{name}: n={len(ordered)}, p50={statistics.median(ordered) * 1000:.0f} ms, p99={p99 * 1000:.0f} ms, "
        f"max={ordered[-1] * 1000:.0f} ms"
    )
    return p99


@pytest.mark.requirement("N6")
@pytest.mark.parametrize("count", [6, pytest.param(1_000, marks=pytest.mark.large)])
def test_first_reads_at_another_hub_see_the_clients_own_write(team: Team, token: str, count: int) -> None:
    writes, reads = [], []
    for number in range(count):
        writer, reader = team.hubs[number % 3], team.hubs[(number + 1 + number // 3 % 2) % 3]
        began = time.monotonic()
        position = put(writer, token, "a", str(number)).headers["x-kgd-at"]
        wrote = time.monotonic()
        answer = reader.post(token, "infra/get", {"uris": ["concept://infra/a"]}, x_kgd_at=position)
        writes.append(wrote - began)
        reads.append(time.monotonic() - wrote)
        assert answer.status == 200, answer.body
        assert answer.json["nodes"][0]["summary"] == str(number)
    figures("writes", writes)
    figures("first reads with the position", reads)


@pytest.mark.large
def test_staleness_of_reads_without_a_position(team: Team, token: str) -> None:
    lags = []
    for number in range(300):
        writer, reader = team.hubs[number % 3], team.hubs[(number + 1 + number // 3 % 2) % 3]
        put(writer, token, "a", str(number))
        began = time.monotonic()
        while summary(reader, token, "a") != str(number):
            assert time.monotonic() < began + 30
            time.sleep(PAUSE)
        lags.append(time.monotonic() - began)
        time.sleep(0.2)  # at rest again
    assert figures("staleness without a position", lags) < LONGEST


@pytest.mark.large
def test_subscribers_at_another_hub_hear_of_a_change(team: Team, token: str) -> None:
    apart(partial(_listen, team.hubs, token))


async def _listen(hubs: list[Hub], token: str) -> None:
    lags = list[float]()

    def write(number: int) -> float:
        put(hubs[0], token, "a", f"heard {number}")
        return time.monotonic()

    async with (
        connected(hubs[1].url, token, "auto") as client,
        client.listen(resource_subscriptions=["kgd://infra/nodes/concept://infra/a"]) as events,
    ):
        for number in range(200):
            heard = list[float]()

            async def hear(heard: list[float] = heard) -> None:
                await anext(aiter(events))
                heard.append(time.monotonic())

            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(hear)
                    wrote = await anyio.to_thread.run_sync(write, number)
            lags.append(max(0.0, heard[0] - wrote))
            await anyio.sleep(0.1)
    assert figures("subscribers, after the acknowledgement", lags) < LONGEST
