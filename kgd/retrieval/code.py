"""The list of hits in the code tree: definitions of names in the query, then files, each with its best part.

A file's score combines its full text, its best symbol or chunk, its path and past commits. A file is represented by its
best part, or by itself if no part matches well enough; more parts of the same file follow with lower scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd.index import exact_names, ranking
from kgd.index.ranking import Found
from kgd.model.uri import Lane, Uri, is_owned, scheme_of

if TYPE_CHECKING:
    from kgd.index.exact_names import Sees
    from kgd.index.text import TextIndex
    from kgd.retrieval.candidates import Pool, Unit

TEXT_WEIGHT, COVERED_WEIGHT, PART_WEIGHT, PATH_WEIGHT = 0.25, 0.36, 0.32, 0.22
"""Weights of a file's whole text by BM25, of its share of the query's weight, of its best part, and of its path."""
PAST_WEIGHT = 2.0
"""Weight of past commits with similar messages."""
NOTED_BONUS = 0.07
"""Added to the score of a file that one of the best notes is about."""
LEAST = 0.04
"""Minimum score for a file to be listed by itself."""
FITS = 0.5
"""Minimum score for a part to represent its file."""
NEXT_PART = 0.5
"""Factor for each additional part of the same file."""
MOST_PARTS = 3
ASIDE_FACTOR = 0.6
"""Factor for tests, examples and vendored code, unless the query asks for them."""

_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|specs?|__tests__|examples?|docs?|vendor|node_modules|fixtures|locale)(?:/|_)"
    r"|(?:^|/)test_|[._]test\.|\.spec\.|\.min\."
)

MOST_NAMED = 60
"""Maximum number of nodes with one name to rank by their uses."""
NAME_BONUS = 0.4
"""Bonus of a symbol whose name is in the query, multiplied by `Unit.named`."""
WHOLE_NAME, PART_NAME = 2.0, 1.0
"""The value of `Unit.named` if the whole query is the name, and if the name is one of its words. Uses and spelling add
less than 1."""


class Listed(NamedTuple):
    """A hit in the code; `unit` is None for a file by itself."""

    uri: Uri
    score: float
    found: Found
    unit: Unit | None


def listed(
    units: Iterable[tuple[Unit, Uri, float]],
    texts: Mapping[Uri, tuple[float, float]],
    paths: Sequence[Found],
    past: Mapping[Uri, float],
    noted: Collection[Uri],
    query: str,
    file_of: Callable[[Uri], Uri],
) -> list[Listed]:
    """The hits, best first; ties by URI.

    Args:
        units: Symbols and chunks, with the node that represents each, and their scores, 0..1.
        texts: Files found by their full text, with scores on any scale.
        paths: Files and directories found by the words of their paths.
        past: Files changed by past commits with similar messages, with scores, 0..1.
        noted: Files that the best notes are about.
        file_of: Returns the file of a symbol or chunk.
    """
    best_text = max((score for score, _ in texts.values()), default=0.0) or 1.0
    text = {uri: TEXT_WEIGHT * score / best_text + COVERED_WEIGHT * covered for uri, (score, covered) in texts.items()}
    best_path = max((-one.rank for one in paths), default=0.0) or 1.0
    path = {one.uri: max(0.0, -one.rank) / best_path * (1.0 if one.tier == ranking.FILE else 0.5) for one in paths}
    parts: dict[Uri, list[tuple[float, Uri, Unit]]] = {}
    for unit, uri, score in units:
        parts.setdefault(file_of(uri), []).append((score, uri, unit))
    found = {one.uri: one for one in paths}
    hits = []
    for file in {*text, *path, *parts, *past}:
        own = sorted(parts.get(file, ()), key=lambda one: (-one[0], one[1]))
        best = own[0][0] if own else 0.0
        score = text.get(file, 0.0) + PART_WEIGHT * best + PATH_WEIGHT * path.get(file, 0.0)
        score += NOTED_BONUS if file in noted else 0.0
        if is_aside(file) and not asks_for_aside(query):
            score *= ASIDE_FACTOR
        if past:
            score = (score + PAST_WEIGHT * past.get(file, 0.0)) / (1 + PAST_WEIGHT)
        shown = own if best >= FITS else []
        if not shown and score >= LEAST and scheme_of(file) in ("file", "dir"):
            hits.append(Listed(file, score, found.get(file) or Found(0.0, file, 0, ranking.FILE), None))
        for number, (_, uri, unit) in enumerate(shown[:MOST_PARTS]):
            hits.append(Listed(uri, score * NEXT_PART**number, unit.texts.get(uri) or Found(0.0, uri, 0, 1), unit))
    return sorted(hits, key=lambda one: (-one.score, one.uri))


def file_of(uri: Uri) -> Uri:
    """The file of a symbol or chunk in the code tree; returns any other node unchanged."""
    if is_owned(uri) and scheme_of(uri) in ("symbol", "chunk"):
        return Uri(f"file{uri[uri.index(':') :].rpartition('/')[0]}")
    return uri


def is_aside(uri: Uri) -> bool:
    """Whether a file, or a part of one, is a test, an example or vendored code."""
    return _ASIDE.search(uri.split("/", 3)[-1]) is not None


def asks_for_aside(query: str) -> bool:
    """Whether a word of a query refers to such files."""
    return _ASIDE.search(f"{query.replace(' ', '/')}/") is not None


def add_named(pool: Pool, index: TextIndex, filters: dict[str, Any], may: Sees) -> None:
    """Add units for the nodes whose name is in the query."""
    asked = exact_names.asked_in(pool.question.query)
    whole = exact_names.fold(pool.question.query.strip().removesuffix("()"))
    for name in asked:
        how = WHOLE_NAME if exact_names.fold(name.removesuffix("()")) == whole else PART_NAME
        for found, is_exact in sorted(index.called(name, may, **filters), key=_by_spelling)[:MOST_NAMED]:
            unit = pool.take(found._replace(tier=ranking.ALL if how == WHOLE_NAME else ranking.SOME))
            unit.named = max(unit.named, how + (0.3 if is_exact else 0.0))
            unit.called = unit.called or found.uri
            pool.called[found.uri] = unit.key


def _by_spelling(called: tuple[Found, bool]) -> tuple[bool, bool, bool, Uri]:
    """The sort key: nodes spelled as in the query first; tests, and additional definitions in one file, last."""
    found, is_exact = called
    return not is_exact, is_aside(found.uri), "~" in found.uri, found.uri


def is_asked(unit: Unit, pool: Pool) -> bool:
    """Whether a unit's name is the subject of the query, and not one of many words of a sentence."""
    return unit.named > (0.0 if pool.is_short else WHOLE_NAME - 1)


def by_uses(pool: Pool, uses: Callable[[Uri], int]) -> None:
    """Order the named units by spelling, nesting and uses; tests and examples come last."""
    for uri, key in pool.called.items():
        unit = pool.units.get(key)
        if unit is None:
            continue
        often = uses(uri)
        unit.named += 0.5 * often / (often + 5) - 0.1 * min(4, uri.rpartition("/")[2].count("."))
        if unit.lane is Lane.CODE and is_aside(uri):
            unit.named -= 0.5
