"""networkx's own tests of algorithms and views, on graphs in kgd's arrays."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

QUICK = ("algorithms.tests.test_dag", "algorithms.shortest_paths", "algorithms.components", "algorithms.traversal")
VIEWS = ("classes.tests.test_reportviews", "classes.tests.test_function", "classes.tests.test_graphviews")


def run(*modules: str) -> tuple[int, int]:
    """The number of passed tests of these modules, and of calls of algorithms."""
    words = [
        "-q",
        "-o",
        "addopts=-rf",
        "--timeout=900",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.graph.networkx_in_arrays",
        "--pyargs",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *(f"networkx.{name}" for name in modules)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed, calls = re.search(r"(\d+) passed", done.stdout), re.search(r"calls of algorithms: (\d+)", done.stdout)
    assert passed
    assert calls
    return int(passed[1]), int(calls[1])


@pytest.mark.slow
@pytest.mark.requirement("B7")
@pytest.mark.timeout(600)
def test_networkx_passes_its_tests_of_common_algorithms_and_views() -> None:
    passed, calls = run(*QUICK, *VIEWS)
    assert passed > 600
    assert calls > 1_000


@pytest.mark.soak
@pytest.mark.requirement("B7")
@pytest.mark.timeout(3_600)
def test_networkx_passes_its_tests_of_all_algorithms() -> None:
    passed, calls = run("algorithms", *VIEWS)
    assert passed > 3_500
    assert calls > 10_000
