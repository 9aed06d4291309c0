"""No statement on a derived file reads a whole table: `tests/conftest.py` checks this after every test."""

from __future__ import annotations

from pathlib import Path

from kgd.index.database import Database
from tests import query_plans


def test_a_statement_that_reads_a_whole_table_is_noticed(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.sqlite")
    database.rows("SELECT uri FROM docs WHERE type = ?", "concept")
    assert query_plans.scans == {}
    database.rows("SELECT uri FROM docs WHERE aliases = ?", "a")
    assert query_plans.scans == {"SELECT uri FROM docs WHERE aliases = ?": "SCAN docs"}
    query_plans.scans.clear()
    database.close()
