"""The derived file: made again when it is not sound, kept when it is merely busy."""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.index.database import INDEX, LOG_BYTES, LOG_KEPT, Database, IndexDamaged, OtherVersion, cause_of
from kgd.index.text import Doc, TextIndex
from kgd.model.uri import Uri


def fill(database: Database, count: int = 1) -> TextIndex:
    index = TextIndex(database)
    index.apply(
        [Doc(Uri(f"concept://w/n{n}"), "concept", f"auth {n}", content="word " * 200) for n in range(count)], tree="abc"
    )
    return index


def files(path: Path) -> list[Path]:
    return [p for p in path.parent.iterdir() if p.name.startswith(path.name)]


def test_only_the_owner_may_read_it(database: Database) -> None:
    fill(database)
    assert {p.stat().st_mode & 0o777 for p in files(database.path)} == {0o600}
    database.close()
    database.path.chmod(0o644)
    Database(database.path).close()
    assert database.path.stat().st_mode & 0o777 == 0o600


def test_written_rows_survive_reopening(database: Database) -> None:
    fill(database)
    database.close()
    again = Database(database.path)
    assert (TextIndex(again).tree(), TextIndex(again).count()) == ("abc", 1)
    again.close()


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("how", ["garbage", "empty", "truncated", "other version", "missing", "no table"])
def test_a_file_that_is_not_ours_or_not_sound_is_made_anew(database: Database, how: str) -> None:
    fill(database, 50)
    database.close()
    path = database.path
    if how == "garbage":
        path.write_bytes(b"this is no database" * 1000)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "missing":
        path.unlink()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99" if how == "other version" else "DROP TABLE docs")
        connection.close()
    again = Database(path)
    assert (TextIndex(again).tree(), TextIndex(again).count()) == (None, 0)
    fill(again)
    assert TextIndex(again).search("auth")
    again.close()


def test_damage_under_a_running_daemon_is_reported_and_recreate_repairs_it(database: Database) -> None:
    index = fill(database, 200)
    database.close()
    data = bytearray(database.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    database.path.write_bytes(data)
    causes: list[str] = []
    database.on_damage = lambda damage: causes.append(cause_of(damage))
    with pytest.raises(IndexDamaged):
        index.search("auth word")
    assert [cause.partition(":")[0] for cause in causes] == ["SQLITE_CORRUPT"]
    with pytest.raises(IndexDamaged):
        fill(database)
    database.recreate()
    fill(database)
    assert [hit.uri for hit in index.search("auth")] == ["concept://w/n0"]


def test_a_file_that_someone_deleted_is_noticed_by_the_next_connection(database: Database) -> None:
    index = fill(database)
    database.close()
    for path in files(database.path):
        path.unlink()
    with pytest.raises(IndexDamaged):
        index.search("auth")
    assert not database.path.exists()


def test_a_lock_is_no_damage(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgd.index.database.BUSY_MS", 20)
    fill(database)
    database.close()
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable):
        fill(database)
    assert TextIndex(Database(database.path)).count() == 1
    other.execute("ROLLBACK")
    other.close()
    fill(database)
    database.close()


def test_a_full_disk_is_named_in_words(database: Database) -> None:
    with database.write() as connection:  # the limit is that of this connection, which all writes use
        connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match="the disk is full"):
        fill(database, 500)


def test_a_nested_write_is_part_of_the_outer_one(database: Database) -> None:
    index = fill(database)
    with contextlib.suppress(ZeroDivisionError), database.write():
        index.apply([Doc(Uri("concept://w/x"), "concept", "x")], tree="def")
        raise ZeroDivisionError
    assert (index.tree(), index.count(), index.search("x")) == ("abc", 1, [])


@pytest.mark.slow
def test_the_log_of_a_large_write_is_given_back(database: Database) -> None:
    with database.write() as connection:
        large = [(f"key {number}", "x" * 1_000) for number in range(30_000)]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", large)
    log = Path(f"{database.path}-wal")
    assert log.stat().st_size > 3 * LOG_BYTES
    for number in range(2):
        database.set_meta("small", str(number))
    assert log.stat().st_size <= LOG_BYTES


def test_readers_answer_while_a_write_is_open(database: Database) -> None:
    index = fill(database)
    answers: list[int] = []
    with database.write():
        index.apply([Doc(Uri("concept://w/x"), "concept", "auth too")])
        reader = threading.Thread(target=lambda: answers.append(len(index.search("auth"))))
        reader.start()
        reader.join(5)
    assert answers == [1]
    assert len(index.search("auth")) == 2


def test_all_statements_of_a_read_see_one_state(database: Database) -> None:
    """A search counts the files first: a child process may add the first ones before it looks for words in them."""
    with database.write() as connection:
        connection.execute("CREATE TABLE things (name TEXT)")
    other = sqlite3.connect(database.path, isolation_level=None)
    with database.read() as connection:
        before = connection.execute("SELECT count(*) FROM things").fetchone()
        other.execute("INSERT INTO things VALUES ('new')")
        assert connection.execute("SELECT count(*) FROM things").fetchone() == before
    other.close()
    assert database.row("SELECT count(*) FROM things") == (1,)


