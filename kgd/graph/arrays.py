"""The graph at one moment in immutable arrays, read in place from a mapped file, and layers of later changes.

Nodes are numbered in the order of their URIs, so comparing numbers gives the same order as comparing URIs. Missing
targets of relations have numbers too. Each direction lists a node's relations in walking order (weight, other end,
type). Weights are whole millionths.

    bytes    meaning
    8        length of the next part, little-endian
    n        JSON: the sections (name, item type, offset, items), labels, aliases, counts
    ...      the sections, each aligned to 8 bytes, items in the machine's byte order

A snapshot is one file with the arrays, which is either complete and valid, or ignored:

    bytes    meaning
    8        ``kgdgraph``
    4        format version, big-endian, as all numbers
    8        length of the arrays
    4        length of the JSON
    2        length of the root tree
    32       SHA-256 of all that follows
    ...      root tree (ASCII hex) whose graph this is
    ...      JSON in addition to the graph, and spaces up to the next multiple of 8
    ...      the arrays

Nothing is used before the checksum matches. A file of another format version is left alone and not used. The file is
only ever replaced, never changed, because processes map its arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
import sys
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, SupportsIndex, overload
from zlib import crc32

import orjson

from kgd.errors import MALFORMED, Damaged
from kgd.graph.edges import UNIT, Card, Direction, Edge
from kgd.model.uri import Uri

Attributes = dict[str, Any]
Keyed = Mapping[str, Attributes]
"""The parallel relations from one node to another: relation type to attributes."""

NONE: Final = 0xFFFFFFFF
"""The type of a missing target."""
BLOB: Final = 20
NO_BLOB: Final = bytes(BLOB)
IS_LEFT: Final = 1
IS_ENTERED: Final = 2
CACHED_CARDS = 4_000
"""Maximum number of cached cards, about 500 bytes each."""
_LENGTH = struct.Struct("<Q")

SECTIONS: Final = {
    "text": "B",  # URI, name and summary of each node
    "ends": "I",  # 3 n + 1 positions in `text`
    "types": "I",
    "origins": "I",
    "blobs": "B",
    "table": "I",  # node + 1 by the CRC of its URI, with linear probing
    "plain": "B",  # IS_LEFT | IS_ENTERED if the node exists, is not an alias and has no aliases
    "missing": "I",
    "out_at": "I",
    "out_to": "I",
    "out_weight": "I",
    "out_type": "I",
    "in_at": "I",
    "in_to": "I",
    "in_weight": "I",
    "in_type": "I",
    "laden": "I",  # positions in `out_to` of relations with data, ascending
    "laden_at": "I",
    "laden_text": "B",
}


class Arrays:
    """The graph in `data`, which `array_builder.build` made. Any thread may read it.

    Raises:
        Damaged: `data` is not a graph in this format.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        try:
            self._open(memoryview(data))
        except (struct.error, *MALFORMED) as error:
            raise Damaged("the arrays of the graph are malformed", at="snapshot") from error

    def _open(self, data: memoryview) -> None:
        self.data = data
        (length,) = _LENGTH.unpack_from(data)
        meta = orjson.loads(data[_LENGTH.size : _LENGTH.size + length])
        if meta["byteorder"] != sys.byteorder:
            raise ValueError("another byte order")
        sections = {}
        for name, kind, offset, items in meta["sections"]:
            end = offset + items * array(kind).itemsize
            if end > len(data):
                raise ValueError("cut off")
            sections[name] = data[offset:end].cast(kind)
        self.count: int = meta["count"]
        self.labels: list[str] = [sys.intern(label) for label in meta["labels"]]
        self.sorted_labels = sorted(self.labels)
        ranks = {label: rank for rank, label in enumerate(self.sorted_labels)}
        self.ranks = [ranks[label] for label in self.labels]
        """The place of each label in their order."""
        self.type_counts: dict[str, int] = meta["types"]
        self.aliases = {Uri(uri): tuple(map(Uri, names)) for uri, names in meta["aliases"].items()}
        self.text, self.ends = sections["text"], sections["ends"]
        self.types, self.origins, self.blobs = sections["types"], sections["origins"], sections["blobs"]
        self.table, self.plain, self.missing = sections["table"], sections["plain"], sections["missing"]
        self.out_at, self.in_at = sections["out_at"], sections["in_at"]
        self.out = sections["out_to"], sections["out_weight"], sections["out_type"]
        self.into = sections["in_to"], sections["in_weight"], sections["in_type"]
        self.laden, self.laden_at, self.laden_text = (sections[n] for n in ("laden", "laden_at", "laden_text"))
        self._mask = len(self.table) - 1
        self.cards: dict[int, Card] = {}
        """Cached cards."""
        self._chosen: dict[Callable[[str], bool], frozenset[int]] = {}
        self._check()

    def _check(self) -> None:
        n = len(self.types)
        sizes = (
            *(len(at) == n + 1 for at in (self.out_at, self.in_at)),
            len(self.ends) == 3 * n + 1,
            self.ends[-1] == len(self.text),
            *(len(column) == self.out_at[-1] for column in self.out),
            *(len(column) == self.in_at[-1] for column in self.into),
            len(self.table) > n,
            len(self.laden_at) == len(self.laden) + 1,
        )
        if not all(sizes):
            raise ValueError("sections of different lengths")

    def __len__(self) -> int:
        """The number of nodes and missing targets."""
        return len(self.types)

    # Nodes

    def having(self, wanted: Callable[[str], bool]) -> Callable[[int], bool] | None:
        """A predicate: whether a relation of these types leaves or enters a node; it reads the types of the node's
        relations. None if no relation has one of these types."""
        if (chosen := self._chosen.get(wanted)) is None:
            chosen = frozenset(number for number, label in enumerate(self.labels) if wanted(label))
            self._chosen[wanted] = chosen
        if not chosen:
            return None
        out, out_at, into, in_at = self.out[2], self.out_at, self.into[2], self.in_at
        isdisjoint = chosen.isdisjoint

        def has(number: int) -> bool:
            return not (
                isdisjoint(out[out_at[number] : out_at[number + 1]])
                and isdisjoint(into[in_at[number] : in_at[number + 1]])
            )

        return has

    def find(self, uri: str) -> int:
        """The number of a URI, or -1."""
        wanted = uri.encode("utf-8", "surrogatepass")
        table, ends, text, mask = self.table, self.ends, self.text, self._mask
        slot = crc32(wanted) & mask
        while number := table[slot]:
            at: int = 3 * number - 3
            if text[ends[at] : ends[at + 1]] == wanted:
                return at // 3
            slot = (slot + 1) & mask
        return -1

    def uri(self, number: int) -> Uri:
        ends = self.ends
        return Uri(str(self.text[ends[3 * number] : ends[3 * number + 1]], "utf-8"))

    def exists(self, number: int) -> bool:
        return number >= 0 and self.types[number] != NONE

    def card(self, number: int) -> Card | None:
        """The card of a node; None for a missing target."""
        if (known := self.cards.get(number)) is not None:
            return known
        type = self.types[number]
        if type == NONE:
            return None
        a, b, c, d = self.ends[3 * number : 3 * number + 4]
        data = self.text[a:d].tobytes()
        uri, name, summary = data[: b - a].decode(), data[b - a : c - a].decode(), data[c - a :].decode()
        blob = self.blobs[BLOB * number : BLOB * number + BLOB].tobytes()
        labels = self.labels
        id = None if blob == NO_BLOB else blob
        card: Card = tuple.__new__(Card, (uri, labels[type], name, summary, id, labels[self.origins[number]], 0))
        if len(self.cards) >= CACHED_CARDS:
            self.cards.clear()
        self.cards[number] = card
        return card

    def numbers(self, prefix: str = "") -> range:
        """The nodes and missing targets whose URIs start with `prefix`."""
        if not prefix:
            return range(len(self))
        start = self.place(prefix)
        return range(start, self.place(prefix + "\U0010ffff", start))

    def place(self, uri: str, least: int = 0) -> int:
        """The number of the first URI that is not less than `uri`."""
        return bisect_left(range(len(self)), uri, least, key=self.uri)

    # Relations

    def succ(self, number: int) -> dict[Uri, Keyed]:
        """The relations of a node, by target and type."""
        start, end = self.out_at[number], self.out_at[number + 1]
        return self._by_end(self.out, range(start, end), self._laden(start, end))

    def pred(self, number: int) -> dict[Uri, Keyed]:
        """The relations that lead to a node, by source and type."""
        rows = range(self.in_at[number], self.in_at[number + 1])
        sources, _, types = self.into
        targets, _, own_types = self.out
        laden = {
            row: index
            for row in rows
            for at, index in self._laden(self.out_at[sources[row]], self.out_at[sources[row] + 1]).items()
            if targets[at] == number and own_types[at] == types[row]
        }
        return self._by_end(self.into, rows, laden)

    def _by_end(self, columns: Sequence[memoryview], rows: range, laden: Mapping[int, int]) -> dict[Uri, Keyed]:
        """The relations in these rows, by other end and type. `laden` has the rows with data; see `_laden`."""
        found: dict[Uri, dict[str, Attributes]] = {}
        ends, weights, types = columns
        for row in rows:
            attributes: Attributes = {"weight": weights[row] / UNIT}
            if (index := laden.get(row)) is not None:
                attributes["data"] = self.laden_data(index)
            found.setdefault(self.uri(ends[row]), {})[self.labels[types[row]]] = attributes
        return found  # type: ignore[return-value]

    def sources(self, number: int) -> int:
        """The number of nodes with a relation to this one. O(relations to it)."""
        return len(set(self.into[0][self.in_at[number] : self.in_at[number + 1]]))

    def laden_relations(self) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
        """Source, target and data of each relation that has data."""
        for index, position in enumerate(self.laden):
            source = bisect_left(self.out_at, position + 1) - 1
            yield source, self.out[0][position], self.laden_data(index)

    def laden_data(self, index: int) -> Mapping[str, Any]:
        data: Mapping[str, Any] = orjson.loads(self.laden_text[self.laden_at[index] : self.laden_at[index + 1]])
        return data

    def _laden(self, start: int, end: int) -> Mapping[int, int]:
        """Maps the position of each relation that has data to the position of the data in `laden_data`."""
        laden = self.laden
        if not len(laden):
            return {}
        first = bisect_left(laden, start)
        return {laden[i]: i for i in range(first, bisect_left(laden, end, first))}


