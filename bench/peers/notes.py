"""The notes that every server keeps, and the questions about them. Equal for equal numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench import corpus


@dataclass(frozen=True, slots=True)
class Note:
    """A title of three words and a number, three paragraphs of about 350 bytes together, three tags."""

    number: int
    title: str
    kind: str
    folder: str
    paragraphs: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(self.paragraphs)


@dataclass(frozen=True, slots=True)
class Question:
    """Words of one note, which the answer should contain among its first five."""

    words: str
    note: int


def note(number: int) -> Note:
    node = corpus.node(number, 10**7, random.Random(number))
    folder = f"area{number // 2500:02d}/part{number // 25 % 100:02d}"
    paragraphs = (node.summary, *node.content.splitlines())
    return Note(number, f"{node.name} {key(number)}", node.type, folder, paragraphs, node.tags)


def key(number: int) -> str:
    """The word that only this note's title has; results are recognized by it."""
    return f"n{number:07d}"


def phrase(number: int, chance: random.Random) -> Question:
    """Three words of a sentence of the note, in order."""
    words = chance.choice(note(number).paragraphs[1:]).rstrip(".").lower().split()
    start = chance.randrange(len(words) - 2)
    return Question(" ".join(words[start : start + 3]), number)


def any_words(number: int, chance: random.Random) -> Question:
    """Three words of the note from anywhere in it."""
    words = note(number).text.lower().replace(".", "").split()
    return Question(" ".join(chance.sample(words, 3)), number)
