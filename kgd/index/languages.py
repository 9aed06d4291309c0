"""German and French in full text: forms and compounds of a word, and spellings of umlauts.

SQLite's stemmer handles only English. A query with function words or letters of another language matches the beginnings
of words. In German texts the ends of long words are indexed as well, as reversed words after a mark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

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


def of_query(query: str, words: Collection[str]) -> Language | None:
    """The language of a query, by its casefolded words; None for English and other languages."""
    asked = frozenset(words)
    german, french = len(asked & GERMAN.telling), len(asked & FRENCH.telling)
    if german or french:
        return GERMAN if german >= french else FRENCH
    if query.isascii() or not _ENGLISH.isdisjoint(asked):
        return None
    return next((one for one in (GERMAN, FRENCH) if one.letters.search(query)), None)


def ends_with(word: str) -> tuple[str, ...]:
    """The FTS5 expression for German compounds that end with a word; empty for a short word."""
    end = _end(folded(word))
    return (f'"{MARK}{end}" *',) if len(end) >= LEAST_END and end.isalpha() else ()


def also_written(words: Collection[str]) -> list[str]:
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
