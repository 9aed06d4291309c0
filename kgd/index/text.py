"""This file is where words are looked up: full text over knowledge, then over the names of bare files.

SQLite's FTS5 does the work; `kgd.index.ranking` puts its answers in order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import orjson

from kgd.index import belonging, feed, marks, words
from kgd.index.database import Database
from kgd.index.in_sight import InSight, Sees
from kgd.index.ranking import FILE, SCORE_DIGITS, SOME, TEXT_WEIGHTS, Filter, Found, Frequencies, Hit, Search, lowered
from kgd.model.node import Source, default_type
from kgd.model.uri import CODE_TREE, DIRECTORY_TYPE, Uri, is_owned

FEW = 1_000
"""Documents that may have a word for it to be looked for by itself."""
MOST_FEW = 50_000
"""What passes a filter for it to be listed."""
MOST_DOUBTED = 200
"""Doubted hits that make room for others in one answer."""


class Doc(NamedTuple):
    """A node as the index wants it. `data_text` is whatever of its data should be found; `updated` seconds of Unix.

    `origin` is the file of the code tree that it was read from; None for what is stored. `people` said what it says.
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
    """Other names that it goes by."""


class FileDoc(NamedTuple):
    """A file or directory of the code tree, found by its path. `kind` is any label, such as ``python``."""

    uri: Uri
    path: str
    kind: str


class Gathered(NamedTuple):
    """What full text says to a question: texts; documents (by path) as a whole with their score; messages together
    with those beside them, scored by their rank; and the words."""

    texts: list[Found]
    wholes: dict[str, float]
    beside: list[Found]
    words: list[str]


