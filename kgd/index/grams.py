"""Grams: short overlapping runs of characters that replace words in the index, for scripts without spaces between
words.

A gram has two characters of Chinese, Japanese and Korean, and three of Thai, Lao, Khmer and Burmese. Grams at the end
of a run are shorter, so that a shorter query is the beginning of a gram. Vowel signs and tone marks are left out, as in
SQLite's tokenizer.
"""

from __future__ import annotations

import re

_PAIRED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\uff66-\uff9d\U00020000-\U0003ffff"
)
"""Han, kana and Hangul."""
_TRIPLED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer."""
_RUN = re.compile(f"[{_PAIRED}]+|[{_TRIPLED}]+")
_PIECE = re.compile(rf"[{_PAIRED}]+|[{_TRIPLED}]+|(?:(?![{_PAIRED}{_TRIPLED}])[^\W_])+")
_BETWEEN = re.compile(f"(?<=[{_PAIRED}{_TRIPLED}]) (?=[{_PAIRED}{_TRIPLED}])")
_IS_GRAM = re.compile(f"[{_PAIRED}{_TRIPLED}]").match
_IS_TRIPLED = re.compile(f"[{_TRIPLED}]").match

_ANYWHERE = frozenset("的吗呢吧么はがをのへ")
"""Characters that make a gram uninformative."""
_ONLY = frozenset("了是在怎什为哪谁会要可以不有和就都而及与或我你他她它们这那个多少久")
"""A gram of only these characters is uninformative as well."""
_KANA = re.compile("[\u3041-\u309f]+").fullmatch
_ENDS_WITH_PARTICLE = re.compile("[\uac00-\ud7a3][은는이가을를에의로도와과]").fullmatch
_KOREAN = """
나요 니까 되나 하나 합니 됩니 습니 어요 해요 인가 가요 세요 어도 해도 아도 도되 이유 언제
"""
_KOREAN_STOPS = frozenset(_KOREAN.split())


def of(text: str) -> list[str]:
    """The grams of a text as they are indexed, including repeats."""
    found = []
    for run in _RUN.findall(text):
        size = _size(run)
        plain = _plain(run)
        found += [plain[at : at + size] for at in range(len(plain))]
    return found


def split(query: str) -> list[str]:
    """The words and grams of a query, in order."""
    found = []
    for piece in _PIECE.findall(query):
        if not is_gram(piece):
            found.append(piece)
            continue
        size, plain = _size(piece), _plain(piece)
        pieces = [plain[at : at + size] for at in range(max(1, len(plain) - size + 1))]
        if len(pieces) > 1 and _ENDS_WITH_PARTICLE(pieces[-1]):  # a particle at the end of a word
            pieces.pop()
        found += filter(None, pieces)
    return found


def is_gram(word: str) -> bool:
    """Whether a piece from `split` is in a script without spaces."""
    return not word.isascii() and _IS_GRAM(word) is not None


def is_stop(gram: str) -> bool:
    """Whether a piece from `split` is an uninformative gram, such as a particle with half of a word."""
    if gram.isascii():
        return False
    is_function = not _ANYWHERE.isdisjoint(gram) or _ONLY.issuperset(gram) or gram in _KOREAN_STOPS
    return is_function or _KANA(gram) is not None


def phrase(gram: str) -> str:
    """The FTS5 expression for a gram of a query; a gram that is too short matches as a prefix."""
    return f'"{gram}"' if len(gram) == _size(gram) else f'"{gram}" *'


def phrase_of(name: str) -> str:
    """The FTS5 expression for the runs of a name, whose characters may be separated; empty if it has none."""
    found = []
    for run in _RUN.findall(_BETWEEN.sub("", name)):
        size, plain = _size(run), _plain(run)
        whole = [plain[at : at + size] for at in range(len(plain) - size + 1)]
        found.append(f'"{" ".join(whole)}"' if whole else phrase(plain))
    return f"({' AND '.join(found)})" if found else ""


def _size(run: str) -> int:
    return 3 if _IS_TRIPLED(run) else 2


def _plain(run: str) -> str:
    return run if run.isalnum() else "".join(filter(str.isalnum, run))
