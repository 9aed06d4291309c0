"""A single hub's state is moved into PostgreSQL once, however often the move is killed and repeated."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kgd.daemon.shared_state import move
from kgd.daemon.tokens import Minted, Tokens
from kgd.errors import InvariantViolation, NotFound, Unavailable
from kgd.index import hub_state as sqlite
from kgd.index.hub_state import SqliteHubState
from kgd.model.access import Principal, Scope
from kgd.model.token import SIGN_IN_KEY, AuditEntry, HubContents, Moved
from tests import postgres_server
from tests.postgres_server import HubState

pytestmark = pytest.mark.needs("postgres")
AT = 1_800_000_000
ALL = (Scope.of("infra", ["read", "write"], ["/**"]),)


@pytest.fixture
def url(postgres: postgres_server.Server) -> Iterator[str]:
    with postgres.schema() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.db"


def clock() -> float:
    return float(AT)


def fill(path: Path) -> list[Minted]:
    """A hub with a live token, its child, a revoked token, a used quota, an answer, and lines in the log and a file."""
    with closing(SqliteHubState(path)) as state:
        tokens = Tokens(lambda: state, clock, random.Random(3).randbytes)
        live, dead = tokens.mint("ann", "agent", ALL, AT + 100), tokens.mint("bob", "agent", ALL, AT + 100)
        child = tokens.mint_child(live.record.holder.id, "cat", "agent", ALL, AT + 50)
        tokens.revoke(dead.record.holder.id)
        tokens.spend(live.record, "bytes", 7)
        tokens.keep_answer(live.record.holder.id, "r\0", b"asked", '{"a": 1}')
        moved_line = {"number": 0, "at": 1, "token": "", "action": "older", "workspace": "", "detail": ""}
        folder = path.with_name("audit")
        folder.mkdir()
        (folder / f"{0:012d}-{0:012d}.jsonl").write_text(json.dumps(moved_line) + "\n")
        return [live, child, dead]


def everything(state: HubState | SqliteHubState) -> tuple[object, ...]:
    actions = [(one.at, one.token, one.action, one.detail) for _, one in state.lines(0, 100)]
    return state.all(), [line for line in actions if line[2] != "migrate"]


@pytest.mark.parametrize("is_shared", [True, False])
def test_people_stay_signed_in_unless_the_hubs_have_another_key(path: Path, url: str, is_shared: bool) -> None:
    with closing(SqliteHubState(path)) as old:
        tokens = Tokens(lambda: old, clock, random.Random(3).randbytes)
        made = tokens.sign_in(Principal("", "Ann", "person", ALL), b"sealed", AT + 100, AT)
        old.key(SIGN_IN_KEY, b"ours")
    with closing(HubState(url)) as new:
        if not is_shared:
            new.key(SIGN_IN_KEY, b"theirs")
        move(path, url, clock)
        id = made.record.holder.id
        assert new.sign_in(id) == (b"sealed" if is_shared else None)
        assert new.key(SIGN_IN_KEY, b"late") == (b"ours" if is_shared else b"theirs")


def test_tokens_quotas_answers_and_the_log_are_moved_and_the_old_file_accepts_no_token(path: Path, url: str) -> None:
    live, child, dead = fill(path)
    with closing(SqliteHubState(path)) as old:
        before = everything(old)
        lines = len(list(old.lines(0, 100)))
    moved, name = move(path, url, clock)
    assert moved == Moved(tokens=3, answers=1, lines=lines)
    with closing(HubState(url)) as new:
        assert everything(new) == before
        tokens = Tokens(lambda: new, clock, random.Random(4).randbytes)
        assert tokens.recognise(live.text).holder.name == "ann"
        assert tokens.recognise(child.text).holder.parent == live.record.holder.id
        assert [one.holder.id for one in new.all() if one.revoked] == [dead.record.holder.id]
        assert tokens.earlier_answer(live.record.holder.id, "r\0", b"asked") == '{"a": 1}'
        assert [one.action for one in new.trail("", 1)] == ["migrate"]
        assert new.spend({live.record.holder.id: 7}, "bytes", 86_400, 1, AT), "all seven are used"
    with pytest.raises(Unavailable, match="were moved") as refused:
        SqliteHubState(path)
    assert refused.value.at == name


@pytest.mark.parametrize("committed", [False, True])
def test_a_move_that_was_killed_is_repeated_and_moves_nothing_twice(
    path: Path, url: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill shortly before and after PostgreSQL commits; afterwards the old hub was even used again."""
    live, *_ = fill(path)

    class Killed(BaseException):
        pass

    def until_the_kill(self: SqliteHubState, take: object, to: str) -> Moved:
        def killed(contents: HubContents) -> Moved:
            if committed:
                take(contents)  # type: ignore[operator]
            raise Killed

        return original(self, killed, to)

    original = SqliteHubState.hand_over
    with monkeypatch.context() as patch:
        patch.setattr(SqliteHubState, "hand_over", until_the_kill)
        with pytest.raises(Killed):
            move(path, url, clock)
    with closing(SqliteHubState(path)) as old:
        old.revoke(live.record.holder.id, AT)
        old.note(AuditEntry(AT, "", "late"))
        before = everything(old)
    move(path, url, clock)
    again, _ = move(path, url, clock)
    assert again == Moved()
    with closing(HubState(url)) as new:
        assert everything(new)[1] == before[1]
        assert {one.holder.id: bool(one.revoked) for one in new.all()} == {
            one.holder.id: bool(one.revoked)
            for one in before[0]  # type: ignore[attr-defined]
        }


def test_a_token_that_was_revoked_after_the_move_stays_revoked_when_the_move_is_repeated(path: Path, url: str) -> None:
    live, *_ = fill(path)
    move(path, url, clock)
    with closing(HubState(url)) as new:
        new.revoke(live.record.holder.id, AT)
    assert move(path, url, clock)[0] == Moved()
    with closing(HubState(url)) as new:
        assert all(one.revoked for one in new.all())


def test_a_database_with_tokens_of_another_hub_is_refused_and_the_old_file_stays_in_use(path: Path, url: str) -> None:
    fill(path)
    with closing(HubState(url)) as other:
        tokens = Tokens(lambda: other, clock, random.Random(5).randbytes)
        tokens.mint("dan", "agent", ALL, AT + 100)
    with pytest.raises(InvariantViolation, match="tokens of other hubs"):
        move(path, url, clock)
    with closing(HubState(url)) as other, closing(SqliteHubState(path)) as old:
        assert ([one.holder.name for one in other.all()], len(old.all())) == (["dan"], 3)


def test_a_long_log_is_moved_whole(path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PART", 7)
    with closing(SqliteHubState(path)) as old:
        for number in range(50):
            old.note(AuditEntry(AT + number, "t", "put", detail="x\0"))
        before = everything(old)
    move(path, url, clock)
    with closing(HubState(url)) as new:
        assert everything(new) == before


def test_a_home_without_tokens_is_reported(path: Path, url: str) -> None:
    with pytest.raises(NotFound):
        move(path, url, clock)
    assert not path.exists()
