"""Rejections of proposals, and the numbers in their names, for all hubs. The open proposals are in the upstreams of
their workspaces."""

from __future__ import annotations

import re

from kgd.model.token import storable
from kgd.postgres.database import Database

_NUMBERED = re.compile(r"([^/]+)-(\d{1,9})").fullmatch


class PostgresProposals:
    """The tables `rejections` and `proposal_numbers`. Every method raises Unavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_rejection(self, workspace: str, name: str, commit: str, by: str, at: int, reason: str) -> None:
        sql = """
        INSERT INTO rejections (workspace, name, commit, by, at, reason) VALUES (%s, %s, %s, %s, %s, %s)
        ON CONFLICT (workspace, name, commit)
        DO UPDATE SET by = excluded.by, at = excluded.at, reason = excluded.reason
        """
        with self._database.write() as db:
            db.execute(sql, (workspace, name, commit, storable(by), at, storable(reason)))

    def discard_rejection(self, workspace: str, name: str, commit: str) -> None:
        with self._database.write() as db:
            sql = "DELETE FROM rejections WHERE workspace = %s AND name = %s AND commit = %s"
            db.execute(sql, (workspace, name, commit))

    def rejection(self, workspace: str, name: str, commit: str) -> tuple[str, int, str] | None:
        """The newest (by, at, reason) of a proposal; `commit` is the beginning of its commit's id."""
        sql = """
        SELECT by, at, reason FROM rejections
        WHERE workspace = %s AND name = %s AND starts_with(commit, %s) ORDER BY at DESC LIMIT 1
        """
        with self._database.read() as db:
            row = db.execute(sql, (workspace, storable(name), storable(commit))).fetchone()
        return (row[0], row[1], row[2]) if row else None

    def use_number(self, workspace: str, name: str) -> None:
        if not (found := _NUMBERED(name)):
            return
        sql = """
        INSERT INTO proposal_numbers AS known VALUES (%s, %s, %s)
        ON CONFLICT (workspace, holder) DO UPDATE SET last = greatest(known.last, excluded.last)
        """
        with self._database.write() as db:
            db.execute(sql, (workspace, found[1], int(found[2])))

    def last_number(self, workspace: str, holder: str) -> int:
        sql = "SELECT last FROM proposal_numbers WHERE workspace = %s AND holder = %s"
        with self._database.read() as db:
            row = db.execute(sql, (workspace, holder)).fetchone()
        return int(row[0]) if row else 0
