"""Search by meaning: a thread keeps the vectors in step with the texts.

Nothing waits for that thread. A text without a vector is found by its words alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd.errors import KgdError, Unauthorized
from kgd.index.change_feed import Feed
from kgd.index.database import IndexDamaged
from kgd.model.lane import Lane
from kgd.model.uri import Uri
from kgd.vectors.choosing import Choice, may_serve
from kgd.workspace.answers import Stage
from kgd.workspace.derived.embedding import Embedding, Model, Stopped, Superseded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgd.vectors.nearest import Nearest

log = logging.getLogger(__name__)

LOAD_AFTER = 3.0
"""Seconds between the first text and loading a model: the first calls of a process come first."""
SETTLE = 0.2
"""Seconds to collect changes once the model is loaded."""
LOOK_AGAIN = 5.0
"""Seconds between checks of the user's setting."""
LOADING = 1.0
"""Total seconds that the first questions after a start wait for vectors of an earlier run."""
RETRY, RETRY_MOST = 5.0, 300.0
"""Seconds until a retry after a failure, doubled each time."""
CLOSE_WITHIN = 1.0
QUESTIONS_KEPT = 64
FEW = 500
"""Texts that may wait before the stage reports it."""


class Near(NamedTuple):
    """Hits, best first, equals by URI. `floor` is the lowest similarity considered; 0.0 without hits."""

    hits: list[tuple[Uri, float]]
    floor: float


