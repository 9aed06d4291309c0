"""Tokens: their text, their stored state, and its contract."""

from __future__ import annotations

import contextlib
import random
import stat
import string
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.daemon.tokens import DAY, GENERATIONS, Minted, Tokens, TooMuch
from kgd.errors import Damaged, Forbidden, Invalid, KgdError, Limit, NotFound, Unauthorized, Unavailable
from kgd.index.hub_state import SqliteHubState
from kgd.model import token
from kgd.model.access import Principal, Scope
from kgd.model.token import AuditEntry, HubState, Quota
from kgd.workspace.writing.secrets import secret_in
from tests import postgres_server
from tests.waiting import until

START = 1_800_000_000
ALL = (Scope.of("infra", ["read", "write"], ["/**"]),)
SERVICES = (Scope.of("infra", ["read"], ["/services/**"]),)


class Clock:
    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def open_state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], HubState]]:
    """Opens one state, as often as it is called; one for each implementation."""
    if request.param == "sqlite":
        yield lambda: SqliteHubState(tmp_path / "hub.db")
        return
    server: postgres_server.Server = request.getfixturevalue("postgres")
    with server.schema() as url:
        yield lambda: postgres_server.HubState(url)


@pytest.fixture
def state(open_state: Callable[[], HubState]) -> Iterator[HubState]:
    made = open_state()
    yield made
    made.close()


@pytest.fixture
def tokens(state: HubState, clock: Clock) -> Tokens:
    chance = random.Random(7)
    return Tokens(lambda: state, clock, chance.randbytes)


def mint(tokens: Tokens, scopes: tuple[Scope, ...] = ALL, seconds: int = DAY, name: str = "billing") -> Minted:
    return tokens.mint(name, "agent", scopes, START + seconds)


# ---- the text


@pytest.mark.slow
def test_a_token_names_kgd_its_kind_and_its_id_and_has_a_check(tokens: Tokens) -> None:
    made = mint(tokens)
    prefix, kind, id, secret, check = made.text.split("_")
    assert (prefix, kind, id, len(secret), len(check)) == ("kgd", "agent", made.record.holder.id, 43, 6)
    assert token.read(f" {made.text}\n").id == id
    assert secret_in(made.text) == "kgd"


@given(st.binary(min_size=6, max_size=6), st.binary(min_size=32, max_size=32), st.integers(0, 68), st.data())
def test_one_wrong_letter_anywhere_is_reported_as_a_typo(
    id: bytes, secret: bytes, place: int, data: st.DataObject
) -> None:
    text, _, _ = token.write("person", id, secret)
    place %= len(text)
    other = data.draw(st.sampled_from(string.ascii_letters + string.digits).filter(lambda c: c != text[place]))
    with pytest.raises(Unauthorized) as refused:
        token.read(text[:place] + other + text[place + 1 :])
    assert secret.hex() not in str(refused.value)
    assert text.split("_")[3] not in str(refused.value)


@pytest.mark.parametrize("text", ["", "kgd", "Bearer x", "kgd_agent_", "ghp_" + "a" * 40, "kgd_root_" + "a" * 60, "\0"])
def test_a_malformed_token_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        token.read(text)
    assert "_" * 2 not in str(refused.value)


def test_nothing_that_is_kept_holds_the_secret(tmp_path: Path, clock: Clock) -> None:
    tokens = Tokens(lambda: SqliteHubState(tmp_path / "hub.db"), clock, random.Random(1).randbytes)
    made = mint(tokens)
    tokens.recognise(made.text)
    tokens.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.text.split("_")[3].encode() not in kept
    assert made.record.holder.id.encode() in kept


# ---- their life


def test_a_token_is_recognised_until_it_expires_and_a_minute_more(tokens: Tokens, clock: Clock) -> None:
    made = mint(tokens, seconds=1000)
    assert tokens.recognise(made.text).holder == made.record.holder
    clock.now += 1000 + 59
    assert tokens.recognise(made.text).holder.name == "billing"
    clock.now += 2
    with pytest.raises(Unauthorized, match="expired"):
        tokens.recognise(made.text)
    clock.now -= 10_000  # a clock that was set back locks no holder out
    assert tokens.recognise(made.text)


