"""Numbers and values in words: counts with the right plural, sizes, ages, texts."""

from __future__ import annotations

from typing import Any


def counted(count: int, thing: str) -> str:
    """``1 open conflict``, ``2 chunks new``, ``1,746 files``; `thing` is the plural."""
    named = thing if count != 1 else " ".join(map(_singular, thing.split(" ")))
    return f"{count:,} {named}"


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def counts(many: dict[str, Any]) -> str:
    """The counts in their order, without zeros; bytes as a size."""
    told = {name: value for name, value in many.items() if value or name == "nodes"}
    return ", ".join(
        size(value) if name == "bytes" else counted(value, name.replace("_", " ")) for name, value in told.items()
    )


def size(count: int) -> str:
    """``812 bytes``, ``1.7 MB``."""
    if count < 1_000:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    number, units = float(count), iter(("kB", "MB", "GB", "TB"))
    unit = ""
    while number >= 999.5 and (following := next(units, "")):
        number, unit = number / 1_000, following
    return f"{number:.1f} {unit}" if number < 99.95 else f"{number:.0f} {unit}"


def age(seconds: int) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def listed(value: Any) -> str:
    """A value, or the values of a list, separated by commas."""
    return ", ".join(map(text, value)) if isinstance(value, list) else text(value)


def text(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, str):
        return " / ".join(filter(str.strip, value.splitlines()))
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False)
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def short(commit: str | None) -> str:
    """The id of a commit as in messages of merges, reasons of stale facts, and on pages."""
    return (commit or "")[:10]


def by(commit: dict[str, Any]) -> str:
    """The author of a commit with the program, who pushed it, and who accepted it."""
    client = f" ({commit['client']})" if commit.get("client") else ""
    pushed = f", pushed by {commit['pushed_by']}" if commit.get("pushed_by") else ""
    accepted = f", accepted by {commit['accepted_by']}" if commit.get("accepted_by") else ""
    return f"{commit['author']}{client}{pushed}{accepted}"
