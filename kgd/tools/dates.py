"""Times in parameters, as people write them: ``monday``, ``2 days ago``, ``May 2023``, ISO dates."""

from __future__ import annotations

from datetime import datetime

from kgd.errors import Invalid
from kgd.model.dates import Span, span_of

When = str | None
"""The type of `since` and `until`. It has no description, since agents pay for every character of a schema."""
LONGEST = 100


def moment_of(text: str, now: datetime, *, at: str = "since") -> int:
    """The Unix seconds at which a time in words or ISO 8601 begins.

    Days begin at midnight in the time zone of `now`. A weekday is the latest day of that name, today included. An ISO
    date or time without a zone is UTC, as everywhere in kgd.

    Args:
        at: The parameter that an error names.

    Raises:
        Invalid: The text is not a date or time.
    """
    return _span(text, now, at).begin


def period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The first and the last Unix second of a period; `until` includes the whole day, week, month or year it names.

    Raises:
        Invalid: One of them is not a date or time, or `until` is before `since`.
    """
    now = datetime.now().astimezone()
    begin = moment_of(since, now) if since is not None else None
    last = _span(until, now, "until").end - 1 if until is not None else None
    if begin is not None and last is not None and last < begin:
        raise Invalid("until is before since", at="until", next="Swap them.")
    return begin, last


def _span(text: str, now: datetime, at: str) -> Span:
    span = span_of(text, now) if len(text) <= LONGEST else None
    if span is None:
        raise Invalid(
            "this is not a date or time",
            at=at,
            next="Write monday, last week, 2 days ago, May 2026, 2026-11-20 or 2026-11-20T14:00:00Z.",
        )
    return span
