"""Several hubs over one PostgreSQL: shared quotas, a server that is lost and returns, and hubs of two versions."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kgd.daemon.shared_state import SharedState
from kgd.errors import Damaged, Invalid, Unavailable
from kgd.model.browser_state import SignedIn, Visitor
from kgd.model.token import AuditEntry
from kgd.postgres import database, hub_state
from kgd.postgres.database import Database, Wakeups
from kgd.postgres.hub_state import PostgresBrowserState
from tests import postgres_server
from tests.postgres_server import HubState
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")
AT = 1_800_000_000


@pytest.fixture
def url(postgres: postgres_server.Server) -> Iterator[str]:
    with postgres.schema() as made:
        yield made


# ---- quotas


LONG = 10**10
"""Seconds of a window that does not end during a test."""


def spend(hub: HubState, limits: dict[str, int], what: str, amount: int, seconds: int = LONG) -> bool:
    return hub.spend(limits, what, seconds, amount, AT) == 0


def spent_by(hubs: list[HubState], limit: int) -> int:
    """How many requests all hubs together allow, each with four clients that ask until they are refused."""
    allowed: list[int] = []

    def client(hub: HubState) -> None:
        count = 0
        while spend(hub, {"child": limit, "parent": limit}, "requests", 1):
            count += 1
        allowed.append(count)

    clients = [threading.Thread(target=client, args=(hub,)) for hub in hubs for _ in range(4)]
    for one in clients:
        one.start()
    for one in clients:
        one.join(60)
    assert len(allowed) == len(clients)
    return sum(allowed)


@pytest.mark.parametrize("limit", [1, 7, 600])
def test_three_hubs_together_allow_exactly_the_quota(url: str, limit: int) -> None:
    hubs = [HubState(url) for _ in range(3)]
    assert spent_by(hubs, limit) == limit
    for one in hubs:
        one.close()


def available(hub: HubState, limit: int, what: str) -> int:
    """How many the hub still allows, one by one."""
    count = 0
    while spend(hub, {"t": limit}, what, 1):
        count += 1
    return count


@pytest.mark.requirement("N6")
@pytest.mark.parametrize(("what", "used", "lost"), [("nodes", 9, 0), ("requests", 1, 0), ("requests", 9, 9)])
def test_a_killed_hub_loses_less_of_a_quota_than_it_used_and_the_quota_holds(
    url: str, what: str, used: int, lost: int
) -> None:
    killed, living = HubState(url), HubState(url)
    for _ in range(used):
        assert spend(killed, {"t": 600}, what, 1)
    killed._database.close()  # its lease is not returned
    assert 600 - used - lost <= available(living, 600, what) <= 600 - used
    living.close()


@pytest.mark.slow
def test_a_crash_of_postgresql_forgets_no_lease(url: str, postgres: postgres_server.Server) -> None:
    for _ in range(5):
        first = HubState(url)
        assert spend(first, {"t": 20}, "requests", 4)
        postgres.crash()
        postgres.start()
    last = HubState(url)
    assert not spend(last, {"t": 20}, "requests", 1)
    last.close()


def test_an_unused_lease_returns(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_state.HELD_SECONDS + hub_state.LOOK_SECONDS < 60
    monkeypatch.setattr(hub_state, "LOOK_SECONDS", 0.02)
    idle, busy = HubState(url), HubState(url)
    for _ in range(2):
        assert spend(idle, {"t": 100}, "requests", 1)
    assert not spend(busy, {"t": 100}, "requests", 98)
    monkeypatch.setattr(hub_state, "HELD_SECONDS", 0.05)
    until(lambda: spend(busy, {"t": 100}, "requests", 98))
    assert not spend(busy, {"t": 100}, "requests", 1)
    idle.close()
    busy.close()


def test_a_hub_that_stops_returns_its_leases(url: str) -> None:
    first = HubState(url)
    for _ in range(2):  # the second lease is larger than needed
        assert spend(first, {"t": 100}, "requests", 1)
    first.close()
    second = HubState(url)
    assert spend(second, {"t": 100}, "requests", 98)
    second.close()


def test_a_lease_whose_return_may_have_failed_counts_as_spent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is lost after the database has the lease back, and before it says so."""
    monkeypatch.setattr(hub_state, "LOOK_SECONDS", 0.02)
    hub, other = HubState(url), HubState(url)
    write, told = hub._database.write, threading.Event()

    @contextlib.contextmanager
    def lost(*, durable: bool = True) -> Iterator[psycopg.Connection[Any]]:
        with write(durable=durable) as connection:
            yield connection
        if not durable:
            told.set()
            raise Unavailable("the connection was lost")

    for _ in range(2):
        assert spend(hub, {"t": 100}, "requests", 1)
    monkeypatch.setattr(hub._database, "write", lost)
    monkeypatch.setattr(hub_state, "HELD_SECONDS", 0.05)
    assert told.wait(60)
    assert 2 + available(hub, 100, "requests") + available(other, 100, "requests") <= 100
    hub.close()
    other.close()


