"""Lines on a terminal, without control sequences from stored text."""

from __future__ import annotations

import sys
from typing import Any

from kgd.config import wants_color


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and wants_color() else text


def red(text: str) -> str:
    """Missing or unreadable things; colour is never the only sign."""
    return f"\033[31m{text}\033[0m" if sys.stdout.isatty() and wants_color() else text


def clean(value: Any) -> Any:
    """The value with control and direction characters escaped: stored text is untrusted."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value
