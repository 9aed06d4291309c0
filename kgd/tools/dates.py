"""Times as people write them: ``monday``, ``yesterday``, ``2 days ago``, ISO dates."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kgd.errors import Invalid

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_AGO = re.compile(r"(\d{1,5}|an?|one)\s+(minute|hour|day|week)s?(?:\s+ago)?").fullmatch


def moment_of(text: str, now: datetime, *, at: str = "since") -> int:
    """The Unix seconds of a time in words or ISO 8601.

    Days begin at midnight in the time zone of `now`. A weekday is the latest day of that name, today included. An ISO
    date or time without a zone is UTC, as everywhere in kgd.

    Args:
        at: The parameter that an error names.

    Raises:
        Invalid: The text is not a date or time.
    """
    said = text.strip().lower().removeprefix("last ").strip()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if said == "now":
        return int(now.timestamp())
    if said in ("today", "yesterday"):
        return int((midnight - timedelta(days=said == "yesterday")).timestamp())
    weekday = next((n for n, name in enumerate(_DAYS) if len(said) > 2 and name.startswith(said)), None)
    if weekday is not None:
        return int((midnight - timedelta(days=(now.weekday() - weekday) % 7)).timestamp())
    if ago := _AGO(said):
        count = int(ago[1]) if ago[1].isdigit() else 1
        return int(now.timestamp()) - count * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise Invalid(
            "this is not a date or time", at=at, next="Write monday, yesterday, 2 days ago, or 2026-11-20T14:00:00Z."
        ) from None
