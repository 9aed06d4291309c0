"""Dates in a question: texts from that day, month or year rank higher, and facts that do not currently hold rank
last."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from kgd.index.text import TextIndex
from kgd.model.dates import DAY, Named, Span, named_in
from kgd.model.uri import Uri
from kgd.retrieval.candidates import Pool, normalise

BONUS = 0.4
"""Added to the score of a text from the period in question."""
AFTER = 0.5
"""Share of the bonus for texts from the following days, which often describe that period."""
DAYS_AFTER = 7
LAPSED = 0.01
"""Factor for the score of a fact that does not hold now: it ranks below every other hit."""


def with_dates(pool: Pool, index: TextIndex) -> None:
    """Raise the scores of texts with a date that the question mentions. Costs two SQL statements, or none if the
    question does not mention a date."""
    named = named_in(pool.question.query, datetime.fromtimestamp(pool.question.now, UTC))
    if not named:
        return
    ids = {found.id: unit for unit in pool.units.values() for found in unit.texts.values() if found.id}
    gained: dict[Uri, float] = {}
    for id, date in index.dates_of(ids).items():
        key = ids[id].key
        gained[key] = max(gained.get(key, 0.0), *(_closeness(one, date) for one in named))
    for key, share in gained.items():
        pool.units[key].score += BONUS * share
    if any(gained.values()):
        normalise(pool)


def _closeness(named: Named | Span, date: int) -> float:
    """1 for a date within the named period, less for the following days, otherwise 0."""
    spans = [named] if isinstance(named, Span) else named.spans(date)
    return max((_in_span(span, date) for span in spans), default=0.0)


def _in_span(span: Span, date: int) -> float:
    if span.begin <= date < span.end:
        return 1.0
    return AFTER if span.end <= date < span.end + DAYS_AFTER * DAY else 0.0


def lapses(uris: Collection[Uri], index: TextIndex, now: float) -> dict[Uri, str]:
    """The nodes among these that do not currently hold, with the reason."""
    return {uri: lapse for uri, valid in index.validity_of(uris).items() if (lapse := valid.lapse(now))}
