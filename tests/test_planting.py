"""The planted bugs still match the code, and their tests still exist. `tests.planting` runs them."""

from __future__ import annotations

import pytest

from tests.access.planted import BUGS as ACCESS
from tests.conftest import ROOT
from tests.defects import catalogue, table
from tests.faults.planted import BUGS as FAULTS
from tests.planting import Bug
from tests.sim.planted import BUGS as SIM

ALL = [
    pytest.param(bug, id=f"{room}-{name}")
    for room, bugs in (("access", ACCESS), ("defects", catalogue()), ("faults", FAULTS), ("sim", SIM))
    for name, bug in bugs.items()
]


@pytest.mark.parametrize("bug", ALL)
def test_a_planted_bug_changes_the_present_code_and_names_existing_tests(bug: Bug) -> None:
    assert bug.planted(ROOT) != (ROOT / bug.file).read_text()
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), test


def test_the_table_of_defects_is_current() -> None:
    assert (ROOT / "tests/defects/README.md").read_text() == table(), "run `python -m tests.defects --table`"


def test_every_defect_of_the_report_is_in_the_catalogue() -> None:
    assert {int(key.partition("-")[0]) for key in catalogue()} == set(range(1, 43))
