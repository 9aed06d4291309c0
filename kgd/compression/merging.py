"""This file is where pairs of doubles become groups, each around the one node that stays."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kgd.model.uri import Uri

ENOUGH, IN_COMMON = 12, 0.15
"""Different words that a text must have to tell it from another, and the part of them that the other has too."""
_WORD = re.compile(r"[^\W\d_]{4,}")
MOST_DROPPED = 10
"""Doubles that one node takes in at a time: who reviews it reads them all."""


@dataclass(slots=True)
class Group:
    """`drops` are to become names of `keep`, each with what speaks for it."""

    keep: Uri
    drops: dict[Uri, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Uri, ...]:
        return (self.keep, *self.drops)


def are_told_apart(one: str, other: str) -> bool:
    """Whether two texts that are long enough to tell have next to no words in common.

    Then two nodes of one name are two things: every service may have its "Overview".
    """
    words = [frozenset(word.casefold() for word in _WORD.findall(text)) for text in (one, other)]
    fewer = min(map(len, words))
    return fewer >= ENOUGH and len(words[0] & words[1]) < IN_COMMON * fewer


def groups(pairs: Iterable[tuple[Uri, Uri, str]]) -> list[Group]:
    """Of (keep, drop, reason), the most alike first. Nobody stays in one group and goes in another.

    Only what is alike to the one that stays is in its group: what is alike to something that goes may be a third thing.
    """
    made: dict[Uri, Group] = {}
    gone: set[Uri] = set()
    for keep, drop, reason in pairs:
        if keep in gone or drop in gone or drop in made:
            continue
        group = made.setdefault(keep, Group(keep))
        if len(group.drops) < MOST_DROPPED:
            group.drops[drop] = reason
            gone.add(drop)
    return [group for group in made.values() if group.drops]
