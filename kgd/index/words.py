"""Words of a text: the terms of a query, the parts of identifiers, and sentences, in several languages and scripts.

A `Term` consists only of quoted letters and digits, so no text from a user is interpreted in SQLite's query language.
SQLite alone handles only English, and keeps its British and American spellings apart.

**Spellings:** a query with a British or American spelling also finds texts with the other.

**German and French:** forms and compounds of a word, and spellings of umlauts. A query with function words or letters
of another language matches the beginnings of words. In German texts the ends of long words are indexed as well, as
reversed words after a mark.

**Scripts without spaces between words:** grams, which are short overlapping runs of characters, replace words in the
index. A gram has two characters of Chinese, Japanese and Korean, and three of Thai, Lao, Khmer and Burmese. Grams at
the end of a run are shorter, so that a shorter query is the beginning of a gram. Vowel signs and tone marks are left
out, as in SQLite's tokenizer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

MARK = "\ue000"
"""Marks a reversed word: a private-use character, which SQLite treats as a letter."""
LEAST_STEM = 5
"""Minimum number of letters at the beginning of a word that identify its forms."""
LEAST_END = 4
"""Minimum number of letters in a compound's last part."""
LEAST_COMPOUND = 12
"""Minimum number of letters in a word whose end is indexed."""
END = 9
"""Number of letters that are indexed from the end of a word."""
SURE = 2
"""Minimum number of function words that identify the language of a text."""

_PLAIN = {
    code: base for code in range(0xC0, 0x180) if (base := unicodedata.normalize("NFD", chr(code))[0]) != chr(code)
}
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_ENDING = re.compile("(?:en|er|es|em|e|n|s)$")
_UMLAUT = re.compile("[äöüß]").search
_SPELLING = re.compile("(?<=[^aeioquäöü])([aou])e(?=[^e])|^([aou])e(?=[^e])")

_OUR = "arm|behavi|cand|col|endeav|fav|flav|harb|hon|hum|lab|neighb|od|rig|rum|splend|tum|val|vap|vig"
_RE = "calib|cent|fib|(?:centi|kilo|milli)?met|(?:milli)?lit|lust|och|spect|theat"
_LL = "cance|channe|dia|equa|fue|initia|labe|leve|marsha|mode|pane|signa|tota|trave|tunne|unrave"
_FORMS = "er|ers|able|ation|ations|ational|e|es|ed|ing"
_SPELLING_RULES = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        # SQLite's stemmer makes one stem of "optimise" and "optimiser", but two of "optimize" and "optimizer".
        (rf"(\w{{3,}})is(?:{_FORMS})", (r"\1ize", r"\1izer")),
        (rf"(\w{{3,}})iz(?:{_FORMS})", (r"\1ise", r"\1iser")),
        (rf"(anal|catal|paral)ys(?:{_FORMS})", (r"\1yze", r"\1yzer")),
        (rf"(anal|catal|paral)yz(?:{_FORMS})", (r"\1yse", r"\1yser")),
        (rf"({_OUR})ou?r(\w*)", (r"\1our\2", r"\1or\2")),
        (rf"({_RE})(?:re|er)(s?)", (r"\1re\2", r"\1er\2")),
        (rf"({_LL})ll?(ed|ing|er|ers)", (r"\1l\2", r"\1ll\2")),
        (r"(analog|catalog|dialog)(?:ue)?(s?)", (r"\1\2", r"\1ue\2")),
        (r"(def|lic|off|pret)en[cs]e(s?)", (r"\1ence\2", r"\1ense\2")),
        (r"(acknowledg|judg)e?(ments?)", (r"\1\2", r"\1e\2")),
        (r"(art)[ei](facts?)", (r"\1e\2", r"\1i\2")),
        (r"(gr)[ae](y\w*)", (r"\1a\2", r"\1e\2")),
    )
)
"""Patterns of whole words, and their spellings."""

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


@dataclass(frozen=True, slots=True)
class Language:
    """A language other than English. `telling` words do not occur in English texts; `stopwords` also include words that
    do. `endings` are removed from the ends of words."""

    telling: frozenset[str]
    stopwords: frozenset[str]
    letters: re.Pattern[str]
    endings: re.Pattern[str]

    def stem(self, word: str) -> str:
        """The common beginning of the forms of a folded word; empty if this beginning would be too short."""
        cut = self.endings.sub("", word)
        return cut if len(cut) >= LEAST_STEM else word if len(word) >= LEAST_STEM else ""


def _language(telling: str, others: str, letters: str, endings: str) -> Language:
    words = frozenset(telling.split())
    return Language(words, words | frozenset(others.split()), re.compile(letters, re.IGNORECASE), re.compile(endings))