def test_new_connections_keep_the_log_and_the_shared_memory_that_a_full_disk_would_not_give_again(
    database: Database,
) -> None:
    index = fill(database)
    before = [path.stat().st_ino for path in files(database.path)]
    database.reopen()
    assert [path.stat().st_ino for path in files(database.path)] == before
    assert index.search("auth")
    fill(database)


def test_all_connections_of_a_read_only_disk_are_closed(database: Database) -> None:
    index = fill(database)
    with contextlib.suppress(Unavailable), database.write() as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("DELETE FROM meta")
    database.reopen()
    assert [path.name for path in files(database.path)] == [database.path.name]
    fill(database)
    assert index.search("auth")


def test_the_file_is_not_replaced_while_a_connection_opens_it_and_its_log(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, anew, really = fill(database, 50), threading.Event(), sqlite3.connect
    early: list[bool] = []

    def replace() -> None:
        database.recreate()
        anew.set()

    def connect(path: Path, **options: bool) -> sqlite3.Connection:
        connection = really(path, isolation_level=None, check_same_thread=options["check_same_thread"])
        if not other.is_alive() and not anew.is_set():
            other.start()
            early.append(anew.wait(0.2))
        return connection

    other = threading.Thread(target=replace)
    database.close()
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert index.count() == 50
    other.join()
    assert early == [False]
    fill(database, 3)
    assert index.count() == 3


def test_a_connection_during_recreation_reads_the_new_file(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    index, really, seen = fill(database, 50), database.close, list[int]()
    reader = threading.Thread(target=lambda: seen.append(index.count()))

    def close() -> None:
        really()
        reader.start()
        reader.join(0.2)

    monkeypatch.setattr(database, "close", close)
    database.recreate()
    monkeypatch.undo()
    reader.join()
    fill(database, 3)
    assert [index.count() for _ in range(4)] == [3] * 4
    assert seen != [50]


def test_a_child_refuses_an_unusable_file_and_leaves_it_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with pytest.raises(IndexDamaged):
        Database(path, is_child=True)
    assert not path.exists()
    path.write_bytes(b"torn" * 2_000)
    with pytest.raises(IndexDamaged):
        Database(path, is_child=True)
    assert path.read_bytes() == b"torn" * 2_000
    Database(path, replace(INDEX, version=1)).close()
    before = path.read_bytes()
    with pytest.raises(OtherVersion):  # sound: only the child is of another version
        Database(path, is_child=True)
    assert path.read_bytes() == before


def test_a_child_of_an_earlier_owner_no_longer_writes(tmp_path: Path) -> None:
    first, second = Database(tmp_path / "index.sqlite"), Database(tmp_path / "index.sqlite")
    first.own()
    child = Database(first.path, is_child=True, ticket=first.ticket())
    child.set_meta("tree", "one")
    second.own()
    child.set_meta("tree", "two")
    second.set_meta("tree", "three")
    with pytest.raises(Unavailable, match="another owner"):
        child.set_meta("tree", "two")
    second.recreate()
    other = Database(second.path, is_child=True, ticket=second.ticket())
    other.set_meta("tree", "four")
    assert second.meta("tree") == "four"
    for database in (first, second, child, other):
        database.close()


@pytest.mark.slow
def test_unused_pages_are_returned_to_the_disk(database: Database) -> None:
    index = fill(database, 2_000)
    database.close()
    full = database.path.stat().st_size
    index.apply([], [Uri(f"concept://w/n{n}") for n in range(1_900)])
    database.trim()
    assert database.column("PRAGMA freelist_count") == [0]
    assert database.path.stat().st_size < full / 2
    assert (index.count(), len(index.search("auth", limit=200))) == (100, 100)


@pytest.mark.slow
def test_cached_pages_are_freed_after_much_work(database: Database) -> None:
    fill(database, 2_000)
    before = memory_of_sqlite()
    database.trim()
    assert memory_of_sqlite() < before - (1 << 20)


def memory_of_sqlite() -> int:
    """Bytes that SQLite has allocated in this process."""
    library = getattr(_sqlite3, "__file__", None)  # None: part of the interpreter
    used = ctypes.CDLL(library).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return int(used())


@pytest.mark.slow
def test_a_long_log_is_emptied_when_no_connection_is_in_use(database: Database) -> None:
    index = fill(database, 2_000)
    log = Path(f"{database.path}-wal")
    assert database.has_long_log
    with database.read() as reader:
        assert reader.execute("SELECT count(*) FROM docs").fetchone() == (2_000,)
        fill(database)
        assert not database.trim()
        assert reader.execute("SELECT count(*) FROM docs").fetchone() == (2_000,)
        assert log.stat().st_size > LOG_KEPT
    assert database.trim()
    assert (log.stat().st_size, database.has_long_log, index.count()) == (0, False, 2_000)
