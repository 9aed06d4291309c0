"""``kill -9`` at any moment: acknowledged changes are in history, others completely or not at all, without help."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from kgd.git.layout import Layout
from tests.builders import new_layout
from tests.faults.audit import Findings, audit, git
from tests.faults.nursery import Child
from tests.faults.scribes import answers_in, scribble
from tests.workspace.people import code_layout

pytestmark = pytest.mark.slow

LIVES = 20
"""Kills of one workspace before the next workspace starts."""


def killed_at_random(tmp_path: Path, kills: int, seed: int) -> Findings:
    """A third of the workspaces publish; a fifth of the kills come before the child has even opened its own."""
    dice, total = random.Random(seed), Findings()
    layout: Layout | None = None
    for number in range(kills):
        if layout is None or number % LIVES == 0:
            place = tmp_path / f"{seed}-{number}"
            publish = number // LIVES % 3 == 2 or (kills < LIVES and seed % 2 == 0)
            layout = code_layout(place) if publish else new_layout(place)
            diary = tmp_path / f"{seed}-{number}.diary"
        with Child(scribble, str(layout.work_tree), str(diary), seed * 100_000 + number, publish) as child:
            _let_live(child, layout, diary, dice, early=number % 5 == 0, placing=publish and number % 2 == 0)
        if number % 10 == 9:
            git(layout.git_dir, "gc", "-q", "--prune=now", check=False)  # it may meet a lock of the killed process
        found = audit(layout, diary, publish=publish)
        assert found.complaints == [], f"seed {seed}, kill {number}: {found}"
        if number % LIVES == LIVES - 1 or number == kills - 1:
            total.add(found)
    return total


def _let_live(child: Child, layout: Layout, diary: Path, dice: random.Random, *, early: bool, placing: bool) -> None:
    """Wait until so many changes were answered on a machine of any speed, and then for part of a further change."""
    if early:
        time.sleep(dice.uniform(0, 0.06))
        return
    child.hear()
    enough, lock = answers_in(diary) + dice.randint(2, 10), layout.git_dir / "index.lock"
    while answers_in(diary) < enough:
        if placing and lock.exists():
            return
        time.sleep(0.0005)
    time.sleep(dice.uniform(0, 0.02))


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path, seed: int) -> None:
    found = killed_at_random(tmp_path, 5, seed)
    assert found.acked > 8, found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [16, pytest.param(200, marks=pytest.mark.large)])
def test_nothing_acknowledged_is_lost_over_many_kills(tmp_path: Path, kills: int) -> None:
    found = killed_at_random(tmp_path, kills, 20)
    print(found)
    assert found.acked > 3 * kills, found
    assert found.kept > 0, "no kill met a change under way"
