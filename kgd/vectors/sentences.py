"""The sentences of a note, to be compared one by one."""

from __future__ import annotations

import re

READ = 2_000
"""Characters of a note that are compared by sentence."""
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n\s*\n|\n(?=\s*[-*#|])")
_FEWEST = 9
"""Characters of a sentence that is compared."""


def sentences(name: str, summary: str, content: str) -> list[str]:
    """The parts of a note that are compared one by one."""
    parts = [name, *_SENTENCE.split(summary), *_SENTENCE.split(content[:READ])]
    return [part for part in parts if len(part) >= _FEWEST] or [name]
