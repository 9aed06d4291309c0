"""A substring index over many texts, by their words.

A word is a run of characters without blanks. A text that contains a phrase has the phrase's inner words, a word that
ends with its first word, and a word that begins with its last word. There are far fewer words than texts; they form one
string, which is searched at memory speed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kgd.index.words import clean

T = TypeVar("T")

FRESH = 5_000
"""Largest number of new words that are searched one by one before they are added to the string."""
STALE = 2
"""Number of outdated entries per text beyond which the index should be rebuilt."""
FEW = 20
"""Number of candidates that are faster to check than to narrow down."""


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
        """The keys of all texts that contain the substring, and of some that do not, or no longer, contain it."""
        first, *more = clean(piece).lower().split() or [""]
        if not first:
            return list(self._keys)
        if not more:
            return [self._keys[number] for number in self._having(self._words_with(first))]
        *inner, last = more
        wanted: list[Iterable[str]] = [(word,) for word in sorted(set(inner), key=len, reverse=True)]
        wanted += [self._words_with(f"{first}\n"), self._words_with(f"\n{last}")]
        best = self._having(wanted[0])
        for words in wanted[1:]:
            if len(best) <= FEW:
                break
            best &= self._having(words)
        return [self._keys[number] for number in best]

    def _having(self, words: Iterable[str]) -> set[int]:
        """The numbers of the texts with any of the words."""
        found: set[int] = set()
        for word in words:
            there = self._texts.get(word, ())
            if isinstance(there, int):
                found.add(there)
            else:
                found.update(there)
        return found

    def _words_with(self, part: str) -> Iterator[str]:
        """The known words with the part; a newline in it marks the beginning or end of the word."""
        if len(self._fresh) > FRESH:
            self._words = f"{self._words}{chr(10).join(self._fresh)}\n"
            self._fresh = []
        for words in (self._words, f"\n{chr(10).join(self._fresh)}\n"):
            at = words.find(part)
            while at >= 0:
                inside = at + part.startswith("\n")
                begin, end = words.rfind("\n", 0, inside) + 1, words.find("\n", inside)
                yield words[begin:end]
                at = words.find(part, end)
