"""Ranking of full-text answers: in tiers, from documents with all words of the query to bare files.

Within a tier, hits are ordered by BM25, then by URI, so an answer does not depend on the order of writes.

Restricted callers get answers as if hidden texts did not exist. BM25 weighs a word by the number of texts that contain
it, including hidden texts, and the last word of a query may be unfinished. So the scores of visible hits could reveal
hidden texts letter by letter. To prevent this, the scores of each word are divided by its best visible score, which
removes that weight, and the word is weighed by the visible texts instead. This takes time linear in the number of texts
that contain a word of the query.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict, Unpack

import orjson

from kgd.index import snippets
from kgd.index.database import FILE_TOKENIZER, TOKENIZER, placeholders
from kgd.index.doc_texts import Texts
from kgd.index.exact_names import TAG, label
from kgd.index.words import Term, rarest
from kgd.model.uri import CODE_TREE, DIRECTORY_TYPE, Lane, Uri

LARGE = 2_000
"""In an index with more documents than this, common words are left out of the first pass."""
LOOKED_AT, FEWEST_LOOKED_AT = 0.12, 1_000
"""Maximum share of all documents, but at least this number, that the words of the first pass may select together; the
rarest words are used first. Ranking a document takes a microsecond, and a query in plain language has words that occur
in nearly all documents."""
ENOUGH = 100
"""This many documents with the rarest words suffice for a short query whose answer is ranked elsewhere."""
LONG = 4
"""With more words than this, a query is considered finished: its last word is a prefix only if no document has it as
typed."""
CANDIDATES = 100
"""Number of documents that are scored again with the words left out of the first pass."""
SEEK = 250
"""A look-up of one document for a word costs as much as scanning this many documents that have it."""
SLACK, SLACK_SHARE = 16, 0.5
"""Extra documents to look up, at least this number and this share of the wanted ones: some are in the index twice, and
others have the same score as the last one."""
SCORE_DIGITS = 6
RANK_DIGITS = 12
"""Digits to which scores are rounded. FTS5 gives a very common word a millionth of a point, which may be the only score
in a small index."""
MEMO_LIMIT = 10_000
TEXT_WEIGHTS = "3.0, 2.5, 2.0, 1.0, 0.5, 1.0"
"""Weight of a word in name, tags, summary, content, data and in the parts of identifiers."""

TABLES = {Lane.NOTES: "notes_text", Lane.SOURCES: "sources_text", Lane.CODE: "code_text"}
"""The full-text table of each lane. BM25 weighs a word by the texts that have it in one table, so lanes do not
influence each other.
"""
LAST_SECOND = 1 << 62
"""A time later than all dates."""

ALL, BEGUN, SOME, FILE, FILE_SOME = 3, 2, 1, 0, -1
"""Tiers: all words; all words, the last as a prefix; some words; a bare file; a bare file with some words."""


class Hit(NamedTuple):
    """One hit. `score` lies in 0..1 and falls from hit to hit; `why` lists the matched words per field."""

    uri: Uri
    score: float
    snippet: str
    why: tuple[str, ...]


class Filter(NamedTuple):
    """SQL conditions on a table of documents, and their parameters."""

    sql: str
    values: tuple[str | int, ...]


class Filters(TypedDict, total=False):
    """Conditions of a search. A node has one of the `types` and any of the `tags`, and lies in `namespace` or below.

    Nodes of the code tree are also of type `file` or `dir`. Without `lanes`, texts of every lane pass. With `since` or
    `until` (Unix seconds, both inclusive), a node passes only if its date is in this period: the time of a message, or
    the last change of any other node.
    """

    types: Collection[str] | None
    tags: Collection[str] | None
    namespace: str
    lanes: Collection[Lane] | None
    since: int | None
    until: int | None


def doc_filter(**filters: Unpack[Filters]) -> Filter:
    """The conditions on documents."""
    types, tags = filters.get("types"), filters.get("tags")
    lanes = filters.get("lanes")
    sql = [f"AND docs.lane IN ({', '.join(str(int(lane)) for lane in sorted(lanes))})"] if lanes else []
    values: list[str | int] = []
    since, until = filters.get("since"), filters.get("until")
    if since is not None or until is not None:
        sql.append("AND docs.dated BETWEEN ? AND ?")
        values += [max(1, since or 1), LAST_SECOND if until is None else until]
    if types:
        sql.append(f"AND ({_of_types('docs', types)})")
        values += sorted(types)
    if tags:
        sql.append(f"AND docs.id IN (SELECT doc FROM labels WHERE label IN ({placeholders(tags)}))")
        values += sorted(label(TAG, tag.casefold()) for tag in tags)
    return _within("docs", filters.get("namespace", ""), sql, values)


def file_filter(**filters: Unpack[Filters]) -> Filter:
    """The conditions on bare files. A file with a stored node is found as that node."""
    types = filters.get("types")
    sql = ["AND NOT EXISTS (SELECT 1 FROM docs WHERE docs.uri = files.uri)"]
    values: list[str | int] = []
    if filters.get("since") is not None or filters.get("until") is not None:
        sql.append("AND 0")  # a bare file has no date
    if types:
        sql.append(f"AND ({_of_types('files', types)} OR files.kind IN ({placeholders(types)}))")
        values += [*sorted(types), *sorted(types)]
    return _within("files", filters.get("namespace", ""), sql, values)


def _of_types(table: str, types: Collection[str]) -> str:
    """SQL equivalent of `is_of_types`."""
    schemes = [f"{table}.uri GLOB '{scheme}://*'" for scheme in CODE_TREE if scheme in types]
    labels = f"{table}.type IN ({placeholders(types)})"
    if DIRECTORY_TYPE in types:
        labels += f" AND NOT ({table}.type = '{DIRECTORY_TYPE}' AND {table}.uri GLOB 'dir://*')"
    return " OR ".join([labels, *schemes])


def _within(table: str, namespace: str, sql: list[str], values: list[str | int]) -> Filter:
    if namespace.strip("/"):
        start = namespace.strip("/")
        sql.append(f"AND {table}.path >= ? AND {table}.path < ?")
        values += [f"{start}/", f"{start}0"]  # `0` is the character after `/`
    return Filter(" ".join(sql), tuple(values))


class Found(NamedTuple):
    """A document before its text is read. A lower rank is better, as in SQLite."""

    rank: float
    uri: Uri
    id: int
    tier: int
    lane: Lane = Lane.CODE


class Frequencies:
    """The number of documents with each word in one lane. The numbers need not be exact, so they are cached until a
    fiftieth of the documents has changed."""

    def __init__(self, lane: Lane) -> None:
        self._lane, self._table = lane, TABLES[lane]
        self._about: int | None = None
        self._known: dict[str, int] = {}
        self._changed = 0

    def outdate(self, changed: int) -> None:
        self._changed += changed
        if self._about is None or self._changed * 50 > self._about:
            self._about, self._known, self._changed = None, {}, 0

    def documents(self, connection: sqlite3.Connection) -> int:
        if self._about is None:
            [self._about] = connection.execute("SELECT count(*) FROM docs WHERE lane = ?", (self._lane,)).fetchone()
            assert self._about is not None
        return self._about

    def of(self, connection: sqlite3.Connection, match: str) -> int:
        """The number of documents with a word, but at most half of all documents; a more common word has no weight."""
        known = self._known.get(match)
        if known is None:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {self._table} WHERE {self._table} MATCH ? LIMIT ?)"
            [known] = connection.execute(sql, (match, self.documents(connection) // 2 + 1)).fetchone()
            assert known is not None
            if len(self._known) < MEMO_LIMIT:
                self._known[match] = known
        return known


class Search:
    """One query to one lane, on one connection."""

    def __init__(
        self, connection: sqlite3.Connection, lane: Lane, frequencies: Frequencies, terms: Sequence[Term], want: int
    ) -> None:
        self._connection, self._lane, self._table = connection, lane, TABLES[lane]
        self._frequencies = frequencies
        self._terms = terms
        self._want = want
        self._all = " AND ".join(term.match for term in terms)
        self._begun = " AND ".join([*(term.match for term in terms[:-1]), terms[-1].prefix])
        self._enough: float = math.inf
        """If more documents than this have the rarest words, common words are not looked up by themselves."""
        self._looked_for = self._begun if len(terms) == 1 else " OR ".join(term.match for term in terms)
        self._among: float = math.inf
        """Upper bound of the documents with one of the rarest words; infinite if others may be found as well."""
        self._having: dict[str, set[int]] = {}
        """For each word, those of the checked documents that have it."""

    def gather(self, knowledge: Filter) -> list[Found]:
        """Documents for `kgd.retrieval` to rank. Documents with all words form a tier only if the query is short."""
        if len(self._terms) < LONG:
            self._enough = ENOUGH
            found = self.run(knowledge)
            self._among, self._having = math.inf, {}  # texts with the beginning of the last word may have no rare word
            return found
        return self._with_some([], knowledge)

    def wholes(self, namespace: str, limit: int) -> dict[str, float]:
        """Paths of documents whose chunks have the words together, and their scores (more is better). Call after
        `gather`.

        Words that `gather` left out are left out here as well.
        """
        low, high = (f"{namespace}/", f"{namespace}0") if namespace else ("", "\U0010ffff")
        rows = self._connection.execute(
            "SELECT wholes.path, bm25(whole_text) AS score FROM whole_text JOIN wholes ON wholes.id = whole_text.rowid"
            " WHERE whole_text MATCH ? AND wholes.lane = ?"
            " AND ((wholes.path >= ? AND wholes.path < ?) OR wholes.path = ?) ORDER BY score, wholes.path LIMIT ?",
            (self._looked_for, self._lane, low, high, namespace, limit),
        )
        return {path: round(-score, RANK_DIGITS) for path, score in rows}

    def beside(self, knowledge: Filter) -> list[Found]:
        """Messages that have the words together with their neighbours. Call after `gather`, like `wholes`."""
        return self._best("beside", self._looked_for, knowledge, self._want, SOME)

    def run(self, knowledge: Filter) -> list[Found]:
        """The first `want` documents; a tier is searched only if the tiers before it did not fill the list."""
        found = self._best(self._table, self._all, knowledge, self._want, ALL)
        if self._begun != self._all and (len(self._terms) < LONG or self._is_new(self._terms[-1])):
            found = self._more(found, self._begun, knowledge, BEGUN)
        if len(self._terms) > 1 and len(found) < self._want:
            found = self._with_some(found, knowledge)
        return found

    def bare(self, files: Filter, want: int) -> list[Found]:
        """Bare files with all words in their path, then with some words: tiers `FILE` and `FILE_SOME`."""
        found = self._best("file_text", self._begun, files, want, FILE)
        if len(found) < want and len(self._terms) > 1:
            some = " OR ".join([*(term.match for term in self._terms[:-1]), self._terms[-1].prefix])
            found = _joined(found, self._best("file_text", some, files, want + len(found), FILE_SOME), want)
        return found

    def _is_new(self, term: Term) -> bool:
        return not self._frequencies.of(self._connection, term.match)

    def _more(self, found: list[Found], match: str, condition: Filter, tier: int) -> list[Found]:
        if len(found) >= self._want:
            return found
        return _joined(found, self._best(self._table, match, condition, self._want + len(found), tier), self._want)

    def _with_some(self, found: list[Found], condition: Filter) -> list[Found]:
        """Documents with some of the words. In a large index, only documents with rare words are looked up.

        Otherwise a query in plain language would have to rank every document. The words left out are still used to
        score the hundred best.
        """
        connection, frequencies = self._connection, self._frequencies
        matches = [term.match for term in self._terms]
        if self._is_new(self._terms[-1]):
            matches[-1] = self._terms[-1].prefix
        documents = frequencies.documents(connection)
        if documents <= LARGE:
            self._looked_for = " OR ".join(matches)
            return self._more(found, self._looked_for, condition, SOME)
        often = {match: frequencies.of(connection, match) for match in matches}
        rare = rarest(often, max(FEWEST_LOOKED_AT, documents * LOOKED_AT), self._enough)
        telling = {
            match: math.log((documents - count + 0.5) / (count + 0.5))
            for match, count in often.items()
            if match not in rare and 2 * count < documents
        }
        want = max(CANDIDATES if telling else 0, self._want) + len(found)
        self._looked_for = " OR ".join(rare)
        self._among = sum(often[match] for match in rare)
        best = self._best(self._table, self._looked_for, condition, want, SOME)
        return _joined(found, self._reweighed(best, telling), self._want)

    def _reweighed(self, found: list[Found], telling: dict[str, float]) -> list[Found]:
        """Add the weight of the words left out, as for one occurrence in a text of average length."""
        gain = dict.fromkeys((f.id for f in found), 0.0)
        asked = _json(gain)
        for match, weight in telling.items():
            self._having[match] = self._with_word(match, asked, len(gain))
            for id in self._having[match]:
                gain[id] += weight
        return sorted(Found(round(f.rank - gain[f.id], RANK_DIGITS), *f[1:]) for f in found)

    def _with_word(self, match: str, asked: str, count: int) -> set[int]:
        """The documents with a word among `count` documents, given as JSON."""
        table, often = self._table, self._frequencies.of(self._connection, match)
        if often > self._among:  # SQLite passes over documents with the common word without returning them
            match, often = f"({match}) AND ({self._looked_for})", int(self._among)
        # With a plus sign, SQLite scans all documents with the word; without it, SQLite looks up each candidate.
        plus = "+" if often < SEEK * count else ""
        sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND {plus}rowid IN (SELECT value FROM json_each(?))"
        return {id for (id,) in self._connection.execute(sql, (match, asked))}

    def _best(self, table: str, match: str, condition: Filter, want: int, tier: int) -> list[Found]:
        details = "files" if table == "file_text" else "docs"
        weights = f"{table}, {TEXT_WEIGHTS}" if table == self._table else table
        join = f"CROSS JOIN {details} ON {details}.id = {table}.rowid" if condition.sql else ""
        scored = (
            f"SELECT {table}.rowid AS row, bm25({weights}) AS score FROM {table} {join}"
            f" WHERE {table} MATCH ? {condition.sql}"
        )
        limit = want + max(SLACK, int(want * SLACK_SHARE))
        rows = self._connection.execute(
            # Not `ORDER BY rank`: SQLite would prepare a second statement, a fifth of a small query's time.
            f"SELECT round(score, {RANK_DIGITS}), uri, id FROM ({scored} ORDER BY score LIMIT ?)"
            f" CROSS JOIN {details} ON id = row",
            (match, *condition.values, limit),
        ).fetchall()
        rows.sort()
        if len(rows) == limit and rows[-1][0] == rows[want - 1][0]:
            # Equal scores at the end of the list: the URI that sorts first may be just behind it.
            last = rows[-1][0]
            rows = [row for row in rows if row[0] < last]
            rows += self._connection.execute(
                f"SELECT ?, uri, id FROM ({scored}) CROSS JOIN {details} ON id = row"
                f" WHERE round(score, {RANK_DIGITS}) = ? ORDER BY uri, id LIMIT ?",
                (last, match, *condition.values, last, limit - len(rows)),
            ).fetchall()
        once: dict[Uri, Found] = {}  # a file's part may be indexed twice: as stored, and as read from the file
        for rank, uri, id in rows:
            once.setdefault(uri, Found(rank, uri, id, tier, lane=self._lane))
        return list(once.values())[:want]

    def covered(self, found: Sequence[Found]) -> tuple[dict[int, float], frozenset[str], frozenset[int]]:
        """The weighted share of the query's words that each document has, by number; the words that occur in the lane;
        and the documents that have only weak words of a query with others.

        The share is 1 if a document has all words. Rare words weigh more; a word that is in no document of the lane
        weighs most.
        """
        known, telling = set[str](), set[int]()
        only_weak = all(term.is_weak for term in self._terms)
        about = max(self._frequencies.documents(self._connection), len(found))
        asked, share, total = _json(one.id for one in found), dict.fromkeys((one.id for one in found), 0.0), 0.0
        for number, term in enumerate(self._terms):
            match = term.prefix if number == len(self._terms) - 1 else term.match
            seen = self._having.get(match)
            having = self._with_word(match, asked, len(share)) if seen is None else seen & share.keys()
            often = max(self._frequencies.of(self._connection, match), len(having))  # the count may be out of date
            weight = term.weight(often, about)
            total += weight
            # A library's text may have the other spelling. A word that is only there still counts as missing; otherwise
            # questions about something unknown would get answers.
            if often and (not term.written or self._frequencies.of(self._connection, term.written)):
                known.add(term.word.casefold())
            for id in having:
                share[id] += weight
            if only_weak or not term.is_weak:
                telling |= having
        covered = {id: weight / total if total else 0.0 for id, weight in share.items()}
        return covered, frozenset(known), frozenset(id for id, some in covered.items() if some and id not in telling)


def explain(connection: sqlite3.Connection, texts: Texts, terms: Sequence[Term], page: Sequence[Found]) -> list[Hit]:
    """The hits with snippet and reason; both are empty if a text has none of the words."""
    shown: dict[tuple[bool, int], snippets.Explanation] = {}
    asked = snippets.asked(terms)
    by_words = {found.id for found in page if found.rank}
    for bare, columns in ((False, snippets.TEXT_COLUMNS), (True, snippets.FILE_COLUMNS)):
        ids = [found.id for found in page if (found.tier <= FILE) == bare]
        if not ids:
            continue
        found = (
            _file_texts(connection, ids)
            if bare
            else {id: text.columns(uri) for id, (uri, text) in texts.of(connection, ids).items()}
        )
        seen = {id: snippets.find(columns, own, asked) for id, own in found.items()}
        unseen = {id: found[id] for id, marked in seen.items() if not marked and id in by_words}
        shown |= {(bare, id): marked for id, marked in seen.items() if marked}
        shown |= {(bare, id): marked for id, marked in _marked(terms, columns, unseen)}
    nothing = snippets.Explanation("", ())
    return [Hit(f.uri, round(_exact(f), SCORE_DIGITS), *shown.get((f.tier <= FILE, f.id), nothing)) for f in page]


def _file_texts(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    sql = "SELECT rowid, path, parts FROM file_text WHERE rowid IN (SELECT value FROM json_each(?))"
    return {id: tuple(own) for id, *own in connection.execute(sql, (_json(ids),))}


def _marked(
    terms: Sequence[Term], columns: Sequence[str], texts: Mapping[int, Sequence[str]]
) -> Iterator[tuple[int, snippets.Explanation]]:
    """Explanations by SQLite, from an index of these few texts."""
    if not texts:
        return
    tokenizer = FILE_TOKENIZER if columns == snippets.FILE_COLUMNS else TOKENIZER
    match = " OR ".join(dict.fromkeys(m for term in terms for m in (term.match, term.prefix)))
    highlights = ", ".join(f"highlight(few, {n}, ?1, ?2)" for n in range(len(columns)))
    with contextlib.closing(sqlite3.connect(":memory:")) as few:
        few.execute(f"CREATE VIRTUAL TABLE few USING fts5 ({', '.join(columns)}, tokenize = '{tokenizer}')")
        few.executemany(
            f"INSERT INTO few (rowid, {', '.join(columns)}) VALUES (?, {placeholders(columns)})",
            [(id, *own) for id, own in texts.items()],
        )
        values = (snippets.BEGIN, snippets.END, match)
        for id, *own in few.execute(f"SELECT rowid, {highlights} FROM few WHERE few MATCH ?3", values):
            yield id, snippets.read(columns, own)


def _json(ids: Iterable[int]) -> str:
    """A list as one parameter, so that the statement stays the same and is prepared once."""
    return orjson.dumps(list(ids)).decode()


def _joined(first: list[Found], then: Sequence[Found], want: int) -> list[Found]:
    known = {found.uri for found in first}
    return [*first, *(found for found in then if found.uri not in known)][:want]


def _exact(found: Found) -> float:
    """The score from 0 to 1: the range of the tier, and within it the BM25 score mapped into that range; 4 is in the
    middle."""
    good = max(0.0, -found.rank)
    return (max(FILE, found.tier) + good / (good + 4)) / (ALL + 1)


Sees = Callable[[Uri], bool]
_Scores = dict[Uri, tuple[float, int]]
"""Score (0..1) and number of each visible text with a word."""


class InSight:
    """One restricted query on one connection, with the same tiers as `ranking.Search`."""

    def __init__(self, connection: sqlite3.Connection, terms: Sequence[Term], sees: Sees) -> None:
        self._connection, self._terms, self._sees = connection, terms, sees

    def texts(self, lane: Lane, condition: Filter, want: int) -> list[Found]:
        """At most `want` texts of a lane with words of the query. If the query has few words, texts with all of them
        form their own tier."""
        table = TABLES[lane]
        few = len(self._terms) < LONG
        last = self._terms[-1]
        found = [self._with(table, term.phrases, condition) for term in self._terms]
        if last.prefix == last.match or not (few or not found[-1]):
            every = _ranked(found, lambda count: ALL if few and count == len(found) else SOME)
            return [one._replace(lane=lane) for one in every[:want]]
        begun = [*found[:-1], self._with(table, (*last.phrases, *last.begun), condition)]
        tiers = _ranked(begun, lambda count: BEGUN if few and count == len(found) else SOME)
        if found[-1]:  # the last word exists as typed: texts with only longer words match it only partly
            exact = _ranked(found, lambda count: ALL if count == len(found) else SOME)
            all_of_them = {one.uri for one in exact if one.tier == ALL}
            more = [one for one in tiers if one.tier == BEGUN and one.uri not in all_of_them]
            known = {one.uri for one in more}
            tiers = sorted([*more, *(one for one in exact if one.uri not in known)], key=_order)
        return [one._replace(lane=lane) for one in tiers[:want]]

    def files(self, condition: Filter, want: int) -> list[Found]:
        """Bare files: first those with all words in their path, then those with some words."""
        last = self._terms[-1]
        phrases = [*(term.phrases for term in self._terms[:-1]), (*last.phrases, *last.begun)]
        found = [self._with("file_text", each, condition) for each in phrases]
        return _ranked(found, lambda count: FILE if count == len(found) else FILE_SOME)[:want]

    def _with(self, table: str, phrases: Sequence[str], condition: Filter) -> _Scores:
        """The best score of each text for any of the phrases; the scores of a phrase are divided by its best score."""
        found: _Scores = {}
        for phrase in dict.fromkeys(phrases):
            scores = self._of(table, phrase, condition)
            best = max((score for score, _ in scores.values()), default=0.0)
            for uri, (score, id) in scores.items():
                part = round(score / best, RANK_DIGITS) if best > 0 else 1.0
                if part > found.get(uri, (-1.0, 0))[0]:
                    found[uri] = (part, id)
        return found

    def _of(self, table: str, phrase: str, condition: Filter) -> _Scores:
        details, weights = ("files", table) if table == "file_text" else ("docs", f"{table}, {TEXT_WEIGHTS}")
        rows = self._connection.execute(
            # `JOIN` alone could look up the phrase once for each node of a requested type.
            f"SELECT {details}.uri, bm25({weights}), {details}.id FROM {table}"
            f" CROSS JOIN {details} ON {details}.id = {table}.rowid WHERE {table} MATCH ? {condition.sql}",
            (phrase, *condition.values),
        )
        found: _Scores = {}
        for uri, rank, id in rows:
            if self._sees(uri) and -rank >= found.get(uri, (0.0, 0))[0]:
                found[uri] = (-rank, id)
        return found


def _ranked(found: Sequence[_Scores], tier: Callable[[int], int]) -> list[Found]:
    """`tier` maps the number of words that a text has to its tier."""
    most = 2 * max((len(scores) for scores in found), default=0)
    weights = [math.log(1 + most / (len(scores) + 0.5)) for scores in found]
    ids = {uri: id for scores in found for uri, (_, id) in scores.items()}
    out = []
    for uri, id in ids.items():
        has = [w * (1 + scores[uri][0]) for w, scores in zip(weights, found, strict=True) if uri in scores]
        out.append(Found(-round(sum(has), RANK_DIGITS), uri, id, tier(len(has))))
    return sorted(out, key=_order)


def _order(found: Found) -> tuple[int, float, Uri]:
    return -found.tier, found.rank, found.uri
