"""British and American spellings of English words: a query with one also finds texts with the other."""

from __future__ import annotations

import re
from functools import lru_cache

_OUR = "arm|behavi|cand|col|endeav|fav|flav|harb|hon|hum|lab|neighb|od|rig|rum|splend|tum|val|vap|vig"
_RE = "calib|cent|fib|(?:centi|kilo|milli)?met|(?:milli)?lit|lust|och|spect|theat"
_LL = "cance|channe|dia|equa|fue|initia|labe|leve|marsha|mode|pane|signa|tota|trave|tunne|unrave"
_FORMS = "er|ers|able|ation|ations|ational|e|es|ed|ing"
_RULES = tuple(
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


@lru_cache(maxsize=4_096)
def others(word: str) -> tuple[str, ...]:
    """Other spellings of a word in lower case, with each form that SQLite's stemmer keeps apart.

    >>> others("serialised"), others("behavior"), others("node")
    (('serialize', 'serializer'), ('behaviour',), ())
    """
    for pattern, written in _RULES:
        if found := pattern.fullmatch(word):
            return tuple(one for one in map(found.expand, written) if one != word)
    return ()
