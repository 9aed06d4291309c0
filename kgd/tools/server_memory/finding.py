"""This file is where a piece of text is found in any of very many texts: which of them may hold it, by their words.

A word here is whatever stands between blanks. A text holds a phrase only if some word of it holds each part of the
phrase, and words are far fewer than texts: all of them are one string, which is looked through at the speed of memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Generic, TypeVar

from kgd.index.words import clean

T = TypeVar("T")

FRESH = 5_000
"""New words that are looked through one by one before the one string is made anew."""
STALE = 2
"""Times as many entries as there are texts may be out of date, then all is to be built anew."""
FEW = 200
"""Texts that are few enough to stop looking for a rarer part."""


class Pieces(Generic[T]):
    """Texts by key, to be found by any piece of them, without regard to case. Not for several threads at a time."""

    def __init__(self) -> None:
        self._keys: list[T] = []
        self._number: dict[T, int] = {}
        self._texts: dict[str, int | array[int]] = {}
        """Word to the number of the text that has it, or to several."""
        self._words = "\n"
        self._fresh: list[str] = []
        self._stale = 0

    def put(self, key: T, texts: Iterable[str]) -> None:
        """Have the texts found under this key. What was there before is found still; see `candidates`."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self._keys)
            self._keys.append(key)
        else:
            self._stale += 1
        known = self._texts
        for word in set(clean("\n".join(texts)).lower().split()):
            there = known.get(word)
            if there is None:
                known[word] = number
                self._fresh.append(word)
            elif isinstance(there, int):
                if there != number:
                    known[word] = array("L", (there, number))
            else:
                there.append(number)

    @property
    def is_worn(self) -> bool:
        """Whether so much is out of date that it is time to begin anew."""
        return self._stale > STALE * len(self._keys) + FRESH

    def candidates(self, piece: str) -> Iterable[T]:
        """The keys whose texts may hold the piece: all that do, and some that do not, or no longer."""
        parts = clean(piece).lower().split()
        if not parts:
            return list(self._keys)
        best: set[int] | None = None
        for part in sorted(set(parts), key=len, reverse=True):
            found = self._having(part)
            if best is None or len(found) < len(best):
                best = found
            if len(best) <= FEW:
                break
        return [self._keys[number] for number in best or ()]

    def _having(self, part: str) -> set[int]:
        """The texts with a word that holds the part."""
        found: set[int] = set()
        for word in self._words_with(part):
            there = self._texts[word]
            if isinstance(there, int):
                found.add(there)
            else:
                found.update(there)
        return found

    def _words_with(self, part: str) -> Iterable[str]:
        if len(self._fresh) > FRESH:
            self._words = f"{self._words}{chr(10).join(self._fresh)}\n"
            self._fresh = []
        yield from (word for word in self._fresh if part in word)
        words = self._words
        at = words.find(part)
        while at >= 0:
            begin, end = words.rfind("\n", 0, at) + 1, words.find("\n", at)
            yield words[begin:end]
            at = words.find(part, end)
