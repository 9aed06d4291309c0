"""The graph as plain lists, for the snapshot.

Columns, with nodes as positions and the few different (type, weight) groups in a table of their own, because a start
spends most time making objects: 100k nodes with 400k edges are read in about a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgd.errors import Damaged
from kgd.graph.edges import Card
from kgd.model.uri import Uri

Rows = dict[str, Any]
"""The result of `Packer.rows`, made of dict, list, str, int, float and None only."""

_COLUMNS = ("uris", "types", "origins", "names", "summaries", "blobs", "edges")


class Packer:
    """Collects nodes one by one; a repeated node replaces the earlier one."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._positions: dict[Uri, int] = {}
        self._labels: dict[str, int] = {}
        self._kinds: dict[tuple[tuple[str, float], ...], int] = {}
        self._laden: dict[int, list[Any]] = {}
        self._aliases: dict[int, list[str]] = {}

    def take(self, card: Card, ends: Mapping[Uri, Mapping[str, Any]], aliases: Sequence[Uri]) -> None:
        at = self._position(card.uri)
        plain: list[int] = []
        laden: list[Any] = []
        for target, keyed in ends.items():
            if any("data" in attributes for attributes in keyed.values()):
                laden.append([self._position(target), keyed])
            else:
                kind = tuple((type, attributes["weight"]) for type, attributes in keyed.items())
                plain += (self._position(target), self._kinds.setdefault(kind, len(self._kinds)))
        blob = card.blob.hex() if card.blob else ""
        label = self._labels
        type_at, origin_at = label.setdefault(card.type, len(label)), label.setdefault(card.origin, len(label))
        for name, value in zip(
            _COLUMNS, (card.uri, type_at, origin_at, card.name, card.summary, blob, plain), strict=True
        ):
            self._columns[name][at] = value
        self._put(self._laden, at, laden)
        self._put(self._aliases, at, list(aliases))

    def drop(self, uri: Uri) -> None:
        """Remove an exported node; it may still be the target of others."""
        at = self._position(uri)
        for name, value in zip(_COLUMNS, (uri, -1, -1, "", "", "", []), strict=True):
            self._columns[name][at] = value
        self._put(self._laden, at, [])
        self._put(self._aliases, at, [])

    def rows(self) -> Rows:
        return {
            **self._columns,
            "labels": list(self._labels),
            "kinds": [[list(pair) for pair in kind] for kind in self._kinds],
            "laden": [[at, edges] for at, edges in self._laden.items()],
            "aliases": [[at, aliases] for at, aliases in self._aliases.items()],
        }

    def _position(self, uri: Uri) -> int:
        at = self._positions.get(uri)
        if at is None:
            at = self._positions[uri] = len(self._positions)
            for name, value in zip(_COLUMNS, (uri, -1, -1, "", "", "", []), strict=True):
                self._columns[name].append(value)
        return at

    @staticmethod
    def _put(table: dict[int, list[Any]], at: int, value: list[Any]) -> None:
        if value:
            table[at] = value
        else:
            table.pop(at, None)


class Unpacked:
    """The dictionaries of a networkx graph, filled directly, and the indexes beside them."""

    def __init__(self, rows: Rows) -> None:
        """Read the result of `Packer.rows`.

        Raises:
            Damaged: These are not such rows.
        """
        self.nodes: dict[Uri, dict[str, Card]] = {}
        self.succ: dict[Uri, dict[Uri, dict[str, Any]]] = {}
        self.pred: dict[Uri, dict[Uri, dict[str, Any]]] = {}
        self.shared: dict[tuple[tuple[str, float], ...], dict[str, Any]] = {}
        self.aliases: dict[Uri, tuple[Uri, ...]] = {}
        try:
            self._read_nodes(rows)
            self._read_edges(rows)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise Damaged("the rows of the graph are malformed", at="snapshot") from error

    def _read_nodes(self, rows: Rows) -> None:
        labels, nodes, succ, pred = rows["labels"], self.nodes, self.succ, self.pred
        unhex = bytes.fromhex
        for uri, type_at, origin_at, name, summary, blob in zip(*(rows[c] for c in _COLUMNS[:-1]), strict=True):
            succ[uri], pred[uri], nodes[uri] = {}, {}, {}
            if type_at >= 0:
                id = unhex(blob) if blob else None
                nodes[uri]["card"] = Card(uri, labels[type_at], name, summary, id, labels[origin_at])
        uris = rows["uris"]
        self.aliases = {uris[at]: tuple(aliases) for at, aliases in rows["aliases"]}

    def _read_edges(self, rows: Rows) -> None:
        uris, pred = rows["uris"], self.pred
        kinds = [{type: {"weight": weight} for type, weight in kind} for kind in rows["kinds"]]
        self.shared = {tuple((type, weight) for type, weight in kind): kinds[i] for i, kind in enumerate(rows["kinds"])}
        for uri, flat in zip(uris, rows["edges"], strict=True):
            ends = self.succ[uri]
            pairs = iter(flat)
            for at, kind in zip(pairs, pairs, strict=True):
                target = uris[at]
                ends[target] = pred[target][uri] = kinds[kind]
        for at, edges in rows["laden"]:
            uri = uris[at]
            for target_at, keyed in edges:
                target = uris[target_at]
                self.succ[uri][target] = pred[target][uri] = keyed
        for uri in [uri for uri, node in self.nodes.items() if not node and not pred[uri]]:
            del self.nodes[uri], self.succ[uri], pred[uri]
