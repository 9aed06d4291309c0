"""Teams over real repositories with failures between them: nothing is lost, and all replicas agree in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim import teams
from tests.sim.desks import template


@pytest.fixture
def place() -> Iterator[Path]:
    with teams.places() as found:
        yield found


def play(place: Path, first: int, count: int) -> list[str]:
    blank = template(place)
    return [teams.run(seed, place, blank) for seed in range(first, first + count)]


@pytest.mark.slow
@pytest.mark.requirement("B8")
def test_teams_lose_nothing_and_agree_in_the_end(place: Path) -> None:
    play(place, 0, 10)


@pytest.mark.slow
def test_a_resolved_conflict_may_come_back_with_a_node_that_was_deleted_here_and_edited_there(place: Path) -> None:
    play(place, 77_436, 1)


@pytest.mark.slow
def test_a_schedule_depends_on_its_seed_alone(place: Path) -> None:
    blank = template(place)
    for seed in range(3):
        assert teams.run(seed, place, blank) == teams.run(seed, place, blank)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("first", "count"),
    [(1_000, 25), *(pytest.param(n, 500, marks=pytest.mark.large) for n in (1_000, 1_500, 2_000))],
)
def test_teams_lose_nothing_and_agree_in_the_end_in_many_schedules(place: Path, first: int, count: int) -> None:
    play(place, first, count)