class Row(Sequence[Edge]):
    """The relations of a node in walking order, including those to missing targets. Each relation is created when it is
    read."""

    __slots__ = ("_arrays", "_columns", "end", "start")

    def __init__(self, arrays: Arrays, number: int, direction: Direction) -> None:
        self._arrays = arrays
        self._columns, at = (arrays.out, arrays.out_at) if direction == "out" else (arrays.into, arrays.in_at)
        self.start, self.end = at[number], at[number + 1]

    def __len__(self) -> int:
        length: int = self.end - self.start
        return length

    @overload
    def __getitem__(self, at: SupportsIndex) -> Edge: ...
    @overload
    def __getitem__(self, at: slice) -> list[Edge]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Edge | list[Edge]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        number = at.__index__()
        if number < 0:
            number += self.end - self.start
        number += self.start
        if not self.start <= number < self.end:
            raise IndexError(at)
        to, weights, types = self._columns
        return Edge(weights[number] / UNIT, self._arrays.uri(to[number]), self._arrays.labels[types[number]])

    def __iter__(self) -> Iterator[Edge]:
        uri, labels, make = self._arrays.uri, self._arrays.labels, tuple.__new__
        for end, weight, type in zip(*(column[self.start : self.end] for column in self._columns), strict=True):
            yield make(Edge, (weight / UNIT, uri(end), labels[type]))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


