"""Candidates for new nodes: names that are in many texts but do not belong to a node.

They are found only by capital letters, so the same texts always give the same names. A user or a model decides which of
them are worth a node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kgd.index.words import STOPWORDS
from kgd.mentions.matching import WRITTEN, phrase_key
from kgd.model.uri import Uri

LEAST_TEXTS = 3
"""Minimum number of texts that must contain a name for it to be suggested."""
LONGEST = 6
"""Maximum number of words in a candidate; longer runs of capitalised words are headlines."""
LONGEST_RUN = 40
EXAMPLES = 3
_JOINS = "of the de du des la le di da von van der den &"
_JOINING = frozenset(_JOINS.split())
_TIMES = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december today tomorrow yesterday
"""
_EMPTY = STOPWORDS | frozenset(_TIMES.split()) | {"true", "false", "none", "null", "todo"}
"""Words with which a name does not begin or end."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")
_TOKEN = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?|&|[^\w\s]")
_OWNED = re.compile(r"['’]s$")
_MARKUP = re.compile(r"^\s*(?:#{1,6}\s|[-*+]\s|>\s|\|)+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name in its most frequent spelling, the number of texts that contain it, and some of them."""

    key: str
    name: str
    count: int
    texts: tuple[Uri, ...]


def candidates(
    texts: Iterable[tuple[Uri, str]],
    known: Callable[[Collection[str]], Collection[str]],
    least: int = LEAST_TEXTS,
    most: int | None = None,
) -> list[Candidate]:
    """Names in at least `least` of these texts, the most frequent first, then alphabetically.

    Args:
        known: Returns the names that a node already has: folded, or in a program's spelling after `WRITTEN`.
        most: Number of texts above which a name of one word is too common to identify a node.
    """
    count, written = Counter[str](), dict[str, Counter[str]]()
    where: dict[str, list[Uri]] = {}
    for uri, text in texts:
        here: dict[str, str] = {}
        for phrase in phrases_of(text):
            if words := phrase_key(phrase):
                here.setdefault(" ".join(words), phrase)
        for key, phrase in here.items():
            count[key] += 1
            written.setdefault(key, Counter())[phrase] += 1
            if len(where.setdefault(key, [])) < EXAMPLES:
                where[key].append(uri)
    often = [key for key, number in count.items() if number >= least and not _is_said_to(key, count)]
    if most is not None:
        often = [key for key in often if " " in key or count[key] <= most]
    found = [
        Candidate(key, min(written[key], key=lambda name: (-written[key][name], name)), count[key], tuple(where[key]))
        for key in often
    ]
    taken = set(known([*often, *(WRITTEN + one.name for one in found)]))
    free = [one for one in found if one.key not in taken and WRITTEN + one.name not in taken]
    return sorted(free, key=lambda one: (-one.count, one.name))


def _is_said_to(key: str, count: Counter[str]) -> bool:
    """Whether the candidate begins with the first word of a sentence, as in "Thanks Ann", so that only the words after
    it are the name."""
    _, _, rest = key.partition(" ")
    return bool(rest) and count[rest] >= 2 * count[key]


def phrases_of(text: str) -> Iterator[str]:
    """Runs of capitalised words within one sentence; a single word only if it does not begin the sentence."""
    for sentence in _SENTENCE.split(text):
        yield from _in_sentence(_TOKEN.findall(_MARKUP.sub("", sentence)))


def _in_sentence(tokens: Sequence[str]) -> Iterator[str]:
    start: int | None = None
    for at in range(len(tokens) + 1):
        token = tokens[at] if at < len(tokens) else "."
        if _is_capital(token) and not (start is not None and _OWNED.search(tokens[at - 1])):
            start = at if start is None else start
        elif start is not None and not (token in _JOINING and at + 1 < len(tokens) and _is_capital(tokens[at + 1])):
            if found := _trimmed(tokens[start:at], begins=start == 0):
                yield found
            start = at if _is_capital(token) else None


def _is_capital(token: str) -> bool:
    return token[0].isupper() and not token.isdigit()


def _trimmed(run: Sequence[str], *, begins: bool) -> str:
    if len(run) > LONGEST_RUN:
        return ""
    words = [_OWNED.sub("", word) for word in run]
    while words and words[0].lower() in _EMPTY:
        words, begins = words[1:], False
    while words and words[-1].lower() in _EMPTY:
        words = words[:-1]
    if not words or len(words) > LONGEST or (len(words) == 1 and begins):
        return ""
    return " ".join(words)
