"""Search by meaning: a thread keeps the vectors in step with the texts.

No caller waits for that thread. A text without a vector is found only by its words.
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
from kgd.model.uri import Lane, Uri
from kgd.shared_threads import Task, Threads
from kgd.vectors.choosing import Choice, may_serve
from kgd.workspace.answers import Stage
from kgd.workspace.derived.embedding import Embedding, Model, Stopped, Superseded
from kgd.workspace.derived.indexed_text import Place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgd.vectors.embedder import Scale
    from kgd.vectors.nearest import Nearest

log = logging.getLogger(__name__)

THREADS = Threads("kgd-meaning", 4)

LOAD_AFTER = 3.0
"""Seconds between the first text and loading a model, so that the first calls of a process are not delayed."""
SETTLE = 0.2
"""Seconds to collect changes once the model is loaded."""
LOOK_AGAIN = 5.0
"""Seconds between checks of the user's setting."""
LOADING = 1.0
"""Total seconds that the first questions after startup wait for vectors from an earlier run."""
RETRY, RETRY_MOST = 5.0, 300.0
"""Seconds until a retry after a failure: the first delay, which doubles each time, and the longest."""
CLOSE_WITHIN = 1.0
QUESTIONS_KEPT = 64
FEW = 500
"""If more texts than this are waiting, the stage reports it."""


class Near(NamedTuple):
    """Hits, best first; ties are ordered by URI. `floor` is the lowest similarity considered, or 0.0 if there are no
    hits."""

    hits: list[tuple[Uri, float]]
    floor: float


