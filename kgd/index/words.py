"""Words of a text: the terms of a query, the parts of identifiers, and sentences.

A `Term` consists only of quoted letters and digits, so no text from a user is interpreted in SQLite's query language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

from kgd.index import languages
from kgd.index.languages import Language

MAX_TERMS = 32
MAX_WORD = 64
MAX_QUERY = 20_000
"""Maximum number of characters to read from a query; later ones cannot add a term that matters."""
PREFIX_FROM = 3
"""Minimum number of letters in an unfinished word for words that begin with it to be looked up."""

_STOPWORDS = """
a about all am an and any are as at be been being but by can could d did do does for from had has have he her him his
how i if in into is it its ll m me my not of on or our re s she should so t than that the their them then there these
they this to us ve was we were what when where which who whom whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())
"""Includes the letters after an apostrophe: ``Ann's``, ``don't``, ``we'll``."""

_WEAK = """
anything app around away back become becomes call calls come comes day ever every everything find finds first found
get gets getting give gives go goes going got happen happened happens help here just keep keeps know known last let
like long look looks make makes many may mean means might more most much must need needed needs never new next nothing
now often old once one only other ours over people place please put really right run runs said say says set show shows
some somebody something start still stop such take takes talk tell thing things think time times touch try turn two
under up us use used uses using want wants way ways whether while without work works yet
"""
WEAK = frozenset(_WEAK.split())
"""Common words that say little about a subject: they affect the ranking, but a text with only these words does not
answer a query."""
WEAK_SHARE = 0.35
"""Weight of a weak word, relative to other words."""
NAME_SHARE = 2.0
"""Weight of an identifier such as ``takeUntil``."""

_ASKS_WHERE = re.compile(
    r"\b(?:(?:in )?(?:which|what)|where is the) (?:files?|modules?|class(?:es)?|functions?|methods?)"
    r"(?: (?:contains?|defines?|holds?|implements?))?\b",
    re.IGNORECASE,
)
"""The beginning of a question about a place in the code; its noun and verb describe the answer, not the subject."""
_CONTRACTED = re.compile(r"\b[a-z]+n['’]t\b", re.IGNORECASE)
"""``isn't``, ``don't``, ``can't``: the letters before the apostrophe are no word."""
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")

