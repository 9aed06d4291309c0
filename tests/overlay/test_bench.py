"""The measurement runs and gives figures that can be compared."""

from __future__ import annotations

from pathlib import Path

from bench.bootstrap import generate, rows
from tests.overlay.support import fingerprint


def test_bootstrap_is_measured_against_its_bound_and_leaves_a_given_tree_as_it_was(tmp_path: Path) -> None:
    generate(tmp_path / "tree", 120)
    before = fingerprint(tmp_path / "tree")
    measured = rows(tree=tmp_path / "tree")
    assert [row.get("target") for row in measured] == [5.0, None, None]
    assert all(row["files"] == 120 and row["s"] > 0 for row in measured)
    assert measured[0]["ratio"] > 0
    assert fingerprint(tmp_path / "tree") == before
