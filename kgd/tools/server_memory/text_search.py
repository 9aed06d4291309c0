"""Substring search over the texts of entities, available from the first query after a start.

The first query scans all texts of the full-text index. Meanwhile a thread builds the index for later queries
(`kgd.tools.server_memory.substrings`); building takes ten times as long, so no call waits for it. The thread then reads
the entities ahead, since decoding one takes longer than everything else that a query does with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from kgd.exchange.entities import SCHEME, Entity, entity_in, is_implied
from kgd.index.words import clean
from kgd.model.uri import Uri
from kgd.tools.server_memory.substrings import Pieces

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Texts between two pauses, which leave half of the time to concurrent calls."""


def texts_of(entity: Entity) -> tuple[str, ...]:
    return entity.name, entity.type, *entity.observations


class Said:
    """The texts of the entities of one workspace. Thread-safe.

    Args:
        read_ahead: Reads an entity and returns whether to continue.
    """

    def __init__(self, workspace: Workspace, read_ahead: Callable[[Uri], bool]) -> None:
        self._workspace, self._read_ahead = workspace, read_ahead
        self._lock = threading.Lock()
        self._pieces: Pieces[Uri] | None = None
        self._read: list[tuple[Uri, str]] | None = None
        """All texts in lower case, while the index is being built."""
        self._late: set[Uri] = set()
        """Entities that changed since then."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        workspace.on_close(self._close)

    def changed(self, uris: Collection[Uri]) -> None:
        """Note that the texts of these entities changed, or that the entities are gone."""
        with self._lock:
            if self._read is not None:
                self._late.update(uris)
            elif self._pieces is not None:
                self._put(self._pieces, uris)

    def candidates(self, piece: str) -> list[Uri]:
        """A superset of the entities with the substring in their name, type or observations; the caller checks each.

        Before the index is built, a call takes a second for 100,000 entities.
        """
        with self._lock:
            if self._pieces is not None:
                found = list(self._pieces.candidates(piece))
                if self._pieces.is_worn:
                    self._pieces = None
                return found
            if self._read is None:
                self._begin()
            read, late = self._read or (), list(self._late)
        parts = clean(piece).lower().split()
        having = [uri for uri, text in read if all(part in text for part in parts)]
        return list(dict.fromkeys([*having, *late]))

    def _begin(self) -> None:
        rows = self._workspace.text().texts(SCHEME)
        self._read = [(uri, "\n".join(texts).lower()) for uri, *texts in rows]
        self._late = set()
        self._thread = threading.Thread(target=self._build, args=(self._read,), name="kgd-entities", daemon=True)
        self._thread.start()

    def _build(self, read: list[tuple[Uri, str]]) -> None:
        made: Pieces[Uri] | None = None
        pieces: Pieces[Uri] = Pieces()
        try:
            for part in self._with_pauses(read):
                for uri, text in part:
                    pieces.put(uri, (text,))
            made = None if self._stop.is_set() else pieces
        except Exception:
            # The next query scans all texts and starts the build again.
            log.exception("the texts of entities could not be indexed")
        finally:
            with self._lock:
                if made is not None:
                    self._put(made, self._late)
                self._pieces, self._read, self._late = made, None, set()
        for part in self._with_pauses(read):
            if not all(self._read_ahead(uri) for uri, _ in part):
                return

    def _with_pauses(self, read: Sequence[tuple[Uri, str]]) -> Iterator[Sequence[tuple[Uri, str]]]:
        """The texts in parts, until the workspace is closed."""
        for start in range(0, len(read), AT_ONCE):
            begun = time.monotonic()
            yield read[start : start + AT_ONCE]
            if self._stop.wait(time.monotonic() - begun):
                return

    def _put(self, pieces: Pieces[Uri], uris: Collection[Uri]) -> None:
        for uri in uris:
            node = self._workspace.readable(uri)
            if node is not None and not is_implied(node):
                pieces.put(uri, texts_of(entity_in(node)))

    def _close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)