READ_BY_SENTENCE = 2_000
"""Characters of a note that are compared by sentence."""
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n\s*\n|\n(?=\s*[-*#|])")
_FEWEST_IN_SENTENCE = 9
"""Characters of a sentence that is compared."""


class Term(NamedTuple):
    """One word of a query, or a few characters of a script without spaces.

    A text has the word if it has one of the `phrases`; `begun` also matches longer words. Both are FTS5 queries.
    """

    word: str
    phrases: tuple[str, ...]
    begun: tuple[str, ...]
    stem: str = ""
    """The part shared by the forms and compounds of a word in another language."""
    is_gram: bool = False
    written: str = ""
    """If the word has other spellings, the query for this spelling alone."""

    @property
    def match(self) -> str:
        return _either(self.phrases)

    @property
    def prefix(self) -> str:
        return _either(self.begun)

    @property
    def is_weak(self) -> bool:
        return self.word.casefold() in WEAK

    def weight(self, often: int, about: int) -> float:
        """The word's weight in a query, if `often` texts out of about `about` have it: rare words weigh more, weak
        words less."""
        if self.is_weak or (self.is_gram and not often):  # a gram that no text has spans two words
            return WEAK_SHARE * math.log(1 + about / max(1.0, often, about / 4))
        return math.log(1 + about / max(0.5, often)) * (NAME_SHARE if parts_of(self.word) else 1.0)


def _either(phrases: tuple[str, ...]) -> str:
    return phrases[0] if len(phrases) == 1 else f"({' OR '.join(phrases)})"


Word = TypeVar("Word", str, Term)


def rarest(often: Mapping[Word, int], most: float, enough: float = math.inf) -> list[Word]:
    """The rarest words, as long as at most `most` texts in total contain them, and fewer than `enough` texts contain
    the words chosen before.

    The rarest word is always included. `often` is the number of texts with each word.
    """
    ordered = sorted(often, key=lambda word: (often[word], word))
    sums = pairwise(accumulate((often[word] for word in ordered), initial=0))
    counted = zip(ordered, sums, strict=True)
    return [word for word, (rarer, all) in counted if all <= most and rarer < enough] or ordered[:1]


def clean(text: str) -> str:
    """Remove characters that SQLite cannot store, or that mark a match in its answers."""
    return _UNWANTED.sub(" ", text)


def terms(query: str) -> list[Term]:
    """The distinct words of a query in order, at most `MAX_TERMS`; stop words are included only if there are no other
    words.

    An identifier such as ``getUserName`` also matches text in which its parts are adjacent. A run of characters in a
    script without spaces gives one term per gram.
    """
    query = query[:MAX_QUERY]
    subject = _CONTRACTED.sub(" ", _ASKS_WHERE.sub(" ", query))
    found = {word.casefold(): word for word in reversed(_split(subject) or _split(query))}
    language = languages.of_query(query, found)
    stop = STOPWORDS | language.stopwords if language else STOPWORDS
    telling = [folded for folded in found if folded not in stop and not languages.is_stop_gram(folded)] or list(found)
    asked = telling[: -MAX_TERMS - 1 : -1]
    return [_term(found[folded], language, is_last=folded == asked[-1]) for folded in asked]


def _split(text: str) -> list[str]:
    return _WORD.findall(text) if text.isascii() else languages.split_grams(text)


def _term(word: str, language: Language | None, *, is_last: bool) -> Term:
    if languages.is_gram(word):
        phrase = (languages.gram_phrase(word),)
        return Term(word, phrase, phrase, is_gram=True)
    word = word[:MAX_WORD]
    parts = parts_of(word)
    phrases = [f'"{word}"', *([f'"{" ".join(parts)}"'] if parts else [])]
    begun, stem = phrases, ""
    if len(word) == MAX_WORD or (len(word) >= PREFIX_FROM and not parts):
        begun = [f'"{word}" *', *(languages.ends_with(word) if is_last else ())]
    written = ""
    if language is None and (other := [f'"{one}"' for one in languages.other_spellings(word.casefold())]):
        written = _either(tuple(begun if is_last else phrases))
        phrases, begun = [*phrases, *other], [*begun, *other]
    if language is not None and not parts and (stem := language.stem(languages.folded(word))):
        also = [f'"{stem}" *', *languages.ends_with(word)]
        phrases, begun = [*phrases, *also], list(dict.fromkeys([*begun, *also]))
    return Term(word, tuple(phrases), tuple(begun), stem, written=written)


def words_of(text: str) -> list[str]:
    """The words of a text as written, in order, with repeats."""
    return _WORD.findall(text)


def parts_of(word: str) -> list[str]:
    """The parts of an identifier; empty for a plain word.

    >>> parts_of("HTTPServerError"), parts_of("server")
    (['HTTP', 'Server', 'Error'], [])
    """
    plain = word.islower() or word.isupper() or word.istitle() or word.isdigit() or len(word) > MAX_WORD
    parts = [] if plain or not word.isascii() else _CAMEL.findall(word)
    return parts if len(parts) > 1 else []


def parts_text(texts: Iterable[str]) -> str:
    """The parts of identifiers in these texts, and other spellings of their words; indexed together with the texts."""
    distinct = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    found = [part for word in distinct for part in parts_of(word)]
    return " ".join([*found, *languages.also_written(distinct)])


def grams_text(*texts: tuple[str, int]) -> str:
    """The grams of scripts without spaces in these texts, repeated by each text's weight; indexed together with the
    texts."""
    return " ".join(gram for text, weight in texts if not text.isascii() for gram in languages.grams_of(text) * weight)


def sentences(name: str, summary: str, content: str) -> list[str]:
    """The parts of a note that are compared one by one."""
    parts = [name, *_SENTENCE.split(summary), *_SENTENCE.split(content[:READ_BY_SENTENCE])]
    return [part for part in parts if len(part) >= _FEWEST_IN_SENTENCE] or [name]