GERMAN = _language(
    """
    und der ist nicht ein eine einen einem einer eines wird werden wurde wurden für zum zur vom beim oder wenn weil dass
    noch auch nach durch im sich sind kein keine keinen wie warum wann wer wem welche welcher welches welchen wir vor
    über unter daher damit darf dürfen muss müssen kann können soll sollen haben
    """,
    """
    die das den dem des was wo bei auf aus mit an am in um so es er sie ich ihr uns als von zu man bis ab hat nur wen
    """,
    "[äöüß]",
    "(?:erung|ungen|ern|en|er|es|em|e|n|s|t)$",
)
FRENCH = _language(
    """
    les une des aux sont où dans avec qui que quoi quand pourquoi combien quel quelle quels quelles cette nous
    vous ils elles leurs être avoir peut doit déjà
    """,
    """
    le la un du de au en on se me te y a as ai l d n s c j m t qu et ou est son sa ses ce ces il elle ne pas sur pour
    par sans leur plus même comment
    """,
    "[àâçéèêëîïôûùœ]",
    "(?:ements?|ations?|ctions?|it[es]*|yer|ier|er|ées?|ees?|és?|es|ent|ons|ez|e|s)$",
)


_ENGLISH = frozenset(["the", "is", "are", "of", "to", "what", "when", "where", "which", "who", "how", "did", "does"])


def folded(word: str) -> str:
    """A word without case and accents, as SQLite's tokenizer folds it."""
    return word.casefold() if word.isascii() else word.casefold().translate(_PLAIN)


def _of_query(query: str, words: Collection[str]) -> Language | None:
    """The language of a query, by its casefolded words; None for English and other languages."""
    asked = frozenset(words)
    german, french = len(asked & GERMAN.telling), len(asked & FRENCH.telling)
    if german or french:
        return GERMAN if german >= french else FRENCH
    if query.isascii() or not _ENGLISH.isdisjoint(asked):
        return None
    return next((one for one in (GERMAN, FRENCH) if one.letters.search(query)), None)


def _ends_with(word: str) -> tuple[str, ...]:
    """The FTS5 expression for German compounds that end with a word; empty for a short word."""
    end = _end(folded(word))
    return (f'"{MARK}{end}" *',) if len(end) >= LEAST_END and end.isalpha() else ()


def _also_written(words: Collection[str]) -> list[str]:
    """Additional tokens for the distinct words of a text: umlauts spelled out and contracted, and ends of compounds."""
    is_german = len(GERMAN.telling.intersection(words)) >= SURE
    accented = [word.lower() for word in words if not word.isascii()]
    spelled = [word.translate(_SPELLED) for word in accented if _UMLAUT(word) and word not in GERMAN.stopwords]
    written = [word.lower() for word in words if is_german or word.istitle()]
    likely = [word for word in written if "ue" in word or "oe" in word or "ae" in word]
    short = [_SPELLING.sub(r"\1\2", word) for word in likely if _SPELLING.search(word)]
    ends = {_end(folded(word)) for word in words if len(word) >= LEAST_COMPOUND and word.isalpha()} if is_german else ()
    return [*spelled, *short, *(MARK + end for end in sorted(ends))]


def _end(word: str) -> str:
    """The end of a folded word without inflection, reversed."""
    return (_ENDING.sub("", word) if len(word) > LEAST_STEM else word)[-END:][::-1]


@lru_cache(maxsize=4_096)
def _other_spellings(word: str) -> tuple[str, ...]:
    """Other spellings of a word in lower case, with each form that SQLite's stemmer keeps apart.

    >>> _other_spellings("serialised"), _other_spellings("behavior"), _other_spellings("node")
    (('serialize', 'serializer'), ('behaviour',), ())
    """
    for pattern, written in _SPELLING_RULES:
        if found := pattern.fullmatch(word):
            return tuple(one for one in map(found.expand, written) if one != word)
    return ()


def _grams_of(text: str) -> list[str]:
    """The grams of a text as they are indexed, including repeats."""
    found = []
    for run in _RUN.findall(text):
        size = _gram_size(run)
        plain = _without_marks(run)
        found += [plain[at : at + size] for at in range(len(plain))]
    return found


def _split_grams(query: str) -> list[str]:
    """The words and grams of a query, in order."""
    found = []
    for piece in _PIECE.findall(query):
        if not is_gram(piece):
            found.append(piece)
            continue
        size, plain = _gram_size(piece), _without_marks(piece)
        pieces = [plain[at : at + size] for at in range(max(1, len(plain) - size + 1))]
        if len(pieces) > 1 and _ENDS_WITH_PARTICLE(pieces[-1]):  # a particle at the end of a word
            pieces.pop()
        found += filter(None, pieces)
    return found


