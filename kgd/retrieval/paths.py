"""Kinds of files by their paths."""

from __future__ import annotations

import re

_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|specs?|__tests__|examples?|docs?|vendor|node_modules|fixtures|locale)(?:/|_)"
    r"|(?:^|/)test_|[._]test\.|\.spec\.|\.min\."
)


def is_aside(uri: str) -> bool:
    """Whether a file is a test, an example or vendored code."""
    return _ASIDE.search(uri.partition("://")[2] or f"{uri}/") is not None
