"""Clients that write to a team's hubs while hubs are killed and their surroundings fail, and the audit afterwards.

The ledger of acknowledged writes is kept here, outside kgd. Each write appends a text of its own to a node, so that a
lost write is missing, and a repeated write is there twice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests import forked
from tests.conftest import ROOT
from tests.hub.conftest import Hub
from tests.hubs.conftest import Team
from tests.sync.people import git
from tests.waiting import until

NODES = 6
"""Nodes that all clients append to."""
ATTEMPTS_SECONDS = 120.0
AGREE_SECONDS = 120.0


@dataclass
class Ledger:
    """What the hubs answered. Thread-safe, since each entry is appended once."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Commit by text."""
    early: list[str] = field(default_factory=list)
    """Acknowledged texts whose commit the upstream did not have at that moment."""
    refusals: Counter[str] = field(default_factory=Counter)
    kills: int = 0


@contextlib.contextmanager
def git_server(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.hubs.git_http", str(port), str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Clients:
    """Threads that append to nodes through random hubs, and repeat a request until it is acknowledged."""

    def __init__(self, team: Team, token: str, count: int, seed: int) -> None:
        self._team, self._token = team, token
        self.ledger = Ledger()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n, seed), daemon=True) for n in range(count)]
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """Let each client finish the write that it has begun."""
        self._stop.set()
        deadline = time.monotonic() + ATTEMPTS_SECONDS
        for one in self._threads:
            one.join(max(0.0, deadline - time.monotonic()))
            assert not one.is_alive(), "a write was not acknowledged in time"

    def _run(self, number: int, seed: int) -> None:
        dice = random.Random(f"{seed} {number}")
        for turn in range(1_000_000):
            if self._stop.wait(dice.uniform(0, 0.2)):
                return
            text = f"<{number}-{turn}>"
            change = {"op": "append", "uri": f"concept://infra/n{dice.randrange(NODES)}", "text": text}
            body = json.dumps({"changes": [change], "request_id": f"{seed}-{number}-{turn}"}).encode()
            until_deadline = time.monotonic() + ATTEMPTS_SECONDS
            while time.monotonic() < until_deadline:
                if commit := self._asked(dice.choice(self._team.hubs), body):
                    if not _has(self._team.upstream, commit):
                        self.ledger.early.append(text)
                    self.ledger.acknowledged[text] = commit
                    break
                time.sleep(dice.uniform(0.05, 0.4))

    def _asked(self, hub: Hub, body: bytes) -> str:
        try:
            answer = hub.ask("POST", "/v1/infra/put", self._token, body)
        except (OSError, http.client.HTTPException) as error:
            self.ledger.refusals[type(error).__name__] += 1
            return ""
        if answer.status == 200:
            return str(answer.json["commit"])
        self.ledger.refusals[f"{answer.status}"] += 1
        if answer.status not in (429, 503):
            self.ledger.refusals[answer.body.decode()[:200]] += 1
        return ""


def _has(upstream: Path, commit: str) -> bool:
    command = ["git", "-C", str(upstream), "merge-base", "--is-ancestor", commit, "main"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def kill_and_restart(team: Team, dice: random.Random, ledger: Ledger) -> None:
    hub = dice.choice(team.hubs)
    hub.stop(signal.SIGKILL)
    ledger.kills += 1
    hub.start()


def lose_disk(hub: Hub) -> None:
    """Kill the hub, delete its home and its workspace, and start it with its registry as `deploy/start-hub` does."""
    registry = Path(hub.home.registry).read_bytes()
    hub.stop(signal.SIGKILL)
    shutil.rmtree(hub.home.config)
    shutil.rmtree(hub.workspace("infra"))
    hub.home.prepare()
    Path(hub.home.registry).write_bytes(registry)
    for command in (["up", "--workspace", "infra", "--bare", "--quiet"], ["down", "--quiet"]):
        assert forked.run(command, hub.folder, hub.environment).returncode == 0
    hub.start()


def audited(team: Team, clients: Clients) -> Ledger:
    """Compare the ledger with the upstream and with every hub. Raises AssertionError."""
    clients.stop()
    ledger, upstream = clients.ledger, team.upstream
    assert ledger.early == []
    missing = [text for text, commit in ledger.acknowledged.items() if not _has(upstream, commit)]
    assert missing == []
    contents = {n: _content(upstream, n) for n in range(NODES)}
    found = Counter(word for text in contents.values() for word in text.split() if word.startswith("<"))
    assert [text for text in ledger.acknowledged if found[text] != 1] == []
    assert [text for text, count in found.items() if count > 1] == []
    requests = git(upstream, "log", "--format=%(trailers:key=Kgd-Request,valueonly,separator=)", "main").split()
    assert [one for one, count in Counter(requests).items() if count > 1] == []
    # A push that lost its race, or was cut off, may leave objects that no ref leads to.
    assert git(upstream, "fsck", "--full", "--strict", "--no-dangling") == ""
    tip = git(upstream, "rev-parse", "main")
    for hub in team.hubs:
        until(lambda hub=hub: hub.call("status", workspace="infra")["workspace"]["tip"] == tip, AGREE_SECONDS)  # type: ignore[misc]
    return ledger


def _content(upstream: Path, number: int) -> str:
    return git(upstream, "show", f"main:nodes/concept/n{number}.yaml", check=False)