Ends = dict[Uri, Keyed]
State = Card | None | Literal[False]
"""A node, the missing target of a relation, or nothing."""


class Layer:
    """Changed rows: a changed node, or all of a node's relations in one direction. `nodes` contains every URI that
    appeared or disappeared, or whose node changed."""

    __slots__ = ("nodes", "pred", "succ")

    def __init__(self) -> None:
        self.nodes: dict[Uri, State] = {}
        self.succ: dict[Uri, Ends] = {}
        self.pred: dict[Uri, Ends] = {}

    def __bool__(self) -> bool:
        return bool(self.nodes or self.succ or self.pred)

    def over(self, older: Layer) -> Layer:
        """This layer over an older one, combined into one layer."""
        both = Layer()
        both.nodes = older.nodes | self.nodes
        both.succ = older.succ | self.succ
        both.pred = older.pred | self.pred
        return both


class Layers(NamedTuple):
    """Layers of changes, the newest first, over arrays. The newest layer that has a row determines its value.

    Only the newest layer is ever modified, and inner dictionaries of older layers never are. So the older layers and
    the arrays together stay the graph of one moment for as long as they are kept.
    """

    changed: tuple[Layer, ...]
    arrays: Arrays

    def state(self, uri: Uri) -> State:
        for layer in self.changed:
            if uri in layer.nodes:
                return layer.nodes[uri]
        number = self.arrays.find(uri)
        return self.arrays.card(number) if number >= 0 else False

    def is_node(self, uri: Uri) -> bool:
        for layer in self.changed:
            if uri in layer.nodes:
                return bool(layer.nodes[uri])
        return self.arrays.exists(self.arrays.find(uri))

    def is_known(self, uri: object) -> bool:
        """Whether this is the URI of a node or of the target of a relation."""
        if not isinstance(uri, str):
            return False
        for layer in self.changed:
            if uri in layer.nodes:
                return layer.nodes[Uri(uri)] is not False
        return self.arrays.find(uri) >= 0

    def succ(self, uri: Uri) -> Ends:
        for layer in self.changed:
            if (row := layer.succ.get(uri)) is not None:
                return row
        number = self.arrays.find(uri)
        return self.arrays.succ(number) if number >= 0 else {}

    def pred(self, uri: Uri) -> Ends:
        for layer in self.changed:
            if (row := layer.pred.get(uri)) is not None:
                return row
        number = self.arrays.find(uri)
        return self.arrays.pred(number) if number >= 0 else {}

    def sources(self, uri: Uri) -> int:
        """The number of nodes with a relation to this URI."""
        for layer in self.changed:
            if (row := layer.pred.get(uri)) is not None:
                return len(row)
        number = self.arrays.find(uri)
        return self.arrays.sources(number) if number >= 0 else 0

    def stored(self, uri: Uri, direction: Literal["succ", "pred"]) -> int:
        """The number of the URI's row in the arrays; -1 if the row has changed since, or does not exist."""
        for layer in self.changed:
            if uri in (layer.succ if direction == "succ" else layer.pred):
                return -1
        return self.arrays.find(uri)

    def is_changed(self, uri: Uri) -> bool:
        """Whether a row of the URI has changed since the arrays."""
        return any(uri in layer.succ or uri in layer.pred for layer in self.changed)

    def states(self, prefix: str = "") -> Iterator[tuple[Uri, bool]]:
        """Every node and missing target, and whether it is a node; concurrent writes may or may not be included."""
        arrays = self.arrays
        changed = self.changes()
        for number in arrays.numbers(prefix):
            uri = arrays.uri(number)
            if uri not in changed:
                yield uri, arrays.exists(number)
        for uri in changed:
            if uri.startswith(prefix):
                state = self.state(uri)
                if state is not False:
                    yield uri, state is not None

    def missing(self) -> Iterator[Uri]:
        """The missing targets of relations. O(missing targets and changes)."""
        changed = self.changes()
        for number in self.arrays.missing:
            uri = self.arrays.uri(number)
            if uri not in changed:
                yield uri
        yield from (uri for uri in changed if self.state(uri) is None)

    def sources_with_data(self, start: str, keys: frozenset[str]) -> set[Uri]:
        """The nodes with a relation to a URI that begins with `start`, if the relation's data has one of these keys."""
        found = set[Uri]()
        within = self.arrays.numbers(start)
        for number, end, data in self.arrays.laden_relations():
            if end in within and not keys.isdisjoint(data):
                found.add(self.arrays.uri(number))
        found.difference_update(*(layer.succ for layer in self.changed))
        for uri in set(chain.from_iterable(layer.succ for layer in self.changed)):
            for target, keyed in self.succ(uri).items():
                if target.startswith(start) and any(not keys.isdisjoint(a.get("data", ())) for a in keyed.values()):
                    found.add(uri)
        return found

    def sample(self, most: int) -> list[Uri]:
        """About `most` nodes, evenly spread over the order of URIs; all of them if there are no more. O(most, and
        changes since the snapshot)."""
        arrays, known = self.arrays, self.changes()
        changed = sorted(known)
        share = min(1.0, most / max(1, len(arrays) + len(changed)))
        numbers = _spread(len(arrays), share)
        found = [uri for number in numbers if arrays.exists(number) and (uri := arrays.uri(number)) not in known]
        return found + [uri for number in _spread(len(changed), share) if self.is_node(uri := changed[number])]

    def size(self) -> int:
        """The number of nodes and missing targets. O(changes)."""
        changed = self.changes()
        known = sum(self.state(uri) is not False for uri in changed)
        return len(self.arrays) + known - sum(self.arrays.find(uri) >= 0 for uri in changed)

    def changes(self) -> set[Uri]:
        """The URIs that appeared or disappeared, or whose card changed."""
        return set().union(*(list(layer.nodes) for layer in self.changed))


