"""Building the arrays of a graph from its nodes, read one after the other.

An added node is a row of columns, so until the arrays are built a million nodes take 0.5 GB; as dictionaries they would
take 3 GB.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain

from kgd.graph.array_builder import Laden, Sections, derived_sections
from kgd.graph.arrays import BLOB, NO_BLOB, NONE, Arrays, packed
from kgd.graph.edges import UNIT, WEIGHT_DIGITS, Card
from kgd.model.node import Json
from kgd.model.uri import Uri

_MISSING = 0
"""The row of a URI that is only the target of relations."""


class ArrayStream:
    """Nodes with their relations and aliases, in any order. Only for one thread."""

    def __init__(self) -> None:
        self._ids: dict[Uri, int] = {}
        """The URIs of nodes and of targets of relations, numbered as they come."""
        self._rows = array("I")
        """The row of each id. A replaced or removed node leaves an unused row."""
        self._labels: dict[str, int] = {"": 0}
        self._text, self._ends = bytearray(), array("I", [0, 0, 0])
        """Name and summary of each row: its start, the end of its name, the end of both."""
        self._types, self._origins, self._blobs = array("I", [0]), array("I", [0]), bytearray(BLOB)
        self._at = array("I", [0, 0])
        self._to, self._weights, self._kinds = array("I"), array("I"), array("I")
        self._data: dict[int, Mapping[str, Json]] = {}
        """The data of relations, by their position in `_to`."""
        self._aliases: dict[Uri, tuple[Uri, ...]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def card(self, uri: Uri) -> Card | None:
        id = self._ids.get(uri)
        row = self._rows[id] if id is not None else _MISSING
        if row == _MISSING:
            return None
        labels = list(self._labels)
        start, middle, end = self._ends[2 * row : 2 * row + 3]
        name, summary = self._text[start:middle].decode(), self._text[middle:end].decode()
        blob = bytes(self._blobs[BLOB * row : BLOB * row + BLOB])
        type, origin = labels[self._types[row]], labels[self._origins[row]]
        return Card(uri, type, name, summary, None if blob == NO_BLOB else blob, origin)

    def put(
        self,
        card: Card,
        relations: Iterable[tuple[str, Uri, float] | tuple[str, Uri, float, Mapping[str, Json]]] = (),
        aliases: Collection[Uri] = (),
    ) -> None:
        """Set the node, with all its aliases and relations: type, target, weight, and perhaps data."""
        labels, label = self._labels, self._labels.setdefault
        self.remove(card.uri)
        self._rows[self._id(card.uri)] = len(self._types)
        for text in (card.name, card.summary):
            self._text += text.encode()
            self._ends.append(len(self._text))
        self._types.append(label(card.type, len(labels)))
        self._origins.append(label(card.origin, len(labels)))
        self._blobs += card.blob or NO_BLOB
        for type, target, weight, *data in relations:
            if data and data[0]:
                self._data[len(self._to)] = data[0]
            self._to.append(self._id(target))
            self._weights.append(int(round(weight, WEIGHT_DIGITS) * UNIT + 0.5))
            self._kinds.append(label(type, len(labels)))
        self._at.append(len(self._to))
        self._count += 1
        if names := tuple(sorted({*aliases} - {card.uri})):
            self._aliases[card.uri] = names

    def remove(self, uri: Uri) -> bool:
        """Remove the node with its relations. False if it does not exist."""
        id = self._ids.get(uri)
        if id is None or self._rows[id] == _MISSING:
            return False
        self._rows[id] = _MISSING
        self._aliases.pop(uri, None)
        self._count -= 1
        return True

    def _id(self, uri: Uri) -> int:
        id = self._ids.get(uri)
        if id is None:
            id = self._ids[uri] = len(self._rows)
            self._rows.append(_MISSING)
        return id

    # The arrays

    def arrays(self) -> Arrays:
        """The graph. The stream cannot be used afterwards."""
        entered = bytearray(len(self._rows))
        for row in self._rows:
            for id in self._to[self._at[row] : self._at[row + 1]]:
                entered[id] = 1
        uris = sorted(uri for uri, id in self._ids.items() if self._rows[id] != _MISSING or entered[id])
        numbers = array("I", [NONE]) * len(self._rows)
        for number, uri in enumerate(uris):
            numbers[self._ids[uri]] = number
        rows = array("I", [self._rows[self._ids[uri]] for uri in uris])
        named = {*self._aliases, *chain.from_iterable(self._aliases.values())}
        renamed = [numbers[id] for id in map(self._ids.get, named) if id is not None and numbers[id] != NONE]
        self._ids.clear()
        labels = sorted(self._labels)
        ranks = {label: rank for rank, label in enumerate(labels)}
        rank_of = [ranks[label] for label in self._labels]
        sections = self._nodes(uris, rows, rank_of)
        del uris
        sections |= self._relations(rows, numbers, rank_of)
        sections |= derived_sections(sections, renamed)
        counts = Counter(sections["types"])
        types = {labels[type]: count for type, count in counts.items() if type != NONE}
        meta = {"labels": labels, "types": types, "aliases": self._aliases, "count": self._count}
        return Arrays(b"".join(packed(meta, sections)))

    def _nodes(self, uris: Sequence[Uri], rows: array[int], ranks: Sequence[int]) -> Sections:
        text, ends, blobs = bytearray(), array("I", [0]), bytearray()
        for uri, row in zip(uris, rows, strict=True):
            start, middle, end = self._ends[2 * row : 2 * row + 3]
            text += uri.encode()
            ends.append(len(text))
            ends.append(len(text) + middle - start)
            text += self._text[start:end]
            ends.append(len(text))
            blobs += self._blobs[BLOB * row : BLOB * row + BLOB]
        types = array("I", [ranks[self._types[row]] if row != _MISSING else NONE for row in rows])
        origins = array("I", [ranks[self._origins[row]] for row in rows])
        self._text, self._blobs = bytearray(), bytearray()
        return {"text": text, "ends": ends, "types": types, "origins": origins, "blobs": blobs}

    def _relations(self, rows: array[int], numbers: array[int], ranks: Sequence[int]) -> Sections:
        """Both directions in walking order: by weight, other end and type."""
        at, to, weights, types = array("I", [0]), array("I"), array("I"), array("I")
        laden = Laden()
        for row in rows:
            start, end = self._at[row], self._at[row + 1]
            ends = [numbers[id] for id in self._to[start:end]]
            kinds = [ranks[kind] for kind in self._kinds[start:end]]
            for weight, other, kind, position in sorted(
                zip(self._weights[start:end], ends, kinds, range(start, end), strict=True)
            ):
                if position in self._data:
                    laden.add(len(to), self._data[position])
                to.append(other)
                weights.append(weight)
                types.append(kind)
            at.append(len(to))
        self._to, self._weights, self._kinds = array("I"), array("I"), array("I")
        found: Sections = {"out_at": at, "out_to": to, "out_weight": weights, "out_type": types}
        found |= {"laden": laden.positions, "laden_at": laden.ends, "laden_text": laden.text}
        return found | _entering(at, to, weights, types)


def _entering(at: array[int], to: array[int], weights: array[int], types: array[int]) -> Sections:
    """The same relations by their other ends."""
    counts = array("I", bytes(4 * len(at)))
    for number in to:
        counts[number + 1] += 1
    starts = array("I", accumulate(counts))
    free = array("I", starts)
    sources, in_weights, in_types = (array("I", bytes(4 * len(to))) for _ in range(3))
    for source in range(len(at) - 1):
        for position in range(at[source], at[source + 1]):
            number = to[position]
            place = free[number]
            free[number] += 1
            sources[place], in_weights[place], in_types[place] = source, weights[position], types[position]
    for number in range(len(starts) - 1):
        start, end = starts[number], starts[number + 1]
        if end - start > 1:
            row = sorted(zip(in_weights[start:end], sources[start:end], in_types[start:end], strict=True))
            for place, each in enumerate(row, start):
                in_weights[place], sources[place], in_types[place] = each
    return {"in_at": starts, "in_to": sources, "in_weight": in_weights, "in_type": in_types}