class Meaning:
    """The vectors of one workspace. Thread-safe; idle until `follow`.

    Args:
        feed: The texts, including every acknowledged change.
        place: The index of these texts, for a child process.
        folder: Holds the file of vectors, which may be deleted at any time.
    """

    def __init__(self, feed: Callable[[], Feed], place: Place, folder: Path, clock: Callable[[], float]) -> None:
        self._clock, self._path = clock, folder / "vectors.sqlite"
        self._stopping = threading.Event()
        self._choose: Callable[[], Choice] = Choice
        self._secret: Callable[[str], str] = _no_secret
        self._embedding = Embedding(
            feed,
            place,
            self._path,
            lambda name: self._secret(name),
            self._stopping,
            lambda: self._choose(),
            self._report,
        )
        self._changed = threading.Condition()
        self._task: Task | None = None
        self._woken = self._urgent = self._anew = False
        self._asked = self._done = 0
        self._choice: Choice | None = None
        self._stage = Stage("embedding")
        self._patience = LOADING
        self._retry, self._retry_at, self._quiet_until = RETRY, 0.0, 0.0
        self._settled_at = self._active_at = 0.0
        """The time at which the next pass has collected its changes, or 0.0; the time of the last text or pass."""

    # ---- life

    def follow(self, choose: Callable[[], Choice] = Choice, secret: Callable[[str], str] | None = None) -> None:
        """Start embedding in the background; a second call changes nothing.

        Args:
            choose: Returns the user's choice; called again every few seconds.
            secret: Looks up a credential by its reference.
        """
        if self._task is not None:
            return
        self._choose, self._secret, self._woken = choose, secret or _no_secret, True
        self._stage = Stage("embedding", about="begins in a moment")
        self._task = Task(THREADS, self._step)
        self._task.wake()

    def wake(self) -> None:
        """Report new texts. Never blocks."""
        self._active_at = time.monotonic()
        if not self._woken:
            self._woken = True
            if self._task is not None:
                self._task.wake()

    def rebuild(self) -> None:
        """Rebuild all vectors in the background; until this is done, the vectors in memory are used."""
        self._anew = True
        self._hurry()

    def _hurry(self) -> None:
        self._urgent = True
        if self._task is not None:
            self._task.wake()

    def catch_up(self, seconds: float) -> bool:
        """Wait until every acknowledged text is embedded; False if embedding is off or fails, or takes too long."""
        if self._task is None:
            return False
        with self._changed:
            self._asked += 1
            mine, self._embedding.hurried = self._asked, True
            self._hurry()
            self._changed.wait_for(lambda: self._done >= mine or self._stopping.is_set(), seconds)
            return self._done >= mine and self._stage.state == "ok"

    def close(self) -> None:
        """Stop within about a second; nothing is written afterwards. The next start continues."""
        self._stopping.set()
        self._embedding.worker.stop()
        with self._changed:
            self._changed.notify_all()
        if self._task is not None:
            self._task.close(CLOSE_WITHIN)
            self._embedding.let_go()

    # ---- reads

    @property
    def share(self) -> float:
        """The weight of similarity in a score, 0..1. It is 0.0 if there are no vectors, so that only words are used."""
        serving = self._ready()
        return serving.embedder.share if serving is not None and serving.nearest else 0.0

    @property
    def scale(self) -> Scale | None:
        """The relevance of similarities; None if unknown."""
        serving = self._ready()
        return serving.embedder.scale or serving.measured if serving is not None else None

    def nearest(self, query: str, limit: int, within: Collection[Uri] | None = None, lane: Lane | None = None) -> Near:
        """The nodes nearest to a question, limited to `within` and to one lane if these are given.

        There are no hits if nothing is embedded, the question has no vector, or the endpoint cannot be reached.
        """
        asked = self._asked_of(query)
        return Near(*asked[0].search(asked[1], limit, within, lane)) if asked else Near([], 0.0)

    def similarity(self, query: str, uris: Collection[Uri]) -> dict[Uri, float]:
        """The similarity of these nodes to a question; nodes that are not embedded are omitted. O(`uris`)."""
        asked = self._asked_of(query)
        return asked[0].similarity(asked[1], uris) if asked else {}

    def closest(self, query: str, texts: Sequence[Sequence[str]]) -> list[float]:
        """For each text, the similarity of its nearest sentence to a question; empty if the embedder cannot compute
        this quickly."""
        from kgd.vectors.embedder import Quick

        serving = self._ready()
        vector = self._vector(serving, query) if serving is not None and texts else None
        if serving is None or vector is None or not isinstance(serving.embedder, Quick):
            return []
        return serving.embedder.closest(vector, texts)

    def pairs(
        self, some: Sequence[Uri], within: Sequence[Uri], above: float, each: int
    ) -> list[tuple[Uri, Uri, float]]:
        """For each node of `some`, up to `each` nearest nodes of `within` with a similarity above `above`, from 0 for
        unrelated texts to 1 for equal texts; see `Nearest.pairs`."""
        serving = self._ready()
        if serving is None or serving.nearest is None:
            return []
        zero = max(0.0, scale.zero) if (scale := self.scale) is not None else 0.0
        found = serving.nearest.pairs(some, within, zero + above * (1 - zero), each)
        return [(one, other, (similarity - zero) / (1 - zero)) for one, other, similarity in found]

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
        return (self.stage(),) if self._task is not None else ()

    def problem(self) -> str:
        """A sentence for `kgd status` if the process that embeds texts fails; otherwise empty."""
        return self._embedding.worker.problem()

    @property
    def is_partial(self) -> bool:
        """Whether many texts had no vector when the last batch began."""
        return self._stage.state == "waiting"

    @property
    def is_behind(self) -> bool:
        """Whether some texts have no vector, so that meaning does not find them; False if embedding is off. Takes time
        linear in the number of these texts."""
        if self._task is None or self._stage.state in ("off", "waiting", "degraded"):
            return self._task is not None and self._stage.state != "off"
        choice = self._choose()
        if choice.kind == "off":
            return False
        now = self._embedding.progress(choice)
        is_loading = self._choice is None or (self._embedding.serving is None and self._path.exists())
        return now.left > 0 if now is not None else is_loading

    @property
    def embedded(self) -> int:
        """Texts embedded since the workspace was opened."""
        return self._embedding.embedded

    @property
    def mark(self) -> tuple[int, str, bool]:
        """A value that differs whenever answers by meaning may have changed."""
        return self._embedding.changes, self._choose().written(), time.monotonic() < self._quiet_until

    def _ready(self) -> Model | None:
        """The model in use. The first questions after startup wait a moment for vectors from an earlier run."""
        if self._embedding.serving is None and self._patience > 0 and self._task is not None and self._path.exists():
            start = time.monotonic()
            with self._changed:
                self._hurry()
                self._changed.wait_for(lambda: self._embedding.serving or self._patience <= 0, self._patience)
                self._patience -= time.monotonic() - start
        serving = self._embedding.serving
        if serving is not None and serving.choice != (choice := self._choose()):
            may = choice.kind != "off" and may_serve(serving.choice, choice)
            return serving if may else None
        return serving

    def _asked_of(self, query: str) -> tuple[Nearest, NDArray[Any]] | None:
        """The vectors in use and the question's vector; None if either is missing."""
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

    # ---- following (one shared thread at a time)

    def _step(self) -> float | None:
        """Make a pass if one is due; seconds until the next check."""
        if self._stopping.is_set():
            return None
        if pause := self._pause():
            return pause
        asked = self._asked
        try:
            self._pass()
            self._retry, self._retry_at, self._quiet_until = RETRY, 0.0, 0.0
        except Stopped:
            return None
        except Superseded:
            self._urgent = True
            return 0.0
        except Exception as error:
            unexpected = not isinstance(error, KgdError)
            log.warning("texts could not be embedded", exc_info=unexpected, extra={"reason": f"{error}"[:300]})
            self._in_trouble(f"{error}")
            self._retry_at = time.monotonic() + self._retry
            self._retry = min(2 * self._retry, RETRY_MOST)
        with self._changed:
            self._patience, self._done, self._embedding.hurried = 0.0, asked, self._asked > asked
            self._changed.notify_all()
        self._active_at = time.monotonic()
        return 0.0

    def _pause(self) -> float:
        """Seconds until a pass may be due; 0.0 if one is due now."""
        now = time.monotonic()
        if self._choice is not None and self._choose() != self._choice:
            self._urgent = True
        if not self._urgent:
            if self._retry_at > now:
                return min(LOOK_AGAIN, self._retry_at - now)
            if not self._woken and not self._retry_at:
                return self._rest(now)
            self._settled_at = self._settled_at or now + (SETTLE if self._embedding.serving else LOAD_AFTER)
            if self._settled_at > now:
                return self._settled_at - now
        self._woken = self._urgent = False
        self._settled_at = 0.0
        return 0.0

    def _rest(self, now: float) -> float:
        """Clear up if this is an idle moment."""
        if (left := self._active_at + LOOK_AGAIN - now) > 0:
            return left
        self._embedding.rest()
        return LOOK_AGAIN

    def _pass(self) -> None:
        """Update the vectors with the user's chosen embedder."""
        choice = self._choose()
        if choice != self._choice:
            self._choice, self._retry, self._quiet_until = choice, RETRY, 0.0
        if choice.kind == "off":
            self._embedding.let_go()
            why = "turned off in workspaces.yaml; search uses words and the graph"
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
        blocker = "texts are being embedded; until this is done, search finds them only by words" if left > FEW else ""
        return Stage("embedding", "waiting" if blocker else "ok", self._stage.last_success, blocker, None, about)

    def _report(self, about: str, left: int) -> None:
        stage = self._at_work(about, left)
        self._stage = stage if stage.blocker else replace(stage, last_success=self._clock())
        with self._changed:
            self._changed.notify_all()

    def _in_trouble(self, why: str) -> None:
        before = self._stage
        since = before.since if before.state == "degraded" else self._clock()
        blocker = f"{why}"[:300].rstrip(". ") + ". Until then search uses only words; kgd retries by itself."
        self._stage = replace(before, state="degraded", blocker=blocker, since=since)


def _no_secret(reference: str) -> str:
    raise Unauthorized("credentials cannot be looked up here", at=reference[:40])
