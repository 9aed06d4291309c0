"""Occurrences of names in texts: a SQLite file next to the index.

A *key* is a name in searchable form. Texts contain keys, nodes have keys, and a mention joins the two. So renaming a
node changes only its keys and not its mentions, and the frequency of a name is stored as a count.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from kgd.index.change_feed import Indexed, Position
from kgd.index.database import Database, Schema, hashed
from kgd.model.uri import Uri

VERSION = 3
MOST_ALIKE = 4
"""Maximum number of nodes with one name; a name that more nodes share does not identify any of them."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE texts (
    number INTEGER PRIMARY KEY,
    uri TEXT NOT NULL,
    uri_hash INTEGER NOT NULL,
    source TEXT NOT NULL,
    part_of TEXT NOT NULL
);
CREATE INDEX texts_of ON texts (uri_hash);
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    first TEXT NOT NULL,
    size INTEGER NOT NULL,
    named INTEGER NOT NULL DEFAULT 0,
    found INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX keys_by_first ON keys (first, size);
CREATE TABLE names (key INTEGER NOT NULL, text INTEGER NOT NULL, PRIMARY KEY (key, text)) WITHOUT ROWID;
CREATE INDEX names_of ON names (text);
CREATE TABLE occurs (text INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (text, key)) WITHOUT ROWID;
CREATE INDEX occurs_of ON occurs (key, text);
CREATE TABLE pending (text INTEGER PRIMARY KEY);
CREATE TABLE touched (id INTEGER PRIMARY KEY, fresh INTEGER NOT NULL, phrase TEXT NOT NULL);
CREATE TRIGGER name_in AFTER INSERT ON names BEGIN UPDATE keys SET named = named + 1 WHERE id = NEW.key; END;
CREATE TRIGGER name_out AFTER DELETE ON names BEGIN UPDATE keys SET named = named - 1 WHERE id = OLD.key; END;
CREATE TRIGGER found_in AFTER INSERT ON occurs BEGIN UPDATE keys SET found = found + 1 WHERE id = NEW.key; END;
CREATE TRIGGER found_out AFTER DELETE ON occurs BEGIN UPDATE keys SET found = found - 1 WHERE id = OLD.key; END;
"""
_TABLES = ("meta", "texts", "keys", "names", "occurs", "pending", "touched")
SCHEMA = Schema(0x6B67646D, VERSION, _TABLES, _SCHEMA)

_MET = """
    AND d.uri <> t.uri AND (t.part_of = '' OR d.source <> t.part_of)
    AND k.named <= :alike AND (k.size <> 1 OR k.found <= :common)
