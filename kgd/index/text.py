"""Full-text index of one workspace: nodes, and the paths of bare files.

SQLite's FTS5 finds and scores; `kgd.index.ranking` orders the answers.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Unpack

import orjson

from kgd.index import change_feed, doc_texts, exact_names, ranking, snippets, words
from kgd.index.database import DOCS_BY_URI, Database, placeholders
from kgd.index.doc_texts import STORED_SCHEMES, Read, Text, Texts, checksum_of, path_of
from kgd.index.exact_names import KEY, TAG, label
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
    InSight,
    Search,
    Sees,
    doc_filter,
    explain,
    file_filter,
)
from kgd.index.words import Term
from kgd.model.dates import Validity
from kgd.model.node import Source, default_type
from kgd.model.uri import CODE_TREE, KNOWLEDGE, LANES, Lane, Uri, lane_of

FILE_NAME = "index.sqlite"
PIECES_OF = "entity://"
"""The scheme of nodes that are also found by any part of their texts."""
LEAST_PIECE, LONGEST_PIECE = 3, 1_000
"""Minimum number of characters that the index of pieces can find, and maximum number that it compares."""
LONGEST_JOINED = 8
"""Maximum number of words of a name for which identifiers of the same words are looked up."""
FEW = 1_000
"""Maximum number of documents with a word for it to be looked up separately."""
MOST_FEW = 50_000
"""Maximum number of nodes that pass a filter for `few_in` to list them."""
MAX_KEY = 500
"""Maximum number of characters to compare of a key, an address or an id in a node's data."""
_COLUMNS = "name, tags, summary, content, data, parts"


