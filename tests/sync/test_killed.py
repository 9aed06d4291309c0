"""``kill -9`` of a daemon in the middle of a sync: what either acknowledged reaches both, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sync.killed import CHORES, killed_while_syncing

pytestmark = pytest.mark.slow


@pytest.mark.requirement("B8")
def test_nothing_acknowledged_is_lost_when_daemons_that_sync_are_killed(tmp_path: Path) -> None:
    seen = killed_while_syncing(tmp_path, 8, 1)
    print(seen)
    assert seen.acked > 50
    assert seen.merges > 3


@pytest.mark.timeout(300)
def test_git_that_tidies_up_beside_killed_syncs_leaves_no_hole_and_no_change_done_twice(tmp_path: Path) -> None:
    seen = killed_while_syncing(tmp_path, 10, 2, CHORES)
    print(seen)
    assert seen.acked > 50
    assert seen.chores["gc"] > 3