class Meaning:
    """The vectors of one workspace. Thread-safe; idle until `follow`.

    Args:
        feed: The texts, with every acknowledged change.
        folder: Holds the file of vectors, which may be deleted at any time.
    """

    def __init__(self, feed: Callable[[], Feed], folder: Path, clock: Callable[[], float]) -> None:
        self._clock, self._path = clock, folder / "vectors.sqlite"
        self._stopping = threading.Event()
        self._choose: Callable[[], Choice] = Choice
        self._secret: Callable[[str], str] = _no_secret
        self._embedding = Embedding(
            feed, self._path, lambda name: self._secret(name), self._stopping, lambda: self._choose(), self._report
        )
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = self._urgent = self._anew = False
        self._asked = self._done = 0
        self._choice: Choice | None = None
        self._stage = Stage("embedding")
        self._patience = LOADING
        self._retry, self._retry_at, self._quiet_until = RETRY, 0.0, 0.0

    # ---- life

    def follow(self, choose: Callable[[], Choice] = Choice, secret: Callable[[str], str] | None = None) -> None:
        """Start embedding in the background; a second call changes nothing.

        Args:
            choose: The person's choice, asked again every few seconds.
            secret: Looks a credential up by its reference.
        """
        if self._thread is not None:
            return
        self._choose, self._secret, self._woken = choose, secret or _no_secret, True
        self._stage = Stage("embedding", about="begins in a moment")
        thread = threading.Thread(target=self._run, name="kgd-meaning", daemon=True)
        thread.start()
        self._thread = thread

    def wake(self) -> None:
        """Report new texts. Never blocks."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def rebuild(self) -> None:
        """Rebuild all vectors in the background; those in memory answer meanwhile."""
        with self._changed:
            self._anew = self._urgent = True
            self._changed.notify_all()

    def catch_up(self, seconds: float) -> bool:
        """Wait until every acknowledged text is embedded; False if it is off, failing or out of time."""
        if self._thread is None:
            return False
        with self._changed:
            self._asked += 1
            mine, self._urgent, self._embedding.hurried = self._asked, True, True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= mine or self._stopping.is_set(), seconds)
            return self._done >= mine and self._stage.state == "ok"

    def close(self) -> None:
        """Stop within about a second; nothing is written afterwards. The next start continues."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_WITHIN)
            self._embedding.let_go()

    # ---- reads

    @property
    def share(self) -> float:
        """The weight of similarity in a score, 0..1; 0.0 without vectors: rank by words alone."""
        serving = self._ready()
        return serving.embedder.share if serving is not None and serving.nearest else 0.0

    @property
    def least(self) -> float:
        """The least similarity of a relevant text that shares no word with the question."""
        serving = self._ready()
        return serving.embedder.least if serving is not None else 0.0

    def nearest(self, query: str, limit: int, within: Collection[Uri] | None = None, lane: Lane | None = None) -> Near:
        """The nearest nodes to a question, among `within` and of one lane if given.

        No hits if nothing is embedded, the question has no vector, or an endpoint is down.
        """
        asked = self._asked_of(query)
        return Near(*asked[0].search(asked[1], limit, within, lane)) if asked else Near([], 0.0)

    def similarity(self, query: str, uris: Collection[Uri]) -> dict[Uri, float]:
        """The similarity of these nodes to a question, without those not embedded. O(`uris`)."""
        asked = self._asked_of(query)
        return asked[0].similarity(asked[1], uris) if asked else {}

    def pairs(
        self, some: Sequence[Uri], within: Sequence[Uri], above: float, each: int
    ) -> list[tuple[Uri, Uri, float]]:
        """For each of `some`, the `each` nearest of `within` above a similarity; see `Nearest.pairs`."""
        serving = self._ready()
        if serving is None or serving.nearest is None:
            return []
        return serving.nearest.pairs(some, within, above, each)

    def stage(self) -> Stage:
        """The current stage for `kgd status`, including texts added since the last step."""
        stage = self._stage
        now = self._embedding.progress(self._choice or self._choose()) if stage.state != "off" else None
        if now is None:
            return stage
        if stage.state == "degraded":
            return replace(stage, about=now.about)
        return self._at_work(now.about, now.left)

    def health(self) -> tuple[Stage, ...]:
        """The stage, if vectors are in use."""
        return (self.stage(),) if self._thread is not None else ()

    @property
    def embedded(self) -> int:
        """Texts embedded since the workspace was opened."""
        return self._embedding.embedded

    @property
    def mark(self) -> tuple[int, str, bool]:
        """A value that differs whenever answers by meaning may have changed."""
        return self._embedding.changes, self._choose().written(), time.monotonic() < self._quiet_until

    def _ready(self) -> Model | None:
        """The serving model. The first questions after a start wait a moment for vectors of an earlier run."""
        if self._embedding.serving is None and self._patience > 0 and self._thread is not None and self._path.exists():
            start = time.monotonic()
            with self._changed:
                self._urgent = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._embedding.serving or self._patience <= 0, self._patience)
                self._patience -= time.monotonic() - start
        serving = self._embedding.serving
        if serving is not None and serving.choice != (choice := self._choose()):
            may = choice.kind != "off" and may_serve(serving.choice, choice)
            return serving if may else None
        return serving

    def _asked_of(self, query: str) -> tuple[Nearest, NDArray[Any]] | None:
        """The serving vectors and the question's vector; None if either is missing."""
        serving = self._ready()
        vector = self._vector(serving, query) if serving is not None else None
        return None if serving is None or serving.nearest is None or vector is None else (serving.nearest, vector)

    def _vector(self, model: Model, query: str) -> NDArray[Any] | None:
        """The vector of a question; None if it is empty or the embedder cannot be reached."""
        questions = model.questions
        with self._changed:
            if query in questions:
                return questions[query]
        if not model.dim or time.monotonic() < self._quiet_until:
            return None
        from kgd.vectors.embedder import checked

        try:
            [vector] = checked(model.embedder.embed([query], "query"), 1, model.dim)
        except KgdError as error:
            self._quiet_until = time.monotonic() + RETRY
            self._in_trouble(f"questions cannot be embedded: {error}")
            return None
        if not vector.any():
            return None
        with self._changed:
            questions[query] = vector
            while len(questions) > QUESTIONS_KEPT:
                questions.popitem(last=False)
        found: NDArray[Any] = vector
        return found

    # ---- following (its own thread)

    def _run(self) -> None:
        while self._wait():
            asked = self._asked
            try:
                self._pass()
                self._retry, self._retry_at, self._quiet_until = RETRY, 0.0, 0.0
            except Stopped:
                return
            except Superseded:
                self._urgent = True
                continue
            except Exception as error:
                unexpected = not isinstance(error, KgdError)
                log.warning("texts could not be embedded", exc_info=unexpected, extra={"reason": f"{error}"[:300]})
                self._in_trouble(f"{error}")
                self._retry_at = time.monotonic() + self._retry
                self._retry = min(2 * self._retry, RETRY_MOST)
            with self._changed:
                self._patience, self._done, self._embedding.hurried = 0.0, asked, self._asked > asked
                self._changed.notify_all()

    def _wait(self) -> bool:
        """Wait for work; False when the workspace is closing."""
        with self._changed:
            while not self._urgent and not self._stopping.is_set():
                now = time.monotonic()
                if self._woken and now >= self._retry_at:
                    pause = SETTLE if self._embedding.serving else LOAD_AFTER
                    self._changed.wait_for(lambda: self._urgent or self._stopping.is_set(), pause)
                    break
                self._changed.wait(min(LOOK_AGAIN, self._retry_at - now) if self._retry_at > now else LOOK_AGAIN)
                if self._choice is not None and self._choose() != self._choice:
                    self._urgent = True
                self._woken = self._woken or self._retry_at > 0
            self._woken = self._urgent = False
            return not self._stopping.is_set()

    def _pass(self) -> None:
        """Bring the vectors up to date, by the person's choice."""
        choice = self._choose()
        if choice != self._choice:
            self._choice, self._retry, self._quiet_until = choice, RETRY, 0.0
        if choice.kind == "off":
            self._embedding.let_go()
            why = "as workspaces.yaml says; search goes by words and the graph"
            self._stage = Stage("embedding", "off", None, why)
            return
        anew, self._anew = self._anew, False
        try:
            if anew:
                self._embedding.begin_anew()
            self._embedding.bring_forward(choice)
        except IndexDamaged:
            log.warning("the vectors were damaged and are being rebuilt")
            self._embedding.begin_anew()
            self._embedding.bring_forward(choice)

    def _at_work(self, about: str, left: int) -> Stage:
        """The stage during work; a few waiting texts do not change it."""
        blocker = "texts are being embedded; search finds the others by their words" if left > FEW else ""
        return Stage("embedding", "waiting" if blocker else "ok", self._stage.last_success, blocker, None, about)

    def _report(self, about: str, left: int) -> None:
        stage = self._at_work(about, left)
        self._stage = stage if stage.blocker else replace(stage, last_success=self._clock())
        with self._changed:
            self._changed.notify_all()

    def _in_trouble(self, why: str) -> None:
        before = self._stage
        since = before.since if before.state == "degraded" else self._clock()
        blocker = f"{why}"[:300].rstrip(". ") + ". Search goes by words meanwhile; it is tried again by itself."
        self._stage = replace(before, state="degraded", blocker=blocker, since=since)


def _no_secret(reference: str) -> str:
    raise Unauthorized("credentials cannot be looked up here", at=reference[:40])
