"""Ages in words, the same on pages and on terminals."""

from __future__ import annotations

_HOUR, _DAY = 3_600, 86_400
_UNITS = (
    (365 * _DAY, 365 * _DAY, "year"),
    (70 * _DAY, 30 * _DAY, "month"),
    (14 * _DAY, 7 * _DAY, "week"),
    (_DAY, _DAY, "day"),
    (_HOUR, _HOUR, "hour"),
    (60, 60, "minute"),
)
"""Rows of (least age, length and name of the unit), in seconds."""


def ago(seconds: float) -> str:
    """``just now``, ``5 minutes ago``, ``3 days ago``, ``2 years ago``."""
    for least, length, unit in _UNITS:
        if seconds >= least:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
