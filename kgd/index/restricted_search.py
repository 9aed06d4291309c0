"""Search for restricted callers: answers as if hidden texts did not exist.

BM25 weighs a word by the number of texts that contain it, including hidden texts, and the last word of a query may be
unfinished. So the scores of visible hits could reveal hidden texts letter by letter. To prevent this, the scores of
each word are divided by its best visible score, which removes that weight, and the word is weighed by the visible texts
instead. This takes time linear in the number of texts that contain a word of the query.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence

from kgd.index.ranking import ALL, BEGUN, FILE, FILE_SOME, LONG, RANK_DIGITS, SOME, TABLES, TEXT_WEIGHTS, Filter, Found
from kgd.index.words import Term
from kgd.model.uri import Lane, Uri

Sees = Callable[[Uri], bool]
_Scores = dict[Uri, tuple[float, int]]
"""Score (0..1) and number of each visible text with a word."""


class InSight:
    """One restricted query on one connection, with the same tiers as `ranking.Search`."""

    def __init__(self, connection: sqlite3.Connection, terms: Sequence[Term], sees: Sees) -> None:
        self._connection, self._terms, self._sees = connection, terms, sees

    def texts(self, lane: Lane, condition: Filter, want: int) -> list[Found]:
        """At most `want` texts of a lane with words of the query. If the query has few words, texts with all of them
        form their own tier."""
        table = TABLES[lane]
        few = len(self._terms) < LONG
        last = self._terms[-1]
        found = [self._with(table, term.phrases, condition) for term in self._terms]
        if last.prefix == last.match or not (few or not found[-1]):
            every = _ranked(found, lambda count: ALL if few and count == len(found) else SOME)
            return [one._replace(lane=lane) for one in every[:want]]
        begun = [*found[:-1], self._with(table, (*last.phrases, *last.begun), condition)]
        tiers = _ranked(begun, lambda count: BEGUN if few and count == len(found) else SOME)
        if found[-1]:  # the last word exists as typed: texts with only longer words match it only partly
            exact = _ranked(found, lambda count: ALL if count == len(found) else SOME)
            all_of_them = {one.uri for one in exact if one.tier == ALL}
            more = [one for one in tiers if one.tier == BEGUN and one.uri not in all_of_them]
            known = {one.uri for one in more}
            tiers = sorted([*more, *(one for one in exact if one.uri not in known)], key=_order)
        return [one._replace(lane=lane) for one in tiers[:want]]

    def files(self, condition: Filter, want: int) -> list[Found]:
        """Bare files: first those with all words in their path, then those with some words."""
        last = self._terms[-1]
        phrases = [*(term.phrases for term in self._terms[:-1]), (*last.phrases, *last.begun)]
        found = [self._with("file_text", each, condition) for each in phrases]
        return _ranked(found, lambda count: FILE if count == len(found) else FILE_SOME)[:want]

    def _with(self, table: str, phrases: Sequence[str], condition: Filter) -> _Scores:
        """The best score of each text for any of the phrases; the scores of a phrase are divided by its best score."""
        found: _Scores = {}
        for phrase in dict.fromkeys(phrases):
            scores = self._of(table, phrase, condition)
            best = max((score for score, _ in scores.values()), default=0.0)
            for uri, (score, id) in scores.items():
                part = round(score / best, RANK_DIGITS) if best > 0 else 1.0
                if part > found.get(uri, (-1.0, 0))[0]:
                    found[uri] = (part, id)
        return found

    def _of(self, table: str, phrase: str, condition: Filter) -> _Scores:
        details, weights = ("files", table) if table == "file_text" else ("docs", f"{table}, {TEXT_WEIGHTS}")
        rows = self._connection.execute(
            # `JOIN` alone could look up the phrase once for each node of a requested type.
            f"SELECT {details}.uri, bm25({weights}), {details}.id FROM {table}"
            f" CROSS JOIN {details} ON {details}.id = {table}.rowid WHERE {table} MATCH ? {condition.sql}",
            (phrase, *condition.values),
        )
        found: _Scores = {}
        for uri, rank, id in rows:
            if self._sees(uri) and -rank >= found.get(uri, (0.0, 0))[0]:
                found[uri] = (-rank, id)
        return found


def _ranked(found: Sequence[_Scores], tier: Callable[[int], int]) -> list[Found]:
    """`tier` maps the number of words that a text has to its tier."""
    most = 2 * max((len(scores) for scores in found), default=0)
    weights = [math.log(1 + most / (len(scores) + 0.5)) for scores in found]
    ids = {uri: id for scores in found for uri, (_, id) in scores.items()}
    out = []
    for uri, id in ids.items():
        has = [w * (1 + scores[uri][0]) for w, scores in zip(weights, found, strict=True) if uri in scores]
        out.append(Found(-round(sum(has), RANK_DIGITS), uri, id, tier(len(has))))
    return sorted(out, key=_order)


def _order(found: Found) -> tuple[int, float, Uri]:
    return -found.tier, found.rank, found.uri
