"""`python -m bench.sizing`: hubs for 1,000 teams and 10,000 agents, simulated. Prints a row per number of hubs.

Each workspace is at one hub, and each hub has one processor that serves calls in the order of their arrival. Calls
arrive at random (a Poisson process); the shares of the workspaces follow Zipf's law. The figures of `docs/scaling.md`
are the defaults. The simulation uses a fixed seed, so that everybody gets the same table.
"""

from __future__ import annotations

import argparse
import itertools
import random

WORKSPACES = 1_000
SKEW = 0.8
"""The exponent of Zipf's law: 1 % of the workspaces get about a fifth of the calls."""
READS, WRITES = 500.0, 17.0
"""Calls per second of all agents: 10,000 read every 20 seconds and write every 10 minutes."""
READ_SECONDS, WRITE_SECONDS = 0.003, 0.020
"""Processor time of a call."""


def simulated(hubs: int, seconds: float, seed: int = 1) -> tuple[float, list[float]]:
    """The share of time that the busiest hub works, and the sorted response times of all calls in seconds."""
    dice = random.Random(seed)
    shares = [1 / rank**SKEW for rank in range(1, WORKSPACES + 1)]
    dice.shuffle(shares)  # the hash that assigns a workspace to a hub knows nothing of its load
    free, worked = [0.0] * hubs, [0.0] * hubs
    took, now = list[float](), 0.0
    sums = list(itertools.accumulate(shares))
    while (now := now + dice.expovariate(READS + WRITES)) < seconds:
        hub = dice.choices(range(WORKSPACES), cum_weights=sums)[0] % hubs
        cost = WRITE_SECONDS if dice.random() < WRITES / (READS + WRITES) else READ_SECONDS
        free[hub] = max(free[hub], now) + cost
        worked[hub] += cost
        took.append(free[hub] - now)
    return max(worked) / seconds, sorted(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hubs", type=int, nargs="+", default=[2, 3, 4, 6])
    parser.add_argument("--seconds", type=float, default=600, help="simulated time")
    asked = parser.parse_args()
    print("| hubs | busiest hub | p50 | p99 |\n|---|---|---|---|")
    for hubs in asked.hubs:
        busy, took = simulated(hubs, asked.seconds)
        p50, p99 = (1000 * took[len(took) * share // 100] for share in (50, 99))
        print(f"| {hubs} | {busy:.0%} | {p50:.0f} ms | {p99:.0f} ms |")


if __name__ == "__main__":
    main()
