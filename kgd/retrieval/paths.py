"""Kinds of files by their paths."""

from __future__ import annotations

import re

from kgd.model.uri import Uri

_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|specs?|__tests__|examples?|docs?|vendor|node_modules|fixtures|locale)(?:/|_)"
    r"|(?:^|/)test_|[._]test\.|\.spec\.|\.min\."
)


def is_aside(uri: Uri) -> bool:
    """Whether a file, or a part of one, is a test, an example or vendored code."""
    return _ASIDE.search(uri.split("/", 3)[-1]) is not None


def asks_for_aside(query: str) -> bool:
    """Whether a word of a query refers to such files."""
    return _ASIDE.search(f"{query.replace(' ', '/')}/") is not None
