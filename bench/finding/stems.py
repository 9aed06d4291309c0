"""Content words: the words of a text without function words, reduced to Porter stems by SQLite."""

from __future__ import annotations

import re
import sqlite3

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LIST = """
a about above after again all also am an and another any are as at be because been before being below between both
but by can cannot could did do does doing done down during each either else ever every few for from further get got
had has have having he her here hers him his how i if in into is it its itself just let like may me might more most
must my myself need needs neither no nor not now of off on once one only or other our ours out over own per rather
same shall she should since so some still such than that the their theirs them themselves then there these they this
those though through to too under until up upon us use used very via was we were what when where which while who
whom whose why will with within without would yes yet you your yours know knows known s t don
"""
FUNCTION_WORDS = frozenset(_LIST.split())


def content_words(text: str) -> list[str]:
    """The words without function words, in order, each once."""
    found = (word.lower() for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in found if word not in FUNCTION_WORDS))


def stems(text: str) -> set[str]:
    """The stems of the content words. Identifiers count as a whole and by their parts."""
    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = 'porter unicode61')")
    table.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, 'row')")
    table.execute("INSERT INTO t VALUES (?)", (" ".join(content_words(f"{text} {_HUMP.sub(' ', text)}")),))
    return {term for (term,) in table.execute("SELECT term FROM v")}
