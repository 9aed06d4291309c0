"""Commits are in the order of the commit graph, also if clocks run backwards."""

from __future__ import annotations

import random

import pytest

from kgd.workspace.answers import Entry
from kgd.workspace.history.history import UNDO, children_first, undoable


def entry(commit: str, *parents: str, at: int = 0, operation: str = "put", body: str = "") -> Entry:
    return Entry(commit, parents, commit, body, "Ann", "ann@example.org", "tests", at, operation, ())


def names(entries: list[Entry]) -> str:
    return "".join(one.commit for one in entries)


def test_entries_keep_their_order_unless_a_parent_is_before_its_child() -> None:
    m, x, y, p = entry("m", "x", "y"), entry("x", "p"), entry("y", "p"), entry("p", "elsewhere")
    assert names(children_first([m, x, p, y])) == "mxyp"
    assert names(children_first([m, y, x, p])) == "myxp"
    assert children_first([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_follows_its_children_whatever_the_clocks_say(seed: int) -> None:
    dice = random.Random(seed)
    made = [entry(str(n), *map(str, dice.sample(range(n), min(n, dice.choice((1, 1, 2)))))) for n in range(40)]
    dice.shuffle(made)
    found = children_first(made)
    assert sorted(map(names, ([one] for one in found))) == sorted(map(names, ([one] for one in made)))
    seen = set[str]()
    for one in found:
        assert seen.isdisjoint(one.parents)
        seen.add(one.commit)


def test_a_commit_undone_in_a_branch_with_an_earlier_clock_is_not_undone_again() -> None:
    p = "a" * 40
    undo = entry("y", p, operation=UNDO, body=f"Reverts {p}")
    listed = [entry("m", "x", "y", operation="merge"), entry("x", p), entry(p, "elsewhere"), undo]
    assert [one.commit for one in undoable(listed)] == ["x"]
