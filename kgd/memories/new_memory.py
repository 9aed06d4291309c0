"""Creating a memory from a text: summary, content and tags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgd.memories.keywords import keywords
from kgd.model.change import Upsert
from kgd.model.node import MEMORY_TYPES, Relation, cut_at_word
from kgd.model.uri import Uri

WORDS, NAME = 6, 40
"""Maximum number of words and of characters of a text in its URI."""


def memory(
    uri: Uri,
    type: str,
    text: str,
    *,
    tags: Sequence[str] = (),
    relations: Sequence[Relation] = (),
    detail: str | None = None,
) -> Upsert:
    """The edit that stores a text as a new node, with its beginning as the summary.

    A memory (decision, pattern, gotcha, insight, task) without tags gets the keywords of the text. If there is a
    detail, the text may be just its heading. The edit is refused (Stale) if the node exists.
    """
    summary = cut_at_word(text)
    found = tuple(tags) or (keywords(f"{text}\n\n{detail or ''}") if type in MEMORY_TYPES else ())
    return Upsert(
        uri,
        type=type,
        name=summary,
        summary=summary,
        content=text if text != summary else None,
        tags=found,
        relations=tuple(relations),
        detail=detail,
        expect_version=0,
    )


def first_words(text: str) -> str:
    """A name from a text: its first six words, or as many as fit into 40 characters."""
    words = re.sub(r"[\W_]+", "-", text.lower()).strip("-").split("-")[:WORDS]
    while len(words) > 1 and len("-".join(words)) > NAME:
        words.pop()
    return "-".join(words)[:NAME] or "fact"
