"""This file is where nodes are listed in the order of their URIs: messages have names that sort by time."""

from __future__ import annotations

from kgd.index.database import Database
from kgd.model.uri import Uri


def between(database: Database, begin: str, end: str, limit: int, *, backward: bool = False) -> list[Uri]:
    """At most `limit` nodes whose URI is behind `begin` and before `end`, both left out; O(answer).

    In order, or with `backward` in the opposite one: then those next to `end`.
    """
    order = "DESC" if backward else "ASC"
    with database.read() as connection:
        found = connection.execute(
            f"SELECT uri FROM docs WHERE uri > ? AND uri < ? ORDER BY uri {order} LIMIT ?", (begin, end, max(0, limit))
        )
        return [Uri(uri) for (uri,) in found]
