"""This file is where it is said which nodes are memories: what work taught somebody, found by its tags."""

from __future__ import annotations

from collections.abc import Iterable

MEMORY_TYPES = frozenset({"decision", "gotcha", "insight", "pattern", "task"})
"""Their tags are lower case, and the detail behind their summary may be in a file of its own."""

FILE = "file"
"""Key in a node's data: the path of that file, ``memories/YYYY-MM-DD-topic.md``."""


def folded(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag.lower() for tag in tags)
