"""The manifest of clauses and the tests agree, in both directions."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from kgd.symbols.python import parse

HERE = Path(__file__).parent


def manifest() -> tuple[set[str], set[str]]:
    """All clause ids, and the ids that this version claims."""
    document = YAML(typ="safe").load(HERE / "requirements.yaml")
    claimed = set(document.pop("claimed"))
    return {id for clauses in document.values() for id in clauses}, claimed


@cache
def named_by_tests() -> dict[str, set[str]]:
    """Clause id to the tests that name it, read from the sources: also of tests that this run leaves out."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in HERE.rglob("test_*.py"):
        text = path.read_text()
        # Not `ast.parse`: threads of earlier tests may make it fail.
        tree = parse(text.encode()) if "mark.requirement" in text else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.requirement"):
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{path}: a clause id is written out"
                    found[str(argument.value)].add(path.name)
    return found


def test_every_claimed_clause_is_named_by_a_test() -> None:
    _, claimed = manifest()
    assert sorted(claimed - set(named_by_tests())) == []


def test_every_clause_a_test_names_exists() -> None:
    known, claimed = manifest()
    assert sorted(set(named_by_tests()) - known) == []
    assert claimed <= known
