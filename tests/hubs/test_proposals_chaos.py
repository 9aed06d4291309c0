"""Hubs that are killed while clients propose and decide lose no proposal, and decide each once."""

from __future__ import annotations

import http.client
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.hub.conftest import Answer
from tests.hubs.chaos import ATTEMPTS_SECONDS, Ledger, git_server, kill_and_restart
from tests.hubs.conftest import Team
from tests.hubs.test_proposals import pending, submit
from tests.sync.people import git
from tests.waiting import until

CLIENTS, KILLS = 6, 8


@dataclass
class Client:
    """Proposes a change at one hub, and sends opposite decisions to two; repeats each call until it is answered."""

    team: Team
    number: int
    bot: str
    ann: str
    names: list[str] = field(default_factory=list)
    decided: list[tuple[str, str]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        dice, turn = random.Random(self.number), 0
        while not self.stop.is_set():
            turn += 1
            path = f"services/n{self.number}-{turn}"
            made = self.answered(lambda dice=dice, path=path: submit(dice.choice(self.team.hubs), self.bot, path, path))  # type: ignore[misc]
            assert made.status == 200, made.body
            name = str(made.json["proposal"]).partition("@")[0]
            self.names.append(name)
            hows = ["accept", "reject"]
            dice.shuffle(hows)
            for how in hows:
                done = self.answered(
                    lambda how=how, name=name: dice.choice(self.team.hubs).post(
                        self.ann, f"infra/{how}", {"name": name}
                    )  # type: ignore[misc]
                )
                assert done.status in (200, 404, 409), done.body
                if done.status == 200:
                    self.decided.append((name, how))

    def answered(self, ask: Callable[[], Answer]) -> Answer:
        answers: list[Answer] = []

        def tried() -> bool:
            try:
                answers.append(ask())
            except (OSError, http.client.HTTPException):
                return False
            return answers[-1].status not in (429, 503)

        until(tried, ATTEMPTS_SECONDS, lambda: [one.body for one in answers[-1:]])
        return answers[-1]


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.needs("postgres")
@pytest.mark.timeout(3_600)
@pytest.mark.requirement("N6")
def test_killed_hubs_lose_no_proposal_and_decide_each_once(team: Team) -> None:
    dice, ledger = random.Random(46), Ledger()
    more: dict[str, Any] = {"requests_per_minute": 1_000_000, "nodes_per_day": 1_000_000, "bytes_per_day": 1 << 40}
    with git_server(team.folder) as (_, port):
        team.address = f"http://127.0.0.1:{port}/infra.git"
        first = team.start(3)[0]
        first.put("concept://infra/services/x", summary="one")
        bot, ann = first.mint("propose", name="bot", **more), first.mint("read,write", name="ann", **more)
        clients = [Client(team, number, bot, ann) for number in range(CLIENTS)]
        threads = [threading.Thread(target=one.run, daemon=True) for one in clients]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            enough = sum(len(one.decided) for one in clients) + 6
            until(lambda enough=enough: sum(len(one.decided) for one in clients) > enough, 240)  # type: ignore[misc]
            kill_and_restart(team, dice, ledger)
        for one in clients:
            one.stop.set()
        for thread in threads:
            thread.join(4 * ATTEMPTS_SECONDS)
            assert not thread.is_alive()
    names = [name for one in clients for name in one.names]
    decided = [pair for one in clients for pair in one.decided]
    assert len(set(names)) == len(names), "each request has a proposal of its own"
    assert pending(team.upstream) == []
    accepted = Counter(re.findall(r"Kgd-Origin: proposals/(\S+)@", git(team.upstream, "log", "--format=%B", "main")))
    assert max(accepted.values()) == 1
    assert max(Counter(name for name, _ in decided).values()) == 1
    assert {name for name, how in decided if how == "accept"} <= set(accepted)
    assert not {name for name, how in decided if how == "reject"} & set(accepted)
    print(len(names), "proposed,", len(decided), "decided,", len(accepted), "accepted,", ledger.kills, "kills")
