"""Explanations of hits: the matched words per field, and a snippet around them.

SQLite could mark every match, but needs a millisecond or more per hit. So this module searches the few texts of an
answer itself, with fewer word endings than SQLite's stemmer; it uses SQLite only if it finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kgd.index.words import MARK, Term, parts_of, terms

BEGIN, END = "\x01", "\x02"
"""SQLite sets these around matched words; `words.clean` removes them from the texts themselves."""

TEXT_COLUMNS = ("name", "tags", "summary", "content", "data", "identifier")
FILE_COLUMNS = ("path", "identifier")
SNIPPET = 160
WORDS_NAMED = 5
LOOKS = 20
"""Maximum number of places in one text that are checked for a word."""

_MARKED = re.compile(f"{BEGIN}([^{END}]*){END}")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = frozenset(
    ["", "s", "es", "ed", "d", "e", "y", "ies", "ied", "ing", "ion", "ions", "er", "ers", "or", "ors", "r", "ly", "al"]
)


class Explanation(NamedTuple):
    snippet: str
    why: tuple[str, ...]


class SearchWord(NamedTuple):
    """A word to look for, case-folded, and the letters with which all of its forms begin."""

    word: str
    root: str
    begun: bool
    anywhere: bool
    """Whether the term may occur inside another word, as a gram or the stem of a word in a language with compounds
    may."""
    is_gram: bool = False


def asked(terms: Sequence[Term]) -> list[SearchWord]:
    found = {}
    for number, term in enumerate(terms, 1):
        begun = number == len(terms) and term.prefix != term.match
        for word in (term.word, *parts_of(term.word)):
            small = word.casefold()
            found[small] = SearchWord(small, small[: max(3, len(small) - 3)], begun, term.is_gram, term.is_gram)
        if term.stem:
            found[term.stem] = SearchWord(term.stem, term.stem, True, True)
    return list(found.values())


def find(columns: Sequence[str], texts: Sequence[str], words: Sequence[SearchWord]) -> Explanation | None:
    """The explanation, or None if the texts have none of the words. A word is listed only for the field where its
    weight is highest."""
    why = []
    named: set[str] = set()
    first: dict[str, int] = {}
    folded_texts = [text.casefold() for text in texts]
    everything = "\n".join(folded_texts)
    there = [word for word in words if (word.word if word.anywhere else word.root) in everything]
    for column, folded in zip(columns, folded_texts, strict=True):
        found = []
        for word in there if folded else ():
            at = _place(folded, word)
            if at is not None:
                begin, end = at
                found.append(folded[begin:end])
                first[column] = min(begin, first.get(column, begin))
        if fresh := set(found) - named:
            why.append(_reason(column, _joined(fresh, folded, words)))
            named |= fresh
    return Explanation(_snippet(columns, texts, first), tuple(why)) if why else None


def _joined(found: Collection[str], text: str, words: Sequence[SearchWord]) -> set[str]:
    """The words that were found, with grams that overlap in the text joined into one word."""
    joined, last = list[str](), ""
    for word in (one.word for one in words if one.is_gram and one.word in found):
        overlap = len(word) - 1
        longer = joined[-1] + word[-1] if joined else ""
        if overlap and last[-overlap:] == word[:-1] and longer in text:
            joined[-1] = longer
        else:
            joined.append(word)
        last = word
    return {*joined, *(found if not joined else set(found) - {one.word for one in words if one.is_gram})}


def read(columns: Sequence[str], texts: Sequence[str]) -> Explanation:
    """The explanation from texts in which SQLite has marked the matches."""
    plain = [text.replace(BEGIN, "").replace(END, "") for text in texts]
    first, why, named = {}, [], set[str]()
    for column, text in zip(columns, texts, strict=True):
        if BEGIN in text:
            first[column] = text.find(BEGIN)
        if fresh := {word.casefold() for word in _MARKED.findall(text) if MARK not in word} - named:
            why.append(_reason(column, fresh))
            named |= fresh
    return Explanation(_snippet(columns, plain, first), tuple(why))


def one_line(text: str) -> str:
    return " ".join(text[: 4 * SNIPPET].split())[:SNIPPET]


def _place(folded: str, asked: SearchWord) -> tuple[int, int] | None:
    """The span of the first form of the word in a folded text; None if there is none."""
    if asked.anywhere:
        at = folded.find(asked.word)
        return None if at < 0 else (at, at + len(asked.word))
    at = -1
    for _ in range(LOOKS):
        at = folded.find(asked.root, at + 1)
        if at < 0:
            return None
        if (at == 0 or not folded[at - 1].isalnum()) and (match := _WORD.match(folded, at)):
            word = match.group()
            if word == asked.word or (asked.begun and word.startswith(asked.word)) or _is_form(word, asked.word):
                return match.span()
    return None


def _is_form(one: str, two: str) -> bool:
    """Whether two words are forms of the same word, judged by their endings."""
    same = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        same += 1
    return one[same:] in _ENDINGS and two[same:] in _ENDINGS


def _reason(column: str, found: Collection[str]) -> str:
    distinct = sorted(found)
    more = f" and {len(distinct) - WORDS_NAMED} more" if len(distinct) > WORDS_NAMED else ""
    return f"{column}: {', '.join(word[:40] for word in distinct[:WORDS_NAMED])}{more}"


def _snippet(columns: Sequence[str], texts: Sequence[str], first: dict[str, int]) -> str:
    """The content around its first match; otherwise the summary; otherwise the beginning of the content."""
    by_name = dict(zip(columns, texts, strict=True))
    if "path" in by_name:
        return one_line(by_name["path"])
    if "content" not in first and by_name["summary"]:
        return one_line(by_name["summary"])
    text, at = by_name["content"], first.get("content", 0)
    start = max(0, at - SNIPPET // 3)
    piece = text[start : at + 2 * SNIPPET]
    if start:
        piece = piece.partition(" ")[2] or piece
    line = " ".join(piece.split())
    cut = line[: SNIPPET - 2].rstrip() + "…" if len(line) > SNIPPET - 1 else line
    return f"…{cut}" if start else cut


def spans(text: str, query: str) -> list[tuple[int, int]]:
    """The places of the forms of a query's words in a text, in order, without overlaps."""
    words, folded = asked(terms(query)), text.casefold()
    found = [match.span() for match in _WORD.finditer(text) if any(_is_asked(match.group(), word) for word in words)]
    if len(folded) == len(text):  # otherwise the places differ
        for word in words:
            if word.anywhere:
                found += [match.span() for match in re.finditer(re.escape(word.word), folded)]
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _is_asked(word: str, asked: SearchWord) -> bool:
    folded = word.casefold()
    begins = asked.begun and folded.startswith(asked.word)
    return not asked.anywhere and (folded == asked.word or begins or _is_form(folded, asked.word))
