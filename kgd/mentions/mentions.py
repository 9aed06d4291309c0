"""Mentions: which texts mention which nodes by name, kept in step with the text index.

A task in shared threads follows the text index. A new text is searched for all names. For a new name, the older texts
that contain its words are searched again. If there are many texts, a child process searches them. The result is
derived: it is not committed, and a deleted file is rebuilt with the same content.
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
from kgd.index.change_feed import Feed, Position
from kgd.index.database import IndexDamaged
from kgd.index.mentions_file import MOST_ALIKE, Mention, MentionsFile
from kgd.mentions import writer as mentions_writer
from kgd.mentions.matching import WRITTEN, path_ends, phrase_key, place
from kgd.mentions.writer import BATCH, LOOKED_THROUGH, MentionsWriter
from kgd.model.uri import Uri, scheme_of
from kgd.shared_threads import Task, Threads
from kgd.workspace.answers import Stage
from kgd.workspace.child_process import Worker
from kgd.workspace.served import Beside

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

THREADS = Threads("kgd-mentions", 4)

log = logging.getLogger(__name__)

MENTIONS = "MENTIONS"
COST = 1.0
COMMON, COMMON_SHARE = 20, 0.02
"""A name of one word is ignored if it occurs in more than `COMMON` texts and in more than `COMMON_SHARE` of all
texts."""
FADING = 0.15
"""Rate at which a mention's strength falls with the number n of texts that have the name: 1 / (1 + FADING ln n)."""
MOST_MET = 1_000
"""Maximum number of mentions of one node that are returned."""
LONGEST_PAUSE = 0.1
MANY = 500
"""If more texts than this are to be searched, all names are loaded into memory, and callers do not wait."""
LOOKED_KEPT = 4_096
"""Maximum number of nodes whose mentions are cached until something changes, since a search looks up the same nodes
repeatedly."""
AGAIN_AFTER = 5.0
IDLE = 5.0
"""Seconds without work after which the child ends."""
PATIENCE = 2.0
_OUT, _INTO = "out", "into"
_NAMELESS = ("chunk://", "message://")
"""Beginnings of the URIs of parts, which have no names."""
_Looked = Mapping[Uri, Sequence[Mention]]


