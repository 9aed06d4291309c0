"""Dates as people write them, read as spans of Unix seconds: ``2026-05``, ``7 May``, ``last week``, ``2 days ago``.

A date or time without a zone is UTC. Words such as ``today`` refer to the zone of `now`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kgd.model.fields import VALID
from kgd.model.node import Json

DAY = 86_400
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {"minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
_SHORT_UNITS = {"min": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_MONTH_NAMES = """
january jan januar janvier
february feb februar février
march mar märz mars
april apr avril
may mai
june jun juni juin
july jul juli juillet
august aug août
september sep sept septembre
october oct oktober octobre
november nov novembre
december dec dezember décembre
"""
_MONTHS = {name: number for number, line in enumerate(_MONTH_NAMES.split("\n")) for name in line.split()}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_ISO = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?")
_NAMED = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_DAY} (?:of )?{_MONTH}(?:,? ?{_YEAR})?",
        rf"\b{_MONTH} {_DAY}(?!\d)(?:,? ?{_YEAR})?",
        rf"\b{_MONTH},? ?{_YEAR}",
        r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b",
        r"(?P<year>(?:19|20)\d\d)年(?:\s?(?P<month>\d{1,2})月(?:\s?(?P<day>\d{1,2})日)?)?",
        rf"\b(?P<season>{'|'.join(_SEASONS)})(?: of)? {_YEAR}",
        rf"\b(?:in|of|during|last|since|early|late|mid|this|im|en) (?:the )?{_MONTH}(?! \d)",
        rf"\b(?:in|of|during|since|year|im|en) {_YEAR}",
    )
]
_MONTH_ALONE = re.compile(rf"(?<=\w )(?-i:(?=[A-Z])){_MONTH}(?! \d)", re.IGNORECASE)
_AGO = re.compile(
    r"(?P<count>\d{1,5}|an?|one|two|three) (?P<unit>minute|hour|day|week)s?(?: ago)?"
    r"|(?P<n>\d{1,5})(?P<short>min|h|d|w)"
)
_RELATIVE = re.compile(
    rf"\b(?:today|yesterday|(?:last|this|previous) (?:week|month|year)|(?:last|this) (?:{'|'.join(_DAYS)})"
    r"|(?:\d{1,5}|an?|one|two|three) (?:minute|hour|day|week)s? ago)\b",
    re.IGNORECASE,
)

_HINT = re.compile(rf"\d|day\b|\b(?:last|this|previous|{'|'.join(_MONTHS)})\b", re.IGNORECASE).search


class Span(NamedTuple):
    """A period from `begin` up to, but not including, `end`, in Unix seconds."""

    begin: int
    end: int


class Named(NamedTuple):
    """A date mentioned in a text. Without a year, it stands for that date in any year."""

    year: int | None
    month: int | None
    day: int | None
    months: int = 1

    def spans(self, near: int) -> Iterator[Span]:
        """The span; without a year, the spans in the years around `near`."""
        years = [self.year] if self.year else [datetime.fromtimestamp(near, UTC).year + n for n in (-1, 0, 1)]
        for year in years:
            if (span := _calendar(year, self.month, self.day, self.months)) is not None:
                yield span


class Validity(NamedTuple):
    """The period in which a fact holds: from `begin` up to, but not including, `end`, in Unix seconds; None if
    unbounded."""

    begin: int | None
    end: int | None

    def lapse(self, now: float) -> str:
        """The reason why the fact does not hold at `now`, such as ``expired on 2026-05-31``; empty if the fact
        holds."""
        if self.end is not None and self.end <= now:
            return f"expired on {_date(self.end - 1)}"
        if self.begin is not None and now < self.begin:
            return f"not valid before {_date(self.begin)}"
        return ""


def written(text: str) -> Span | None:
    """The span of an ISO 8601 year, month, day or time; None for any other text."""
    text = text.strip()
    if found := _ISO.fullmatch(text):
        return _calendar(*(int(part) if part else None for part in found.groups()))  # type: ignore[arg-type]
    try:
        moment = datetime.fromisoformat(text)
        begin = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None
    return Span(begin, begin + 1)


def span_of(text: str, now: datetime) -> Span | None:
    """The span of a date or time in words or ISO 8601; None for any other text.

    A weekday means the latest day of that name, including today. A month or day without a year means the latest such
    month or day that has begun.
    """
    said = " ".join(text.lower().split())
    if (found := _in_words(said, now)) or (found := written(text)):
        return found
    for pattern in (*_NAMED[:3], *_NAMED[5:6], re.compile(rf"(?:last |in )?{_MONTH}")):
        if match := pattern.fullmatch(said):
            moment = int(now.timestamp())
            spans = [span for span in _named(match).spans(moment) if span.begin <= moment]
            return spans[-1] if spans else next(_named(match).spans(moment), None)
    return None


def _in_words(said: str, now: datetime) -> Span | None:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    moment = int(now.timestamp())
    if said == "now":
        return Span(moment, moment + 1)
    if said in ("today", "yesterday"):
        return _days(midnight - timedelta(days=said == "yesterday"), 1)
    way, _, unit = said.rpartition(" ")
    if unit == "week" and way in ("last", "previous", "this"):
        return _days(midnight - timedelta(days=midnight.weekday() + 7 * (way != "this")), 7)
    if unit in ("month", "year") and way in ("last", "previous", "this"):
        year, month = now.year, now.month if unit == "month" else None
        if way != "this":
            year, month = (year, month - 1) if month and month > 1 else (year - 1, month and 12)
        return _calendar(year, month, None)
    rest = said.removeprefix("last ").removeprefix("this ")
    weekday = next((n for n, name in enumerate(_DAYS) if len(rest) > 2 and name.startswith(rest)), None)
    if weekday is not None:
        return _days(midnight - timedelta(days=(now.weekday() - weekday) % 7), 1)
    if ago := _AGO.fullmatch(rest):
        number = ago["n"] or ago["count"]
        count = {"two": 2, "three": 3}.get(number, int(number) if number.isdigit() else 1)
        begin = moment - count * (_UNITS[ago["unit"]] if ago["unit"] else _SHORT_UNITS[ago["short"]])
        return Span(begin, begin + 1)
    return None


def named_in(text: str, now: datetime) -> list[Named | Span]:
    """The dates, months, seasons and years mentioned in a text; if there are none, the periods mentioned relative to
    `now`."""
    found: list[Named | Span] = []
    if not _HINT(text):
        return found
    rest = text
    for pattern in (*_NAMED, _MONTH_ALONE):
        for match in pattern.finditer(rest):
            found.append(_named(match))
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)
    for match in _RELATIVE.finditer(rest) if not found else ():
        said = match[0].lower()
        if span := _in_words(said, now):
            day = span.end - span.begin <= 1
            found.append(Span(span.begin - DAY // 2, span.end + DAY // 2) if day else span)
    return found


def _named(match: re.Match[str]) -> Named:
    parts = match.groupdict()
    year, month, day = parts.get("year"), parts.get("month"), parts.get("day")
    if season := parts.get("season"):
        return Named(int(parts["year"]), _SEASONS[season.lower()], None, 3)
    number = (int(month) if month.isdigit() else _MONTHS[month.lower()]) if month else None
    return Named(int(year) if year else None, number, int(day) if day else None)


def _calendar(year: int, month: int | None, day: int | None, months: int = 1) -> Span | None:
    try:
        begin = datetime(year, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return None
    if day:
        return _days(begin, 1)
    ahead = range(begin.month - 1, begin.month - 1 + (months if month else 12))
    return _days(begin, sum(monthrange(year + at // 12, at % 12 + 1)[1] for at in ahead))


def _days(begin: datetime, count: int) -> Span:
    """A span of whole days. Its end may be later than the last moment that `datetime` can represent."""
    return Span(int(begin.timestamp()), int(begin.timestamp()) + count * DAY)


def _date(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def validity_in(data: Mapping[str, Json]) -> Validity | None:
    """The period in which a node with this data holds; None if it always holds, or if the field has another form in an
    older file."""
    try:
        return validity(data[VALID]) if VALID in data else None
    except ValueError:
        return None


def validity(value: Json) -> Validity:
    """The validity in ``data.valid``: ``{from, until}``, both in ISO 8601 and optional. The period includes `until`.

    Raises:
        ValueError: `value` has another form; the arguments are the key and the reason.
    """
    if not isinstance(value, Mapping) or not value or not value.keys() <= {"from", "until"}:
        raise ValueError("valid", "must be a mapping with `from`, `until` or both")
    spans: dict[str, Span] = {}
    for key, text in value.items():
        span = written(text) if isinstance(text, str) else None
        if span is None:
            raise ValueError(f"valid.{key}", "is not a date or time")
        spans[key] = span
    begin, end = spans.get("from"), spans.get("until")
    if begin and end and end.end <= begin.begin:
        raise ValueError("valid.until", "is before `from`")
    return Validity(begin.begin if begin else None, end.end if end else None)
