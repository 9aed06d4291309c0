"""Symbols and chunks of files, served as nodes from the code index.

They are not stored in git. While the index is damaged, nothing is served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from kgd.errors import KgdError
from kgd.graph.edges import Card, Edge
from kgd.index.code_index import ChunkRow, CodeIndex, EdgeRow, FileHit, SymbolRow
from kgd.model.escaping import one_line
from kgd.model.node import NAME_LIMIT, Node, cut_at_word
from kgd.model.uri import Uri, build, from_path, scheme_of, segments_of, workspace_of
from kgd.overlay.tree import ORIGIN

DEFINES: Final = "defines"
HAS_CHUNK: Final = "has_chunk"
PART_OF: Final = "part_of"
NEXT_CHUNK: Final = "NEXT_CHUNK"
_CHUNK_WEIGHT = 0.5
"""The same weight as for chunks of ingested documents."""

T = TypeVar("T")

log = logging.getLogger("kgd.overlay")


class FileParts:
    """The parts of the files of one workspace's code tree, as an `EdgeSource`. Any thread may read."""

    def __init__(self, index: CodeIndex, workspace: str) -> None:
        self._index, self._workspace = index, workspace
        self.report: Callable[[], dict[str, Any]] = dict
        """Progress of reading; set by the reader."""
        self.catch_up: Callable[[str, float], bool] = lambda path, within: True
        """Reads the file at a path before all others, and returns False if this takes longer than the given number of
        seconds; set by the reader."""

    def out(self, uri: Uri) -> Sequence[Edge]:
        place = self._place(uri)
        if place is None:
            return ()
        scheme, path, name = place
        if scheme == "chunk":
            return self._rows(lambda: self._chunk_out(path, int(name)))
        edges = [self._edge(row) for row in self._rows(lambda: self._index.out(path, name))]
        if scheme == "file":
            edges += [
                Edge(1.0, self.symbol_uri(path, row.name), DEFINES)
                for row in self._rows(lambda: self._index.symbols(path))
            ]
            if self._one(lambda: self._index.chunk(path, 1)):
                edges.append(Edge(_CHUNK_WEIGHT, self.chunk_uri(path, 1), HAS_CHUNK))
        return sorted(edges)

    def into(self, uri: Uri) -> Sequence[Edge]:
        place = self._place(uri)
        if place is None:
            return ()
        scheme, path, name = place
        if scheme == "chunk":
            return self._rows(lambda: self._chunk_into(path, int(name)))
        edges = [self._edge(row) for row in self._rows(lambda: self._index.into(path, name))]
        if scheme == "symbol" and self.node(uri) is not None:
            edges.append(Edge(1.0, self.file_uri(path), DEFINES))
        if scheme == "file":
            edges += [
                Edge(_CHUNK_WEIGHT, self.chunk_uri(path, row.number), PART_OF)
                for row in self._rows(lambda: self._index.chunks(path))
            ]
        return sorted(edges)

    def card(self, uri: Uri) -> Card | None:
        node = self.node(uri)
        return Card(uri, node.type, node.name, node.summary, None, ORIGIN, node.data.get("line", 0)) if node else None

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        place = self._place(uri)
        if place is None or place[0] == "file":
            return None
        scheme, path, name = place
        if scheme == "symbol":
            symbol = self._one(lambda: self._index.symbol(path, name))
            return self._symbol(uri, symbol) if symbol else None
        chunk = self._one(lambda: self._index.chunk(path, int(name)))
        return self._chunk(uri, path, chunk) if chunk else None

    def nodes(self, path: str) -> list[Node]:
        """The parts of one file: symbols by line, then chunks in order."""
        parts = [(self._built("symbol", path, row.name), row) for row in self._rows(lambda: self._index.symbols(path))]
        found = [self._symbol(uri, row) for uri, row in parts if uri]
        for chunk in self._rows(lambda: self._index.chunks(path)):
            if uri := self._built("chunk", path, f"{chunk.number:04d}"):
                found.append(self._chunk(uri, path, chunk))
        return found

    def files(self) -> Iterator[str]:
        """The paths of files that have parts. O(files)."""
        yield from self._rows(self._index.with_content)

    def files_with(self, query: str, limit: int) -> tuple[list[FileHit], frozenset[str]]:
        """Files with words of the query in their path or whole text; see `CodeIndex.files_with`."""
        try:
            return self._index.files_with(query, limit)
        except KgdError:
            log.warning("the code index cannot be read")
            return [], frozenset()

    def symbol_uri(self, path: str, name: str) -> Uri:
        return build("symbol", self._workspace, [*path.encode().split(b"/"), name.encode()])

    def chunk_uri(self, path: str, number: int) -> Uri:
        return from_path("chunk", self._workspace, f"{path}/{number:04d}")

    def file_uri(self, path: str) -> Uri:
        return from_path("file", self._workspace, path)

    def _symbol(self, uri: Uri, symbol: SymbolRow) -> Node:
        name = symbol.name if len(symbol.name) <= NAME_LIMIT else symbol.name[-NAME_LIMIT:]
        content = "\n".join(filter(None, (symbol.signature, symbol.doc)))
        data = {"kind": symbol.kind, "line": symbol.line, "end_line": symbol.end, "signature": symbol.signature}
        summary = cut_at_word(one_line(symbol.doc or symbol.signature))
        return Node(uri, name=one_line(name), summary=summary, content=_lines(content), data=data)

    def _chunk(self, uri: Uri, path: str, chunk: ChunkRow) -> Node:
        name = cut_at_word(one_line(chunk.heading), NAME_LIMIT)
        return Node(uri, name=name, content=_lines(chunk.text))

    def _chunk_out(self, path: str, number: int) -> list[Edge]:
        if self._index.chunk(path, number) is None:
            return []
        edges = [Edge(_CHUNK_WEIGHT, self.file_uri(path), PART_OF)]
        if self._index.chunk(path, number + 1):
            edges.append(Edge(_CHUNK_WEIGHT, self.chunk_uri(path, number + 1), NEXT_CHUNK))
        return sorted(edges)

    def _chunk_into(self, path: str, number: int) -> list[Edge]:
        if self._index.chunk(path, number) is None:
            return []
        if number == 1:
            return [Edge(_CHUNK_WEIGHT, self.file_uri(path), HAS_CHUNK)]
        return [Edge(_CHUNK_WEIGHT, self.chunk_uri(path, number - 1), NEXT_CHUNK)]

    def _edge(self, row: EdgeRow) -> Edge:
        end = self.symbol_uri(row.path, row.name) if row.name else self.file_uri(row.path)
        return Edge(1.0, end, row.type)

    def _place(self, uri: Uri) -> tuple[str, str, str] | None:
        """The scheme, the path of the file, and the name of the part; None for a URI outside this tree."""
        scheme = scheme_of(uri)
        if scheme not in ("file", "symbol", "chunk") or workspace_of(uri) != self._workspace:
            return None
        try:
            segments = [one.decode() for one in segments_of(uri)]
            if scheme == "file":
                return scheme, "/".join(segments), ""
            *above, name = segments
            number = scheme == "chunk"
            if not above or (number and not (len(name) < 9 and name.isascii() and name.isdigit())):
                return None
            if number and f"{int(name):04d}" != name:
                return None
            return scheme, "/".join(above), name
        except (KgdError, UnicodeDecodeError):
            return None

    def _built(self, scheme: str, path: str, name: str) -> Uri | None:
        try:
            return build(scheme, self._workspace, [*path.encode().split(b"/"), name.encode()])
        except (KgdError, UnicodeEncodeError):
            return None

    def _rows(self, read: Callable[[], list[T]]) -> list[T]:
        try:
            return read()
        except KgdError:
            log.warning("the code index cannot be read")
            return []

    def _one(self, read: Callable[[], T | None]) -> T | None:
        return next(iter(self._rows(lambda: [read()])), None)


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
