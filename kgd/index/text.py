"""Full-text index of one workspace: nodes, and the paths of bare files.

SQLite's FTS5 finds and scores; `kgd.index.ranking` orders the answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Unpack

import orjson

from kgd.index import change_feed, exact_names, ranking, snippets, text_context, words
from kgd.index.database import Database, placeholders
from kgd.index.ranking import (
    FILE,
    SCORE_DIGITS,
    SOME,
    TEXT_WEIGHTS,
    Filter,
    Filters,
    Found,
    Frequencies,
    Hit,
    Search,
    doc_filter,
    explain,
    file_filter,
    lowered,
)
from kgd.index.restricted_search import InSight, Sees
from kgd.model.dates import Validity
from kgd.model.lane import KNOWLEDGE, LANES, Lane, lane_of
from kgd.model.node import Source, default_type
from kgd.model.uri import CODE_TREE, Uri, is_owned

FEW = 1_000
"""Largest number of documents of a word that is looked up separately."""
MOST_FEW = 50_000
"""Nodes that pass a filter for them to be listed."""
MAX_KEY = 500
"""Characters of a key, an address or an id in a node's data that are compared."""
MOST_DOUBTED = 200
"""Doubted hits that make room for others in one answer."""


class Doc(NamedTuple):
    """A node as the index stores it. `data_text` is the searchable part of its data; `updated` is in Unix seconds.

    `dated` is the time of a message, by default `updated`; `valid` is the period in which a fact holds, None if it
    always does. `origin` is the file of the code tree that it was read from, None for stored nodes. `people` are its
    speakers; `data_keys` are the top-level keys of its data, and the addresses and ids in it. A `bare` node has no text
    of its own, so words do not find it.
    """

    uri: Uri
    type: str
    name: str
    summary: str = ""
    content: str = ""
    tags: tuple[str, ...] = ()
    data_text: str = ""
    updated: int = 0
    source: Source | None = None
    origin: Uri | None = None
    people: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    data_keys: tuple[str, ...] = ()
    bare: bool = False
    dated: int | None = None
    valid: Validity | None = None

    @property
    def lane(self) -> Lane:
        return Lane.NONE if self.bare else lane_of(self.uri, self.origin or "")


class FileDoc(NamedTuple):
    """A file or directory of the code tree, found by its path. `kind` is a label such as ``python``."""

    uri: Uri
    path: str
    kind: str


class Gathered(NamedTuple):
    """Answer of one lane to a query.

    `wholes` are documents by path, with their scores; `beside` are messages that have the words together with their
    neighbours. `covered` is the share of the query's words that each text has, by number; `known` are the words that
    any text of the lane has, folded.
    """

    texts: list[Found]
    wholes: dict[str, float]
    beside: list[Found]
    covered: dict[int, float]
    known: frozenset[str]