class Doc(NamedTuple):
    """A node as the index stores it. `data_text` is the searchable part of its data; `updated` is in Unix seconds.

    `dated` is the time of a message, by default `updated`; `valid` is the period in which a fact holds, None if it
    always does. `origin` is the file of the code tree from which the text was read, None for stored nodes. `people` are
    its speakers; `data_keys` are the top-level keys of its data, and the addresses and ids in it. A `bare` node has no
    text, so it is not found by words. With a `blob`, its texts are those that `Read` returns, and are not stored.
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
    blob: bytes = b""

    @property
    def text(self) -> Text:
        return Text.of(self.name, self.tags, self.summary, self.content, self.data_text)

    @property
    def lane(self) -> Lane:
        return Lane.NONE if self.bare else lane_of(self.uri, self.origin or "")


class FileDoc(NamedTuple):
    """A file or directory of the code tree, found by its path. `kind` is a label such as ``python``."""

    uri: Uri
    path: str
    kind: str


class Gathered(NamedTuple):
    """The answer of one lane to a query.

    `wholes` are documents by path, with their scores; `beside` are messages that have the words together with their
    neighbours. `covered` is the share of the query's words that each text has, by number; `known` are the words that
    any text of the lane has, folded; `weak` are the texts that have only weak words of a query with others.
    """

    texts: list[Found]
    wholes: dict[str, float]
    beside: list[Found]
    covered: dict[int, float]
    known: frozenset[str]
    weak: frozenset[int] = frozenset()


class TextIndex:
    """The full-text index of one workspace. Any thread may search; the database serialises writes.

    A write becomes visible as a whole when it returns; after an error, no part of it is visible. Any string is a valid
    query. Answers depend on the content of the index, not on the order of writes. With `sees`, nodes that `sees`
    refuses do not influence the answer in any way.

    Args:
        read: Reads the text of a node from its blob; not needed if no document has a blob.
    """

    def __init__(self, database: Database, read: Read | None = None) -> None:
        self._database, self._texts = database, Texts(read)
        self._frequencies = {lane: Frequencies(lane) for lane in LANES}

    # Writing

    def tree(self) -> str | None:
        """The root tree (in hex) that the index reflects; None if it was never set."""
        return self._database.meta("tree")

    def set_tree(self, tree: str) -> None:
        self._database.set_meta("tree", tree)

    def apply(self, upserts: Iterable[Doc], removals: Iterable[Uri] = (), *, tree: str | None = None) -> None:
        """Add or replace documents and remove others, in one transaction. Unknown removals are ignored.

        Takes about 0.1 ms per document.

        Raises:
            IndexDamaged: The file is damaged.
            Unavailable: The file is locked by another process, or the disk is full.
        """
        changed: list[Uri] = []
        with self._database.write() as connection:
            for uri in removals:
                changed.append(uri)
                self._forget(connection, uri)
            for doc in upserts:
                changed.append(doc.uri)
                self._store(connection, doc)
            doc_texts.renew(connection, changed)
            if tree is not None:
                self.set_tree(tree)
        self.outdate(len(changed))

    def apply_files(self, upserts: Iterable[FileDoc], removals: Iterable[Uri] = ()) -> None:
        """Add, replace and remove bare files, like `apply`."""
        with self._database.write() as connection:
            for uri in removals:
                self._forget_file(connection, uri)
            for file in upserts:
                self._forget_file(connection, file.uri)
                name = words.clean(file.path.rpartition("/")[2])  # names in a file system may not be valid text
                row = (file.uri, default_type(file.uri), file.kind, path_of(file.uri), name)
                id = connection.execute(
                    "INSERT INTO files (uri, type, kind, path, name) VALUES (?, ?, ?, ?, ?)", row
                ).lastrowid
                path = words.clean(file.path)
                connection.execute(
                    "INSERT INTO file_text (rowid, path, parts) VALUES (?, ?, ?)",
                    (id, path, f"{words.parts_text([path])} {words.grams_text((path, 1))}"),
                )

    def apply_trees(self, trees: Mapping[Uri, Sequence[Doc]]) -> None:
        """Replace all documents that were read from files of the code tree, in one transaction.

        An unchanged document keeps its number, so that followers of the feed do not read or embed it again.
        """
        touched = set[Uri]()
        with self._database.write() as connection:
            for file, docs in trees.items():
                touched |= self._apply_tree(connection, file, docs)
            doc_texts.renew(connection, touched)
        self.outdate(len(touched))

    def _apply_tree(self, connection: sqlite3.Connection, file: Uri, docs: Sequence[Doc]) -> set[Uri]:
        """Replace the documents of one file, and return the old and new documents that differ."""
        rows = connection.execute(
            "SELECT docs.id, docs.uri, docs.type, docs.updated, docs.name, tags, summary, content, data"
            " FROM docs JOIN text ON text.id = docs.id WHERE origin = ? AND origin <> ''",
            (file,),
        )
        known = {uri: (id, shape) for id, uri, *shape in rows}
        wanted = {doc.uri: doc._replace(origin=file) for doc in docs}
        same = {
            uri for uri, doc in wanted.items() if uri in known and known[uri][1] == [doc.type, doc.updated, *doc.text]
        }
        for uri, (id, _) in known.items():
            if uri not in same:
                self._drop(connection, id)
        for uri, doc in wanted.items():
            if uri not in same:
                self._store(connection, doc)
        return {*known, *wanted} - same

    def outdate(self, changed: int) -> None:
        """Note changed documents, including those changed by another process. After many changes, the counts of words
        are read again."""
        for frequencies in self._frequencies.values():
            frequencies.outdate(changed)

    def tree_origins(self) -> set[Uri]:
        """The files in the code tree from which documents were read. Takes time linear in their number."""
        return set(self._database.column("SELECT DISTINCT origin FROM docs WHERE origin <> ''"))

    def file_uris(self) -> set[Uri]:
        """The bare files and directories. O(files)."""
        return set(self._database.column("SELECT uri FROM files"))

    def _store(self, connection: sqlite3.Connection, doc: Doc) -> None:
        self._forget(connection, doc.uri, doc.origin)
        text, path = doc.text, path_of(doc.uri)
        own = exact_names.labels_of(doc.uri, text.name, doc.aliases)
        own |= {label(TAG, tag.casefold()) for tag in doc.tags}
        own |= {label(KEY, words.clean(key[:MAX_KEY])) for key in doc.data_keys}
        columns = text.columns(doc.uri)
        blob = b"" if doc.origin or doc.uri.startswith(STORED_SCHEMES) else doc.blob
        id = connection.execute(
            "INSERT INTO docs (uri, origin, type, name, path_at, updated, dated, source_type, source_id, aliases, lane,"
            " blob, checksum, labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                doc.uri,
                doc.origin or "",
                doc.type,
                text.name,
                len(doc.uri) - len(path) + 1,
                doc.updated,
                doc.updated if doc.dated is None else doc.dated,
                *((doc.source.type, doc.source.id) if doc.source else (None, None)),
                "\n".join(doc.aliases),
                doc.lane,
                blob,
                checksum_of(columns),
                array("q", sorted(own)).tobytes(),
            ),
        ).lastrowid
        assert id is not None
        if not blob:
            connection.execute("INSERT INTO text VALUES (?, ?, ?, ?, ?)", (id, *text[1:]))
        if table := ranking.TABLES.get(doc.lane):
            connection.execute(f"INSERT INTO {table} (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", (id, *columns))
        if doc.uri.startswith(PIECES_OF):
            connection.execute("INSERT INTO pieces (rowid, texts) VALUES (?, ?)", (id, _pieces(doc.type, text)))
        connection.executemany("INSERT INTO labels VALUES (?, ?)", [(one, id) for one in sorted(own)])
        doc_texts.note_people(connection, id, doc.people or doc_texts.speakers(text.content))
        if doc.valid is not None:
            connection.execute("INSERT INTO validity (doc, begin, until) VALUES (?, ?, ?)", (id, *doc.valid))

    def _forget(self, connection: sqlite3.Connection, uri: Uri, origin: Uri | None = None) -> None:
        row = connection.execute("SELECT id FROM docs WHERE uri = ? AND origin = ?", (uri, origin or "")).fetchone()
        if row:
            self._drop(connection, row[0])

    def _drop(self, connection: sqlite3.Connection, id: int) -> None:
        lane, own = connection.execute("SELECT lane, labels FROM docs WHERE id = ?", (id,)).fetchone()
        connection.executemany("DELETE FROM labels WHERE label = ? AND doc = ?", [(one, id) for one in array("q", own)])
        if table := ranking.TABLES.get(lane):
            connection.execute(
                f"INSERT INTO {table} ({table}, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)",
                (id, *self._texts.indexed(connection, id)),
            )
        for table, column in (
            ("text", "id"),
            ("pieces", "rowid"),
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
        """The number of documents, except those read from the code tree. O(documents)."""
        [count] = self._database.column("SELECT count(*) FROM docs WHERE origin = ''")
        return int(count)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        sees: Sees | None = None,
        files: bool = True,
        **filters: Unpack[Filters],
    ) -> list[Hit]:
        """The best hits: nodes with all words, then nodes with some words, then bare `files`. Ties are ordered by URI.

        Within a tier, notes come before sources, and sources before code. The last word may be unfinished. A query
        without letters or digits finds nothing.
        """
        terms = words.terms(query)
        if not terms or limit <= 0:
            return []
        lanes = sorted(filters.get("lanes") or LANES)
        with self._database.read() as connection:
            condition = _in_lane(filters)
            found = {lane: self._of_lane(connection, lane, terms, condition, limit, sees) for lane in lanes}
            once: dict[Uri, Found] = {}  # a chunk may be indexed twice: as a stored node, and as read from its file
            for one in sorted((one for lane in lanes for one in found[lane]), key=lambda one: -one.tier):
                once.setdefault(one.uri, one)
            first = list(once.values())[:limit]
            if files and Lane.CODE in lanes and not filters.get("tags") and len(first) < limit:
                bare = file_filter(types=filters.get("types"), namespace=filters.get("namespace", ""))
                first += self._bare(connection, terms, bare, limit - len(first), sees)
            return explain(connection, self._texts, terms, first)

    def _of_lane(
        self,
        connection: sqlite3.Connection,
        lane: Lane,
        terms: Sequence[Term],
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

        In a large lane, documents with only common words are left out. Bare files are never included. Messages that
        match together with their neighbours are included if `surrounded` is set.
        """
        terms = words.terms(query)
        if not terms:
            return Gathered([], {}, [], {}, frozenset())
        with self._database.read() as connection:
            condition = _in_lane(filters)
            search = Search(connection, lane, self._frequencies[lane], terms, limit)
            if not connection.execute("SELECT 1 FROM docs WHERE lane = ? LIMIT 1", (lane,)).fetchone():
                return Gathered([], {}, [], {}, frozenset())
            if sees is not None:
                found = InSight(connection, terms, sees).texts(lane, condition, limit)
                asked = frozenset(term.word.casefold() for term in terms)
                return Gathered(found, {}, [], {one.id: 1.0 for one in found}, asked)
            found = search.gather(condition)
            wholes = search.wholes(filters.get("namespace", "").strip("/"), limit) if lane is not Lane.NOTES else {}
            beside = search.beside(doc_filter(**filters)) if surrounded and lane is Lane.SOURCES else []
            return Gathered(found, wholes, beside, *search.covered(found))

    def called(self, name: str, sees: Sees, **filters: Unpack[Filters]) -> list[tuple[Found, bool]]:
        """The nodes with this name in any case style that `sees` accepts, and whether each is spelled exactly like it.

        See `exact_names`. O(nodes with this name).
        """
        with self._database.read() as connection:
            found = exact_names.find(connection, name, sorted(filters.get("lanes") or LANES), sees)
        return [(one, found[one.uri]) for one in self.passing(found, **filters)]

    def files_called(self, name: str, sees: Sees, *, stored: bool = False) -> list[Uri]:
        """Files and directories with this name or path; see `exact_names.find_files`."""
        with self._database.read() as connection:
            return exact_names.find_files(connection, name, sees, stored=stored)

    def bare_files(
        self, query: str, *, limit: int = 10, sees: Sees | None = None, **filters: Unpack[Filters]
    ) -> list[Found]:
        """Files and directories whose path has words of the query, best first; paths with all words come before the
        others."""
        terms = words.terms(query)
        if not terms or limit <= 0:
            return []
        with self._database.read() as connection:
            return self._bare(connection, terms, file_filter(**filters), limit, sees)

    def _bare(
        self, connection: sqlite3.Connection, terms: Sequence[Term], condition: Filter, want: int, sees: Sees | None
    ) -> list[Found]:
        if sees is not None:
            return [one._replace(tier=FILE) for one in InSight(connection, terms, sees).files(condition, want)]
        return Search(connection, Lane.CODE, self._frequencies[Lane.CODE], terms, want).bare(condition, want)

    def explain(self, query: str, page: Sequence[Found]) -> list[Hit]:
        """Snippet and reason for each hit; both are empty if the hit has none of the words."""
        terms = words.terms(query)
        if not terms:
            return [Hit(found.uri, 0.0, "", ()) for found in page]
        with self._database.read() as connection:
            return explain(connection, self._texts, terms, page)

    def size(self) -> int:
        """Approximate number of texts in all lanes."""
        with self._database.read() as connection:
            return sum(frequencies.documents(connection) for frequencies in self._frequencies.values())

    def notes(self) -> int:
        """Approximate number of notes."""
        with self._database.read() as connection:
            return self._frequencies[Lane.NOTES].documents(connection)

    def said(self, ids: Collection[int]) -> dict[int, tuple[str, str, str]]:
        """Name, summary and content of these documents."""
        with self._database.read() as connection:
            found = self._texts.of(connection, ids)
        return {id: (text.name, text.summary, text.content) for id, (_, text) in found.items()}

    def people(self, names: Collection[str]) -> list[str]:
        """The words among these, folded, that are part of a speaker's name."""
        with self._database.read() as connection:
            return doc_texts.people_among(connection, names)

    def by_people(self, names: Sequence[str], ids: Collection[int]) -> set[int]:
        """The texts among these (`Found.id`) in which a person with one of these names (one word each) speaks."""
        with self._database.read() as connection:
            return doc_texts.by_people(connection, names, ids) if names and ids else set()

    def dates_of(self, ids: Collection[int]) -> dict[int, int]:
        """The dates of these texts (`Found.id`) in Unix seconds; texts without a date are omitted."""
        sql = "SELECT docs.id, dated FROM json_each(?) AS asked JOIN docs ON docs.id = asked.value WHERE dated > 0"
        return dict(self._database.rows(sql, orjson.dumps(list(ids)).decode()))

    def updated_of(self, uris: Collection[Uri]) -> dict[Uri, int]:
        """The times of the last changes of these nodes in Unix seconds; nodes that are not in the index are omitted."""
        sql = (
            f"SELECT docs.uri, max(docs.updated) FROM json_each(?) AS asked JOIN docs INDEXED BY {DOCS_BY_URI}"
            " ON docs.uri = asked.value GROUP BY docs.uri"
        )
        return {Uri(uri): at for uri, at in self._database.rows(sql, orjson.dumps(list(uris)).decode())}

    def validity_of(self, uris: Iterable[Uri]) -> dict[Uri, Validity]:
        """The periods in which these nodes hold; nodes that always hold are omitted."""
        if not self._database.rows("SELECT 1 FROM validity LIMIT 1"):  # most workspaces have none
            return {}
        rows = self._database.rows(
            "SELECT docs.uri, begin, until FROM json_each(?) AS asked JOIN docs ON docs.uri = asked.value"
            " JOIN validity ON validity.doc = docs.id",
            orjson.dumps(list(uris)).decode(),
        )
        return {Uri(uri): Validity(begin, until) for uri, begin, until in rows}

    def passing(self, uris: Collection[Uri], **filters: Unpack[Filters]) -> list[Found]:
        """The nodes among these that are in the index and pass the filters, ordered by URI."""
        condition = doc_filter(**filters)
        rows = self._database.rows(
            # For a filter by lane or type, SQLite would otherwise visit the whole lane or type for every URI.
            "SELECT docs.uri, docs.id, docs.lane FROM json_each(?) AS asked"
            f" JOIN docs INDEXED BY {DOCS_BY_URI} ON docs.uri = asked.value"
            f" WHERE 1 {condition.sql} ORDER BY docs.uri, docs.origin",
            orjson.dumps(list(uris)).decode(),
            *condition.values,
        )
        once = {uri: Found(0.0, uri, id, SOME, lane=Lane(lane)) for uri, id, lane in reversed(rows)}
        return [once[uri] for uri in sorted(once)]

    def few_in(self, **filters: Unpack[Filters]) -> list[Uri] | None:
        """The nodes that pass the filters; None if they are more than a third of all nodes. O(answer)."""
        condition = doc_filter(**filters)
        with self._database.read() as connection:
            all = sum(frequencies.documents(connection) for frequencies in self._frequencies.values())
            most = max(FEW, min(MOST_FEW, all // 3))
            rows = connection.execute(
                f"SELECT DISTINCT docs.uri FROM docs WHERE 1 {condition.sql} LIMIT ?", (*condition.values, most + 1)
            ).fetchall()
        return [uri for (uri,) in rows] if len(rows) <= most else None

    def named_like(self, name: str, limit: int) -> list[Uri]:
        """Documents whose name has rare words of `name` or, if it has no rare words, all of its words. Best first; then
        documents with an identifier of these words, such as ``authService`` for "auth service".

        This is called for every write, only to give a hint, so common words are left out: they would be expensive to
        look up. A document may have the identifier only in its text.
        """
        terms = words.terms(name)
        if not terms:
            return []
        asked, said = [term.match for term in terms], words.name_words(" ".join(term.word for term in terms))
        with self._database.read() as connection:
            found, joined = list[Uri](), list[Uri]()
            for lane in KNOWLEDGE:
                frequencies = self._frequencies[lane]
                rare = [match for match in asked if frequencies.of(connection, match) <= FEW]
                match = " OR ".join(rare) or " AND ".join(asked)
                found += _matching(connection, lane, f"name : ({match})", limit)
                if rare and 1 < len(said) <= LONGEST_JOINED:
                    joined += _matching(connection, lane, 'parts : "{}"'.format(" ".join(said)), limit)
            return list(dict.fromkeys([*found[:limit], *joined[:limit]]))

    def containing(self, piece: str) -> list[Uri]:
        """The nodes of the scheme `PIECES_OF` whose name, type or data contains a piece of text, ignoring case.

        May include others. O(answer); for less than `LEAST_PIECE` characters, O(nodes of the scheme).
        """
        asked = words.clean(piece).lower()[:LONGEST_PIECE]
        if len(asked) >= LEAST_PIECE:
            sql = "SELECT docs.uri FROM pieces CROSS JOIN docs ON docs.id = pieces.rowid WHERE pieces MATCH ?"
            return [Uri(uri) for uri in self._database.column(sql, '"{}"'.format(asked.replace('"', '""')))]
        sql = (
            "SELECT docs.uri, texts FROM docs CROSS JOIN pieces ON pieces.rowid = docs.id"
            " WHERE docs.uri >= ? AND docs.uri < ?"
        )
        end = PIECES_OF.replace("/", "0", 1)  # `0` is the character after `/`
        return [Uri(uri) for uri, texts in self._database.rows(sql, PIECES_OF, end) if asked in texts]

    def newest(self, type: str, limit: int) -> list[Uri]:
        """Nodes of one type, most recently changed first, then by URI. O(limit)."""
        return self._database.column(
            "SELECT uri FROM docs WHERE type = ? ORDER BY updated DESC, uri LIMIT ?", type, limit
        )

    def types(self) -> list[str]:
        """The types of all nodes, sorted by name, including `file` and `dir` if the code tree has any. O(types)."""
        types = set(
            self._database.column(
                "WITH RECURSIVE one(type) AS (SELECT min(type) FROM docs UNION ALL"
                " SELECT (SELECT min(docs.type) FROM docs WHERE docs.type > one.type) FROM one WHERE type NOT NULL)"
                " SELECT type FROM one WHERE type NOT NULL"
            )
        )
        return sorted(types | set(CODE_TREE) if self._database.row("SELECT 1 FROM files LIMIT 1") else types)

    def has_type(self, type: str) -> bool:
        """Whether any node passes a filter for this type; the kind of a bare file can be used as a type. O(files)."""
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

        Sorted by URI, in descending order if `backward`. Names of messages sort by time.
        """
        order = "DESC" if backward else "ASC"
        sql = f"SELECT uri FROM docs WHERE uri > ? AND uri < ? ORDER BY uri {order} LIMIT ?"
        return [Uri(uri) for uri in self._database.column(sql, begin, end, max(0, limit))]

    def with_data_keys(self, keys: Collection[str]) -> set[Uri]:
        """Nodes whose data has one of these top-level keys, addresses or ids. O(answer)."""
        sql = f"SELECT uri FROM labels JOIN docs ON docs.id = doc WHERE label IN ({placeholders(keys)})"
        return {Uri(uri) for uri in self._database.column(sql, *(label(KEY, key[:MAX_KEY]) for key in keys))}

    def by_tags(
        self,
        tags: Collection[str],
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        since: int | None = None,
        until: int | None = None,
        limit: int = 10,
    ) -> list[Hit]:
        """Nodes with any of the tags: most matches first, then the newest, then by URI."""
        asked = {label(TAG, tag): tag for tag in sorted({tag.casefold() for tag in tags})}
        if not asked:
            return []
        condition = doc_filter(types=types, namespace=namespace, since=since, until=until)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT docs.id, docs.uri, count(*) AS matches, group_concat(labels.label)"
                f" FROM labels CROSS JOIN docs ON docs.id = labels.doc WHERE labels.label IN ({placeholders(asked)})"
                f" {condition.sql}"
                " GROUP BY docs.id ORDER BY matches DESC, docs.updated DESC, docs.uri LIMIT ?",
                (*asked, *condition.values, limit),
            ).fetchall()
            texts = self._texts.of(connection, [id for id, *_ in rows])
        return [
            Hit(
                uri,
                round(matches / len(asked), SCORE_DIGITS),
                snippets.one_line(texts[id][1].summary),
                (f"tags: {', '.join(sorted(asked[int(one)] for one in matched.split(',')))}",),
            )
            for id, uri, matches, matched in rows
        ]


def _matching(connection: sqlite3.Connection, lane: Lane, match: str, limit: int) -> list[Uri]:
    """The documents of a lane that an FTS5 query finds, best first."""
    table = ranking.TABLES[lane]
    rows = connection.execute(
        f"SELECT docs.uri, bm25({table}, {TEXT_WEIGHTS}) AS score FROM {table}"
        f" JOIN docs ON docs.id = {table}.rowid WHERE {table} MATCH ? ORDER BY score, docs.uri LIMIT ?",
        (match, limit),
    )
    return [uri for uri, _ in rows]


def _in_lane(filters: Filters) -> Filter:
    """The conditions on documents of one lane, whose table has no others; often none, so that no document is read."""
    own: Filters = {**filters, "lanes": None}
    return doc_filter(**own)


def _pieces(type: str, text: Text) -> str:
    """The texts of a node that `containing` searches."""
    return "\n".join((text.name, words.clean(type), text.data)).lower()
