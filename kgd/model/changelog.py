"""This file is where an entry of a changelog is described: what changed in an area, and why, and in which task."""

from __future__ import annotations

from dataclasses import dataclass

from kgd.model.uri import Uri


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Written once, never changed.

    `id` is a ULID, so that sorting by it sorts by time. `task` is what the writer gave: a node's URI or a tracker's
    address. `created_at` is ISO 8601 in UTC with milliseconds, the time of the ULID.
    """

    id: str
    parent: Uri
    task: str
    summary: str
    created_at: str