class TextIndex:
    """Full text of one workspace. Any thread may search; writes are serialised by the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._frequencies = Frequencies()

    # Writing

    def tree(self) -> str | None:
        """The root tree (hex) that the index reflects; None when it was never said."""
        return self._database.meta("tree")

    def set_tree(self, tree: str) -> None:
        self._database.set_meta("tree", tree)

    def apply(self, upserts: Iterable[Doc], removals: Iterable[Uri] = (), *, tree: str | None = None) -> None:
        """Bring the index forward in one transaction: all of it is seen from then on, or, after an error, nothing.

        About 0.1 ms a document. Unknown removals are fine.

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
            belonging.renew(connection, changed)
            if tree is not None:
                self.set_tree(tree)
        self._frequencies.outdate(len(changed))

    def apply_files(self, upserts: Iterable[FileDoc], removals: Iterable[Uri] = ()) -> None:
        """The same for what only the code tree has."""
        with self._database.write() as connection:
            for uri in removals:
                self._forget_file(connection, uri)
            for file in upserts:
                self._forget_file(connection, file.uri)
                name = words.clean(file.path.rpartition("/")[2])  # a file system holds names that are no text
                row = (file.uri, default_type(file.uri), file.kind, _path(file.uri), name)
                id = connection.execute(
                    "INSERT INTO files (uri, type, kind, path, name) VALUES (?, ?, ?, ?, ?)", row
                ).lastrowid
                path = words.clean(file.path)
                connection.execute(
                    "INSERT INTO file_text (rowid, path, parts) VALUES (?, ?, ?)", (id, path, words.parts_text([path]))
                )

    def apply_tree(self, file: Uri, docs: Sequence[Doc]) -> None:
        """Put these in the place of all that was read from one file of the code tree; none: it has nothing (any more).

        A text that is there as it is stays, with its number: nobody reads or embeds it again.
        """
        with self._database.write() as connection:
            rows = connection.execute(
                "SELECT docs.id, docs.uri, docs.type, docs.updated, text.name, text.tags, text.summary, text.content,"
                " text.data FROM docs JOIN text ON text.rowid = docs.id WHERE origin = ?",
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
            belonging.renew(connection, touched)
        self._frequencies.outdate(len(touched))

    def tree_origins(self) -> set[Uri]:
        """The files of the code tree that something in the index was read from. O(what was read from files)."""
        with self._database.read() as connection:
            return {uri for (uri,) in connection.execute("SELECT DISTINCT origin FROM docs WHERE origin <> ''")}

    def file_uris(self) -> set[Uri]:
        """All that the code tree was said to have. O(files)."""
        with self._database.read() as connection:
            return {uri for (uri,) in connection.execute("SELECT uri FROM files")}

    def optimize(self) -> None:
        """Merge what many writes left behind; seconds for 100k documents. For a quiet moment after a bulk load."""
        with self._database.write() as connection:
            connection.execute("INSERT INTO text (text) VALUES ('optimize')")
            connection.execute("INSERT INTO whole_text (whole_text) VALUES ('optimize')")
            connection.execute("INSERT INTO beside (beside) VALUES ('optimize')")
            connection.execute("INSERT INTO file_text (file_text) VALUES ('optimize')")

    def _store(self, connection: sqlite3.Connection, doc: Doc) -> None:
        self._forget(connection, doc.uri, doc.origin)
        name, summary, content, data = (words.clean(t) for t in (doc.name, doc.summary, doc.content, doc.data_text))
        path = _path(doc.uri)
        parts = f"{path} {words.parts_text((path, name, summary, content, data))}"
        id = connection.execute(
            "INSERT INTO docs (uri, origin, type, path, updated, source_type, source_id, aliases)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (doc.uri, doc.origin or "", doc.type, path, doc.updated,
             *((doc.source.type, doc.source.id) if doc.source else (None, None)), "\n".join(doc.aliases)),
        ).lastrowid  # fmt: skip
        connection.execute(
            "INSERT INTO text (rowid, name, tags, summary, content, data, parts) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id, name, " ".join(doc.tags), summary, content, data, parts),
        )
        assert id is not None
        belonging.note_people(connection, id, doc.people or belonging.speakers(content))
        tags = {tag.casefold() for tag in doc.tags}
        connection.executemany("INSERT INTO tags (tag, doc) VALUES (?, ?)", [(tag, id) for tag in tags])

    def _forget(self, connection: sqlite3.Connection, uri: Uri, origin: Uri | None = None) -> None:
        row = connection.execute("SELECT id FROM docs WHERE uri = ? AND origin = ?", (uri, origin or "")).fetchone()
        if row:
            self._drop(connection, row[0])

    def _drop(self, connection: sqlite3.Connection, id: int) -> None:
        connection.execute("DELETE FROM text WHERE rowid = ?", (id,))
        connection.execute("DELETE FROM tags WHERE doc = ?", (id,))
        connection.execute("DELETE FROM people WHERE doc = ?", (id,))
        connection.execute("DELETE FROM beside WHERE rowid = ?", (id,))
        connection.execute("DELETE FROM docs WHERE id = ?", (id,))
        feed.note_gone(connection, id)

    def _forget_file(self, connection: sqlite3.Connection, uri: Uri) -> None:
        row = connection.execute("SELECT id FROM files WHERE uri = ?", (uri,)).fetchone()
        if row:
            connection.execute("DELETE FROM file_text WHERE rowid = ?", row)
            connection.execute("DELETE FROM files WHERE id = ?", row)

    # Searching

    def count(self) -> int:
        """Documents of what is stored; what was read from the code tree is not among them. O(documents)."""
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM docs WHERE origin = ''").fetchone()[0])

    def search(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
        limit: int = 10,
        offset: int = 0,
        doubted: Collection[Uri] = (),
        sees: Sees | None = None,
    ) -> list[Hit]:
        """The best hits: nodes with all words, then with some, then bare files; equal scores in order of URI.

        The last word may be unfinished. A node has one of the `types` (those of the code tree are also of `file` and
        `dir`), any of the `tags`, and lies in `namespace` or below. Any text is a question, none is an error; one
        without letters or digits finds nothing. What is `doubted` counts for less, and is found behind its equals.
        `stored` leaves out what was only read from the code tree.
        With `sees`, what may not be read is as if it were not there.
        """
        terms = words.terms(query)
        want = offset + max(0, limit)
        if not terms or not want:
            return []
        with self._database.read() as connection:
            # As many more as may fall behind others: so a page is the same whichever pages were asked for before it.
            search = Search(connection, self._frequencies, terms, want + min(len(doubted), MOST_DOUBTED))
            bare = None if tags or stored else _file_filter(types, namespace)
            condition = _doc_filter(types, tags, namespace, stored=stored)
            if sees is None:
                every = search.run(condition, bare)
            else:
                in_sight = InSight(connection, terms, sees)
                every = in_sight.texts(condition, want)
                if bare is not None and len(every) < want:
                    files = in_sight.files(bare, want - len(every))
                    every += [one._replace(tier=FILE) for one in files]
            found = lowered(every, doubted)
            return search.explain(found[offset:want])

    def gather(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
        limit: int = 1_000,
        surrounded: bool = True,
        sees: Sees | None = None,
    ) -> Gathered:
        """What has words of the question, for `kgd.retrieval` to rank together with what else it knows.

        The filters are those of `search`. Of a large index, texts with common words alone are not found. No bare
        files. Messages beside others are looked for only if `surrounded`.
        """
        terms = words.terms(query)
        if not terms:
            return Gathered([], {}, [], [])
        with self._database.read() as connection:
            asked = [term.word.casefold() for term in terms]
            condition = _doc_filter(types, tags, namespace, stored=stored)
            if sees is not None:
                return Gathered(InSight(connection, terms, sees).texts(condition, limit), {}, [], asked)
            search = Search(connection, self._frequencies, terms, limit)
            found = search.gather(condition)
            wholes = search.wholes(namespace.strip("/"), limit)
            beside = search.beside(condition) if surrounded else []
            return Gathered(found, wholes, beside, asked)

    def bare_files(
        self,
        query: str,
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
        sees: Sees | None = None,
    ) -> list[Found]:
        """Files and directories whose path has words of the question, the best first, those with all of them apart."""
        terms = words.terms(query)
        if not terms or limit <= 0:
            return []
        with self._database.read() as connection:
            condition = _file_filter(types, namespace)
            if sees is not None:
                return InSight(connection, terms, sees).files(condition, limit)
            return Search(connection, self._frequencies, terms, limit).bare(condition, limit)

    def explain(self, query: str, page: Sequence[Found]) -> list[Hit]:
        """Snippet and reason for what was found; what has none of the words is explained by nothing."""
        terms = words.terms(query)
        if not terms:
            return [Hit(found.uri, 0.0, "", ()) for found in page]
        with self._database.read() as connection:
            return Search(connection, self._frequencies, terms, len(page)).explain(page)

    def by_people(self, names: Sequence[str], ids: Collection[int]) -> set[int]:
        """Of these texts (`Found.id`), those in which somebody of one of these names (one word each) speaks."""
        with self._database.read() as connection:
            return belonging.by_people(connection, names, ids) if names and ids else set()

    def passing(
        self,
        uris: Collection[Uri],
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
    ) -> list[Found]:
        """Of these nodes those in the index that pass the filters of `search`, in order of URI."""
        condition = _doc_filter(types, tags, namespace, stored=stored)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT docs.uri, docs.id FROM json_each(?) AS asked JOIN docs ON docs.uri = asked.value"
                f" WHERE 1 {condition.sql} ORDER BY docs.uri, docs.origin",
                (orjson.dumps(list(uris)).decode(), *condition.values),
            ).fetchall()
        once: dict[Uri, int] = dict(reversed(rows))
        return [Found(0.0, uri, once[uri], SOME) for uri in sorted(once)]

    def few_in(
        self,
        *,
        types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        namespace: str = "",
        stored: bool = False,
    ) -> list[Uri] | None:
        """The nodes that pass the filters, or None if that is more than a part of all. O(answer)."""
        condition = _doc_filter(types, tags, namespace, stored=stored)
        with self._database.read() as connection:
            most = max(FEW, min(MOST_FEW, self._frequencies.documents(connection) // 3))
            rows = connection.execute(
                f"SELECT DISTINCT docs.uri FROM docs WHERE 1 {condition.sql} LIMIT ?", (*condition.values, most + 1)
            ).fetchall()
        return [uri for (uri,) in rows] if len(rows) <= most else None

    def named_like(self, name: str, limit: int) -> list[Uri]:
        """Documents whose name has words of this one that few documents have; if there are none, all its words.

        The best first. For a hint beside every write: looking for common words is what would cost.
        """
        asked = [term.match for term in words.terms(name)]
        if not asked:
            return []
        with self._database.read() as connection:
            rare = [match for match in asked if self._frequencies.of(connection, match) <= FEW]
            match = " OR ".join(rare) or " AND ".join(asked)
            found = connection.execute(
                f"SELECT docs.uri, bm25({TEXT_WEIGHTS}) AS score FROM text JOIN docs ON docs.id = text.rowid"
                " WHERE text MATCH ? ORDER BY score, docs.uri LIMIT ?",
                (f"name : ({match})", limit),
            )
            return [uri for uri, _ in found]

    def texts(self, scheme: str) -> list[tuple[Uri, str, str, str]]:
        """URI, type, name and the texts in `data` of all nodes of an owned scheme, as they are indexed. O(nodes)."""
        with self._database.read() as connection:
            return connection.execute(
                "SELECT docs.uri, docs.type, text.name, text.data FROM docs JOIN text ON text.rowid = docs.id"
                " WHERE docs.uri >= ? AND docs.uri < ?",
                (f"{scheme}://", f"{scheme}:0"),  # `0` is the character after `/`
            ).fetchall()

    def newest(self, type: str, limit: int) -> list[Uri]:
        """Nodes of one type, the last changed first, then by URI. O(limit)."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT uri FROM docs WHERE type = ? ORDER BY updated DESC, uri LIMIT ?", (type, limit)
            )
            return [uri for (uri,) in rows]

    def types(self) -> list[str]:
        """The types of all texts, and `file` and `dir` where the code tree has any; by name. O(types)."""
        with self._database.read() as connection:
            found = connection.execute(
                "WITH RECURSIVE one(type) AS (SELECT min(type) FROM docs UNION ALL"
                " SELECT (SELECT min(docs.type) FROM docs WHERE docs.type > one.type) FROM one WHERE type NOT NULL)"
                " SELECT type FROM one WHERE type NOT NULL"
            )
            types = {type for (type,) in found}
            if connection.execute("SELECT 1 FROM files LIMIT 1").fetchone():
                types |= set(CODE_TREE)
        return sorted(types)

    def has_type(self, type: str) -> bool:
        """Whether anything passes the filter of this type; of what the code tree has, its kind is one too. O(files)."""
        texts, files = _doc_filter([type], None, ""), _file_filter([type], "")
        with self._database.read() as connection:
            return any(
                connection.execute(f"SELECT 1 FROM {table} WHERE 1 {asked.sql} LIMIT 1", asked.values).fetchone()
                for table, asked in (("docs", texts), ("files", files))
            )

    def by_source(self, type: str, id: str | None = None) -> list[Uri]:
        """Nodes that were taken from a source, or from any source of its type, by URI. O(answer)."""
        of_id, values = ("", (type,)) if id is None else (" AND source_id = ?", (type, id))
        with self._database.read() as connection:
            rows = connection.execute(f"SELECT uri FROM docs WHERE source_type = ?{of_id} ORDER BY uri", values)
            return [uri for (uri,) in rows]

    def between(self, begin: str, end: str, limit: int, *, backward: bool = False) -> list[Uri]:
        """At most `limit` nodes whose URI is behind `begin` and before `end`, both left out; O(answer).

        By URI, or with `backward` in the opposite order: then those next to `end`. Names of messages sort by time.
        """
        order = "DESC" if backward else "ASC"
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT uri FROM docs WHERE uri > ? AND uri < ? ORDER BY uri {order} LIMIT ?",
                (begin, end, max(0, limit)),
            )
            return [Uri(uri) for (uri,) in found]

    def with_data_words(self, asked: Iterable[str]) -> set[Uri]:
        """Nodes whose data has one of these words, as a key or in a value; some that have another form of it too."""
        match = " OR ".join(f'data : "{word}"' for word in asked)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT docs.uri FROM text JOIN docs ON docs.id = text.rowid WHERE text MATCH ?", (match,)
            )
            return {Uri(uri) for (uri,) in rows}

    def by_tags(
        self,
        tags: Collection[str],
        *,
        types: Collection[str] | None = None,
        namespace: str = "",
        limit: int = 10,
        offset: int = 0,
    ) -> list[Hit]:
        """Nodes with any of the tags: those with most of them first, then the newest, then by URI."""
        asked = sorted({tag.casefold() for tag in tags})
        if not asked:
            return []
        condition = _doc_filter(types, None, namespace)
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT uri, matches, matched, text.summary FROM ("
                "SELECT docs.id, docs.uri, docs.updated, count(*) AS matches, group_concat(tags.tag, ', ') AS matched"
                f" FROM tags JOIN docs ON docs.id = tags.doc WHERE tags.tag IN ({_places(asked)}) {condition.sql}"
                " GROUP BY docs.id ORDER BY matches DESC, docs.updated DESC, docs.uri LIMIT ? OFFSET ?"
                ") AS best JOIN text ON text.rowid = best.id ORDER BY matches DESC, best.updated DESC, best.uri",
                (*asked, *condition.values, limit, offset),
            ).fetchall()
        return [
            Hit(uri, round(matches / len(asked), SCORE_DIGITS), marks.one_line(summary), (f"tags: {matched}",))
            for uri, matches, matched, summary in rows
        ]


def _shape(doc: Doc) -> list[str | int]:
    """What is stored of a text, in the order of `apply_tree`'s columns."""
    name, summary, content, data = (words.clean(text) for text in (doc.name, doc.summary, doc.content, doc.data_text))
    return [doc.type, doc.updated, name, " ".join(doc.tags), summary, content, data]


def _doc_filter(
    types: Collection[str] | None, tags: Collection[str] | None, namespace: str, *, stored: bool = False
) -> Filter:
    sql, values = ["AND docs.origin = ''"] if stored else [], []
    if types:
        sql.append(f"AND ({_of_types('docs', types)})")
        values += sorted(types)
    if tags:
        sql.append(f"AND docs.id IN (SELECT doc FROM tags WHERE tag IN ({_places(tags)}))")
        values += sorted(tag.casefold() for tag in tags)
    return _within("docs", namespace, sql, values)


def _file_filter(types: Collection[str] | None, namespace: str) -> Filter:
    sql = ["AND NOT EXISTS (SELECT 1 FROM docs WHERE docs.uri = files.uri)"]  # someone added to it: found as knowledge
    values: list[str] = []
    if types:
        sql.append(f"AND ({_of_types('files', types)} OR files.kind IN ({_places(types)}))")
        values += [*sorted(types), *sorted(types)]
    return _within("files", namespace, sql, values)


def _of_types(table: str, types: Collection[str]) -> str:
    """As `is_of_types`."""
    schemes = [f"{table}.uri GLOB '{scheme}://*'" for scheme in CODE_TREE if scheme in types]
    labels = f"{table}.type IN ({_places(types)})"
    if DIRECTORY_TYPE in types:
        labels += f" AND NOT ({table}.type = '{DIRECTORY_TYPE}' AND {table}.uri GLOB 'dir://*')"
    return " OR ".join([labels, *schemes])


def _within(table: str, namespace: str, sql: list[str], values: list[str]) -> Filter:
    if namespace.strip("/"):
        start = namespace.strip("/")
        sql.append(f"AND {table}.path >= ? AND {table}.path < ?")
        values += [f"{start}/", f"{start}0"]  # `0` is the character after `/`
    return Filter(" ".join(sql), tuple(values))


def _path(uri: Uri) -> str:
    return uri.split("/", 3)[3] if is_owned(uri) else ""


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