def _spread(count: int, share: float) -> list[int]:
    """A share of the numbers below `count`, at equal distances."""
    taken = round(count * share)
    return [number * count // taken for number in range(taken)]


def packed(meta: Mapping[str, Any], sections: Mapping[str, array[int] | bytes | bytearray]) -> list[bytes | memoryview]:
    """The parts of a file that `Arrays` reads."""
    offset, rows = 0, []
    parts: list[bytes | memoryview] = []
    for name, kind in SECTIONS.items():
        data = memoryview(sections[name]).cast("B")
        rows.append([name, kind, offset, len(data) // array(kind).itemsize])
        padding = bytes(-len(data) % 8)
        parts += (data, padding)
        offset += len(data) + len(padding)
    body = {**meta, "byteorder": sys.byteorder}
    length = len(_head(body, rows, 0))
    while len(head := _head(body, rows, _LENGTH.size + length)) != length:
        length = len(head)
    return [_LENGTH.pack(length), head, *parts]


def _head(meta: Mapping[str, Any], rows: Sequence[Sequence[Any]], start: int) -> bytes:
    """The JSON part, padded to 8 bytes, for sections that start at `start`."""
    sections = [[name, kind, start + offset, items] for name, kind, offset, items in rows]
    head = orjson.dumps({**meta, "sections": sections})
    return head + b" " * (-len(head) % 8)


MAGIC = b"kgdgraph"
FORMAT = 3
_HEADER = struct.Struct(">8sIQIH32s")


class Snapshot(NamedTuple):
    """The graph of a root tree (given in hex). A tree diff updates it to another tree."""

    tree: str
    care: Any
    """JSON data about paths that need special treatment."""
    arrays: memoryview
    """Mapped from the file, which may be replaced or removed while this is in use."""


def write_snapshot(path: Path, tree: str, care: Any, arrays: Sequence[bytes | memoryview]) -> None:
    """Replace the snapshot atomically.

    Raises:
        OSError: The file cannot be written, or the folder is gone (it is never created here). The old snapshot is
            unchanged. Nothing depends on a snapshot, so this error may be ignored.
    """
    name, json = tree.encode("ascii"), orjson.dumps(care)
    json += b" " * (-(_HEADER.size + len(name) + len(json)) % 8)
    digest = hashlib.sha256(name + json)
    for part in arrays:
        digest.update(part)
    length = sum(memoryview(part).nbytes for part in arrays)
    header = _HEADER.pack(MAGIC, FORMAT, length, len(json), len(name), digest.digest())
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.writelines((header, name, json, *arrays))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_snapshot(path: Path) -> Snapshot | None:
    """The snapshot; None if it is missing or damaged, or has another format. Never raises."""
    try:
        with open(path, "rb") as file:
            magic, version, length, json_length, name_length, checksum = _HEADER.unpack(file.read(_HEADER.size))
            if magic != MAGIC or version != FORMAT:
                return None
            start = _HEADER.size + name_length + json_length
            if os.fstat(file.fileno()).st_size != start + length:
                return None
            if hashlib.file_digest(file, "sha256").digest() != checksum:  # read, not mapped: no page stays resident
                return None
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        name, json = data[_HEADER.size : _HEADER.size + name_length], data[_HEADER.size + name_length : start]
        return Snapshot(str(name, "ascii"), orjson.loads(json), data[start:])
    except (OSError, struct.error, ValueError):  # orjson's and Unicode's errors are ValueErrors
        return None
