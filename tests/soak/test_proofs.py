"""`make soak` runs every test that is marked for it, and keeps what it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from tests.conftest import ROOT
from tests.soak.__main__ import MARKED, PROOFS, counts_of, longest_unrun
from tests.sync.killed import Seen


@pytest.mark.slow
def test_every_test_marked_soak_is_run_by_a_proof() -> None:
    """The proofs search the files for one spelling of the mark. Collecting all files takes 25 s, so only those with the
    word are collected here."""
    others = [
        f"{path}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if "soak" in path.read_text() and f"{path.relative_to(ROOT)}" not in MARKED
    ]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "soak", *others]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_each_file_with_tests_marked_soak_is_a_proof() -> None:
    assert "tests/graph/test_networkx.py" in MARKED
    assert set(MARKED) <= PROOFS.keys()


def test_every_proof_has_its_turn() -> None:
    assert sorted(longest_unrun()) == sorted(PROOFS)


def test_the_ledger_keeps_a_counter_as_an_object() -> None:
    seen = Seen(kills=2, chores=Counter(gc=290, repack=294))
    assert json.loads(json.dumps(counts_of(seen)))["chores"] == {"gc": 290, "repack": 294}