def test_windows_follow_the_clock_of_postgresql_and_not_those_of_the_hubs(url: str) -> None:
    ahead, behind = HubState(url), HubState(url)
    assert ahead.spend({"t": 10}, "requests", LONG, 10, AT + LONG) == 0
    wait = behind.spend({"t": 10}, "requests", LONG, 1, AT - LONG)
    with psycopg.connect(url) as connection:
        [(left,)] = connection.execute(f"SELECT {LONG} - extract(epoch FROM now())::int8")
    assert 0 <= wait - left <= 60
    ahead.close()
    behind.close()


def test_a_used_up_quota_is_available_again_in_the_next_window(url: str) -> None:
    hub = HubState(url)
    assert spend(hub, {"t": 40}, "requests", 40, seconds=1)
    until(lambda: spend(hub, {"t": 40}, "requests", 40, seconds=1))
    hub.close()


# ---- outages


def test_connections_that_the_server_ended_are_replaced_without_an_error(url: str) -> None:
    state = HubState(url)
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kgd'")
    assert state.find("nobody00") is None
    state.close()


@pytest.mark.slow
def test_without_postgresql_calls_are_unavailable_and_they_work_again_once_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with postgres_server.server() as own, own.schema() as url:
        state = HubState(url)
        state.note(AuditEntry(AT, "t", "put"))
        browsers = PostgresBrowserState(state._database)
        browsers.add("key", SignedIn(Visitor("t"), "", AT, AT))
        own.stop()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="cannot be used at the moment"):
            state.find("nobody00")
        assert time.monotonic() - began < 5 * database.WAIT_SECONDS
        with monkeypatch.context() as patch:
            patch.setattr(database, "LOST_SECONDS", 600.0)
            refusals = []
            for _ in range(3):
                with pytest.raises(Unavailable) as refused:
                    browsers.find("key")
                refusals.append("a moment ago" in str(refused.value))
            assert any(refusals), "a request with several queries waits only once"
        state._database._lost_until = 0.0
        era = state._database.era
        own.start()
        until(lambda: _answers(state))
        assert state._database.era > era
        assert browsers.find("key")
        assert [one.action for one in state.trail("t", 5)] == ["put"]
        state.close()


@pytest.mark.slow
def test_a_server_that_hangs_is_abandoned_within_seconds() -> None:
    with postgres_server.server() as own, own.schema() as url:
        state = HubState(url)
        with own.standing_still():
            for _ in range(2):  # with a connection, then without one
                began = time.monotonic()
                with pytest.raises(Unavailable):
                    state.find("nobody00")
                assert time.monotonic() - began < 5 * database.WAIT_SECONDS
        until(lambda: _answers(state))
        state.close()


def _answers(state: HubState) -> bool:
    try:
        return state.find("nobody00") is None
    except Unavailable:
        return False


@pytest.mark.slow
def test_a_lock_of_another_program_is_reported_within_seconds(url: str) -> None:
    state = HubState(url)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE tokens")
        with pytest.raises(Unavailable):
            state.find("nobody00")
    assert state.find("nobody00") is None
    state.close()


# ---- versions and wrong settings


