"""Keywords of a text, used as tags to find it again.

Deterministic and independent of other texts, so the same words give the same tags on every machine. Identifiers and
names rank before plain words, technical compounds (``rate-limit``) count as one word, and the beginning of a text
counts more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from kgd.memories.stop_words import COMPOUNDS, FUNCTION_WORDS, WEAK_WORDS

TEXT_LIMIT = 20_000
"""Characters of a text that are read."""
LONGEST = 40
SHORTEST = 2

NAME, COMPOUND, CODE, PART, WEAK = 0.5, 0.9, 0.8, -0.45, -0.7
"""Bonus for a name within a sentence, a technical term, an identifier, a part of one, and a word that every text has. A
plain word counts 1."""
REPEATED = 0.25
LATER = 0.012
"""Malus for each word before it."""

_WORD = re.compile(r"[^\W_]+(?:[-_'’./+#][^\W_]+)*[+#]{0,2}")
_HUMP = re.compile(r"[^\W\d_]*?[^\W\dA-Z_](?=[A-Z])|[A-Z]+(?=[A-Z][^\W\dA-Z_])|[^\W_]+")
_MEASURE = re.compile(r"\d[\d.,]*(?:[^\W\d_]|[kmgt]b|ms|px|[kmg]?hz|min|e-?\d+)?").fullmatch
"""Measures such as 16ms, 3x, 3e-4, which are not keywords."""
_DIGEST = re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,40}").fullmatch
_SENTENCE_ENDS = frozenset(".!?:;\n#*|>")


class _Term(NamedTuple):
    text: str
    worth: float


def keywords(text: str, limit: int = 8) -> tuple[str, ...]:
    """The best keywords of the text, best first, at most `limit`; lower case and valid as tags.

    A pure function; linear in the length of the text.
    """
    worth: dict[str, float] = {}
    count: dict[str, int] = {}
    for position, term in enumerate(_terms(unicodedata.normalize("NFC", text[:TEXT_LIMIT]))):
        count[term.text] = count.get(term.text, 0) + 1
        worth[term.text] = max(worth.get(term.text, -9.0), term.worth - LATER * min(position, 60))
    scored = {name: value + REPEATED * min(count[name] - 1, 3) for name, value in worth.items()}
    best = sorted(scored, key=lambda name: (-scored[name], name))
    return tuple(best[: max(0, limit)])


def _terms(text: str) -> Iterator[_Term]:
    """All candidates in text order."""
    before: str | None = None
    for match in _WORD.finditer(text):
        word = match.group()
        starts_sentence = _starts_sentence(text, match.start())
        lower = _folded(word)
        if before and (before, lower) in COMPOUNDS and text[match.start() - 1] in " \n\t":
            yield _Term(f"{before}-{lower}", 1 + COMPOUND)
        before = lower
        yield from _of_word(word, starts_sentence)


def _of_word(word: str, starts_sentence: bool) -> Iterator[_Term]:
    word = word.replace("’", "'").split("'")[0] if _is_possessive(word) else word
    pieces = re.split(r"[/._]|'", word)
    pieces = [piece for piece in pieces if piece]
    if "/" in word or ("." in word and any(c.isalpha() for c in word)):
        dotted = "." in word
        for number, piece in enumerate(pieces):  # a path, a file name, or words joined by a slash
            is_ending = dotted and number == len(pieces) - 1
            yield from _simple(piece, starts_sentence, PART if is_ending else CODE / 2 if dotted else 0.0)
        return
    if "_" in word and len(pieces) > 1:
        yield from _keyword("-".join(map(_folded, pieces)), CODE)
        for piece in pieces:
            yield from _keyword(_folded(piece), PART)
        return
    yield from _simple(word, starts_sentence, 0.0)


def _simple(word: str, starts_sentence: bool, extra: float) -> Iterator[_Term]:
    """Candidates of a word that is joined by hyphens at most."""
    lower = _folded(word)
    if "-" in word:
        yield from _keyword(lower, extra + COMPOUND / 2)
        for piece in lower.split("-"):
            yield from _keyword(piece, PART)
        return
    humps = _HUMP.findall(word)
    if len(humps) > 1 and any(c.islower() for c in word) and any(c.isupper() for c in word[1:]):
        yield from _keyword(lower, extra + CODE)
        for hump in humps:
            if len(hump) > 2:
                yield from _keyword(_folded(hump), PART)
    elif (word.isupper() and len(word) > 1) or (word[0].isupper() and not starts_sentence):
        yield from _keyword(lower, extra + NAME)
    elif any(c.isdigit() for c in word) and any(c.isalpha() for c in word):
        yield from _keyword(lower, extra + (0.0 if word[0].isdigit() else NAME))
    else:
        yield from _keyword(lower, extra)


def _keyword(text: str, extra: float) -> Iterator[_Term]:
    """The candidate, if it is valid as a keyword."""
    if not SHORTEST <= len(text) <= LONGEST or text in FUNCTION_WORDS or not any(c.isalpha() for c in text):
        return
    if _MEASURE(text) or _DIGEST(text):
        return
    weak = WEAK if text in WEAK_WORDS else 0.0
    yield _Term(text, 1 + extra + weak + min(len(text), 12) * 0.03)


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", word.lower())


def _is_possessive(word: str) -> bool:
    return word[-2:] in ("'s", "’s") or bool(re.search(r"['’](?:t|re|ve|ll|d|m)$", word))


def _starts_sentence(text: str, start: int) -> bool:
    while start and text[start - 1] in " \t\"'(`[":
        start -= 1
    return not start or text[start - 1] in _SENTENCE_ENDS
