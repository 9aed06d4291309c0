"""Findings in the newest commits of the code: files that change together, reverted files, and files that need many
fixes.

Each finding lists its commits and passes Fisher's exact test, one-sided: if `drawn` of `total` commits were picked at
random, how often would at least `count` of them be `marked`? This probability, times the number of candidates of the
same kind (Bonferroni), must be below `LEVEL`. If there are fewer than fifty commits, there are no findings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, zip_longest
from math import exp, inf, lgamma
from typing import NamedTuple

from kgd.code_history.reading import FIX, REVERT
from kgd.index.commit_index import NARROW, NewCommit

LEVEL = 0.01


def by_chance(count: int, drawn: int, marked: int, total: int) -> float:
    """The probability P(X >= count) for a hypergeometric X."""
    if count <= max(0, drawn + marked - total):
        return 1.0
    whole = _choose(total, drawn)
    most = min(drawn, marked)
    terms = (exp(_choose(marked, k) + _choose(total - marked, drawn - k) - whole) for k in range(count, most + 1))
    return min(1.0, sum(terms))


def is_significant(probability: float, tried: int) -> bool:
    """Whether a result is not due to chance, if `tried` statements were tested."""
    return probability * max(1, tried) < LEVEL


def _choose(of: int, count: int) -> float:
    """The logarithm of a binomial coefficient."""
    return lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1) if 0 <= count <= of else -inf


NEWEST = 500
"""Number of newest commits to examine."""
LEAST_COMMITS = 50
TOGETHER, TOGETHER_SHARE = 5, 0.75
"""Minimum number of commits that changed both files of a pair, and their minimum share of the rarer file's commits."""
REVERTS, FIXES = 2, 4
"""Minimum number of reverts, and of fixes, of a file."""
TRIED = 50
"""Maximum number of candidates of a kind to look up in the tree, which may no longer have the file."""
MOST = 3
"""Maximum number of findings."""
_EXPECTED = ("changelog", "changes", "history", "news", "releases", "version", "init", "index")
"""Names of files that change with everything else, as `_stem` returns them."""
_LOCKS = (".lock", "-lock.json", "-lock.yaml", ".sum", ".snap", ".po", ".pot")
_TESTS = re.compile(
    r"(?i)(?:^|/)(?:tests?|testing|specs?|__tests__|e2e)/|(?:^|/)(?:test_|conftest\.)|[_.-](?:tests?|spec|e2e)\.\w+$"
)
_TEXTS = (".md", ".rst", ".txt", ".adoc", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".xml", ".svg", ".1")
"""Suffixes of files with documentation or settings."""


class Finding(NamedTuple):
    """One sentence, the ids of the commits that support it, newest first, and the probability that chance alone gives
    this result."""

    kind: str
    text: str
    paths: tuple[str, ...]
    commits: tuple[str, ...]
    chance: float


Among = Callable[[Sequence[str]], Iterable[str]]
"""Returns the paths among these that exist in the tree."""


def findings(commits: Sequence[NewCommit], among: Among) -> list[Finding]:
    """Up to `MOST` findings in these commits, which come newest first: the best of each kind, then the next best.

    No two findings of a kind share a file.
    """
    narrow = [commit for commit in commits if 1 <= commit.files <= NARROW]
    if len(narrow) < LEAST_COMMITS:
        return []
    touching = _by_path(narrow)
    kinds = [_apart_and_present(kind(narrow, touching), among) for kind in (_together, _reverted, _fixed)]
    ranked = (one for rank in zip_longest(*kinds) for one in rank if one is not None)
    return list(islice(ranked, MOST))


def _by_path(commits: Sequence[NewCommit]) -> dict[str, set[int]]:
    """The commits, by number in the list, that touched each file under its newest name."""
    now: dict[str, str] = {}
    touching: dict[str, set[int]] = defaultdict(set)
    for number, commit in enumerate(commits):
        for path in commit.paths:
            touching[now.get(path, path)].add(number)
        for was, path in commit.renames:
            now[was] = now.get(path, path)
    return touching


