"""The files that a task will touch, from past commits.

There are three signals, each scaled to the best file: messages of past commits that touched the file, words of its
path, and its score in a search of the code. The best files then pass part of their scores to files that usually changed
with them. The weights were chosen on four histories (`python -m bench.localisation`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kgd.index import words
from kgd.index.commit_index import NARROW, CommitIndex
from kgd.index.words import Term

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
TOGETHER = 15
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
        total, others = index.changed_with(path, HISTORY, TOGETHER)
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
