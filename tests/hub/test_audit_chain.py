"""The chain over the audit log: one chain for all hubs, and a changed, removed or moved line is found."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from kgd.daemon.tokens import Tokens
from kgd.index import hub_state
from kgd.index.hub_state import SqliteHubState
from kgd.model.token import SEAL_SECONDS, AuditEntry, ChainCheck, HubState
from tests.hub.test_tokens import START, Clock, clock, open_state, state, tokens  # noqa: F401

pytestmark = pytest.mark.requirement("N8")
LATER = START + SEAL_SECONDS + 60


def noted(state: HubState, count: int, at: int = START) -> None:  # noqa: F811
    for number in range(count):
        state.note(AuditEntry(at, "t", "put", "infra", f"commit {number}"))


def checked(state: HubState) -> ChainCheck:  # noqa: F811
    found, after = ChainCheck(), 0
    while lines := state.lines(after, 7):
        for number, entry in lines:
            found.add(number, entry)
        after = lines[-1][0]
    return found


def test_lines_join_the_chain_once_they_no_longer_change(state: HubState) -> None:  # noqa: F811
    noted(state, 3)
    assert state.seal(START + SEAL_SECONDS) == 0
    noted(state, 1, LATER)
    assert state.seal(LATER) == 3
    assert state.seal(LATER) == 0
    found = checked(state)
    assert (found.first, found.last - found.first, found.open, found.problems) == (1, 2, 1, [])
    assert len({entry.hash for _, entry in state.lines(0, 10)}) == 4


def test_a_count_that_arrives_late_becomes_a_line_of_its_own(state: HubState) -> None:  # noqa: F811
    number = state.note(AuditEntry(START, "t", "put refused", "infra", "FORBIDDEN: no"))
    state.renote(number, "FORBIDDEN: no (2 times)")
    state.seal(LATER)
    state.renote(number, "FORBIDDEN: no (3 times)")
    told = [(entry.action, entry.detail, bool(entry.hash)) for _, entry in state.lines(0, 10)]
    assert told == [
        ("put refused", "FORBIDDEN: no (2 times)", True),
        ("put refused", "FORBIDDEN: no (3 times)", False),
    ]
    state.seal(LATER)
    assert checked(state).problems == []


@pytest.mark.slow
def test_several_hubs_make_one_chain(open_state: Callable[[], HubState]) -> None:  # noqa: F811
    hubs = [open_state() for _ in range(3)]

    def work(hub: HubState) -> None:
        for _ in range(100):
            number = hub.note(AuditEntry(START, "t", "put"))
            hub.seal(LATER)
            hub.renote(number, "again")

    threads = [threading.Thread(target=work, args=(one,)) for one in hubs]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    while hubs[0].seal(LATER):
        pass
    found = checked(hubs[0])
    assert (found.problems, found.open) == ([], 0)
    assert found.last >= 300
    for hub in hubs:
        hub.close()


CHANGES = {
    "changed": ("UPDATE trail SET detail = 'nothing' WHERE number = 5", "line 5 "),
    "removed": ("DELETE FROM trail WHERE number = 5", "line 6 "),
    "removed with its hash": ("DELETE FROM trail WHERE number = 5; DELETE FROM seals WHERE number = 5", "line 6 "),
    "moved": (
        "UPDATE trail SET detail = 'commit 5' WHERE number = 5; UPDATE trail SET detail = 'commit 4' WHERE number = 6",
        "line 5 ",
    ),
    "out of the chain": ("DELETE FROM seals WHERE number = 5", "1 lines before line 6 "),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_forged_line_is_found(tmp_path: Path, how: str) -> None:
    statements, place = CHANGES[how]
    made = SqliteHubState(tmp_path / "hub.db")
    noted(made, 10)
    made.seal(LATER)
    assert checked(made).problems == []
    with sqlite3.connect(tmp_path / "hub.db") as db:
        db.executescript(statements)
    db.close()
    assert checked(made).problems[0].startswith(place)
    made.close()


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("how", ["changed", "removed with its hash"])
def test_a_forged_line_is_found_in_postgresql(postgres: object, how: str) -> None:
    from tests import postgres_server

    assert isinstance(postgres, postgres_server.Server)
    statements, place = CHANGES[how]
    with postgres.schema() as url:
        made = postgres_server.HubState(url)
        noted(made, 10)
        made.seal(LATER)
        with psycopg.connect(url, autocommit=True) as db:
            for statement in statements.split(";"):
                db.execute(statement.encode())
        assert checked(made).problems[0].startswith(place)
        made.close()


def test_the_chain_continues_over_moved_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_state, "TRAIL_KEPT", 100)
    monkeypatch.setattr(hub_state, "ROTATED", 50)
    made = SqliteHubState(tmp_path / "hub.db")
    noted(made, 300)
    made.seal(LATER)
    files = sorted((tmp_path / "audit").iterdir())
    assert files
    found = checked(made)
    assert (found.first, found.last, found.problems) == (1, 300, [])
    files[0].unlink()
    assert checked(made).problems == [], "an operator may remove the oldest files"
    text = files[1].read_text().splitlines()
    files[1].write_text("\n".join([*text[:10], *text[11:]]) + "\n")
    assert len(checked(made).problems) == 1
    made.close()


def test_a_file_from_before_the_upgrade_is_sealed(tmp_path: Path) -> None:
    made = SqliteHubState(tmp_path / "hub.db")
    noted(made, 5)
    made.close()
    with sqlite3.connect(tmp_path / "hub.db") as db:
        db.execute("DROP TABLE seals")
    db.close()
    made = SqliteHubState(tmp_path / "hub.db")
    assert made.seal(LATER) == 5
    made.close()


def test_the_log_is_sealed_while_it_is_written(tokens: Tokens, clock: Clock) -> None:  # noqa: F811
    tokens.note("t", "put", "infra", "commit 1")
    clock.now += SEAL_SECONDS + 1
    tokens.note("t", "put", "infra", "commit 2")
    assert [bool(entry.hash) for _, entry in tokens.state.lines(0, 10)] == [True, False]
    assert json.dumps(tokens.state.lines(0, 1)[0][1].hash).isascii()
