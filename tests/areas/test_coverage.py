"""How much of a code tree areas cover, counted folder by folder, is what looking at each file by itself gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.areas.coverage import Coverage
from kgd.areas.patterns import Matcher
from kgd.errors import Limit
from kgd.model.uri import Uri

MOST = 1_000_000
NAMES = st.sampled_from(["a", "b", "ab.py", "b.py", "[x]", "é"])
SEGMENTS = st.sampled_from(["a", "b", "*", "**", "*.py", "?", "[ab]", "a*", "ab.py", "[x]", "é"])
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
AREAS = st.lists(st.lists(PATTERNS, min_size=1, max_size=3), max_size=5)


@dataclass(eq=False)
class Folder:
    files: dict[str, object] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)
    file_count: int = 0


TREES = st.recursive(
    st.dictionaries(NAMES, st.none(), max_size=3),
    lambda inner: st.dictionaries(NAMES, st.one_of(st.none(), inner), max_size=4),
    max_leaves=12,
)


def made(tree: dict[str, object]) -> Folder:
    """A folder of a nested dictionary, in which None is a file."""
    files = {name: None for name, one in tree.items() if one is None}
    folders = {name: made(one) for name, one in tree.items() if isinstance(one, dict)}
    return Folder(dict(files), folders, len(files) + sum(one.file_count for one in folders.values()))


def paths(folder: Folder, above: str = "") -> Iterator[str]:
    yield from (above + name for name in folder.files)
    for name, inner in folder.folders.items():
        yield from paths(inner, f"{above}{name}/")


def uris(patterns: list[list[str]]) -> list[tuple[Uri, list[str]]]:
    return [(Uri(f"atom://w/{number}"), given) for number, given in enumerate(patterns)]


def is_right(coverage: Coverage, matcher: Matcher, tree: Folder) -> None:
    """Every folder's tally equals what the matcher says of each file below it."""
    owners = {path: frozenset(matcher.matches(path)) for path in paths(tree)}
    todo = [("", tree)]
    while todo:
        place, folder = todo.pop()
        tally = coverage.at(place)
        assert tally is not None
        below = [one for path, one in owners.items() if not place or path.startswith(f"{place}/")]
        assert (tally.files, tally.covered) == (len(below), sum(map(bool, below)))
        assert tally.shared == sum(len(one) > 1 for one in below)
        of = Counter(uri for one in below for uri in one)
        assert dict(tally.largest(100)) == dict(of)
        assert tally.areas == len(of)
        for name in folder.files:
            assert coverage.owners(tally, name) == owners[f"{place}/{name}" if place else name]
        todo += [(f"{place}/{name}" if place else name, one) for name, one in folder.folders.items()]
    sets = Counter(one for one in owners.values() if len(one) > 1)
    assert {one: count for one, count, _ in coverage.overlaps()} == dict(sets)
    for area in {uri for one in owners.values() for uri in one}:
        mine = [path for path, one in owners.items() if area in one]
        found = coverage.files_of(area, 0, 1_000)
        assert sorted(found) == sorted(mine)
        assert [coverage.files_of(area, n, 1) for n in range(len(mine))] == [[path] for path in found]


@given(TREES, AREAS)
def test_it_is_what_looking_at_each_file_gives(tree: dict[str, object], areas: list[list[str]]) -> None:
    matcher, folder = Matcher(uris(areas)), made(tree)
    is_right(Coverage(matcher, folder, MOST), matcher, folder)


@given(TREES, TREES, AREAS)
def test_a_later_state_of_the_tree_is_counted_from_the_earlier_one(
    tree: dict[str, object], other: dict[str, object], areas: list[list[str]]
) -> None:
    matcher, before, beside = Matcher(uris(areas)), made(tree), made(other)
    first = Coverage(matcher, before, MOST)
    folders = {**before.folders, "a": beside, "new": before}
    after = Folder(dict(beside.files), folders, len(beside.files) + sum(one.file_count for one in folders.values()))
    is_right(Coverage(matcher, after, MOST, first), matcher, after)


def test_folders_that_stayed_as_they_were_are_not_walked_again() -> None:
    matcher = Matcher([(Uri("atom://w/a"), ["**/*.py"])])
    inner = made({f"{n}.py": None for n in range(1_000)})
    first = Coverage(matcher, Folder({}, {"a": inner}, 1_000), MOST)
    walked = matcher.steps
    again = Coverage(matcher, Folder({}, {"a": inner, "b": made({"x.py": None})}, 1_001), MOST, first)
    assert matcher.steps - walked < 20
    assert again.top.covered == 1_001


def test_a_folder_that_one_pattern_has_whole_is_not_entered() -> None:
    matcher = Matcher([(Uri("atom://w/a"), ["src/**"])])
    coverage = Coverage(matcher, made({"src": {f"{n}.py": None for n in range(5_000)}, "x": None}), MOST)
    assert (coverage.top.covered, coverage.top.files) == (5_000, 5_001)
    assert matcher.steps < 20
    inside = coverage.at("src")
    assert inside is not None
    assert inside.covered == 5_000
    assert coverage.at("src/nowhere") is None


def test_patterns_that_are_made_to_be_slow_are_given_up() -> None:
    tree: dict[str, object] = {f"{'a' * 200}{n}": None for n in range(50)}
    wild = [(Uri(f"atom://w/{n}"), [f"**/{'*a' * 50}{n}b"]) for n in range(200)]
    with pytest.raises(Limit):
        Coverage(Matcher(wild), made(tree), 50_000)
