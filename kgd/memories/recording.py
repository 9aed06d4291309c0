"""This file is where a memory is made out of a text: its summary, what is left for content, and tags to find it by."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgd.memories.keywords import keywords
from kgd.model.change import Upsert
from kgd.model.node import MEMORY_TYPES, Relation, cut_at_word
from kgd.model.uri import Uri

WORDS, NAME = 6, 40
"""Words and characters of a text that its URI repeats at most."""


def memory(
    uri: Uri, type: str, text: str, *, tags: Sequence[str] = (), relations: Sequence[Relation] = (),
    detail: str | None = None,
) -> Upsert:  # fmt: skip
    """The edit that writes down a text as a new node: the first of it is the summary, and all of it is kept.

    A memory (decision, pattern, gotcha, insight, task) without tags gets the keywords of the text. With a detail, the
    text may be its first heading alone. The edit is refused (Stale) where a node is there already.
    """
    summary = cut_at_word(text)
    found = tuple(tags) or (keywords(f"{text}\n\n{detail or ''}") if type in MEMORY_TYPES else ())
    return Upsert(
        uri, type=type, name=summary, summary=summary, content=text if text != summary else None, tags=found,
        relations=tuple(relations), detail=detail, expect_version=0,
    )  # fmt: skip


def first_words(text: str) -> str:
    """A name for a text: its first six words, or as many of them as make at most 40 characters."""
    words = re.sub(r"[\W_]+", "-", text.lower()).strip("-").split("-")[:WORDS]
    while len(words) > 1 and len("-".join(words)) > NAME:
        words.pop()
    return "-".join(words)[:NAME] or "fact"