def test_a_foreign_token_and_one_with_a_foreign_secret_are_not_known(tokens: Tokens) -> None:
    made = mint(tokens)
    foreign, _, _ = token.write("agent", b"abcdef", bytes(32))
    with pytest.raises(Unauthorized, match="does not know"):
        tokens.recognise(foreign)
    kind, id = "agent", made.record.holder.id
    body = f"kgd_{kind}_{id}_{'0' * 43}"
    with pytest.raises(Unauthorized, match="does not know"):
        tokens.recognise(f"{body}_{token._check(body)}")
    person = f"kgd_person_{id}_{made.text.split('_')[3]}"
    with pytest.raises(Unauthorized, match="does not know"):
        tokens.recognise(f"{person}_{token._check(person)}")


def test_revoking_a_token_revokes_its_children(tokens: Tokens) -> None:
    parent = mint(tokens)
    child = tokens.mint_child(parent.record.holder.id, "child", "agent", SERVICES, START + 100)
    grandchild = tokens.mint_child(child.record.holder.id, "grandchild", "agent", SERVICES, START + 50)
    other = mint(tokens)
    gone = tokens.revoke(parent.record.holder.id)
    assert set(gone) == {one.record.holder.id for one in (parent, child, grandchild)}
    for one in (parent, child, grandchild):
        with pytest.raises(Unauthorized, match="revoked"):
            tokens.recognise(one.text)
    assert tokens.recognise(other.text)
    assert tokens.revoke(parent.record.holder.id) == []
    with pytest.raises(Unauthorized):
        tokens.mint_child(parent.record.holder.id, "late", "agent", SERVICES, START + 50)


@pytest.mark.parametrize(
    ("scopes", "end"),
    [
        ((Scope.of("infra", ["read"], ["/app/**"]),), 50),
        ((Scope.of("infra", ["read"], ["/**"]),), 50),
        ((Scope.of("infra", ["write"], ["/services/x"]),), 50),
        ((Scope.of("shop", ["read"], ["/services/**"]),), 50),
        (SERVICES, 101),
    ],
)
def test_a_child_is_never_wider_than_its_parent(tokens: Tokens, scopes: tuple[Scope, ...], end: int) -> None:
    parent = mint(tokens, SERVICES, seconds=100)
    with pytest.raises(Forbidden):
        tokens.mint_child(parent.record.holder.id, "child", "agent", scopes, START + end)
    assert len(tokens.state.all()) == 1


def test_rotation_leaves_one_live_token_of_the_same_holder(tokens: Tokens) -> None:
    old = tokens.mint("billing", "agent", SERVICES, START + 100, quota=Quota(requests_per_minute=7))
    new = tokens.rotate(old.record.holder.id, START + 500)
    assert replace(new.record.holder, id="", expires=0, root="") == replace(old.record.holder, id="", expires=0)
    assert new.record.holder.identity == old.record.holder.identity, "what the old one put up is its own"
    assert new.record.quota == old.record.quota
    assert tokens.recognise(new.text)
    with pytest.raises(Unauthorized):
        tokens.recognise(old.text)
    with pytest.raises(Unauthorized):
        tokens.rotate(old.record.holder.id, START + 500)


def test_last_use_is_noted_and_an_unknown_id_is_not_found(tokens: Tokens, clock: Clock) -> None:
    made = mint(tokens)
    clock.now += 500
    tokens.recognise(made.text)
    assert tokens.record(made.record.holder.id).last_used == int(clock.now)
    for lookup in (tokens.record, tokens.revoke):
        with pytest.raises(NotFound):
            lookup("nobody00")


@pytest.mark.parametrize("name", ["", "a\nb", "<x>", "x" * 81, " x"])
def test_a_holder_has_a_name_that_a_commit_can_carry(tokens: Tokens, name: str) -> None:
    with pytest.raises(Invalid):
        mint(tokens, name=name)


# ---- what they use up


