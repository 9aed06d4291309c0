"""Common parts of two texts are found in bounded time, and each line belongs to the version that introduced it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kgd.model.text_merge import common_parts, origin_versions

FEW = st.lists(st.sampled_from("abcde"), max_size=12)
HISTORY = st.lists(FEW, min_size=1, max_size=6)


@st.composite
def written(draw: st.DrawFn) -> list[list[str]]:
    """Versions of a text in which no line is ever written twice and none is moved."""
    fresh = iter(range(10_000))
    versions = [[str(next(fresh)) for _ in range(draw(st.integers(0, 6)))]]
    for _ in range(draw(st.integers(0, 6))):
        lines: list[str] = []
        for line in versions[-1]:
            what = draw(st.sampled_from(("keep", "keep", "keep", "drop", "change", "before")))
            lines += {"keep": [line], "drop": [], "change": [str(next(fresh))], "before": [str(next(fresh)), line]}[
                what
            ]
        versions.append(lines + [str(next(fresh)) for _ in range(draw(st.integers(0, 2)))])
    return versions


def since(versions: Sequence[Sequence[str]], line: str) -> int:
    """From which version on a line is in all of them: looked up one by one."""
    number = len(versions) - 1
    while number > 0 and line in versions[number - 1]:
        number -= 1
    return number


@given(written())
def test_each_line_is_of_the_version_that_it_came_with(versions: list[list[str]]) -> None:
    assert origin_versions(versions) == [since(versions, line) for line in versions[-1]]


@given(HISTORY)
def test_no_line_is_ascribed_to_a_version_that_lacks_it_or_before_it_was_lost(versions: list[list[str]]) -> None:
    owners = origin_versions(versions)
    assert len(owners) == len(versions[-1])
    assert all(since(versions, line) <= owner for line, owner in zip(versions[-1], owners, strict=True))
    # As many of a line stay from one version to the next as can, at most.
    for line in set(versions[-1]):
        counts = [list(version).count(line) for version in versions]
        for number in range(1, len(versions)):
            older = [o for one, o in zip(versions[-1], owners, strict=True) if one == line and o < number]
            assert len(older) <= min(counts[number - 1 :])


@given(FEW, FEW)
def test_common_parts_have_the_same_order_in_both_texts(old: list[str], new: list[str]) -> None:
    runs = common_parts(old, new)
    for run in runs:
        assert run.length > 0
        assert old[run.old : run.old + run.length] == new[run.new : run.new + run.length]
    for one, two in pairwise(runs):
        assert one.old + one.length <= two.old
        assert one.new + one.length <= two.new
        assert (one.old + one.length, one.new + one.length) != (two.old, two.new)


@given(FEW, FEW, FEW, FEW)
def test_a_beginning_and_an_end_that_are_shared_are_found(
    a: list[str], b: list[str], c: list[str], d: list[str]
) -> None:
    old, new = [*a, "1", *b, "2", *d], [*a, "3", *c, "4", *d]
    found = {run.old + step: run.new + step for run in common_parts(old, new) for step in range(run.length)}
    assert all(found[number] == number for number in range(len(a)))
    assert all(found[len(old) - number] == len(new) - number for number in range(1, len(d) + 1))


def test_a_text_of_many_lines_is_compared_by_its_unique_lines() -> None:
    old = [f"line {number}" if number % 3 else "" for number in range(3_000)]
    new = [*old[:1_000], "put in", *old[1_000:2_000], *old[2_100:]]
    assert [(run.old, run.new, run.length) for run in common_parts(old, new)] == [
        (0, 0, 1_000),
        (1_000, 1_001, 1_000),
        (2_100, 2_001, 900),
    ]


def test_a_hostile_text_is_not_compared_forever() -> None:
    old = ["a", "b"] * 20_000
    new = ["b", "c", "a"] * 13_000
    owners = origin_versions([old, new])
    assert len(owners) == len(new)


def test_lines_of_a_merge_belong_to_both_sides() -> None:
    base, ours, theirs = ["x", "y"], ["a", "x", "y"], ["x", "y", "b"]
    assert origin_versions([base, ours, theirs, ["a", "x", "y", "b"]], merges={3}) == [1, 0, 0, 2]


def test_without_versions_no_line_is_ascribed() -> None:
    assert origin_versions([]) == []
    assert origin_versions([["a"], []]) == []
