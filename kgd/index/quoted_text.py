"""Files that quote a query: they have it, or at least half of it, as one run of words.

In a large tree, only runs with a rare word of the query are looked up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from sqlite3 import Connection
from typing import NamedTuple

from kgd.index import words
from kgd.index.database import placeholders

LONG_PHRASE = 4
"""Number of words that are looked up together; a longer run consists of several such phrases."""
MOST_QUOTED, TELLING, SHORTEST_QUOTE = 24, 2, 3
"""Maximum number of words of a query to find as one run in a file; minimum number of words in the run that are neither
stop words nor weak; and minimum number of words in a query that is not a name."""
MANY_QUOTE = 50
"""A run in more than this number of files says little about any of them."""
LONGEST_LINE, BEFORE_QUOTE = 200, 40
"""Maximum number of characters of a quoted line, and of those before the quote if it is far from the line's start."""
VALUE_WORDS = 4
"""Maximum number of words in the code for a value of a message: ``%d`` has one, ``{self.name!r}`` three."""
MOST_VALUES = 5
_VALUE = re.compile(r"(?<!\S)\S*[0-9/]\S*|'[^']*'|\"[^\"]*\"|`[^`]*`")
"""A value in a message: an address, a path, a number or a quoted text."""


def selects(run: Sequence[str], selecting: Collection[str] | None) -> bool:
    """Whether a run has a word of `selecting`, the rare words of a query in a large tree. FTS5 reads all files with
    each word of a run, so a run of common words takes time proportional to the tree."""
    return selecting is None or any(word.casefold() in selecting for word in run)


class Quote(NamedTuple):
    """The first line with a run of words: its number, from 1, and its text; and the innermost symbol around it, empty
    if there is none."""

    line: int
    text: str
    symbol: str


def quote_of(connection: Connection, file: int, run: Sequence[str], text: str) -> Quote | None:
    """The place of a run of words in the text of a file; None if it has the words only in other forms. An empty word of
    the run stands for a value."""
    found = re.search(_pattern(run), text, re.IGNORECASE)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    sql = "SELECT name FROM symbols WHERE file = ? AND line <= ? AND end >= ? ORDER BY line DESC, end LIMIT 1"
    around = connection.execute(sql, (file, line, line)).fetchone()
    begin = text.rfind("\n", 0, found.start()) + 1
    said, at = text[begin:].partition("\n")[0], found.start() - begin
    if len(said.strip()) > LONGEST_LINE and found.end() - begin > LONGEST_LINE:
        said = f"…{said[max(0, at - BEFORE_QUOTE) :]}"
    return Quote(line, said.strip()[:LONGEST_LINE], around[0] if around else "")


def _pattern(run: Sequence[str]) -> str:
    """A regular expression for a run of words with any punctuation between them."""
    between = r"[\W_]+"
    parts = " ".join(run).split("  ")  # an empty word has a space on either side
    phrases = (between.join(map(re.escape, part.split())) for part in parts)
    return rf"{between}(?:[^\W_]+{between}){{0,{VALUE_WORDS}}}".join(phrases)


def quoting(connection: Connection, query: str, selecting: Collection[str] | None) -> dict[int, Sequence[str]]:
    """The files with the longest run of a query's words, and the run: all words of a name, at least half of another
    query. If no file has it, the query is read as a message with values: the result is the files with all parts between
    the values, close to each other; without such files, those with the longest run within one part."""
    if not any(map(str.isspace, query.strip())):
        name = words.words_of(query)
        is_run = 2 <= len(name) <= MOST_QUOTED
        return _with_run(connection, [name], len(name), 0, selecting) if is_run else {}
    between = _VALUE.split(query)
    for said in [[query]] if len(between) == 1 else [[query], between]:
        parts = [words.words_of(part)[:MOST_QUOTED] for part in said]
        least = max(SHORTEST_QUOTE, (sum(map(len, parts)) + 1) // 2)
        if said is between and (found := _with_all(connection, parts, selecting)):
            return found
        if found := _with_run(connection, parts, least, TELLING, selecting):
            return found
    return {}


def _with_all(
    connection: Connection, parts: Sequence[Sequence[str]], selecting: Collection[str] | None
) -> dict[int, Sequence[str]]:
    """The files that have all parts of a message close to each other, and the words of the parts, with an empty word
    for each value between them. The message must have `SHORTEST_QUOTE` words, `TELLING` of them telling."""
    parts = [part for part in parts if part]
    every = [word for part in parts for word in part]
    telling = sum(word.casefold() not in words.STOPWORDS | words.WEAK for word in every)
    if not 1 < len(parts) <= 1 + MOST_VALUES or len(every) < SHORTEST_QUOTE or telling < TELLING:
        return {}
    having = [set(ids) for ids in _having(connection, parts, selecting)]
    ids = sorted(set.intersection(*having))
    phrases = " ".join(f'"{" ".join(part)}"' for part in parts)
    sql = f"SELECT rowid FROM body_text WHERE body_text MATCH ? AND rowid IN ({placeholders(ids)})"
    near = f"NEAR({phrases}, {VALUE_WORDS * (len(parts) - 1) + sum(map(len, parts[1:-1]))})"
    run = [word for number, part in enumerate(parts) for word in (*([""] if number else []), *part)]
    return {id: run for (id,) in connection.execute(sql, (near, *ids))} if ids else {}


def _with_run(
    connection: Connection,
    parts: Sequence[Sequence[str]],
    least: int,
    telling: int,
    selecting: Collection[str] | None,
) -> dict[int, Sequence[str]]:
    """The files with the longest run of words within any of these parts, and the run. It has at least `least` words, of
    which `telling` are neither stop words nor weak."""
    common = words.STOPWORDS | words.WEAK
    best, longest = dict[int, Sequence[str]](), least
    for asked in parts:
        if len(asked) < longest:
            continue
        size = len(asked) if not telling else min(LONG_PHRASE, len(asked))
        runs = [asked[end - size : end] for end in range(size, len(asked) + 1)]
        running: dict[int, int] = {}  # the length of the run that ends with the current words, by file
        for end, having in enumerate(_having(connection, runs, selecting), size):
            running = {id: running.get(id, size - 1) + 1 for id in having}
            most = max(running.values(), default=0)
            run = asked[end - most : end]
            if most < longest or sum(word.casefold() not in common for word in run) < telling:
                continue
            files = {id: run for id, length in running.items() if length == most}
            best, longest = (files | best if most == longest else files), most
    return best


def _having(
    connection: Connection, runs: Sequence[Sequence[str]], selecting: Collection[str] | None
) -> list[Sequence[int]]:
    """The files with each run of words. Runs that many files have are looked for only in the files with other runs."""
    sql = "SELECT rowid FROM body_text WHERE body_text MATCH ?"
    phrases = [f'"{" ".join(run)}"' for run in runs]
    found: dict[str, Sequence[int]] = {}
    for run, phrase in zip(runs, phrases, strict=True):
        if selects(run, selecting):
            having = [id for (id,) in connection.execute(f"{sql} LIMIT ?", (phrase, MANY_QUOTE + 1))]
            if len(having) <= MANY_QUOTE:
                found[phrase] = having
    few = [id for id, _ in Counter(chain.from_iterable(found.values())).most_common(MANY_QUOTE)]
    within = f"{sql} AND rowid IN ({placeholders(few)})"
    for phrase in phrases if few else ():
        if phrase not in found:
            found[phrase] = [id for (id,) in connection.execute(within, (phrase, *few))]
    return [found.get(phrase, ()) for phrase in phrases]
