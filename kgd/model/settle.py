"""This file is where a disagreement is decided: a value for a field becomes the node that holds it."""

from __future__ import annotations

from dataclasses import replace

from kgd.errors import Invalid
from kgd.model.conflict import PLACE, TWIN, WHOLE
from kgd.model.fields import from_plain, with_field
from kgd.model.merge import Merged, merge
from kgd.model.merge_graph import moved
from kgd.model.node import Json, Node
from kgd.model.register import NO_RECORDS
from kgd.model.uri import Uri


def with_decision(node: Node | None, uri: Uri, field: str, value: Json) -> Node | None:
    """The node at `uri` with one disputed field decided; None if what was decided is that there is none.

    Not for `TWIN`, which is about two nodes: see `as_one`.

    Raises:
        Invalid: The value does not fit the field.
    """
    if field == WHOLE:
        if value is None:
            return None
        if not isinstance(value, dict) or "uri" not in value:
            raise Invalid("this version cannot be read, so it cannot be taken as it is", at="fields",
                          next="Take the other one, or give the node's fields as they shall be.")  # fmt: skip
        return from_plain({**value, "uri": uri})
    if field == PLACE:
        return renamed(node or Node(uri), Uri(str(value)) if value else uri)
    if field == TWIN:
        raise Invalid("this is about two nodes", at="fields")
    return with_field(node or Node(uri), field, value)


def renamed(node: Node, to: Uri) -> Node:
    """The node under another URI, with the old one as an alias, so that links survive."""
    if to == node.uri:
        return node
    there = moved(node, to)
    return replace(there, aliases=(*there.aliases, node.uri))


def as_one(kept: Merged, other: Merged) -> Merged:
    """Two nodes that are one thing: the first, with what the other says and the other's URI as an alias.

    Both have to be there, with all that is open about their fields; so has the result.
    """
    assert kept.node is not None
    assert other.node is not None
    at = kept.node.uri
    theirs = {name: record.at(at) for name, record in other.records.items()}
    merged = merge(None, kept.node, moved(other.node, at), (NO_RECORDS, kept.records, theirs))
    assert merged.node is not None
    names = {*merged.node.aliases, other.node.uri} - {at}
    return Merged(replace(merged.node, aliases=tuple(names)), merged.records)
