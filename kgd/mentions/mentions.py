"""Mentions: which texts name which nodes, kept in step with the text index.

One thread follows the text index. A new text is searched for all names, and for a new name the older texts with its
words are searched again. The result is derived: it is not committed, and a deleted file is rebuilt with the same
content.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kgd.errors import KgdError
from kgd.graph.edges import Card, Edge
from kgd.index.change_feed import Feed, Indexed, Position
from kgd.index.database import IndexDamaged
from kgd.index.mentions_file import MOST_ALIKE, Mention, MentionsFile
from kgd.mentions.matching import WRITTEN, found_in, is_part, keys_of, path_ends, phrase_key, place
from kgd.model.uri import Uri, scheme_of
from kgd.workspace.answers import Stage

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

log = logging.getLogger(__name__)

MENTIONS = "MENTIONS"
COST = 1.0
COMMON, COMMON_SHARE = 20, 0.02
"""A name of one word is ignored if it is in more than this share of all texts, and in more than this number."""
FADING = 0.15
"""Decay of a mention's strength with the number of texts that have the name: 1 / (1 + FADING ln n)."""
MOST_MET = 1_000
"""Mentions of one node that are returned."""
BATCH, LOOKED_THROUGH = 400, 50
LONGEST_PAUSE = 0.1
MANY = 500
"""Texts to search above which all names are loaded into memory, and callers do not wait."""
LONGEST_TEXT = 200_000
LOOKED_KEPT = 4_096
"""Nodes whose mentions are cached until something changes, as one search asks for the same ones many times."""
AGAIN_AFTER = 5.0
PATIENCE = 2.0
_OUT, _INTO = "out", "into"
_Looked = Mapping[Uri, Sequence[Mention]]