"""
"""A text that contains the name of a node. A part of a document does not mention that document."""


_DROP_UNUSED = "DELETE FROM keys WHERE id = ? AND named = 0 AND found = 0 AND id NOT IN (SELECT id FROM touched)"


class Key(NamedTuple):
    """A name in searchable form. `size` is its number of words; 0 for a name that is found letter by letter.

    `first` is its first word; `phrase` has a line for each way to search for it in older texts, or is empty.
    """

    key: str
    first: str = ""
    size: int = 0
    phrase: str = ""


class Mention(NamedTuple):
    """One end of a mention, and the number of texts that contain the name."""

    uri: Uri
    found: int


class MentionsFile(Database):
    """The file of one workspace. Any thread may read; one writes at a time."""

    def __init__(self, path: Path, *, is_child: bool = False, ticket: str = "") -> None:
        super().__init__(path, SCHEMA, is_child=is_child, ticket=ticket)

    # ---- progress

    def position(self) -> Position | None:
        """The position in the change feed; None at the beginning."""
        value = self.meta("position")
        if value is None:
            return None
        era, number, gone = value.split()
        return Position(era, int(number), int(gone))

    def move_to(self, position: Position) -> None:
        self.set_meta("position", f"{position.era} {position.number} {position.gone}")

    def count(self) -> int:
        """Number of texts. O(texts)."""
        return self._one("SELECT count(*) FROM texts")

    def numbers(self) -> set[int]:
        """The numbers of all texts. O(texts)."""
        return set(self.column("SELECT number FROM texts"))

    # ---- texts

    def add(self, text: Indexed, part_of: str, keys: Collection[Key]) -> None:
        """Add a text, which is searched for names later, and the names of its node."""
        with self.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?, ?)",
                (text.number, text.uri, hashed(text.uri), text.source or text.origin, part_of),
            )
            connection.execute("INSERT OR IGNORE INTO pending VALUES (?)", (text.number,))
            for key in keys:
                self._name(connection, key, text.number)

    def remove(self, numbers: Iterable[int]) -> None:
        with self.write() as connection:
            for number in numbers:
                connection.execute(
                    "INSERT OR IGNORE INTO touched SELECT key, 0, '' FROM names WHERE text = ?", (number,)
                )
                connection.execute("DELETE FROM names WHERE text = ?", (number,))
                had = connection.execute(
                    "SELECT id FROM occurs AS o JOIN keys ON id = o.key WHERE text = ? AND size = 0", (number,)
                ).fetchall()
                connection.execute("DELETE FROM occurs WHERE text = ?", (number,))
                connection.executemany(_DROP_UNUSED, had)
                connection.execute("DELETE FROM pending WHERE text = ?", (number,))
                connection.execute("DELETE FROM texts WHERE number = ?", (number,))

    def _name(self, connection: sqlite3.Connection, key: Key, number: int) -> None:
        row = connection.execute("SELECT id, named FROM keys WHERE key = ?", (key.key,)).fetchone()
        if row is None:
            id = connection.execute("INSERT INTO keys (key, first, size) VALUES (?, ?, ?)", key[:3]).lastrowid
            connection.execute("INSERT OR IGNORE INTO touched VALUES (?, 1, ?)", (id, key.phrase))
        else:
            id, named = row
            # For a key known only from texts, other spellings were never searched.
            if not named and not connection.execute("SELECT 1 FROM touched WHERE id = ?", (id,)).fetchone():
                connection.execute("UPDATE keys SET first = ?, size = ? WHERE id = ?", (key.first, key.size, id))
                connection.execute("INSERT INTO touched VALUES (?, 1, ?)", (id, key.phrase))
        connection.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (id, number))

    # ---- texts to search again

    def fresh(self) -> list[Sequence[str]]:
        """The spellings of each new name, for a search in older texts."""
        phrases = self.column(
            "SELECT phrase FROM touched CROSS JOIN keys USING (id)"
            " WHERE fresh AND named > 0 AND phrase <> '' ORDER BY id"
        )
        return [phrase.split("\n") for phrase in phrases]

    def settle(self, again: Iterable[int] | None) -> None:
        """Finish a change of names. `again` are the texts that may contain a new name, or None for all texts.

        Texts with a name that no node has any more are searched again, because they may contain a shorter name.
        """
        with self.write() as connection:
            lost = "SELECT id FROM touched CROSS JOIN keys USING (id) WHERE named = 0"
            connection.execute(
                f"INSERT OR IGNORE INTO pending SELECT text FROM occurs WHERE key IN ({lost})"
                " AND text IN (SELECT number FROM texts)"
            )
            connection.execute(f"DELETE FROM occurs WHERE key IN ({lost})")
            connection.execute(f"DELETE FROM keys WHERE id IN ({lost})")
            if again is None:
                connection.execute("INSERT OR IGNORE INTO pending SELECT number FROM texts")
            else:
                connection.executemany(
                    "INSERT OR IGNORE INTO pending SELECT number FROM texts WHERE number = ?", [(n,) for n in again]
                )
            connection.execute("DELETE FROM touched")

    def is_unsettled(self) -> bool:
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM touched)"))

    def pending(self, limit: int) -> list[int]:
        return self.column("SELECT text FROM pending ORDER BY text LIMIT ?", limit)

    def pending_count(self) -> int:
        return self._one("SELECT count(*) FROM pending")

    def set_found(self, number: int, keys: Collection[str]) -> None:
        """Record the keys in a text. An unknown key is kept as written."""
        with self.write() as connection:
            connection.execute("DELETE FROM pending WHERE text = ?", (number,))
            if not connection.execute("SELECT 1 FROM texts WHERE number = ?", (number,)).fetchone():
                return
            connection.executemany(
                "INSERT OR IGNORE INTO keys (key, first, size) VALUES (?, '', 0)", [(key,) for key in keys]
            )
            sql = "SELECT id FROM keys WHERE key IN (SELECT value FROM json_each(?))"
            ids = {id for (id,) in connection.execute(sql, (orjson.dumps(list(keys)).decode(),))}
            old = {id for (id,) in connection.execute("SELECT key FROM occurs WHERE text = ?", (number,))}
            connection.executemany("DELETE FROM occurs WHERE text = ? AND key = ?", [(number, id) for id in old - ids])
            connection.executemany("INSERT INTO occurs VALUES (?, ?)", [(number, id) for id in ids - old])
            connection.executemany(_DROP_UNUSED, [(id,) for id in old - ids])

    # ---- names

    def longest(self, firsts: Collection[str]) -> dict[str, int]:
        """For each of these first words, the number of words in the longest name that begins with it."""
        rows = self.rows(
            "SELECT value, (SELECT size FROM keys WHERE first = value AND named > 0 ORDER BY size DESC LIMIT 1)"
            " FROM json_each(?)",
            orjson.dumps(list(firsts)).decode(),
        )
        return {first: size for first, size in rows if size}

    def known(self, keys: Collection[str]) -> set[str]:
        """The keys among these that are the name of a node."""
        return {key for (key,) in self.rows_in("SELECT key FROM keys WHERE named > 0 AND key IN ({})", keys)}

    def going_by(self, key: str) -> list[Uri]:
        """The nodes with this name."""
        uris = self.column(
            "SELECT DISTINCT uri FROM keys JOIN names ON names.key = keys.id JOIN texts ON number = text"
            " WHERE keys.key = ? ORDER BY uri",
            key,
        )
        return [Uri(uri) for uri in uris]

    def all_keys(self) -> list[tuple[str, str, int]]:
        """The key, first word and size of every name of a node. O(names)."""
        return self.rows("SELECT key, first, size FROM keys WHERE named > 0")

    # ---- mentions

    # CROSS JOIN fixes the order of joins: from the few requested texts to their contents.

    def mentioned(self, uris: Collection[Uri], common: int, limit: int) -> dict[str, list[Mention]]:
        """The nodes that each node's text mentions, each with its rarest name; sorted by rarity, then by URI."""
        return self._met(
            "t.uri",
            "d.uri",
            "texts AS t ON t.uri_hash = asked.value CROSS JOIN occurs AS o ON o.text = t.number"
            " CROSS JOIN keys AS k ON k.id = o.key CROSS JOIN names AS n ON n.key = k.id"
            f" CROSS JOIN texts AS d ON d.number = n.text {_MET}",
            map(hashed, uris),
            common,
            limit,
        )

    def mentioning(self, uris: Collection[Uri], common: int, limit: int) -> dict[str, list[Mention]]:
        """For each of these nodes, the nodes whose texts mention it by name, in the same order."""
        return self._met(
            "d.uri",
            "t.uri",
            "texts AS d ON d.uri_hash = asked.value CROSS JOIN names AS n ON n.text = d.number"
            " CROSS JOIN keys AS k ON k.id = n.key CROSS JOIN occurs AS o ON o.key = k.id"
            f" CROSS JOIN texts AS t ON t.number = o.text {_MET}",
            map(hashed, uris),
            common,
            limit,
        )

    def written(self, uris: Collection[Uri], limit: int) -> dict[str, list[Mention]]:
        """Identifiers in each node's text that are not the name of a node, given as keys instead of URIs."""
        return self._met(
            "t.uri",
            "k.key",
            "texts AS t ON t.uri_hash = asked.value CROSS JOIN occurs AS o ON o.text = t.number"
            " CROSS JOIN keys AS k ON k.id = o.key AND k.size = 0",
            map(hashed, uris),
            0,
            limit,
        )

    def with_written(self, keys: Collection[str], limit: int) -> dict[str, list[Mention]]:
        """The nodes whose texts contain each of these identifiers."""
        return self._met(
            "k.key",
            "t.uri",
            "keys AS k ON k.key = asked.value CROSS JOIN occurs AS o ON o.key = k.id"
            " CROSS JOIN texts AS t ON t.number = o.text",
            keys,
            0,
            limit,
        )

    def _met(
        self, one: str, other: str, joined: str, asked: Iterable[str | int], common: int, limit: int
    ) -> dict[str, list[Mention]]:
        values = {"asked": orjson.dumps(list(asked)).decode(), "common": common, "alike": MOST_ALIKE, "limit": limit}
        found: dict[str, list[Mention]] = {}
        with self.read() as connection:
            rows = connection.execute(
                f"SELECT one, other, found FROM (SELECT {one} AS one, {other} AS other, min(k.found) AS found,"
                f" row_number() OVER (PARTITION BY {one} ORDER BY min(k.found), {other}) AS place"
                f" FROM json_each(:asked) AS asked CROSS JOIN {joined} GROUP BY 1, 2)"
                " WHERE place <= :limit ORDER BY one, place",
                values,
            )
            for met, uri, count in rows:
                found.setdefault(met, []).append(Mention(Uri(uri), count))
        return found

    def _one(self, sql: str) -> int:
        return int(self.column(sql)[0])
