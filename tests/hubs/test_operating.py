"""Hubs behind a load balancer: the balancer learns which hubs are ready, and no call fails during a rolling restart."""

from __future__ import annotations

import ast
import copy
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from kgd.postgres.database import STEPS
from tests.conftest import ROOT
from tests.hub.conftest import Hub
from tests.hubs.balancer import balancer
from tests.hubs.chaos import NODES, Clients, audited, git_server
from tests.hubs.conftest import Team
from tests.ports import free_port
from tests.postgres_server import Server
from tests.sync.people import git
from tests.waiting import until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]

DRAIN = "3"
"""Seconds; the balancer checks each hub once a second."""


def is_ready(hub: Hub) -> bool:
    return hub.ask("GET", "/ready").status == 200


def failing(hub: Hub) -> set[str]:
    answer = hub.ask("GET", "/ready")
    return (
        {name for name, found in answer.json.get("checks", {}).items() if found != "ok"}
        if answer.status != 200
        else set()
    )


@pytest.mark.timeout(300)
@pytest.mark.requirement("N6")
def test_a_hub_is_not_ready_while_it_cannot_reach_its_upstream_or_postgresql(team: Team, postgres: Server) -> None:
    with git_server(team.folder) as (server, port):
        team.address = f"http://127.0.0.1:{port}/infra.git"
        team.more = ("--behind-proxy",)  # without a token, an address is limited to five requests a second
        (hub,) = team.start()
        token = hub.mint("read,write")
        until(lambda: is_ready(hub))
        server.kill()
        server.wait()
        change = {"op": "upsert", "uri": "concept://infra/a", "summary": "x"}
        assert hub.post(token, "infra/put", {"changes": [change]}).status == 503
        until(lambda: failing(hub) == {"upstream"})
        with git_server(team.folder, port):
            until(lambda: is_ready(hub))
            postgres.stop()
            try:
                until(lambda: failing(hub) == {"state"})
                assert hub.ask("GET", "/live").status == 200
            finally:
                postgres.start()
            until(lambda: is_ready(hub))


def behind(team: Team, url: str) -> Team:
    """The team as clients of the balancer see it: one hub."""
    seen = copy.copy(team)
    seen.hubs = [replace(team.hubs[0], url=url)]
    return seen


def started(team: Team, *options: str, hubs: int = 3, code: Path = ROOT, addresses: Sequence[str] = ()) -> str:
    """Hubs with fixed addresses, of the version in this folder; returns a token.

    Args:
        addresses: The upstream's address for each hub, if they differ.
    """
    for number in range(hubs):
        team.address = addresses[number] if addresses else team.address
        team.more = ("--listen", f"127.0.0.1:{free_port()}", "--behind-proxy", *options)
        team.start(code=code)
    first = team.hubs[0]
    for number in range(NODES):
        first.put(f"concept://infra/n{number}", summary="x")
    return first.mint("read,write", requests_per_minute=1_000_000, nodes_per_day=1_000_000, bytes_per_day=1 << 40)


def restart_one_by_one(team: Team, running: Clients) -> None:
    """Replace each hub with one of this version, as soon as the previous hub is ready."""
    for hub in team.hubs:
        enough = len(running.ledger.acknowledged) + 3
        until(
            lambda enough=enough: len(running.ledger.acknowledged) > enough,  # type: ignore[misc]
            120,
            lambda: running.ledger.refusals,
        )
        hub.stop(signal.SIGTERM)
        hub.environment["PYTHONPATH"] = str(ROOT)
        hub.start()
        until(lambda hub=hub: is_ready(hub))  # type: ignore[misc]


SCHEMA = "kgd/postgres/database.py"


def steps(source: str) -> ast.Tuple:
    """The steps of the schema, in the text of its module."""
    made = (one for one in ast.parse(source).body if isinstance(one, ast.Assign))
    found = {ast.unparse(one.targets[0]): one.value for one in made}["STEPS"]
    assert isinstance(found, ast.Tuple)
    return found


def older(folder: Path) -> None:
    """Write kgd before the last step of its schema; in a clone without history, this version without that step."""
    for commit in git(ROOT, "log", "--format=%H", "HEAD", "--", SCHEMA, check=False).split():
        before = git(ROOT, "show", f"{commit}^:{SCHEMA}", check=False)
        if before and len(steps(before).elts) < len(STEPS):
            git(ROOT, "archive", "--format=tar", f"--output={folder}.tar", f"{commit}^", "kgd", "docs")
            shutil.unpack_archive(f"{folder}.tar", folder, filter="data")
            return
    for part in ("kgd", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    lines = (folder / SCHEMA).read_text().splitlines(keepends=True)
    last = steps("".join(lines)).elts[-1]
    del lines[last.lineno - 1 : last.end_lineno]
    (folder / SCHEMA).write_text("".join(lines))


@pytest.mark.needs("haproxy")
@pytest.mark.timeout(900)
@pytest.mark.requirement("N6")
@pytest.mark.parametrize(("hubs", "clients"), [(2, 2), pytest.param(3, 32, marks=pytest.mark.large)])
def test_an_upgrade_of_hubs_one_by_one_fails_no_call(team: Team, tmp_path: Path, hubs: int, clients: int) -> None:
    """The first hub of the new version changes the tables; the others keep working with them until their turn."""
    older(tmp_path / "older")
    token = started(team, "--drain", DRAIN, hubs=hubs, code=tmp_path / "older")
    with (
        balancer(team.hubs, team.folder) as url,
        psycopg.connect(team.state, autocommit=True) as state,
    ):
        applied = "SELECT count(*) FROM kgd_steps"
        (before,) = state.execute(applied).fetchone() or ()
        running = Clients(behind(team, url), token, clients, 20)
        restart_one_by_one(team, running)
        ledger = audited(team, running)
        assert state.execute(applied).fetchone() == (len(STEPS),)
        assert before < len(STEPS)
    print(len(ledger.acknowledged), "acknowledged,", dict(ledger.refusals))
    assert ledger.refusals == {}
