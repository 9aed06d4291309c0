"""A person's git gc beside eight writers: no acknowledged change is lost, and no write is blocked."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kgd.git.layout import Layout
from kgd.git.pack_upkeep import maintain
from tests.builders import new_layout
from tests.faults.audit import Findings, audit
from tests.faults.nursery import Child
from tests.faults.scribes import answers_in, scribble
from tests.workspace.people import code_layout

pytestmark = pytest.mark.slow

CHORES = (
    ("gc", "--prune=now", "-q"),
    ("repack", "-adfq"),
    ("pack-refs", "--all"),
    ("reflog", "expire", "--expire=now", "--all"),
    ("prune", "--expire=now"),
    ("repack", "-Adq", "--unpack-unreachable=now"),
)
ROUND = sum(((CHORES[0], other) for other in CHORES[1:]), ())
"""Every other chore is a gc."""


def tidied_up(tmp_path: Path, changes: int, seed: int, *, publish: bool) -> tuple[Findings, Counter[str]]:
    """Run rounds until `count` changes were answered meanwhile."""
    layout = code_layout(tmp_path / "code") if publish else new_layout(tmp_path / "knowledge")
    diary, ran = tmp_path / "diary", Counter[str]()
    with Child(scribble, str(layout.work_tree), str(diary), seed, publish) as child:
        child.hear()
        for chore in itertools.cycle(ROUND):
            if answers_in(diary) > changes and ran.total() >= len(ROUND):
                break
            failed = subprocess.run(["git", "-C", layout.git_dir, *chore], capture_output=True, check=False).returncode
            ran[chore[0] + (" failed" if failed else "")] += 1
        child.tell("stop")
        assert child.hear() == "done"
    return audited(layout, diary, publish), ran


def audited(layout: Layout, diary: Path, publish: bool) -> Findings:
    found = audit(layout, diary, publish=publish)
    maintain(layout.git_dir)
    again = audit(layout, diary, publish=publish)
    found.complaints += [f"after a roll-up: {complaint}" for complaint in again.complaints]
    return found


@pytest.mark.parametrize("publish", [False, True], ids=["objects only", "published"])
def test_nothing_is_lost_beside_a_loop_of_gc(tmp_path: Path, publish: bool) -> None:
    found, ran = tidied_up(tmp_path, 30, 3, publish=publish)
    assert (found.complaints, found.unsure) == ([], 0), ran
    assert ran["gc"] >= 2, ran


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_nothing_is_lost_beside_a_long_loop_of_gc(tmp_path: Path) -> None:
    found, ran = tidied_up(tmp_path, 300, 1, publish=True)
    print(found, ran)
    assert found.complaints == [], f"{found} {ran}"
    assert found.acked > 300, found
