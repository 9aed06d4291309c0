"""The time of the next round, and the state shown after failures: values only, with a test clock."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import Remote, parse_url
from kgd.sync.remote_state import FIRST_BACKOFF, LAST_BACKOFF, LAZY, NEAR, PATIENT_BACKOFF, Machine, Now
from kgd.sync.round import Done, Wait

TIP = bytes(20)


class Middle(Random):
    """Chance without any: every jitter is its mean."""

    def random(self) -> float:
        return 0.5


class Most(Random):
    def random(self) -> float:
        return 1.0


def machine(url: str = "https://example.org/x.git", seconds: float | None = None) -> Machine:
    return Machine(Remote("origin", parse_url(url), "refs/heads/main", seconds=seconds))


def at(tick: float) -> Now:
    return Now(1_700_000_000 + tick, tick)


def test_a_directory_and_a_hub_are_looked_at_more_often_than_a_far_server() -> None:
    near = machine("/srv/hub.git")
    hub = machine()
    hub.near = True
    for one, seconds in ((near, 5), (hub, 5), (machine(), 15), (machine(seconds=40), 40)):
        one.record_success(Done(theirs=TIP), at(100), Middle())
        assert one.next_at == 100 + seconds


def test_where_nothing_moves_for_long_it_is_looked_at_less_often_and_at_once_more_when_it_does() -> None:
    one = machine("/srv/hub.git")
    one.record_success(Done(pulled=1, theirs=TIP), at(0), Middle())
    one.record_success(Done(theirs=TIP), at(601), Middle())
    assert one.next_at == 601 + LAZY
    one.record_success(Done(pulled=1, theirs=b"\1" * 20), at(700), Middle())
    assert one.next_at == 700 + NEAR


def test_by_hand_only_means_never_by_itself() -> None:
    one = machine(seconds=0)
    one.record_success(Done(theirs=TIP), at(1), Middle())
    assert one.next_at == float("inf")
    one.record_failure(Trouble("unreachable", "no"), "fetch", at(2), Middle())
    assert one.next_at == float("inf")


def test_failures_are_tried_again_later_and_later_up_to_a_bound_with_jitter() -> None:
    one, pauses = machine(), []
    for number in range(14):
        one.record_failure(Trouble("unreachable", "no route"), "fetch", at(number), Middle())
        pauses.append(one.next_at - number)
    assert pauses[:4] == [FIRST_BACKOFF, 2, 4, 8]
    assert pauses[-1] == LAST_BACKOFF
    one.record_failure(Trouble("unreachable", "no route"), "fetch", at(0), Most())
    assert one.next_at == LAST_BACKOFF * 1.25
    one.record_success(Done(theirs=TIP), at(50), Middle())
    assert (one.failures, one.state) == (0, "ok")


def test_a_trouble_that_needs_a_person_is_not_retried_quickly_nor_for_each_commit() -> None:
    one = machine()
    one.record_failure(Trouble("host-key", "it is another"), "fetch", at(0), Middle())
    assert one.next_at == PATIENT_BACKOFF
    assert one.state == "blocked"
    assert not one.wake(1)
    other = machine()
    other.record_failure(Trouble("cut", "cable"), "push", at(0), Middle())
    assert other.wake(1)
    assert other.state == "waiting"


def test_a_blocker_is_shown_with_its_stage_and_age() -> None:
    one = machine()
    one.record_success(Done(theirs=TIP, stage="push"), at(1), Middle())
    one.record_failure(Trouble("refused", "main is protected"), "push", at(5), Middle())
    one.record_failure(Trouble("refused", "main is protected"), "push", at(9), Middle())
    fetch, push = one.stages()
    assert (fetch.state, fetch.last_success) == ("ok", at(9).wall)
    assert (push.state, push.since, push.last_success) == ("blocked", at(5).wall, at(1).wall)
    assert "main is protected" in push.blocker


@pytest.mark.parametrize("kind", ["held", "diverged", "emptied"])
def test_a_wait_is_shown_until_it_is_decided(kind: str) -> None:
    one = machine()
    one.record_success(Done(theirs=TIP, waits=[Wait(kind, "a reason", "a step")]), at(3), Middle())
    assert one.state == kind
    fetch, push = one.stages(" origin")
    assert (fetch.name, fetch.state, fetch.blocker) == ("fetch origin", "blocked", "a reason. a step")
    assert (push.state, push.blocker) == ("waiting", "fetch origin comes first")
    one.record_success(Done(theirs=TIP), at(4), Middle())
    assert one.state == "ok"


@pytest.mark.parametrize(("kind", "state"), [("cut", "waiting"), ("refused", "blocked")])
def test_a_push_waits_for_a_fetch_that_fails(kind: str, state: str) -> None:
    one = machine()
    one.record_failure(Trouble(kind, "a reason"), "fetch", at(5), Middle())
    assert [stage.state for stage in one.stages()] == [state, "waiting"]
    one.record_success(Done(theirs=TIP, stage="push"), at(6), Middle())
    assert [stage.state for stage in one.stages()] == ["ok", "ok"]


def test_a_lost_race_is_not_a_trouble() -> None:
    assert not isinstance(LostRace("x"), Trouble)


def test_a_directory_is_named_by_its_absolute_path(tmp_path: Path) -> None:
    assert parse_url("../hub.git", tmp_path / "deep").text == str(tmp_path / "hub.git")
    assert parse_url(f"file://{tmp_path}/x.git").directory == tmp_path / "x.git"
    assert parse_url("host:x.git").kind == "ssh"
    (tmp_path / "host:x.git").mkdir()
    assert parse_url("host:x.git", tmp_path).kind == "path"