def test_a_quota_holds_for_its_window_and_says_when_to_ask_again(tokens: Tokens) -> None:
    made = tokens.mint("x", "agent", ALL, START + DAY, quota=Quota(nodes_per_day=10))
    tokens.spend(made.record, "nodes", 10)
    with pytest.raises(TooMuch) as refused:
        tokens.spend(made.record, "nodes", 1)
    assert 0 < refused.value.retry_after <= DAY
    tokens.spend(made.record, "requests", 1)


def test_the_windows_of_a_single_hub_follow_its_clock(tmp_path: Path, clock: Clock) -> None:
    tokens = Tokens(lambda: SqliteHubState(tmp_path / "hub.db"), clock, random.Random(7).randbytes)
    clock.now = START - START % 60
    made = tokens.mint("x", "agent", ALL, START + DAY, quota=Quota(requests_per_minute=3))
    for _ in range(3):
        tokens.spend(made.record, "requests", 1)
    clock.now += 20
    with pytest.raises(TooMuch) as refused:
        tokens.spend(made.record, "requests", 1)
    assert refused.value.retry_after == 40
    clock.now += 40
    tokens.spend(made.record, "requests", 1)
    tokens.close()


def test_children_use_up_their_parents_quota(tokens: Tokens) -> None:
    parent = tokens.mint("x", "agent", ALL, START + DAY, quota=Quota(nodes_per_day=5)).record
    child = tokens.mint_child(parent.holder.id, "one", "agent", ALL, START + 60).record
    other = tokens.mint_child(child.holder.id, "two", "agent", ALL, START + 60).record
    for one in (parent, child, other, other, child):
        tokens.spend(one, "nodes", 1)
    for one in (parent, child, other):
        with pytest.raises(TooMuch):
            tokens.spend(one, "nodes", 1)


def test_an_amount_of_zero_is_always_allowed(tokens: Tokens) -> None:
    """A push that changes only kgd.yaml changes no node."""
    made = tokens.mint("x", "agent", ALL, START + DAY, quota=Quota(nodes_per_day=0))
    tokens.spend(made.record, "nodes", 0)
    with pytest.raises(TooMuch):
        tokens.spend(made.record, "nodes", 1)


def test_generations_are_bounded(tokens: Tokens) -> None:
    made = mint(tokens)
    for _ in range(GENERATIONS - 1):
        made = tokens.mint_child(made.record.holder.id, "x", "agent", ALL, START + 60)
    with pytest.raises(Limit):
        tokens.mint_child(made.record.holder.id, "x", "agent", ALL, START + 60)


def test_a_request_id_answers_the_first_result_and_no_other_request(tokens: Tokens) -> None:
    made, other = mint(tokens), mint(tokens)
    mine, theirs = made.record.holder.id, other.record.holder.id
    assert tokens.earlier_answer(mine, "r1", b"a") is None
    tokens.keep_answer(mine, "r1", b"a", "first")
    tokens.keep_answer(mine, "r1", b"a", "second")
    assert tokens.earlier_answer(mine, "r1", b"a") == "first"
    assert tokens.earlier_answer(theirs, "r1", b"a") is None
    with pytest.raises(KgdError):
        tokens.earlier_answer(mine, "r1", b"b")


# ---- the contract of a state


def test_the_state_keeps_tokens_over_a_restart(
    state: HubState, tokens: Tokens, open_state: Callable[[], HubState]
) -> None:
    made = tokens.mint("Ann", "person", (*ALL, *SERVICES), START + 10, quota=Quota(pending_proposals=3))
    tokens.close()
    again = open_state()
    assert again.find(made.record.holder.id) == made.record
    assert again.find("nobody00") is None
    assert [one.holder.name for one in again.all()] == ["Ann"]
    again.close()


ANN = Principal("new", "Ann", "person", SERVICES, START + 60, "", "oidc-ann", "ann@example.org")