def test_a_database_of_a_newer_kgd_is_used_unchanged(url: str) -> None:
    HubState(url).close()
    with psycopg.connect(url, autocommit=True) as newer:
        newer.execute("ALTER TABLE tokens ADD COLUMN later text NOT NULL DEFAULT ''")
        newer.execute("ALTER TABLE trail ADD COLUMN later text NOT NULL DEFAULT ''")
        newer.execute("INSERT INTO kgd_steps VALUES (99)")
    state = HubState(url)
    state.note(AuditEntry(AT, "t", "put"))
    assert state.all() == []
    state.close()


def test_a_hub_of_the_previous_version_continues_after_the_next_version_added_tables(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, len(database.STEPS)):
        with monkeypatch.context() as patch:
            patch.setattr(database, "STEPS", database.STEPS[:number])
            older = HubState(url)
        newer = HubState(url)
        for hub, other in ((older, newer), (newer, older)):
            line = hub.note(AuditEntry(AT, "t", f"put {number}"))
            assert [one for one, _ in other.lines(line - 1, 1)] == [line]
            assert spend(hub, {f"t{number}": 2}, "nodes", 1)
        assert not spend(older, {f"t{number}": 2}, "nodes", 1)
        older.close()
        newer.close()


@pytest.mark.parametrize("step", database.STEPS)
def test_steps_only_add_tables_indexes_and_columns_that_older_hubs_need_not_know(step: str) -> None:
    for statement in filter(str.strip, step.split(";")):
        assert re.match(r"\s*(CREATE (TABLE|INDEX) |ALTER TABLE \w+ ADD COLUMN )", statement), statement
        assert "ADD COLUMN" not in statement or "NOT NULL" not in statement or "DEFAULT" in statement, statement


def test_hubs_that_start_at_the_same_time_create_the_tables_once(url: str) -> None:
    made: list[HubState] = []
    starts = [threading.Thread(target=lambda: made.append(HubState(url))) for _ in range(4)]
    for one in starts:
        one.start()
    for one in starts:
        one.join(30)
    assert len(made) == 4
    for state in made:
        state.close()


def test_tables_that_are_not_kgds_are_reported(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE TABLE tokens (something text)")
    with pytest.raises(Damaged, match="do not have the expected structure"):
        HubState(url)


@pytest.mark.parametrize("wrong", ["", "mysql://h/d", "hub.db", "postgres"])
def test_the_error_for_a_malformed_url_names_the_mistake(wrong: str) -> None:
    with pytest.raises(Invalid) as refused:
        HubState(wrong)
    assert refused.value.at == "--state"


@pytest.mark.slow
def test_an_error_never_shows_the_password() -> None:
    with pytest.raises(Unavailable) as refused:
        HubState("postgres://ann:geheim@127.0.0.1:1/kgd")
    assert "geheim" not in str(refused.value)
    assert "127.0.0.1:1/kgd" in str(refused.value.at)


@pytest.mark.parametrize("password", ["geh@eim", "geh/eim", "geh?eim", "geh#eim", "geh%eim"])
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(Invalid, match="must be encoded") as refused:
        HubState(f"postgres://ann:{password}@127.0.0.1:1/kgd")
    assert "geh" not in str(refused.value)


# ---- hubs that wake each other


@pytest.fixture
def two(url: str) -> Iterator[Callable[[Callable[[str, str], object]], Wakeups]]:
    opened: list[Wakeups | Database] = []

    def make(moved: Callable[[str, str], object]) -> Wakeups:
        base = Database(url)
        made = Wakeups(base, moved)
        opened.extend([base, made])
        until(made.is_listening.is_set)
        return made

    yield make
    for one in reversed(opened):
        one.close()


@pytest.mark.slow
def test_a_new_tip_wakes_the_other_hubs_and_not_its_own(two: Callable[..., Wakeups]) -> None:
    heard: dict[str, list[tuple[str, str]]] = {"a": [], "b": []}
    first = two(lambda workspace, tip: heard["a"].append((workspace, tip)))
    two(lambda workspace, tip: heard["b"].append((workspace, tip)))
    first.tell("infra", "abc")
    first.tell("shop", "def")
    until(lambda: len(heard["b"]) == 2)
    assert heard == {"a": [], "b": [("infra", "abc"), ("shop", "def")]}


@pytest.mark.slow
def test_notifications_return_after_the_server_ended_the_connection(url: str, two: Callable[..., Wakeups]) -> None:
    heard: list[str] = []
    first, second = two(print), two(lambda workspace, tip: heard.append(tip))
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")

    def told() -> bool:
        first.tell("infra", "abc")
        return bool(heard)

    until(told)
    assert second.is_listening.is_set()


@pytest.mark.slow
def test_a_notification_that_is_not_kgds_ends_nothing(url: str, two: Callable[..., Wakeups]) -> None:
    heard: list[str] = []
    first, second = two(print), two(lambda workspace, tip: heard.append(tip))
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f"NOTIFY {database.CHANNEL}, 'nonsense'")
    until(lambda: not second.is_listening.is_set())

    def told() -> bool:
        first.tell("infra", "abc")
        return bool(heard)

    until(told)


