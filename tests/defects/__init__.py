"""Reported defects, each with the change that plants it again and the tests that find it.

A module per subject holds ``BUGS``: keys are ``NUMBER-what-was-wrong``, where NUMBER counts the defects of one report.
``tests/test_planting.py`` checks on every run that each entry still fits the code and names tests that exist;
``python -m tests.defects [KEY...]`` plants them and prints a row for each.
"""

from __future__ import annotations

import importlib
import pkgutil

from tests.planting import Bug


def catalogue() -> dict[str, Bug]:
    """All defects by key, in the order of their numbers."""
    found: dict[str, Bug] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        for key, bug in importlib.import_module(f"{__name__}.{module.name}").BUGS.items():
            assert key not in found, f"two defects are called {key}"
            found[key] = bug
    return dict(sorted(found.items(), key=lambda item: (int(item[0].partition("-")[0]), item[0])))


def table() -> str:
    """The defects with the tests that find them, as Markdown."""
    lines = [
        "# Defects and the tests that find them",
        "",
        "`python -m tests.defects KEY` plants a defect into a copy of the code; each of its tests must then fail.",
        "`python -m tests.defects --table` writes this file.",
        "",
        "| key | defect | tests |",
        "|---|---|---|",
    ]
    for key, bug in catalogue().items():
        tests = "<br>".join(f"`{test.removeprefix('tests/').replace('|', chr(92) + '|')}`" for test in bug.tests)
        lines.append(f"| {key} | {bug.what} | {tests} |")
    return "\n".join(lines) + "\n"
