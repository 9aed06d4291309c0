"""The lists of planted bugs are true: each can still be planted, and the tests that find it are still there."""

from __future__ import annotations

from tests.access import planted as access
from tests.conftest import ROOT
from tests.faults import planted as faults
from tests.sim import planted as sim


def test_every_bug_of_the_lists_can_be_planted_and_its_tests_are_there() -> None:
    for name, bug in [*faults.BUGS.items(), *access.BUGS.items(), *sim.BUGS.items()]:
        assert (ROOT / bug.file).read_text().count(bug.right) == 1, name
        assert isinstance(bug.tests, tuple), name
        assert bug.tests, name
        for test in bug.tests:
            file, _, function = test.partition("::")
            assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text(), test