class TextIndex:
    """Any thread may search; the database serialises writes.

    A write becomes visible as a whole when it returns; after an error nothing of it is. Any text is a valid query.
    Answers depend on the content of the index, not on the order of writes. With `sees`, nodes that it refuses do not
    influence the answer in any way.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._frequencies = {lane: Frequencies(lane) for lane in LANES}

    # Writing

    def tree(self) -> str | None:
        """The root tree (hex) that the index reflects; None if it was never set."""
        return self._database.meta("tree")

    def set_tree(self, tree: str) -> None:
        self._database.set_meta("tree", tree)

    def apply(self, upserts: Iterable[Doc], removals: Iterable[Uri] = (), *, tree: str | None = None) -> None:
        """Add or replace documents and remove others, in one transaction. Unknown removals are ignored.

        About 0.1 ms a document.

        Raises:
            IndexDamaged: The file is unsound.
            Unavailable: It is locked by another process, or the disk is full.
        """
        changed: list[Uri] = []
        with self._database.write() as connection:
            for uri in removals:
                changed.append(uri)
                self._forget(connection, uri)
            for doc in upserts:
                changed.append(doc.uri)
                self._store(connection, doc)
            text_context.renew(connection, changed)
            if tree is not None:
                self.set_tree(tree)
        self._outdate(len(changed))

    def apply_files(self, upserts: Iterable[FileDoc], removals: Iterable[Uri] = ()) -> None:
        """Add, replace and remove bare files, like `apply`."""
        with self._database.write() as connection:
            for uri in removals:
                self._forget_file(connection, uri)
            for file in upserts:
                self._forget_file(connection, file.uri)
                name = words.clean(file.path.rpartition("/")[2])  # a file system has names that are not valid text
                row = (file.uri, default_type(file.uri), file.kind, _path(file.uri), name)
                id = connection.execute(
                    "INSERT INTO files (uri, type, kind, path, name) VALUES (?, ?, ?, ?, ?)", row
                ).lastrowid
                path = words.clean(file.path)
                connection.execute(
                    "INSERT INTO file_text (rowid, path, parts) VALUES (?, ?, ?)",
                    (id, path, f"{words.parts_text([path])} {words.grams_text((path, 1))}"),
                )

    def apply_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Replace all documents that were read from one file of the code tree.

        An unchanged document keeps its number, so that followers of the feed do not read or embed it again.
        """
        with self._database.write() as connection:
            rows = connection.execute(
                "SELECT docs.id, docs.uri, docs.type, docs.updated, text.name, text.tags, text.summary, text.content,"
                " text.data FROM docs JOIN text ON text.id = docs.id WHERE origin = ? AND origin <> ''",
                (file,),
            )
            known = {uri: (id, shape) for id, uri, *shape in rows}
            wanted = {doc.uri: doc._replace(origin=file) for doc in docs}
            same = {uri for uri, doc in wanted.items() if uri in known and known[uri][1] == _shape(doc)}
            for uri, (id, _) in known.items():
                if uri not in same:
                    self._drop(connection, id)
            for uri, doc in wanted.items():
                if uri not in same:
                    self._store(connection, doc)
            touched = {*known, *wanted} - same
            text_context.renew(connection, touched)
        self._outdate(len(touched))

    def _outdate(self, changed: int) -> None:
        for frequencies in self._frequencies.values():
            frequencies.outdate(changed)

    def tree_origins(self) -> set[Uri]:
        """The files of the code tree that documents were read from. O(those documents)."""
        return set(self._database.column("SELECT DISTINCT origin FROM docs WHERE origin <> ''"))

    def file_uris(self) -> set[Uri]:
        """The bare files and directories. O(files)."""
        return set(self._database.column("SELECT uri FROM files"))

    def optimize(self) -> None:
        """Merge the segments of many writes; seconds for 100k documents. For a quiet moment after a bulk load."""
        with self._database.write() as connection:
            for table in (*ranking.TABLES.values(), "whole_text", "beside", "file_text"):
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")

    def _store(self, connection: sqlite3.Connection, doc: Doc) -> None:
        self._forget(connection, doc.uri, doc.origin)
        name, summary, content, data = (words.clean(t) for t in (doc.name, doc.summary, doc.content, doc.data_text))
        path = _path(doc.uri)
        tags_text = " ".join(doc.tags)
        weighted = ((path, 1), (name, 3), (tags_text, 2), (summary, 2), (content, 1), (data, 1))
        parts = f"{path} {words.parts_text((path, name, summary, content, data))} {words.grams_text(*weighted)}"
        id = connection.execute(
            "INSERT INTO docs (uri, origin, type, path, updated, dated, source_type, source_id, aliases, lane)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                doc.uri,
                doc.origin or "",
                doc.type,
                path,
                doc.updated,
                doc.updated if doc.dated is None else doc.dated,
                *((doc.source.type, doc.source.id) if doc.source else (None, None)),
                "\n".join(doc.aliases),
                doc.lane,
            ),
        ).lastrowid
        assert id is not None
        row = (id, name, tags_text, summary, content, data, parts)
        connection.execute(
            "INSERT INTO text (id, name, tags, summary, content, data, parts) VALUES (?, ?, ?, ?, ?, ?, ?)", row
        )
        if table := ranking.TABLES.get(doc.lane):
            connection.execute(
                f"INSERT INTO {table} (rowid, name, tags, summary, content, data, parts) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        exact_names.note(connection, id, doc.uri, name, doc.aliases)
        keys = [(words.clean(key[:MAX_KEY]), id) for key in doc.data_keys]
        connection.executemany("INSERT OR IGNORE INTO data_keys (key, doc) VALUES (?, ?)", keys)
        text_context.note_people(connection, id, doc.people or text_context.speakers(content))
        if doc.valid is not None:
            connection.execute("INSERT INTO validity (doc, begin, until) VALUES (?, ?, ?)", (id, *doc.valid))
        tags = {tag.casefold() for tag in doc.tags}
        connection.executemany("INSERT INTO tags (tag, doc) VALUES (?, ?)", [(tag, id) for tag in tags])

    def _forget(self, connection: sqlite3.Connection, uri: Uri, origin: Uri | None = None) -> None:
        row = connection.execute("SELECT id FROM docs WHERE uri = ? AND origin = ?", (uri, origin or "")).fetchone()
        if row:
            self._drop(connection, row[0])

    def _drop(self, connection: sqlite3.Connection, id: int) -> None:
        [lane] = connection.execute("SELECT lane FROM docs WHERE id = ?", (id,)).fetchone()
        if table := ranking.TABLES.get(lane):
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (id,))  # reads the row of `text`
        for table, column in (
            ("text", "id"),
            ("tags", "doc"),
            ("names", "doc"),
            ("data_keys", "doc"),
            ("people", "doc"),
            ("validity", "doc"),
            ("beside", "rowid"),
            ("docs", "id"),
        ):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (id,))
        change_feed.note_gone(connection, id)

    def _forget_file(self, connection: sqlite3.Connection, uri: Uri) -> None:
        row = connection.execute("SELECT id FROM files WHERE uri = ?", (uri,)).fetchone()
        if row:
            connection.execute("DELETE FROM file_text WHERE rowid = ?", row)
            connection.execute("DELETE FROM files WHERE id = ?", row)

    # Searching

    def count(self) -> int:
        """Number of stored documents, without those read from the code tree. O(documents)."""
        [count] = self._database.column("SELECT count(*) FROM docs WHERE origin = ''")
        return int(count)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        offset: int = 0,
        doubted: Collection[Uri] = (),
        sees: Sees | None = None,
        files: bool = True,
        **filters: Unpack[Filters],
    ) -> list[Hit]:
        """The best hits: nodes with all words, then with some, then bare `files`. Ties are in the order of URIs.

        Within a tier, notes come before sources, and sources before code. The last word may be unfinished. A query
        without letters or digits finds nothing. `doubted` nodes lose part of their score.
        """
        terms = words.terms(query)
        want = offset + max(0, limit)
        if not terms or not want:
            return []
        lanes = sorted(filters.get("lanes") or LANES)
        with self._database.read() as connection:
            # More than wanted, as doubted hits may fall behind others: a page must not depend on the pages before it.
            most = want + min(len(doubted), MOST_DOUBTED)
            condition = doc_filter(**filters)
            found = {lane: self._of_lane(connection, lane, terms, condition, most, sees) for lane in lanes}
            once: dict[Uri, Found] = {}  # a chunk may be indexed twice: as a stored node, and as read from its file
            for one in sorted((one for lane in lanes for one in found[lane]), key=lambda one: -one.tier):
                once.setdefault(one.uri, one)
            first = list(once.values())[:most]
            if files and Lane.CODE in lanes and not filters.get("tags") and len(first) < most:
                bare = file_filter(types=filters.get("types"), namespace=filters.get("namespace", ""))
                first += self._bare(connection, terms, bare, most - len(first), sees)
            return explain(connection, terms, lowered(first, doubted)[offset:want])

    def _of_lane(
        self,
        connection: sqlite3.Connection,
        lane: Lane,
        terms: list[words.Term],
        condition: Filter,
        want: int,
        sees: Sees | None,
    ) -> list[Found]:
        if sees is not None:
            return InSight(connection, terms, sees).texts(lane, condition, want)
        return Search(connection, lane, self._frequencies[lane], terms, want).run(condition)

    def gather(
        self,
        query: str,
        lane: Lane,
        *,
        limit: int = 1_000,
        surrounded: bool = True,
        sees: Sees | None = None,
        **filters: Unpack[Filters],
    ) -> Gathered:
        """Documents of one lane with words of the query, for `kgd.retrieval` to rank with other evidence.

        In a large lane, documents with only common words are left out. Bare files are never included; messages matched
        together with their neighbours are included if `surrounded`.
        """
        terms = words.terms(query)
        if not terms:
            return Gathered([], {}, [], {}, frozenset())
        with self._database.read() as connection:
            condition = doc_filter(**filters)
            search = Search(connection, lane, self._frequencies[lane], terms, limit)
            if sees is not None:
                found = InSight(connection, terms, sees).texts(lane, condition, limit)
                asked = frozenset(term.word.casefold() for term in terms)
                return Gathered(found, {}, [], {one.id: 1.0 for one in found}, asked)
            found = search.gather(condition)
            wholes = search.wholes(filters.get("namespace", "").strip("/"), limit) if lane is not Lane.NOTES else {}
            beside = search.beside(condition) if surrounded and lane is Lane.SOURCES else []
            return Gathered(found, wholes, beside, *search.covered(found))

    def called(self, name: str, sees: Sees, **filters: Unpack[Filters]) -> list[tuple[Found, bool]]:
        """The nodes of this name in any case style that `sees` accepts, and whether each is spelled the same.

        See `exact_names`. O(nodes of this name).
        """
        with self._database.read() as connection:
            found = exact_names.find(connection, name, sorted(filters.get("lanes") or LANES), sees)
        return [(one, found[one.uri]) for one in self.passing(found, **filters)]

    def files_called(self, name: str, sees: Sees) -> list[Uri]:
        """Bare files of this name, path or dotted module name that `sees` accepts."""
        with self._database.read() as connection:
            return exact_names.find_files(connection, name, sees)

    def bare_files(
        self,
        query: str,
        *,
        limit: int = 10,
        sees: Sees | None = None,
        **filters: Unpack[Filters],
    ) -> list[Found]:
        """Files and directories whose path has words of the query, the best first; all words before some."""
        terms = words.terms(query)
        if not terms or limit <= 0:
            return []
        with self._database.read() as connection:
            return self._bare(connection, terms, file_filter(**filters), limit, sees)

    def _bare(
        self, connection: sqlite3.Connection, terms: list[words.Term], condition: Filter, want: int, sees: Sees | None
    ) -> list[Found]:
        if sees is not None:
            return [one._replace(tier=FILE) for one in InSight(connection, terms, sees).files(condition, want)]
        return Search(connection, Lane.CODE, self._frequencies[Lane.CODE], terms, want).bare(condition, want)

    def explain(self, query: str, page: Sequence[Found]) -> list[Hit]:
        """Snippet and reason for each hit; both are empty if it has none of the words."""
        terms = words.terms(query)
        if not terms:
            return [Hit(found.uri, 0.0, "", ()) for found in page]
        with self._database.read() as connection:
            return explain(connection, terms, page)

    def size(self) -> int:
        """Approximate number of texts in all lanes."""
        with self._database.read() as connection:
            return sum(frequencies.documents(connection) for frequencies in self._frequencies.values())

    def notes(self) -> int:
        """Approximate number of notes."""
        with self._database.read() as connection:
            return self._frequencies[Lane.NOTES].documents(connection)

    def people(self, names: Collection[str]) -> list[str]:
        """The words among these, folded, that are part of a speaker's name."""
        with self._database.read() as connection:
            return text_context.people_among(connection, names)

    def by_people(self, names: Sequence[str], ids: Collection[int]) -> set[int]:
        """Of these texts (`Found.id`), those in which a person of one of these names (one word each) speaks."""
        with self._database.read() as connection:
            return text_context.by_people(connection, names, ids) if names and ids else set()

    def dates_of(self, ids: Collection[int]) -> dict[int, int]:
        """The dates of these texts (`Found.id`) in Unix seconds; texts without a date are left out."""
        sql = "SELECT docs.id, dated FROM json_each(?) AS asked JOIN docs ON docs.id = asked.value WHERE dated > 0"
        return dict(self._database.rows(sql, orjson.dumps(list(ids)).decode()))

    def validity_of(self, uris: Collection[Uri]) -> dict[Uri, Validity]:
        """The periods in which these nodes hold; nodes that always hold are left out."""
        rows = self._database.rows(
            "SELECT docs.uri, begin, until FROM json_each(?) AS asked JOIN docs ON docs.uri = asked.value"
            " JOIN validity ON validity.doc = docs.id",
            orjson.dumps(list(uris)).decode(),
        )
        return {Uri(uri): Validity(begin, until) for uri, begin, until in rows}

    def passing(self, uris: Collection[Uri], **filters: Unpack[Filters]) -> list[Found]:
        """Of these nodes, those in the index that pass the filters, in order of URI."""
        condition = doc_filter(**filters)
        rows = self._database.rows(
            "SELECT docs.uri, docs.id, docs.lane FROM json_each(?) AS asked JOIN docs ON docs.uri = asked.value"
            f" WHERE 1 {condition.sql} ORDER BY docs.uri, docs.origin",
            orjson.dumps(list(uris)).decode(),
            *condition.values,
        )
        once = {uri: Found(0.0, uri, id, SOME, lane=Lane(lane)) for uri, id, lane in reversed(rows)}
        return [once[uri] for uri in sorted(once)]

    def few_in(self, **filters: Unpack[Filters]) -> list[Uri] | None:
        """The nodes that pass the filters, or None if that is more than a third of all. O(answer)."""
        condition = doc_filter(**filters)
        with self._database.read() as connection:
            all = sum(frequencies.documents(connection) for frequencies in self._frequencies.values())
            most = max(FEW, min(MOST_FEW, all // 3))
            rows = connection.execute(
                f"SELECT DISTINCT docs.uri FROM docs WHERE 1 {condition.sql} LIMIT ?", (*condition.values, most + 1)
            ).fetchall()
        return [uri for (uri,) in rows] if len(rows) <= most else None

    def named_like(self, name: str, limit: int) -> list[Uri]:
        """Documents whose name has rare words of this one; if it has no rare words, all of its words. Best first.

        A hint beside every write, so common words are left out: looking them up is the cost.
        """
        asked = [term.match for term in words.terms(name)]
        if not asked:
            return []
        with self._database.read() as connection:
            found: list[Uri] = []
            for lane in KNOWLEDGE:
                frequencies, table = self._frequencies[lane], ranking.TABLES[lane]
                rare = [match for match in asked if frequencies.of(connection, match) <= FEW]
                match = " OR ".join(rare) or " AND ".join(asked)
                rows = connection.execute(
                    f"SELECT docs.uri, bm25({table}, {TEXT_WEIGHTS}) AS score FROM {table}"
                    f" JOIN docs ON docs.id = {table}.rowid WHERE {table} MATCH ? ORDER BY score, docs.uri LIMIT ?",
                    (f"name : ({match})", limit),
                )
                found += [uri for uri, _ in rows]
            return found[:limit]

    def texts(self, scheme: str) -> list[tuple[Uri, str, str, str]]:
        """URI, type, name and data texts of all nodes of an owned scheme, as indexed. O(nodes)."""
        return self._database.rows(
            "SELECT docs.uri, docs.type, text.name, text.data FROM docs JOIN text ON text.id = docs.id"
            " WHERE docs.uri >= ? AND docs.uri < ?",
            f"{scheme}://",
            f"{scheme}:0",  # `0` is the character after `/`
        )

    def newest(self, type: str, limit: int) -> list[Uri]:
        """Nodes of one type, last changed first, then by URI. O(limit)."""
        return self._database.column(
            "SELECT uri FROM docs WHERE type = ? ORDER BY updated DESC, uri LIMIT ?", type, limit
        )

    def types(self) -> list[str]:
        """The types of all nodes, and `file` and `dir` if the code tree has any; by name. O(types)."""
        types = set(
            self._database.column(
                "WITH RECURSIVE one(type) AS (SELECT min(type) FROM docs UNION ALL"
                " SELECT (SELECT min(docs.type) FROM docs WHERE docs.type > one.type) FROM one WHERE type NOT NULL)"
                " SELECT type FROM one WHERE type NOT NULL"
            )
        )
        return sorted(types | set(CODE_TREE) if self._database.row("SELECT 1 FROM files LIMIT 1") else types)

    def has_type(self, type: str) -> bool:
        """Whether any node passes the filter of this type; the kind of a bare file counts as one. O(files)."""
        return any(
            self._database.row(f"SELECT 1 FROM {table} WHERE 1 {asked.sql} LIMIT 1", *asked.values)
            for table, asked in (("docs", doc_filter(types=[type])), ("files", file_filter(types=[type])))
        )

    def by_source(self, type: str, id: str | None = None) -> list[Uri]:
        """Nodes from a source, or from any source of its type, by URI. O(answer)."""
        of_id, values = ("", (type,)) if id is None else (" AND source_id = ?", (type, id))
        return self._database.column(f"SELECT uri FROM docs WHERE source_type = ?{of_id} ORDER BY uri", *values)

    def between(self, begin: str, end: str, limit: int, *, backward: bool = False) -> list[Uri]:
        """At most `limit` nodes with `begin` < URI < `end`. O(answer).

        By URI, or with `backward` in descending order. Names of messages sort by time.
        """
        order = "DESC" if backward else "ASC"
        sql = f"SELECT uri FROM docs WHERE uri > ? AND uri < ? ORDER BY uri {order} LIMIT ?"
        return [Uri(uri) for uri in self._database.column(sql, begin, end, max(0, limit))]

    def with_data_keys(self, keys: Collection[str]) -> set[Uri]:
        """Nodes whose data has one of these top-level keys, addresses or ids. O(answer)."""
        sql = f"SELECT uri FROM data_keys JOIN docs ON docs.id = doc WHERE key IN ({placeholders(keys)})"
        return {Uri(uri) for uri in self._database.column(sql, *sorted(key[:MAX_KEY] for key in keys))}

    def by_tags(
        self,
        tags: Collection[str],
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        since: int | None = None,
        until: int | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Hit]:
        """Nodes with any of the tags: most matches first, then the newest, then by URI."""
        asked = sorted({tag.casefold() for tag in tags})
        if not asked:
            return []
        condition = doc_filter(types=types, namespace=namespace, since=since, until=until)
        rows = self._database.rows(
            "SELECT uri, matches, matched, text.summary FROM ("
            "SELECT docs.id, docs.uri, docs.updated, count(*) AS matches, group_concat(tags.tag, ', ') AS matched"
            f" FROM tags JOIN docs ON docs.id = tags.doc WHERE tags.tag IN ({placeholders(asked)}) {condition.sql}"
            " GROUP BY docs.id ORDER BY matches DESC, docs.updated DESC, docs.uri LIMIT ? OFFSET ?"
            ") AS best JOIN text ON text.id = best.id ORDER BY matches DESC, best.updated DESC, best.uri",
            *asked,
            *condition.values,
            limit,
            offset,
        )
        return [
            Hit(uri, round(matches / len(asked), SCORE_DIGITS), snippets.one_line(summary), (f"tags: {matched}",))
            for uri, matches, matched, summary in rows
        ]


def _shape(doc: Doc) -> list[str | int]:
    """The stored fields of a document, in the order of `apply_tree`'s columns."""
    name, summary, content, data = (words.clean(text) for text in (doc.name, doc.summary, doc.content, doc.data_text))
    return [doc.type, doc.updated, name, " ".join(doc.tags), summary, content, data]


def _path(uri: Uri) -> str:
    return uri.split("/", 3)[3] if is_owned(uri) else ""
