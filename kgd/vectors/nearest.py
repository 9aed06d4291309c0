"""Nearest vectors of a workspace: all of them in memory, each one compared.

Exact, current after each change, without an index to build or to damage. The more rows there are, the fewer bits are
kept of each (`kgd.vectors.packed`).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgd.model.uri import Uri
from kgd.vectors.embedder import Vectors
from kgd.vectors.packed import BITS_ABOVE, BYTES_ABOVE, Floats, Packed, packed_for

DIGITS = 6
"""Decimal places of a similarity; later ones depend on the machine."""
_FIRST = 256


class Found(NamedTuple):
    """Best first, equals by URI. `floor` is the lowest similarity of all vectors searched, 0.0 if there were none."""

    hits: list[tuple[Uri, float]]
    floor: float


class Nearest:
    """The vectors of one workspace by URI. Safe for threads; a search does not block changes.

    A URI that is both stored and read from the code tree has a vector for each `origin`; the nearer one counts.

    Args:
        bytes_above: Rows above which a number is kept in one byte; above `bits_above` with a sketch.
    """

    def __init__(self, dim: int, bytes_above: int = BYTES_ABOVE, bits_above: int = BITS_ABOVE) -> None:
        self.dim, self._above = dim, (bytes_above, bits_above)
        self._lock = threading.Lock()
        self._packed: Packed = Floats(dim, _FIRST)
        self._uris: list[Uri | None] = []
        """By row; None marks a free row."""
        self._free: list[int] = []
        self._row: dict[Uri, int] = {}
        self._other: dict[Uri, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._uris) - len(self._free)

    def put(self, keys: Sequence[tuple[Uri, str]], vectors: Vectors) -> None:
        """Add or replace the vectors, of length 1, of these (URI, origin)."""
        with self._lock:
            held = len(self._uris)
            rows = [self._own(uri, origin) for uri, origin in keys]
            self._packed = packed_for(self._packed, held, len(self._uris), *self._above)
            self._packed.put(np.array(rows, np.int64), vectors)

    def drop(self, keys: Iterable[tuple[Uri, str]]) -> None:
        """Remove vectors; unknown keys are ignored."""
        with self._lock:
            for uri, origin in keys:
                row = self._taken(uri, origin)
                if row is not None:
                    self._uris[row] = None
                    self._free.append(row)

    def search(self, query: NDArray[np.float32], limit: int, within: Collection[Uri] | None = None) -> Found:
        """The nearest to a vector of length 1. 0.3 ms for 10k rows, 10 ms for 100k; O(`within`) if given."""
        with self._lock:
            rows = None if within is None else self._rows_of(within)
            packed, count = self._packed, len(self._uris)
            alive = np.ones(len(self._uris), np.bool_) if rows is None and self._free else None
            if alive is not None:
                alive[self._free] = False
        if limit <= 0 or (rows is not None and not len(rows)) or not count:
            return Found([], 0.0)
        some, floor = packed.best(query, count, rows, alive, limit)
        with self._lock:  # a row may have been reused since
            similarity = _similarity(self._packed.vectors(some), query)
            best: dict[Uri, float] = {}
            for row, value in zip(some.tolist(), similarity, strict=True):
                uri = self._uris[row]
                if uri is not None and value > best.get(uri, -2.0):
                    best[uri] = value
        hits = sorted(best.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        return Found(hits, round(min(floor, hits[-1][1]), DIGITS) if hits else 0.0)

    def similarity(self, query: NDArray[np.float32], uris: Collection[Uri]) -> dict[Uri, float]:
        """The similarity of each of these that has a vector. O(`uris`)."""
        with self._lock:
            row_of = self._row
            asked = [(uri, row) for uri in uris if (row := row_of.get(uri)) is not None]
            if self._other:
                asked += [(uri, row) for uri in uris for row in self._other.get(uri, {}).values()]
            rows = np.array([row for _, row in asked], np.int64)
            similarity = _similarity(self._packed.vectors(rows), query)
        found: dict[Uri, float] = {}
        for (uri, _), value in zip(asked, similarity, strict=True):
            if value > found.get(uri, -2.0):
                found[uri] = value
        return found

    def pairs(
        self, some: Sequence[Uri], within: Sequence[Uri], above: float, each: int
    ) -> list[tuple[Uri, Uri, float]]:
        """For each of `some` the `each` nearest of `within` with a similarity above `above`, except itself.

        Uses stored vectors; embeds nothing. One matrix product: O(`some` x `within`).
        """
        with self._lock:
            rows = [{uri: row for uri in uris if (row := self._row.get(uri)) is not None} for uris in (some, within)]
            ours, theirs = (self._packed.vectors(np.array([*known.values()], np.int64)) for known in rows)
        mine, other = ([*known] for known in rows)
        if not mine or not other:
            return []
        similarity = ours @ theirs.T
        found: list[tuple[Uri, Uri, float]] = []
        for uri, row in zip(mine, similarity, strict=True):
            near = [(float(row[at]), other[at]) for at in np.flatnonzero(row > above).tolist() if other[at] != uri]
            near.sort(key=lambda one: (-one[0], one[1]))
            found += [(uri, target, round(value, DIGITS)) for value, target in near[:each]]
        return found

    def _own(self, uri: Uri, origin: str) -> int:
        known = self._row.get(uri) if not origin else self._other.get(uri, {}).get(origin)
        if known is not None:
            return known
        if self._free:
            row = self._free.pop()
            self._uris[row] = uri
        else:
            row = len(self._uris)
            self._uris.append(uri)
        if origin:
            self._other.setdefault(uri, {})[origin] = row
        else:
            self._row[uri] = row
        return row

    def _taken(self, uri: Uri, origin: str) -> int | None:
        if not origin:
            return self._row.pop(uri, None)
        row = self._other.get(uri, {}).pop(origin, None)
        if not self._other.get(uri, True):
            del self._other[uri]
        return row

    def _rows_of(self, uris: Collection[Uri]) -> NDArray[np.int64]:
        rows = [self._row[uri] for uri in uris if uri in self._row]
        if self._other:
            rows += [row for uri in uris if uri in self._other for row in self._other[uri].values()]
        return np.array(rows, np.int64)


def _similarity(vectors: Vectors, query: NDArray[np.float32]) -> list[float]:
    """Row by row, so that a value depends only on its two vectors."""
    found: list[float] = np.round((vectors * query).sum(axis=1).astype(np.float64), DIGITS).tolist()
    return found