class Mentions(Beside):
    """The mentions of one workspace as an `EdgeSource` with derived `MENTIONS` edges.

    Reads return the current state and never wait; `catch_up` waits. Safe for any number of threads.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._file = MentionsFile(workspace.derived_dir / "mentions.sqlite")
        self._file.own()
        self._feed: Feed | None = None
        self._looked: dict[tuple[str, Uri], Sequence[Mention]] = {}
        self._count, self._era = 0, ""
        self._at: Position | None = None
        self._is_building = self._is_damaged = self._in_a_hurry = False
        self._state = Stage("mentions", "waiting", blocker="searching the texts for names")
        self._progress = threading.Condition()
        self._stop = threading.Event()
        self._is_due, self._not_before = True, 0.0
        writer = MentionsWriter(self._current_feed, self._file, self._stop.is_set)
        self._worker = Worker(writer, self._program, MANY, "the mentions")
        self._task = Task(THREADS, self._step)
        workspace.on_indexed(self._wake)
        workspace.on_close(self.close)
        workspace.on_health(self.stage)
        workspace.on_problem(self._worker.problem)
        self._task.wake()

    def close(self) -> None:
        """Stop; the next startup continues from here."""
        self._stop.set()
        self._worker.stop()
        with self._progress:
            self._progress.notify_all()
        self._task.close(30)
        self._worker.end()
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
        """The nodes that this node's texts mention, with the strength of each mention, 0..1, strongest first.

        The more texts contain the name, the lower the strength.
        """
        return {met.uri: strength_of(met.found) for met in self._known(_OUT, uri)}

    def mentioning(self, uri: Uri) -> dict[Uri, float]:
        """The nodes whose texts mention this node, with the strength of each mention, strongest first; at most
        `MOST_MET`."""
        return {met.uri: strength_of(met.found) for met in self._known(_INTO, uri)}

    def look_up(self, out: Collection[Uri], into: Collection[Uri]) -> None:
        """Prefetch the next results of `mentioned` and `mentioning` with few SQL statements."""
        known = self._looked
        for way, uris in ((_OUT, out), (_INTO, [uri for uri in into if not uri.startswith(_NAMELESS)])):
            if fresh := [uri for uri in uris if (way, uri) not in known]:
                self._look_up(way, fresh, known)

    def known(self, keys: Collection[str]) -> Collection[str]:
        """The keys among these that are names of nodes; keys are folded, with spaces between words."""
        try:
            return self._file.known(keys)
        except KgdError as error:
            self._degrade(error)
            return ()

    def going_by(self, name: str) -> Sequence[Uri]:
        """The nodes with this name, sorted by URI."""
        words = phrase_key(name)
        try:
            return self._file.going_by(" ".join(words)) if words else ()
        except KgdError as error:
            self._degrade(error)
            return ()

    def catch_up(self, within: float = PATIENCE) -> bool:
        """Wait until all texts acknowledged before the call are searched; returns False after the timeout.

        Returns False at once during a large build, such as after an import or at the first startup.
        """
        try:
            self._workspace.text_so_far()
            if self._workspace.is_text_partial:
                return False
            goal = self._workspace.feed().end()
        except KgdError:
            return False
        if self._covers(goal):
            return True
        self._wake()
        with self._progress:
            self._progress.wait_for(lambda: self._covers(goal) or self._is_building or self._stop.is_set(), within)
            return self._covers(goal)

    def settle(self, within: float = 60.0) -> bool:
        """Wait until everything is searched, even during a large build; returns False after the timeout."""
        goal = self._workspace.feed().end()
        self._in_a_hurry = True
        self._wake()
        with self._progress:
            done = self._progress.wait_for(lambda: self._covers(goal) or self._stop.is_set(), within)
        self._in_a_hurry = False
        return done

    def stage(self) -> Stage:
        """The stage to show in `status`."""
        return self._state

    # ---- mentions

    def _known(self, way: str, uri: Uri) -> Sequence[Mention]:
        """The mentions of a node from the cache or the file, strongest first, then by URI."""
        if way == _INTO and uri.startswith(_NAMELESS):
            return ()
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
        """Continue without mentions after an error; a damaged file is rebuilt."""
        log.warning("mentions cannot be read", extra={"reason": str(error)[:200]})
        if isinstance(error, IndexDamaged):
            self._is_damaged = True
            self._wake()

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

    # ---- following the index (one shared thread at a time)

    def _wake(self) -> None:
        self._is_due = True
        self._task.wake()

    def _step(self) -> float | None:
        if not self._is_due:  # an idle moment
            self._worker.end()
            return None if self._file.trim() else IDLE
        if (left := self._not_before - time.monotonic()) > 0:
            return left
        if self._stop.is_set():
            return None
        self._is_due = False
        try:
            self._attempt()
        except Exception as error:
            if self._stop.is_set():
                return None
            self._is_due = True
            if self._is_rebuilt():
                return 0.0
            # Any error caused by a text or a disk is reported, and the next step tries again.
            log.exception("mentions could not be updated")
            self._state = Stage("mentions", "degraded", self._state.last_success, f"{error}"[:200])
            self._not_before = time.monotonic() + AGAIN_AFTER
            return AGAIN_AFTER
        return IDLE if self._worker.pid else None

    def _is_rebuilt(self) -> bool:
        """Whether the text index was rebuilt since this instance first used it."""
        try:
            return self._feed is not None and self._feed.end().era != self._era
        except KgdError:
            return False

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
        self._worker.end()
        self._file.recreate()
        self._at, self._is_damaged = None, False

    def _bring_forward(self) -> None:
        feed = self._feed = self._workspace.feed()
        if self._covers(feed.end()):
            return
        position = self._update_texts(feed)
        if self._file.is_unsettled():
            self._worker.carry_out({"settle": True, "era": position.era}, 0)
        waiting = self._file.pending_count()
        self._count = self._file.count() if waiting or not self._count else self._count
        if waiting > MANY:
            self._begin_building()
        while not self._stop.is_set():
            began = time.monotonic()
            order = {"search": True, "many": self._is_building, "era": position.era}
            if not self._worker.carry_out(order, min(waiting, LOOKED_THROUGH), waiting)["searched"]:
                break
            self._looked = {}
            if self._is_building and not self._in_a_hurry and self._worker.pid is None:
                # Only one thread can run Python at a time, so half of the time is left to requests.
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
        self._era = end.era
        if at is None or at.era != end.era:
            if at is not None:
                self._worker.end()
                self._file.recreate()
            at = Position(end.era, 0, end.gone)
            self._file.move_to(at)
        if end.number - at.number > MANY:
            self._begin_building()
        gone: Iterable[int] | None = feed.gone(at.gone) if at.gone < end.gone else ()
        if gone is None:
            gone = self._file.numbers() - feed.numbers()
        if at.gone < end.gone:
            numbers = sorted(gone)
            self._worker.carry_out({"remove": numbers, "gone": end.gone, "era": end.era}, len(numbers))
        number = at.number
        while not self._stop.is_set():
            order = {"add": number, "era": end.era}
            left = end.number - number
            reached = self._worker.carry_out(order, min(left, BATCH), left)["number"]
            if not reached:
                break
            number = reached
        return Position(end.era, max(number, end.number), end.gone)

    def _program(self) -> tuple[str, ...]:
        return *mentions_writer.PROGRAM, *self._workspace.index_place, str(self._file.path), self._file.ticket()

    def _current_feed(self) -> Feed:
        assert self._feed is not None
        return self._feed

    def _covers(self, goal: Position) -> bool:
        at = self._at
        return at is not None and at.era == goal.era and at.number >= goal.number and at.gone >= goal.gone


def _note(found: dict[Uri, int], uri: Uri, count: int) -> None:
    found[uri] = min(count, found.get(uri, count))


def _strongest(found: Mapping[Uri, int]) -> list[Mention]:
    return [Mention(uri, count) for uri, count in sorted(found.items(), key=lambda item: (item[1], item[0]))][:MOST_MET]


def strength_of(found: int) -> float:
    """The strength of a mention by a name that occurs in `found` texts."""
    return 1.0 / (1.0 + FADING * math.log(max(1, found)))
