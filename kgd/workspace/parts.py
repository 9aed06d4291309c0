"""This file is where parts of threads and documents are read for everybody: taken apart once, and looked up by URI.

A part's content is named by its blob, so what was taken apart lately is kept by that, whichever tree it was read in.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.codec import bulk
from kgd.errors import KgdError
from kgd.git.objects import ObjectId, object_id
from kgd.model.uri import Uri

KEPT = 64
"""Parts that are kept taken apart; 10 MB at most, as a rule 2."""

Read = Callable[[ObjectId], bytes]


@dataclass(frozen=True, slots=True)
class Taken:
    """A part taken apart: per node the blob that a file of its own would have, and its bytes."""

    entries: bulk.Entries
    ids: Mapping[Uri, ObjectId]


class Inside(NamedTuple):
    """A node in a part."""

    path: str
    id: ObjectId
    data: bytes


@dataclass(slots=True)
class Difference:
    """What parts that differ say of nodes: as they were and as they are. `unread` are those that cannot be read."""

    old: dict[Uri, Inside] = field(default_factory=dict)
    new: dict[Uri, Inside] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def uris(self) -> list[Uri]:
        """The nodes that are other than they were, wherever they lie; sorted."""
        both = {*self.old, *self.new}
        return sorted(uri for uri in both if _id(self.old.get(uri)) != _id(self.new.get(uri)))


_kept: OrderedDict[tuple[ObjectId, str], Taken] = OrderedDict()
_keeping = threading.Lock()


def taken(path: str, blob: ObjectId, read: Read) -> Taken:
    """The part at a path, of which this is the blob. `read` is asked for its bytes where it was not read lately.

    Raises:
        KgdError: It cannot be read, or holds what does not belong there.
    """
    known = _known(path, blob)
    if known is not None:
        return known
    entries = bulk.read(read(blob), path)
    made = Taken(entries, {uri: object_id("blob", data) for uri, data in entries.nodes.items()})
    with _keeping:
        _kept[blob, path.rpartition("/")[0]] = made
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return made


def one(path: str, blob: ObjectId, uri: Uri, id: ObjectId, read: Read) -> bytes:
    """The bytes of one node in a part, of which this is the blob. The part is taken apart only where it has to be.

    Raises:
        KgdError: The part cannot be read.
    """
    known = _known(path, blob)
    if known is None:
        data = bulk.cut(read(blob), uri)
        if data is not None and object_id("blob", data) == id:
            return data
        known = taken(path, blob, read)
    return known.entries.nodes[uri]


def difference(changes: Iterable[tuple[str, ObjectId | None, ObjectId | None]], read: Read) -> Difference:
    """What these parts, by path with the blob before and after, say of nodes. A node in two counts as in the first."""
    found = Difference()
    for path, old, new in sorted(changes):
        try:
            before, after = (taken(path, blob, read) if blob else None for blob in (old, new))
        except KgdError:
            found.unread.add(path)
            continue
        for into, part in ((found.old, before), (found.new, after)):
            for uri, id in part.ids.items() if part else ():
                if uri not in into:
                    into[uri] = Inside(path, id, part.entries.nodes[uri])  # type: ignore[union-attr]
    return found


def may_name(path: str, blob: ObjectId, name: str, read: Read) -> bool:
    """Whether the part may hold a node whose URI ends so. It is not taken apart for that."""
    known = _known(path, blob)
    if known is not None:
        return any(uri.endswith(name) for uri in known.ids)
    data = read(blob)
    return name.encode() in data or b"\\" in data


def _known(path: str, blob: ObjectId) -> Taken | None:
    key = blob, path.rpartition("/")[0]
    with _keeping:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
    return known


def _id(inside: Inside | None) -> ObjectId | None:
    return inside.id if inside else None
