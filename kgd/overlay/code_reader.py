"""Reading of code files into the code index: symbols, chunks, and edges between them.

Only changed files are read, and only files that depend on a change are resolved again.
"""

from __future__ import annotations

import hashlib
import logging
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import orjson

from kgd.git.files import read_regular
from kgd.index.code_index import BODY_CHARACTERS, ChunkRow, CodeIndex, StoredReading, SymbolRow
from kgd.model.uri import MAX_BYTES, MAX_SEGMENT_BYTES
from kgd.symbols import INHERITS, Import, Symbol, Symbols, Use
from kgd.symbols.extraction import LARGEST, extract, language_for, why_not
from kgd.symbols.resolution import keys_of, resolve
from kgd.workspace.writing.secrets import first_in, secret_in

log = logging.getLogger("kgd.reading")

READ = "read"
SYMBOLS_LIMIT = 5_000
"""Maximum number of symbols in one file; a file with more is usually generated."""
DOCUMENT_BYTES = 4 << 20
CHUNKS_LIMIT = 2_000
MOST_SECRETS = 20
"""Maximum number of secrets to remove from the text of one file."""
KEPT_READINGS = 1_500
"""Maximum number of parsed files to cache while names are resolved."""
KEPT_KEYS = 50_000

_FIRST = re.compile(r"\**([^.()\[\]]*)").match

Cut = Callable[[str, bytes], Sequence[tuple[str, str]]]
"""Returns headings and texts of the chunks of a document, given path and bytes; ValueError if it has none."""


class FileToRead(NamedTuple):
    """A file to read. `stamp` identifies its state; `failed` is a reason not to read it, or empty."""

    path: str
    file_type: str
    stamp: str
    failed: str = ""


class CodeReader:
    """Reads files for one `CodeIndex`; its only writer.

    Args:
        cut: Splits documents into chunks; without it, documents are not read.
    """

    def __init__(self, index: CodeIndex, root: str, cut: Cut | None = None) -> None:
        self.index = index
        self._root, self._cut = root, cut
        self._readings: OrderedDict[str, Symbols | None] = OrderedDict()
        self._keyed: dict[str, Sequence[str]] = {}
        """A cache of the files of each key, until a file is read or removed."""

    def read(self, files: Iterable[FileToRead], begin: Callable[[str], object] = lambda path: None) -> list[str]:
        """Read these files in one transaction, and return the paths for which the index changed.

        `begin` is called with each path before a parser reads its content.
        """
        changed = []
        self._keyed.clear()
        with self.index.write():
            for asked in files:
                if self._read(asked, begin):
                    changed.append(asked.path)
                    self._readings.pop(asked.path, None)
        return changed

    def remove(self, paths: Iterable[str]) -> list[str]:
        """Forget these files, and return the paths that were known."""
        self._keyed.clear()
        with self.index.write():
            gone = [path for path in paths if self.index.remove(path)]
        for path in gone:
            self._readings.pop(path, None)
        return gone

    def follow(self, limit: int = 100, begin: Callable[[str], object] = lambda path: None) -> list[str]:
        """Resolve the names of up to `limit` files whose edges are out of date, and return their paths."""
        paths = self.index.unresolved(limit)
        with self.index.write():
            for path in paths:
                begin(path)
                project = _Project(self)
                edges = [
                    (link.source.name, link.type, link.target.path, link.target.name) for link in resolve(path, project)
                ]
                self.index.link(path, edges, project.asked)
        return paths

    def symbols(self, path: str) -> Symbols | None:
        """The symbols of a file, from the index."""
        if path in self._readings:
            self._readings.move_to_end(path)
            return self._readings[path]
        data = self.index.reading(path)
        found = self._readings[path] = unpacked(data) if data else None
        if len(self._readings) > KEPT_READINGS:
            self._readings.popitem(last=False)
        return found

    def files(self, key: str) -> Sequence[str]:
        """The files that provide a key, sorted."""
        found = self._keyed.get(key)
        if found is None:
            if len(self._keyed) >= KEPT_KEYS:
                self._keyed.clear()
            found = self._keyed[key] = self.index.with_key(key)
        return found

    def _read(self, asked: FileToRead, begin: Callable[[str], object]) -> bool:
        language = language_for(asked.path, asked.file_type)
        before = self.index.file(asked.path)
        if asked.failed:
            return self._leave_out(asked, language, asked.failed, "")
        data = read_regular(f"{self._root}/{asked.path}", 1 + (LARGEST if language else DOCUMENT_BYTES))
        if data is None:
            return bool(self.index.remove(asked.path))
        digest = hashlib.sha256(data).hexdigest()
        if before is not None and before.hash == digest and before.language == (language or asked.file_type):
            self.index.restamp(asked.path, asked.stamp)
            return False
        begin(asked.path)
        if not language:
            return self._document(asked, data, digest)
        reason = why_not(data)
        symbols = None if reason else _extracted(asked.path, data, language)
        if symbols is None or symbols.reason:
            return self._leave_out(asked, language, reason or (symbols.reason if symbols else "no grammar"), digest)
        symbols = _storable(asked.path, symbols)
        rows = [SymbolRow(*_without_secrets(one)) for one in symbols.symbols]
        written = StoredReading(
            asked.path,
            language,
            asked.stamp,
            digest,
            READ,
            shape_of(symbols),
            packed(symbols),
            rows,
            keys=keys_of(asked.path, symbols),
            text=_searched(data.decode("utf-8", "replace")),
        )
        self.index.put(written)
        return True

    def _document(self, asked: FileToRead, data: bytes, digest: str) -> bool:
        try:
            cut = self._cut(asked.path, data) if self._cut is not None and len(data) <= DOCUMENT_BYTES else None
        except ValueError as error:
            return self._leave_out(asked, asked.file_type, str(error)[:200], digest)
        if cut is None:
            return self._leave_out(asked, asked.file_type, "large" if self._cut else "not read", digest)
        rows = [ChunkRow(number, heading, text) for number, (heading, text) in enumerate(cut[:CHUNKS_LIMIT], 1)]
        text = "\n".join(text for _, *texts in rows for text in texts)
        self.index.put(StoredReading(asked.path, asked.file_type, asked.stamp, digest, READ, chunks=rows, text=text))
        return True

    def _leave_out(self, asked: FileToRead, language: str, reason: str, digest: str) -> bool:
        keys = keys_of(asked.path, Symbols(language)) if language else ()  # other files still import it
        self.index.put(StoredReading(asked.path, language or asked.file_type, asked.stamp, digest, reason, keys=keys))
        return True


