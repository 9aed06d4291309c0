"""A substring index over many texts, by their words.

A word is a run of characters without blanks. A text can contain a phrase only if, for each word of the phrase, some
word of the text contains it. There are far fewer words than texts; all of them are one string, which is searched at
memory speed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Generic, TypeVar

from kgd.index.words import clean

T = TypeVar("T")

FRESH = 5_000
"""New words that are searched one by one before they join the one string."""
STALE = 2
"""Outdated entries per text, beyond which the index should be rebuilt."""
FEW = 200
"""Number of candidates that is small enough to stop the search for a rarer part."""


class Pieces(Generic[T]):
    """Texts by key, found by any substring, ignoring case. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: list[T] = []
        self._number: dict[T, int] = {}
        self._texts: dict[str, int | array[int]] = {}
        """Word to the number of its only text, or the numbers of several."""
        self._words = "\n"
        self._fresh: list[str] = []
        self._stale = 0

    def put(self, key: T, texts: Iterable[str]) -> None:
        """Index the texts under this key. Earlier texts of the key are still found; see `candidates`."""
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
        """Whether so many entries are outdated that the index should be rebuilt."""
        return self._stale > STALE * len(self._keys) + FRESH

    def candidates(self, piece: str) -> Iterable[T]:
        """The keys of all texts that contain the substring, and of some that do not, or no longer do."""
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
        """The numbers of the texts with a word that contains the part."""
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
