"""Substring search over the texts of entities, available from the first query after startup.

The first query scans all texts of the full-text index. At the same time, a thread builds the index for later queries;
building takes ten times as long, so no call waits for it. The thread then reads the entities in advance, because
decoding an entity takes longer than everything else that a query does with it.

A word is a run of characters without spaces. A text that contains a phrase has the phrase's inner words, a word that
ends with the phrase's first word, and a word that begins with its last word. There are far fewer words than texts; they
form one string, which is searched at memory speed. A text also has the joints of the phrase: the last letters of a word
with the first letters of the next. They exclude most texts that have the words of a phrase far apart.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from kgd.exchange.entities import SCHEME, Entity, entity_in, is_implied
from kgd.index.words import clean
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Number of texts between two pauses; the pauses leave half of the time to concurrent calls."""


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
        """Entities that changed while the index is being built."""
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
        """A superset of the entities with the substring in their name, type or observations; the caller checks each
        entity.

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


T = TypeVar("T")

FRESH = 5_000
"""Largest number of new words that are searched one by one before they are added to the string."""
STALE = 2
"""Number of outdated entries per text beyond which the index should be rebuilt."""
FEW = 20
"""Number of candidates below which checking is faster than narrowing down."""
JOINT = 2
"""Number of letters on each side of a joint."""
JOINTS = 256
"""Number of bits for the joints of a text: a text of forty words sets a seventh of them."""


class Pieces(Generic[T]):
    """Texts by key, found by any substring, ignoring case. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: list[T] = []
        self._number: dict[T, int] = {}
        self._texts: dict[str, int | array[int]] = {}
        """Word to the number of the only text with it, or to the numbers of several texts."""
        self._joints: list[int] = []
        """The joints of each text, as bits."""
        self._words = "\n"
        self._fresh: list[str] = []
        self._stale = 0

    def put(self, key: T, texts: Iterable[str]) -> None:
        """Index the texts under this key. Earlier texts of the key are still found; see `candidates`."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self._keys)
            self._keys.append(key)
            self._joints.append(0)
        else:
            self._stale += 1
        known = self._texts
        words = clean("\n".join(texts)).lower().split()
        self._joints[number] |= _joints(pairwise(words))
        for word in set(words):
            there = known.get(word)
            if there is None:
                known[word] = number
                self._fresh.append(word)
            elif isinstance(there, int):
                if there != number:
                    known[word] = array("L", (there, number))
            else:
                there.append(number)

    @property
    def is_worn(self) -> bool:
        """Whether so many entries are outdated that the index should be rebuilt."""
        return self._stale > STALE * len(self._keys) + FRESH

    def candidates(self, piece: str) -> Iterable[T]:
        """The keys of all texts that contain the substring, and of some texts that do not, or no longer, contain it."""
        first, *more = clean(piece).lower().split() or [""]
        if not first:
            return list(self._keys)
        if not more:
            return [self._keys[number] for number in self._having(self._words_with(first))]
        *inner, last = more
        wanted: list[Iterable[str]] = [(word,) for word in sorted(set(inner), key=len, reverse=True)]
        wanted += [self._words_with(f"{first}\n"), self._words_with(f"\n{last}")]
        best = self._having(wanted[0])
        for words in wanted[1:]:
            if len(best) <= FEW:
                break
            best &= self._having(words)
        # A first or last word shorter than a joint may be part of a longer word in the text: its joint is unknown.
        begin, end = len(first) < JOINT, len(more) - (len(last) < JOINT)
        joints = _joints(list(pairwise((first, *more)))[begin:end])
        return [self._keys[number] for number in best if self._joints[number] & joints == joints]

    def _having(self, words: Iterable[str]) -> set[int]:
        """The numbers of the texts with any of the words."""
        found: set[int] = set()
        for word in words:
            there = self._texts.get(word, ())
            if isinstance(there, int):
                found.add(there)
            else:
                found.update(there)
        return found

    def _words_with(self, part: str) -> Iterator[str]:
        """The known words that contain `part`; a newline in `part` stands for the beginning or end of a word."""
        if len(self._fresh) > FRESH:
            self._words = f"{self._words}{chr(10).join(self._fresh)}\n"
            self._fresh = []
        for words in (self._words, f"\n{chr(10).join(self._fresh)}\n"):
            at = words.find(part)
            while at >= 0:
                inside = at + part.startswith("\n")
                begin, end = words.rfind("\n", 0, inside) + 1, words.find("\n", inside)
                yield words[begin:end]
                at = words.find(part, end)


def _joints(pairs: Iterable[tuple[str, str]]) -> int:
    joints = 0
    for word, following in pairs:
        joints |= 1 << hash((word[-JOINT:], following[:JOINT])) % JOINTS
    return joints