def _together(commits: Sequence[NewCommit], touching: Mapping[str, set[int]]) -> Iterator[Finding]:
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    often = {path for path, numbers in touching.items() if len(numbers) >= TOGETHER}
    of_commit: dict[int, list[str]] = defaultdict(list)
    for path in sorted(often):
        for number in touching[path]:
            of_commit[number].append(path)
    for paths in of_commit.values():
        for pair in combinations(paths, 2):
            pairs[pair] += 1
    found = []
    for (one, other), count in pairs.items():
        rarer, more = sorted((one, other), key=lambda path: (len(touching[path]), path))
        of = len(touching[rarer])
        if count >= TOGETHER and count >= TOGETHER_SHARE * of and _is_surprising(one, other):
            chance = by_chance(count, len(touching[one]), len(touching[other]), len(commits))
            if is_significant(chance, len(pairs)):
                text = f"{count} of {of} commits of {rarer} also changed {more}"
                both = touching[one] & touching[other]
                found.append(_finding("together", text, (rarer, more), commits, both, chance))
    yield from sorted(found, key=lambda one: (-sum(map(_is_source, one.paths)), one.chance, one.paths))


def _reverted(commits: Sequence[NewCommit], touching: Mapping[str, set[int]]) -> Iterator[Finding]:
    marked = {number for number, commit in enumerate(commits) if commit.kind == REVERT}
    for path, mine, numbers, chance in _marked(touching, marked, REVERTS, len(commits)):
        times = "twice" if len(mine) == 2 else f"{len(mine)} times"
        text = f"{path} was reverted {times} in {len(numbers)} commits"
        yield _finding("reverted", text, (path,), commits, mine, chance)


def _fixed(commits: Sequence[NewCommit], touching: Mapping[str, set[int]]) -> Iterator[Finding]:
    marked = {number for number, commit in enumerate(commits) if commit.kind == FIX}
    for path, mine, numbers, chance in _marked(touching, marked, FIXES, len(commits)):
        shares = f"{len(mine)} of its {len(numbers)} commits are fixes, and {len(marked)} of all {len(commits)} commits"
        is_all = len(mine) == len(numbers)
        text = f"All {len(mine)} commits of {path} are fixes" if is_all else f"{path} needs many fixes: {shares}"
        yield _finding("fixes", text, (path,), commits, mine, chance)


def _marked(
    touching: Mapping[str, set[int]], marked: set[int], least: int, total: int
) -> list[tuple[str, set[int], set[int], float]]:
    """The files with significantly many marked commits, starting with the least probable result."""
    found = []
    candidates = [path for path, numbers in touching.items() if len(numbers) >= least]
    for path in candidates:
        mine = touching[path] & marked
        if len(mine) >= least and _is_source(path):
            chance = by_chance(len(mine), len(touching[path]), len(marked), total)
            if is_significant(chance, len(candidates)):
                found.append((path, mine, touching[path], chance))
    return sorted(found, key=lambda one: (one[3], one[0]))


def _finding(
    kind: str, text: str, paths: tuple[str, ...], commits: Sequence[NewCommit], numbers: Iterable[int], chance: float
) -> Finding:
    return Finding(kind, text, paths, tuple(commits[number].id for number in sorted(numbers)), chance)


def _apart_and_present(found: Iterable[Finding], among: Among) -> list[Finding]:
    """Up to `MOST` of these findings, all of whose files exist and are in no earlier one."""
    tried = list(islice(found, TRIED))
    present = set(among(sorted({path for one in tried for path in one.paths}))) if tried else set()
    chosen: list[Finding] = []
    for one in tried:
        if present.issuperset(one.paths) and len(chosen) < MOST:
            chosen.append(one)
            present.difference_update(one.paths)
    return chosen


def _is_surprising(one: str, other: str) -> bool:
    """Whether these files change together unexpectedly. False for a file and its test, and for lock files and
    changelogs."""
    return _stem(one) != _stem(other) and not _is_expected(one) and not _is_expected(other)


def _is_expected(path: str) -> bool:
    """Whether the file says little about the code: a test, a lock file, a changelog, or in a hidden folder."""
    is_hidden = path.startswith(".") or "/." in path
    return is_hidden or path.endswith(_LOCKS) or _stem(path) in _EXPECTED or _TESTS.search(path) is not None


def _is_source(path: str) -> bool:
    return not _is_expected(path) and not path.endswith(_TEXTS)


def _stem(path: str) -> str:
    name = path.rpartition("/")[2].partition(".")[0].casefold()
    return name.removeprefix("test_").removesuffix("_test").removesuffix("test").strip("-_") or name
