"""No statement on a derived file reads a whole table: `tests/conftest.py` checks this after every test."""

from __future__ import annotations

from pathlib import Path

from kgd.index.database import Database
from tests import query_plans


def test_a_statement_that_reads_a_whole_table_is_noticed(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.sqlite")
    database.rows("SELECT docs.id FROM docs WHERE uri = ?", "concept://a/b")
    database.rows("SELECT uri FROM docs WHERE type = ? ORDER BY updated DESC LIMIT ?", "concept", 3)
    assert query_plans.scans == {}
    database.rows("SELECT uri FROM docs WHERE aliases = ?", "a")
    assert query_plans.scans == {"SELECT uri FROM docs WHERE aliases = ?": "SCAN docs"}
    query_plans.scans.clear()
    database.close()


def test_a_statement_that_reads_all_rows_of_one_type_is_noticed(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.sqlite")
    sql = "SELECT uri FROM docs WHERE path > ? AND type = ? ORDER BY path LIMIT ?"
    database.rows(sql, "a/", "chunk", 3)
    assert query_plans.scans == {sql: "SEARCH docs USING INDEX newest (type=?)"}
    query_plans.scans.clear()
    database.close()
