"""This file is where an entry of a changelog is read and written: `log/<scheme>/<names>/<ulid>.yaml`."""

from __future__ import annotations

from kgd.codec import canonical
from kgd.codec.canonical import NotCanonical
from kgd.errors import Invalid
from kgd.model.changelog import LogEntry
from kgd.model.uri import parse, scheme_of

KEYS = ("id", "parentType", "parentId", "taskId", "summary", "createdAt")


def encode(entry: LogEntry) -> bytes:
    """The canonical bytes.

    Raises:
        Invalid, Limit: A value is one that YAML cannot hold.
    """
    values = (entry.id, scheme_of(entry.parent), entry.parent, entry.task, entry.summary, entry.created_at)
    return canonical.dump(dict(zip(KEYS, values, strict=True))).encode()


def decode(data: bytes, *, at: str = "") -> LogEntry:
    """The entry in a file that anybody may have written.

    Raises:
        Invalid: A key is missing or no text, or the parent is no URI.
        Refused, Limit: As for nodes.
    """
    try:
        found = canonical.load(data.decode())
    except (NotCanonical, UnicodeDecodeError):
        from kgd.codec import reading  # ruamel costs 60 ms to import; canonical files never need it

        found = reading.read(data, at)
    for key in KEYS:
        if not isinstance(found.get(key), str):
            raise Invalid(f"an entry of a changelog has the text '{key}'", at=f"{at}:1")
    id, _, parent, task, summary, created_at = (str(found[key]) for key in KEYS)
    return LogEntry(id, parse(parent), task, summary, created_at)