def is_gram(word: str) -> bool:
    """Whether a piece from `_split_grams` is in a script without spaces."""
    return not word.isascii() and _IS_GRAM(word) is not None


def _is_stop_gram(gram: str) -> bool:
    """Whether a piece from `_split_grams` is an uninformative gram, such as a particle with half of a word."""
    if gram.isascii():
        return False
    is_function = not _ANYWHERE.isdisjoint(gram) or _ONLY.issuperset(gram) or gram in _KOREAN_STOPS
    return is_function or _KANA(gram) is not None


def _gram_phrase(gram: str) -> str:
    """The FTS5 expression for a gram of a query; a gram that is too short matches as a prefix."""
    return f'"{gram}"' if len(gram) == _gram_size(gram) else f'"{gram}" *'


def gram_phrase_of(name: str) -> str:
    """The FTS5 expression for the runs of a name, whose characters may be separated; empty if it has none."""
    found = []
    for run in _RUN.findall(_BETWEEN.sub("", name)):
        size, plain = _gram_size(run), _without_marks(run)
        whole = [plain[at : at + size] for at in range(len(plain) - size + 1)]
        found.append(f'"{" ".join(whole)}"' if whole else _gram_phrase(plain))
    return f"({' AND '.join(found)})" if found else ""


def _gram_size(run: str) -> int:
    return 3 if _IS_TRIPLED(run) else 2


def _without_marks(run: str) -> str:
    return run if run.isalnum() else "".join(filter(str.isalnum, run))


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


@lru_cache(maxsize=64)  # a search asks for the same words in several places
def terms(query: str) -> tuple[Term, ...]:
    """The distinct words of a query in order, at most `MAX_TERMS`; stop words are included only if there are no other
    words.

    An identifier such as ``getUserName`` also matches text in which its parts are adjacent. A run of characters in a
    script without spaces gives one term per gram.
    """
    query = query[:MAX_QUERY]
    subject = _CONTRACTED.sub(" ", _ASKS_WHERE.sub(" ", query))
    found = {word.casefold(): word for word in reversed(_split(subject) or _split(query))}
    language = _of_query(query, found)
    stop = STOPWORDS | language.stopwords if language else STOPWORDS
    telling = [folded for folded in found if folded not in stop and not _is_stop_gram(folded)] or list(found)
    asked = telling[: -MAX_TERMS - 1 : -1]
    return tuple(_term(found[folded], language, is_last=folded == asked[-1]) for folded in asked)


def _split(text: str) -> list[str]:
    return _WORD.findall(text) if text.isascii() else _split_grams(text)


def _term(word: str, language: Language | None, *, is_last: bool) -> Term:
    if is_gram(word):
        phrase = (_gram_phrase(word),)
        return Term(word, phrase, phrase, is_gram=True)
    word = word[:MAX_WORD]
    parts = parts_of(word)
    phrases = [f'"{word}"', *([f'"{" ".join(parts)}"'] if parts else [])]
    begun, stem = phrases, ""
    if len(word) == MAX_WORD or (len(word) >= PREFIX_FROM and not parts):
        begun = [f'"{word}" *', *(_ends_with(word) if is_last else ())]
    written = ""
    if language is None and (other := [f'"{one}"' for one in _other_spellings(word.casefold())]):
        written = _either(tuple(begun if is_last else phrases))
        phrases, begun = [*phrases, *other], [*begun, *other]
    if language is not None and not parts and (stem := language.stem(folded(word))):
        also = [f'"{stem}" *', *_ends_with(word)]
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


def name_words(name: str) -> list[str]:
    """The words of a name in lower case, with identifiers in parts: equal for "auth service" and ``authService``."""
    return [part.casefold() for word in _WORD.findall(name) for part in parts_of(word) or (word,)]


def parts_text(texts: Iterable[str]) -> str:
    """The parts of identifiers in these texts, and other spellings of their words; indexed together with the texts."""
    distinct = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    found = [part for word in distinct if not word.islower() for part in parts_of(word)]
    return " ".join([*found, *_also_written(distinct)])


def grams_text(*texts: tuple[str, int]) -> str:
    """The grams of scripts without spaces in these texts, repeated by each text's weight; indexed together with the
    texts."""
    return " ".join(gram for text, weight in texts if not text.isascii() for gram in _grams_of(text) * weight)


def sentences(name: str, summary: str, content: str) -> list[str]:
    """The parts of a note that are compared one by one."""
    parts = [name, *_SENTENCE.split(summary), *_SENTENCE.split(content[:READ_BY_SENTENCE])]
    return [part for part in parts if len(part) >= _FEWEST_IN_SENTENCE] or [name]