class Mentions:
    """The mentions of one workspace as an `EdgeSource` with derived `MENTIONS` edges.

    Reads return the current state and never wait; `catch_up` waits. Safe for any number of threads.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._file = MentionsFile(workspace.derived_dir / "mentions.sqlite")
        self._feed: Feed | None = None
        self._looked: dict[tuple[str, Uri], Sequence[Mention]] = {}
        self._count = 0
        self._at: Position | None = None
        self._is_building = self._is_damaged = self._in_a_hurry = False
        self._state = Stage("mentions", "waiting", blocker="searching the texts for names")
        self._progress = threading.Condition()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="kgd-mentions", daemon=True)
        workspace.on_indexed(self._wake.set)
        workspace.on_close(self.close)
        workspace.on_health(self.stage)
        self._wake.set()
        self._thread.start()

    @classmethod
    def of(cls, workspace: Workspace) -> Mentions:
        return workspace.beside(cls, cls)

    def close(self) -> None:
        """Stop; the next start continues from here."""
        self._stop.set()
        self._wake.set()
        self._thread.join(30)
        self._file.close()

    # ---- reads

    def out(self, uri: Uri) -> Sequence[Edge]:
        """The nodes that this node's texts mention, by URI."""
        return [Edge(COST, met.uri, MENTIONS) for met in sorted(self._known(_OUT, uri))]

    def into(self, uri: Uri) -> Sequence[Edge]:
        """The nodes whose texts mention this node, by URI; at most `MOST_MET`."""
        return [Edge(COST, met.uri, MENTIONS) for met in sorted(self._known(_INTO, uri))]

    def card(self, uri: Uri) -> Card | None:
        """Return None: this source has edges only."""
        return None

    def resolve(self, uri: Uri) -> Uri:
        return self._workspace.graph.resolve(uri)

    def mentioned(self, uri: Uri) -> dict[Uri, float]:
        """The nodes that this node's texts mention, with the strength of each mention, 0..1, strongest first."""
        return {met.uri: strength_of(met.found) for met in self._known(_OUT, uri)}

    def mentioning(self, uri: Uri) -> dict[Uri, float]:
        """The nodes whose texts mention this node, in the same form; at most `MOST_MET`."""
        return {met.uri: strength_of(met.found) for met in self._known(_INTO, uri)}

    def look_up(self, out: Collection[Uri], into: Collection[Uri]) -> None:
        """Prefetch the next results of `mentioned` and `mentioning` with few SQL statements."""
        known = self._looked
        for way, uris in ((_OUT, out), (_INTO, into)):
            if fresh := [uri for uri in uris if (way, uri) not in known]:
                self._look_up(way, fresh, known)

    def strength(self, source: Uri, target: Uri) -> float:
        """The strength of a mention, 0..1, lower the more texts have the name. 0 if there is none."""
        return self.mentioned(source).get(target, 0.0)

    def known(self, keys: Collection[str]) -> Collection[str]:
        """Filter folded names, with blanks between words, to the names of nodes."""
        try:
            return self._file.known(keys)
        except KgdError as error:
            self._degrade(error)
            return ()

    def going_by(self, name: str) -> Sequence[Uri]:
        """The nodes of this name, by URI."""
        words = phrase_key(name)
        try:
            return self._file.going_by(" ".join(words)) if words else ()
        except KgdError as error:
            self._degrade(error)
            return ()

    def catch_up(self, within: float = PATIENCE) -> bool:
        """Wait until all texts acknowledged before the call are searched; returns whether they were in time.

        During a large build, after an import or at the first start, it returns False at once.
        """
        try:
            goal = self._workspace.feed().end()
        except KgdError:
            return False
        if self._covers(goal):
            return True
        self._wake.set()
        with self._progress:
            self._progress.wait_for(lambda: self._covers(goal) or self._is_building or self._stop.is_set(), within)
            return self._covers(goal)

    def settle(self, within: float = 60.0) -> bool:
        """Wait until everything is searched, however much it is."""
        goal = self._workspace.feed().end()
        self._in_a_hurry = True
        self._wake.set()
        with self._progress:
            done = self._progress.wait_for(lambda: self._covers(goal) or self._stop.is_set(), within)
        self._in_a_hurry = False
        return done

    def stage(self) -> Stage:
        """State for `status`."""
        return self._state

    # ---- mentions

    def _known(self, way: str, uri: Uri) -> Sequence[Mention]:
        """The mentions of a node from the cache or the file, strongest first, then by URI."""
        known = self._looked
        if (found := known.get((way, uri))) is None:
            found = self._look_up(way, [uri], known)[uri]
        return found

    def _look_up(self, way: str, uris: Collection[Uri], known: dict[tuple[str, Uri], Sequence[Mention]]) -> _Looked:
        found = self._mentioned(uris) if way == _OUT else self._mentioning(uris)
        if len(known) + len(found) > LOOKED_KEPT:
            known.clear()
        known.update({(way, uri): met for uri, met in found.items()})
        return found

    def _mentioned(self, uris: Collection[Uri]) -> _Looked:
        found: dict[Uri, dict[Uri, int]] = {uri: {} for uri in uris}
        try:
            for uri, named in self._file.mentioned(uris, self._common, MOST_MET).items():
                found[Uri(uri)] = {met.uri: met.found for met in named}
            for uri, written in self._file.written(uris, MOST_MET).items():
                for met in written:
                    for target in self._written(met.uri.removeprefix(WRITTEN)):
                        if target != uri:
                            _note(found[Uri(uri)], target, met.found)
        except KgdError as error:
            self._degrade(error)
        return {uri: _strongest(met) for uri, met in found.items()}

    def _mentioning(self, uris: Collection[Uri]) -> _Looked:
        found: dict[Uri, dict[Uri, int]] = {uri: {} for uri in uris}
        keys = {uri: [WRITTEN + key for key in self._ways_to_write(uri)] for uri in uris}
        try:
            for uri, naming in self._file.mentioning(uris, self._common, MOST_MET).items():
                found[Uri(uri)] = {met.uri: met.found for met in naming}
            written = self._file.with_written([key for ways in keys.values() for key in ways], MOST_MET)
        except KgdError as error:
            self._degrade(error)
            written = {}
        for one, ways in keys.items():
            for met in (met for key in ways for met in written.get(key, ())):
                if met.uri != one:
                    _note(found[one], met.uri, met.found)
        return {uri: _strongest(met) for uri, met in found.items()}

    def _ways_to_write(self, uri: Uri) -> list[str]:
        """The spellings of a URI: itself, and for a file each unambiguous suffix of its path."""
        ends = path_ends(place(uri)) if scheme_of(uri) == "file" else ()
        return [str(uri), *(end for end in ends if uri in self._files(end))]

    def _degrade(self, error: KgdError) -> None:
        """Answer without mentions if the file cannot be read; a damaged one is rebuilt."""
        log.warning("mentions cannot be read", extra={"reason": str(error)[:200]})
        if isinstance(error, IndexDamaged):
            self._is_damaged = True
            self._wake.set()

    def _written(self, text: str) -> Collection[Uri]:
        """The existing nodes for a path or a URI."""
        if "://" in text:
            uri = self._workspace.graph.resolve(Uri(text))
            return [uri] if self._workspace.exists(uri) else ()
        return self._files(text)

    def _files(self, end: str) -> Collection[Uri]:
        """The files of the code tree with this path suffix; empty if it is too ambiguous."""
        if self._feed is None:
            return ()
        try:
            called = self._feed.files_called(end.rpartition("/")[2], MOST_MET)
        except KgdError:
            return ()
        found = [uri for uri in called if (path := place(uri)) == end or path.endswith(f"/{end}")]
        exact = [uri for uri in found if place(uri) == end]
        return exact or (found if len(found) <= MOST_ALIKE else ())

    @property
    def _common(self) -> int:
        return max(COMMON, int(self._count * COMMON_SHARE))

    # ---- following the index (its own thread)

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._attempt()
            except Exception as error:
                # The thread survives any error of a text or a disk, and reports it.
                log.exception("mentions could not be updated")
                self._state = Stage("mentions", "degraded", self._state.last_success, f"{error}"[:200])
                if not self._stop.wait(AGAIN_AFTER):
                    self._wake.set()

    def _attempt(self) -> None:
        try:
            if self._is_damaged:
                self._restart()
            self._bring_forward()
        except IndexDamaged:
            self._restart()
            self._bring_forward()

    def _restart(self) -> None:
        log.warning("the file of mentions was damaged and is rebuilt")
        self._file.recreate()
        self._at, self._is_damaged = None, False

    def _bring_forward(self) -> None:
        feed = self._feed = self._workspace.feed()
        if self._covers(feed.end()):
            return
        position = self._update_texts(feed)
        if self._file.is_unsettled():
            self._settle(feed)
        waiting = self._file.pending_count()
        self._count = self._file.count() if waiting or not self._count else self._count
        if waiting > MANY:
            self._begin_building()
        dictionary = Loaded(self._file.all_keys()) if self._is_building else self._file
        while (numbers := self._file.pending(LOOKED_THROUGH)) and not self._stop.is_set():
            began = time.monotonic()
            self._look_through(feed, numbers, dictionary)
            self._looked = {}
            if self._is_building and not self._in_a_hurry:
                # Only one thread can run Python: half of the time is left to requests.
                self._stop.wait(min(time.monotonic() - began, LONGEST_PAUSE))
        if self._stop.is_set():
            return
        self._looked = {}
        self._state = Stage("mentions", "ok", self._workspace.now())
        with self._progress:
            self._at, self._is_building = position, False
            self._progress.notify_all()

    def _begin_building(self) -> None:
        """Start a large build, which callers do not wait for."""
        self._state = Stage("mentions", "waiting", self._state.last_success, "searching the texts for names")
        with self._progress:
            self._is_building = True
            self._progress.notify_all()

    def _update_texts(self, feed: Feed) -> Position:
        """Add and remove texts and their names according to the feed."""
        end, at = feed.end(), self._file.position()
        if at is None or at.era != end.era:
            if at is not None:
                self._file.recreate()
            at = Position(end.era, 0, end.gone)
        if end.number - at.number > MANY:
            self._begin_building()
        gone: Iterable[int] | None = feed.gone(at.gone) if at.gone < end.gone else ()
        if gone is None:
            gone = self._file.numbers() - feed.numbers()
        with self._file.write():
            self._file.remove(gone)
            self._file.move_to(at := at._replace(gone=end.gone))
        while (texts := feed.stored(at.number, BATCH)) and not self._stop.is_set():
            with self._file.write():
                for text in texts:
                    self._file.add(text, _part_of(text), keys_of(text))
                self._file.move_to(at := at._replace(number=texts[-1].number))
        return at._replace(number=max(at.number, end.number))

    def _settle(self, feed: Feed) -> None:
        """Find the older texts that may have a new name; with very many new names, all texts."""
        fresh = self._file.fresh()
        if len(fresh) > MANY and 4 * len(fresh) > self._file.count():
            self._file.settle(None)
            return
        again = set[int]()
        for phrase in fresh:
            if self._stop.is_set():
                return
            again.update(feed.with_phrase(phrase))
        self._file.settle(again)

    def _look_through(self, feed: Feed, numbers: Sequence[int], dictionary: Loaded | MentionsFile) -> None:
        found = {text.number: found_in(_texts(text), dictionary) for text in feed.read(numbers)}
        with self._file.write():
            for number in numbers:
                self._file.set_found(number, found.get(number, ()))

    def _covers(self, goal: Position) -> bool:
        at = self._at
        return at is not None and at.era == goal.era and at.number >= goal.number and at.gone >= goal.gone


