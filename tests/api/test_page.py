"""docs/python.md: its examples run, and its tables are complete."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import kgd
from kgd.config import Home
from kgd.errors import BY_CODE, Stale
from tests import forked
from tests.surfaces.conftest import git
from tests.test_docs import ROOT, shows

PAGE = (ROOT / "docs/python.md").read_text()
BLOCK = re.compile(r"^```python walk\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.M | re.S)


@pytest.mark.slow
@pytest.mark.requirement("U5")
@pytest.mark.parametrize("by", ["in process", pytest.param("a daemon", marks=pytest.mark.slow)])
def test_the_examples_run_and_print_the_shown_output(
    by: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop"
    (shop / "src/auth").mkdir(parents=True)
    (shop / "src/auth/session.py").write_text("def check():\n    return True\n")
    git(shop, "init", "-q")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "first")
    monkeypatch.chdir(shop)
    if by == "a daemon":
        forked.daemon(home)
    names: dict[str, object] = {}
    assert len(BLOCK.findall(PAGE)) > 10
    for found in BLOCK.finditer(PAGE):
        line = PAGE.count("\n", 0, found.start()) + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found[1], f"docs/python.md:{line}", "exec"), names)
        assert found[2] is None or shows(found[2], printed.getvalue()), f"line {line} prints\n{printed.getvalue()}"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    table = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1:]]


def test_the_table_maps_every_operation_of_the_specifications_to_an_existing_one() -> None:
    mapped = {
        name: set(re.findall(r"`(\w+)`", row[1]))
        for row in rows("From the specifications to Python")
        for name in re.findall(r"`(\w+)`", row[0]) or [row[0]]
    }
    asked = """createNode createNodes getNode updateNode deleteNode deleteNodesBySource getNodesByNamespace createEdge
        createEdges getEdges getEdgesForNode deleteEdge deleteEdgesForNode retrieve searchNodes traverseGraph
        searchChunks findRelated findRelatedNodes getContext getNodeById getMessageHistory addNode queryByTags
        getConnected gatherContext"""
    assert set(asked.split()) <= set(mapped)
    there = {name for name in dir(kgd.Workspace) if not name.startswith("_")}
    named = set().union(*mapped.values())
    assert named <= there
    more = set(re.findall(r"`(\w+)`", " ".join(row[2] for row in rows("From the specifications to Python"))))
    assert there - named - more == set()
    assert all(getattr(kgd.Workspace, name).__doc__ for name in there)


def test_every_error_is_in_the_table_of_errors() -> None:
    told = {tuple(re.findall(r"`(\w+)`", cell)) for row in rows("Errors") for cell in row[:2]}
    names = {name for cells in told for name in cells}
    assert {error.__name__ for error in (*BY_CODE.values(), Stale)} <= names
    assert {*BY_CODE, Stale.code} <= names
    assert all(hasattr(kgd, error.__name__) for error in (*BY_CODE.values(), Stale))