class _Project:
    """The other files during resolution; records the keys that were looked up."""

    def __init__(self, reading: CodeReader) -> None:
        self._reading = reading
        self.asked: set[str] = set()

    def symbols(self, path: str) -> Symbols | None:
        self.asked.add(f"file:{path}")
        return self._reading.symbols(path)

    def files(self, key: str) -> Sequence[str]:
        self.asked.add(key)
        return self._reading.files(key)


def packed(symbols: Symbols) -> bytes:
    """The part of a file's symbols that resolution needs, compressed."""
    fields = [
        symbols.language,
        symbols.package,
        [(one.name, one.kind) for one in symbols.symbols],
        symbols.imports,
        symbols.uses,
        [(*at, chain) for at, chain in symbols.types.items()],
    ]
    return zlib.compress(orjson.dumps(fields, option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=list), 1)


def unpacked(data: bytes) -> Symbols:
    language, package, symbols, imports, uses, types = orjson.loads(zlib.decompress(data))
    return Symbols(
        language,
        tuple(Symbol(name, kind, 0, 0) for name, kind in symbols),
        tuple(Import(*one) for one in imports),
        tuple(Use(*one) for one in uses),
        {(scope, name): chain for scope, name, chain in types},
        package,
    )


def shape_of(symbols: Symbols) -> str:
    """A digest of the parts of a file that other files can see; no other change affects those files."""
    kinds = {one.name: one.kind for one in symbols.symbols}
    types = {at: chain for at, chain in symbols.types.items() if kinds.get(at[0], "") not in ("function", "method")}
    for scope in [scope for scope, name in symbols.types if name == "()"]:
        name = "()"
        while (scope, name) not in types and (chain := symbols.types.get((scope, name))) is not None:
            types[scope, name] = chain  # the result of a function may be the value of a name in it
            found = _FIRST(chain)
            name = found[1] if found else ""
    bases = sorted(use for use in symbols.uses if use.kind == INHERITS)
    seen = [symbols.package, sorted(kinds.items()), sorted(symbols.imports), bases, sorted(types.items())]
    return hashlib.sha256(repr(seen).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _extracted(path: str, data: bytes, language: str) -> Symbols | None:
    try:
        return extract(path, data, language)
    except Exception:  # a defect with one file must not prevent the reading of others
        log.exception("a file could not be read")
        return Symbols(language, reason="it cannot be read")


def _storable(path: str, symbols: Symbols) -> Symbols:
    """The symbols without those whose path or name is too long for a URI."""
    room = MAX_BYTES - 3 * len(path.encode()) - 80
    kept = tuple(one for one in symbols.symbols[:SYMBOLS_LIMIT] if _fits(one.name, room))
    return symbols if len(kept) == len(symbols.symbols) else symbols._replace(symbols=kept)


def _without_secrets(symbol: Symbol) -> Symbol:
    """Hide values such as `TOKEN = "…"`, because nodes may be served to more readers than the file."""
    return symbol._replace(
        signature=symbol.name if secret_in(symbol.signature) else symbol.signature,
        doc="" if secret_in(symbol.doc) else symbol.doc,
    )


def _searched(text: str) -> str:
    """The searchable text of a file, without secrets; empty if not all secrets can be removed."""
    text = text[:BODY_CHARACTERS]
    for _ in range(MOST_SECRETS):
        found = first_in(text)
        if found is None:
            return text
        if found.kind == "private key":  # only its first line is known
            break
        text = text.replace(found.text, " ")
    return ""


def _fits(name: str, room: int) -> bool:
    size = len(name.encode("utf-8", "replace"))
    return size <= MAX_SEGMENT_BYTES and 3 * size <= room and name not in (".", "..") and "\0" not in name
