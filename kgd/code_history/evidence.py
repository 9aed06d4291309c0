"""Evidence of past commits: the files that a task will touch, and findings in the newest commits of the code.

Three signals tell which files a task will touch, each scaled to the best file: messages of past commits that touched
the file, words of its path, and its score in a search of the code. The best files then pass part of their scores to
files that usually changed with them. The weights were chosen on four histories (`python -m bench.localisation`).

Findings are files that change together, reverted files, and files that need many fixes. Each finding lists its commits
and passes Fisher's exact test, one-sided: if `drawn` of `total` commits were picked at random, how often would at least
`count` of them be `marked`? This probability, times the number of candidates of the same kind (Bonferroni), must be
below `LEVEL`. If there are fewer than fifty commits, there are no findings.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, zip_longest
from math import exp, inf, lgamma
from typing import NamedTuple

from kgd.code_history.reading import FIX, REVERT
from kgd.index import words
from kgd.index.commit_index import NARROW, CommitIndex, NewCommit
from kgd.index.words import Term

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


LOOKED_AT, FEWEST_LOOKED_AT = 0.1, 5_000
"""Maximum share of all commits, but at least this number, that the words of a query may select together; the rarest
words are used first."""
SIMILAR = 200
"""Maximum number of commits with similar messages."""
BY_SEARCH, BY_MESSAGES, BY_PATH = 0.5, 0.75, 0.5
"""Weights of the signals."""
SHARPNESS = 2.5
"""Exponent applied to a message's score, so that the few best messages dominate."""
SPREAD = 0.75
"""A commit's vote is divided by its number of files to this power."""
HALF_LIFE = 365 * 86_400.0
"""Half-life, in seconds, of one half of a vote; the other half never decays."""
HOP = 0.5
"""Share of a file's score that is passed to its companions."""
HOPS_FROM = 10
"""Number of best files that pass on part of their score."""
TOGETHER_PATHS = 15
"""Maximum number of changed paths in a commit that is used to find companions."""
HISTORY = 300
"""Number of a file's newest commits that are used to find its companions."""
SMOOTHING = 3
"""Added to a file's number of commits, so that a single common commit is weak evidence."""
NAMED = 300
"""Maximum number of files with words of the query in their path."""
SHOWN = 3
"""Maximum number of commits listed for each file."""


class LikelyFile(NamedTuple):
    """A file that a task may touch. `score` is 1 for the best of an answer; `commits` are ids of past commits with
    similar messages, best first; `why` lists the signals."""

    path: str
    score: float
    commits: tuple[str, ...]
    why: tuple[str, ...]


def files_for(index: CommitIndex, query: str, limit: int, seeds: Mapping[str, float]) -> list[LikelyFile]:
    """The files that a task will most likely touch, best first. See `CodeHistory.files_for`."""
    terms = content_words(query)
    voted, votes = _by_messages(index, telling(index, index.frequencies(terms)))
    subject = [term for term in terms if term.word.casefold() not in words.WEAK]  # "make it faster" is not `make.bat`
    named = _scaled(dict(index.files_called(subject, NAMED)))
    scores: dict[str, float] = defaultdict(float)
    for weight, found in ((BY_SEARCH, _scaled(seeds)), (BY_MESSAGES, voted), (BY_PATH, named)):
        for path, score in found.items():
            scores[path] += weight * score
    scores = _scaled(scores)
    helped = _pass_on(index, scores)
    best = sorted(scores, key=lambda path: (-scores[path], path))[:limit]
    top = scores[best[0]] if best else 1.0
    ids = {row.number: row.id for row in index.commits({n for path in best for n in votes.get(path, ())}).values()}
    return [
        LikelyFile(
            path,
            round(scores[path] / top, 4),
            tuple(ids[n] for n in votes.get(path, ())),
            tuple(
                why
                for why, has in (
                    ("past commits", path in voted),
                    ("path", path in named),
                    ("content", path in seeds),
                    ("changes together with " + helped.get(path, ""), path in helped),
                )
                if has
            ),
        )
        for path in best
    ]


def content_words(query: str) -> list[Term]:
    """The words of a query; none if all are stop words."""
    return [term for term in words.terms(query) if term.word.casefold() not in words.STOPWORDS]


def telling(index: CommitIndex, counts: Mapping[Term, int]) -> list[Term]:
    """The words that select commits: the rarest words by the number of messages that have them, up to a limit on
    work."""
    most = max(FEWEST_LOOKED_AT, LOOKED_AT * index.count())
    return words.rarest({term: count for term, count in counts.items() if count}, most)


def coverage(index: CommitIndex, counts: Mapping[Term, int], numbers: Collection[int]) -> dict[int, float]:
    """The share of the query's words that each commit has, weighted by rarity. `counts` is the number of messages with
    each word."""
    total = index.count()
    weights = {term: math.log(1 + total / max(1, count)) for term, count in counts.items()}
    whole = sum(weights.values())
    covered = dict.fromkeys(numbers, 0.0)
    for term, weight in weights.items():
        for number in index.with_word(term, numbers):
            covered[number] += weight / whole
    return covered


def _by_messages(index: CommitIndex, terms: Sequence[Term]) -> tuple[dict[str, float], dict[str, list[int]]]:
    """The votes of past commits for the files they touched, and the best commits of each file."""
    found = index.matching(terms, SIMILAR)
    newest = index.newest()
    if not found or newest is None:
        return {}, {}
    numbers = [number for number, _ in found]
    rows, paths = index.commits(numbers), index.paths_of(numbers, widest=NARROW)
    present = index.is_present({path for some in paths.values() for path in some})
    votes: dict[str, float] = defaultdict(float)
    by: dict[str, list[int]] = defaultdict(list)
    for number, score in found:
        row = rows.get(number)
        if row is None or number not in paths:
            continue
        fresh = (1 + 0.5 ** (max(0, newest.at - row.at) / HALF_LIFE)) / 2
        vote = fresh * (score / found[0][1]) ** SHARPNESS / row.files**SPREAD
        for path in paths[number]:
            if path in present:
                votes[path] += vote
                if len(by[path]) < SHOWN:
                    by[path].append(number)
    return _scaled(votes), by


def _pass_on(index: CommitIndex, scores: dict[str, float]) -> dict[str, str]:
    """Pass part of the best files' scores to files that changed with them, in place.

    Returns, for each file that had no score itself, the file that contributed most.
    """
    best = sorted(scores, key=lambda path: (-scores[path], path))[:HOPS_FROM]
    given: dict[str, dict[str, float]] = {}
    for path in best:
        total, others = index.changed_with(path, HISTORY, TOGETHER_PATHS)
        for other, count in others.items():
            given.setdefault(other, {})[path] = HOP * scores[path] * count / (total + SMOOTHING)
    helped = {}
    for other, shares in given.items():
        if other not in scores:
            helped[other] = max(sorted(shares), key=lambda path: shares[path])
        scores[other] = scores.get(other, 0.0) + sum(shares.values())
    return helped


def _scaled(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores relative to the best."""
    best = max(scores.values(), default=0.0)
    return {path: score / best for path, score in scores.items()} if best > 0 else {}