@pytest.mark.slow
def test_hubs_take_turns_and_do_not_wait_for_long(two: Callable[..., Wakeups]) -> None:
    first, second = two(print), two(print)
    inside: list[str] = []

    def other() -> None:
        with second.turn("infra"):
            inside.append("second")

    with first.turn("infra"):
        waiting = threading.Thread(target=other)
        waiting.start()
        with second.turn("shop"):
            inside.append("another workspace")
        inside.append("first")
    waiting.join(60)
    assert inside == ["another workspace", "first", "second"]


@pytest.mark.slow
def test_a_wait_for_a_lock_may_be_longer_than_a_statement(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the wait for another hub that asks a slow sign-in server."""
    first, second, got = Database(url), Database(url), threading.Event()
    monkeypatch.setattr(database, "WAIT_SECONDS", 1.0)

    def take() -> None:
        with second.lock("sign-in", 60):
            got.set()

    waiting = threading.Thread(target=take)
    with first.lock("sign-in", 5):
        waiting.start()
        assert not got.wait(1.5)
    assert got.wait(60)
    waiting.join()
    for one in (first, second):
        one.close()


def test_the_rounds_of_an_mcp_client_are_sealed_with_one_key_at_all_hubs(url: str) -> None:
    hubs = [SharedState(url) for _ in range(2)]
    assert len({one.rounds_key for one in hubs}) == 1
    assert len(hubs[0].rounds_key) >= 32
    for one in hubs:
        one.close()


@pytest.mark.slow
def test_all_hubs_get_the_same_key(url: str) -> None:
    bases = [Database(url) for _ in range(3)]
    assert {one.key("seal infra", bytes([number]) * 32) for number, one in enumerate(bases)} == {bytes(32)}
    for one in bases:
        one.close()


def test_no_line_of_the_audit_log_appears_before_one_that_was_read(url: str) -> None:
    """Two transactions may commit in another order than the one in which they drew the numbers of their lines."""
    hubs, read = [HubState(url) for _ in range(4)], list[int]()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SLOW_LINES)

    def note(hub: HubState) -> None:
        for _ in range(25):
            hub.note(AuditEntry(AT, "t", "put"))

    writers = [threading.Thread(target=note, args=(hub,)) for hub in hubs[1:]]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        read += [number for number, _ in hubs[0].lines(read[-1] if read else 0, 10)]
    while more := hubs[0].lines(read[-1], 10):
        read += [number for number, _ in more]
    assert len(read) == 75
    for hub in hubs:
        hub.close()


SLOW_LINES = """
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM CASE WHEN random() < 0.5 THEN pg_current_xact_id() END, pg_sleep(random() * 0.01); RETURN NEW; END
$$;
CREATE TRIGGER before_numbers BEFORE INSERT ON trail FOR EACH STATEMENT EXECUTE FUNCTION dawdle();
CREATE TRIGGER after_numbers AFTER INSERT ON trail FOR EACH ROW EXECUTE FUNCTION dawdle();
"""