def test_a_sign_in_is_one_token_that_is_renewed(state: HubState, tokens: Tokens, clock: Clock) -> None:
    made = tokens.sign_in(ANN, b"kept", START + 1_000, START)
    id = made.record.holder.id
    assert made.record.holder == replace(ANN, id=id)
    assert (state.find(id), state.sign_in(id)) == (made.record, b"kept")
    clock.now += 130
    with pytest.raises(Unauthorized, match="expired"):
        tokens.recognise(made.text)
    wider = replace(made.record.holder, scopes=ALL, expires=START + 500.0)
    second = tokens.renew(made.record, wider, b"newer", retext=True)
    assert tokens.recognise(second.text).holder == wider
    assert tokens.recognise(made.text).holder == wider, "requests that have begun may use the previous text"
    third = tokens.renew(second.record, wider, b"newest", retext=True)
    with pytest.raises(Unauthorized):
        tokens.recognise(made.text)
    assert tokens.recognise(second.text)
    assert tokens.recognise(third.text)
    assert state.sign_in(id) == b"newest"


def test_a_revoked_sign_in_is_not_renewed(state: HubState, tokens: Tokens) -> None:
    made = tokens.sign_in(ANN, b"kept", START + 1_000, START)
    tokens.revoke(made.record.holder.id)
    with pytest.raises(Unauthorized, match="ended"):
        tokens.renew(made.record, made.record.holder, b"newer", retext=True)
    assert state.sign_in(made.record.holder.id) == b"kept"
    assert state.sign_in("nobody00") is None


def test_ended_sign_ins_are_deleted_and_other_tokens_are_not(state: HubState, tokens: Tokens) -> None:
    minted = mint(tokens).record
    first = tokens.sign_in(ANN, b"", START + 10, START).record
    second = tokens.sign_in(ANN, b"", START + 20, START + 15).record
    assert [one for one in (minted, first, second) if state.find(one.holder.id)] == [minted, second]
    assert state.sign_in(first.holder.id) is None


def test_the_use_of_an_account_is_counted_over_all_its_sign_ins(tokens: Tokens) -> None:
    records = [tokens.sign_in(ANN, b"", START + 1_000, START).record for _ in range(2)]
    for one in records * 300:
        tokens.spend(one, "requests", 1)
    for one in records:
        with pytest.raises(TooMuch):
            tokens.spend(one, "requests", 1)


def test_a_sign_in_is_not_rotated_by_hand(tokens: Tokens) -> None:
    made = tokens.sign_in(ANN, b"", START + 1_000, START)
    with pytest.raises(Invalid, match="renews its token itself"):
        tokens.rotate(made.record.holder.id, START + 500)


def test_all_hubs_have_one_key_of_a_name(open_state: Callable[[], HubState]) -> None:
    first, second = open_state(), open_state()
    assert first.key("a", b"mine") == b"mine"
    assert second.key("a", b"theirs") == b"mine"
    assert second.key("b", b"theirs") == b"theirs"
    first.close()
    second.close()


def test_turns_of_one_name_do_not_overlap(state: HubState) -> None:
    inside: list[int] = []
    most: list[int] = []

    def take(number: int) -> None:
        for _ in range(5):
            with state.turn("a"):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert (len(most), max(most)) == (20, 1)


def test_the_trail_is_listed_newest_first_and_by_token(state: HubState) -> None:
    for number in range(5):
        state.note(AuditEntry(START + number, f"t{number % 2}", "put", "infra", f"n{number}"))
    assert [one.detail for one in state.trail(None, 3)] == ["n4", "n3", "n2"]
    assert [one.detail for one in state.trail("t1", 10)] == ["n3", "n1"]


def spend(state: HubState, limits: dict[str, int], amount: int, what: str = "x", seconds: int = 10**10) -> bool:
    return state.spend(limits, what, seconds, amount, START) == 0


def test_spending_is_by_token_kind_and_window(state: HubState) -> None:
    assert spend(state, {"a": 5}, 5)
    assert not spend(state, {"a": 5}, 1)
    assert spend(state, {"b": 5}, 5)
    assert spend(state, {"a": 5}, 5, "y")
    assert state.spend({"a": 5}, "x", 10**10, 1, START) <= 10**10


def test_an_amount_of_zero_needs_no_quota(state: HubState) -> None:
    """A push that changes only settings changes no node."""
    assert spend(state, {"a": 1}, 0)
    assert spend(state, {"a": 1}, 1)
    assert not spend(state, {"a": 1}, 1)
    assert spend(state, {"a": 1}, 0)