class Loaded:
    """All names in memory, for a large build."""

    def __init__(self, keys: Iterable[tuple[str, str, int]]) -> None:
        self._keys, self._longest = set[str](), dict[str, int]()
        for key, first, size in keys:
            self._keys.add(key)
            if size:
                self._longest[first] = max(size, self._longest.get(first, 0))

    def longest(self, firsts: Collection[str]) -> dict[str, int]:
        return {first: self._longest[first] for first in firsts if first in self._longest}

    def known(self, keys: Collection[str]) -> Collection[str]:
        return {key for key in keys if key in self._keys}


def _note(found: dict[Uri, int], uri: Uri, count: int) -> None:
    found[uri] = min(count, found.get(uri, count))


def _strongest(found: Mapping[Uri, int]) -> list[Mention]:
    return [Mention(uri, count) for uri, count in sorted(found.items(), key=lambda item: (item[1], item[0]))][:MOST_MET]


def strength_of(found: int) -> float:
    """Strength of a mention by a name that is in `found` texts."""
    return 1.0 / (1.0 + FADING * math.log(max(1, found)))


def _part_of(text: Indexed) -> str:
    """The source of a text that is part of a document; such a text does not mention that document."""
    return text.source or text.origin if is_part(text) or text.origin else ""


def _texts(text: Indexed) -> list[str]:
    return [text.name[:LONGEST_TEXT], text.summary[:LONGEST_TEXT], text.content[:LONGEST_TEXT]]