def test_spending_of_several_is_whole_or_not_at_all(state: HubState) -> None:
    assert spend(state, {"child": 5, "parent": 5}, 3)
    assert spend(state, {"sister": 5, "parent": 5}, 2)
    assert not spend(state, {"child": 5, "parent": 5}, 1)
    assert spend(state, {"child": 5}, 2), "the refused amount was not counted"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\u2028 \n", "x" * 100_000])
def test_any_text_that_a_client_sends_can_be_kept(state: HubState, text: str) -> None:
    state.note(AuditEntry(START, "t", "put", text, text))
    assert state.trail("t", 1)[0].detail[0] == text[0]
    assert state.find(text) is None
    state.keep_answer("t", text, b"", text, START, 0)
    found = state.answer("t", text)
    assert found is not None
    assert found[1][0] == text[0]


def test_a_parent_that_is_being_revoked_gets_no_more_children(open_state: Callable[[], HubState], clock: Clock) -> None:
    """Two hubs: one mints children as fast as it can while the other revokes the parent."""
    here, there = (Tokens(open_state, clock, random.Random(seed).randbytes) for seed in (1, 2))
    parent = mint(here).record.holder.id
    minted: list[Minted] = []

    def children() -> None:
        with contextlib.suppress(Unauthorized):
            while True:
                minted.append(here.mint_child(parent, "child", "agent", SERVICES, START + 60))

    minting = threading.Thread(target=children)
    minting.start()
    until(lambda: len(minted) > 3)
    there.revoke(parent)
    minting.join(60)
    assert not minting.is_alive()
    for one in minted:
        with pytest.raises(Unauthorized):
            there.recognise(one.text)
    here.close()
    there.close()


@pytest.mark.slow
def test_a_page_of_the_log_misses_no_line_that_another_hub_writes(open_state: Callable[[], HubState]) -> None:
    hubs = [open_state() for _ in range(3)]

    def write(hub: HubState) -> None:
        for _ in range(60):
            hub.note(AuditEntry(START, "t", "put"))

    writers = [threading.Thread(target=write, args=(one,)) for one in hubs]
    for writer in writers:
        writer.start()
    reader, seen = open_state(), list[int]()

    def all_read() -> bool:
        seen.extend(number for number, _ in reader.lines(seen[-1] if seen else 0, 7))
        return len(seen) == 180

    until(all_read)
    assert seen == sorted(set(seen))
    for one in (*hubs, reader):
        one.close()


def test_old_answers_are_deleted(state: HubState) -> None:
    state.keep_answer("a", "old", b"", "1", START, 0)
    state.keep_answer("a", "new", b"", "2", START + 10, START + 5)
    assert state.answer("a", "old") is None
    assert state.answer("a", "new") == (b"", "2")


# ---- the file


def test_the_state_is_for_its_owner_alone_and_survives_a_restart(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "hub.db"
    tokens = Tokens(lambda: SqliteHubState(path), clock, random.Random(1).randbytes)
    made = mint(tokens)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    tokens.close()
    assert Tokens(lambda: SqliteHubState(path), clock, bytes).recognise(made.text)


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 200)
    path.chmod(0o600)


def _world_readable(path: Path) -> None:
    SqliteHubState(path).close()
    path.chmod(0o644)


def _link(path: Path) -> None:
    SqliteHubState(path.with_name("elsewhere")).close()
    path.symlink_to(path.with_name("elsewhere"))


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("spoil", [_garbage, _world_readable, _link, _folder])
def test_an_untrusted_state_admits_no_token_and_is_not_changed(
    tmp_path: Path, clock: Clock, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "hub.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    tokens = Tokens(lambda: SqliteHubState(path), clock, random.Random(1).randbytes)
    text, _, _ = token.write("agent", b"abcdef", bytes(32))
    for _ in range(2):
        with pytest.raises((Damaged, Forbidden, Unavailable)):
            tokens.recognise(text)
    assert before == (path.read_bytes() if path.is_file() else b"")
