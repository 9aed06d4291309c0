"""Embeddings: from the feed of the text index into the file of vectors, and into memory.

Progress is tracked by the feed's numbers, and texts are compared by content, so an unchanged text is not embedded
again. A new embedder fills the file until it has all texts; until then the old one answers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kgd.errors import Invalid, KgdError, Limit, Unavailable
from kgd.index.change_feed import Feed, Indexed, Position
from kgd.index.database import IndexDamaged
from kgd.index.vector_file import Key, Row, VectorFile
from kgd.vectors.choosing import Choice, may_serve
from kgd.vectors.opening import opened
from kgd.workspace.given_back import give_memory_back

if TYPE_CHECKING:  # numpy and models are expensive for a daemon without texts
    from numpy.typing import NDArray

    from kgd.vectors.embedder import Embedder
    from kgd.vectors.nearest import Nearest

PAUSE = 1.0
"""The pause between two batches, relative to the last one: half of a core stays free for calls."""
LONGEST_PAUSE = 0.1
SAMPLE = 1_000
"""Texts sampled to learn how rare words are; some hundred would do."""
SHORTENED = 1_000
"""Characters kept of a text that an embedder refused."""
MANY = 2_000
"""Number of texts to embed before the memory is released."""
_PROBE = "text"
"""A text that no embedder has a reason to refuse."""

T = TypeVar("T")


class Stopped(Exception):
    """The workspace is closing."""


class Superseded(Exception):
    """The person chose another embedder meanwhile."""


class Progress(NamedTuple):
    """A sentence about the progress, and the number of waiting texts."""

    about: str
    left: int


@dataclass(slots=True, eq=False)
class Model:
    """An active embedder and the state of its vectors."""

    choice: Choice
    embedder: Embedder
    position: Position
    dim: int
    count: int
    complete: bool
    nearest: Nearest | None = None
    learned: int = 0
    """The number of texts when word rarity was last sampled."""
    is_due: bool = True
    """Whether the sample may have changed."""
    sampled: bytes = b""
    """The last digest of the sample; empty if the sample is all texts."""
    questions: OrderedDict[str, NDArray[Any]] = field(default_factory=OrderedDict)
    """Vectors of recent questions."""


class Embedding:
    """The vectors of one workspace, updated by one thread at a time. Any thread may read `serving`.

    Args:
        secret: Looks a credential up by its reference.
        stopping: Set when writing must stop.
        chosen: The person's current choice; texts go to no other embedder.
        report: Called with a sentence about the progress and the number of waiting texts.
    """

    def __init__(
        self,
        feed: Callable[[], Feed],
        path: Path,
        secret: Callable[[str], str],
        stopping: threading.Event,
        chosen: Callable[[], Choice],
        report: Callable[[str, int], None],
    ) -> None:
        self._feed, self._path, self._secret, self._stopping = feed, path, secret, stopping
        self._chosen, self._report = chosen, report
        self._writing = threading.Lock()
        self._file: VectorFile | None = None
        self._building: Model | None = None
        self._followed: Feed | None = None
        self.serving: Model | None = None
        self.hurried = False
        """Whether a caller waits, so that pauses are skipped."""
        self.embedded = 0
        """Texts embedded by this object."""
        self.changes = 0
        """The number of changes of the serving vectors, counted after each change."""

    def bring_forward(self, choice: Choice) -> None:
        """Embed new texts and forget removed ones, up to the texts present at the call.

        Raises:
            Stopped: `stopping` was set meanwhile; finished work is kept.
            Superseded: Another embedder was chosen meanwhile; finished work is kept.
            IndexDamaged: The file is unsound: call `begin_anew`.
            KgdError: The embedder or the disk failed; finished work is kept.
        """
        feed = self._followed = self._feed()
        self._go_on()
        if self.serving is None and not self._path.exists() and not _of(feed, Feed.end).number:
            self._report("no texts yet", 0)
            return
        model, before = self._model(choice, feed, _of(feed, Feed.end).era), self.embedded
        while not (self._is_current(model, end := _of(feed, Feed.end)) and model.complete):
            if end.era != model.position.era:
                model.position = self._opened_file().begin(model.embedder.id, choice.written(), end.era).position
            self._add(model, feed)
            self._remove(model, feed, end)
        if model.is_due:
            self._learn(model, feed)
        if model is self._building:
            self._promote(model)
        if self.embedded - before > MANY:
            give_memory_back()
        self._tell(model, 0)

    def progress(self, choice: Choice) -> Progress | None:
        """The progress with the current texts; None if unknown. O(waiting texts).

        Args:
            choice: The embedder to use if none is active.
        """
        model, feed = self._building or self.serving, self._followed
        if feed is None or (model is None and self._path.exists()):
            return None
        try:
            end = feed.end()
            left = feed.waiting(model.position.number if model and model.position.era == end.era else 0)
        except KgdError:  # the index reports its own rebuild
            return None
        if model is None:
            return Progress(_sentence(choice, 0, left), left) if left else None
        return Progress(_sentence(model.choice, model.count, left), left)

    def begin_anew(self) -> None:
        """Empty the file. The vectors in memory answer until all texts are embedded again."""
        self._file = self._file or VectorFile(self._path)
        self._file.recreate()
        if self._building is not None:
            self._building.embedder.close()
        self._building = None
        if self.serving is not None:
            self.serving.complete = False
            old = self.serving
            self._building = Model(old.choice, old.embedder, Position("", 0, 0), old.dim, 0, False)

    def let_go(self) -> None:
        """Drop all vectors from memory; the file stays."""
        for model in {self.serving, self._building} - {None}:
            assert model is not None
            model.embedder.close()
        self.serving = self._building = None
        self.changes += 1
        with self._writing:
            if self._file is not None:
                self._file.close()
                self._file = None

    # ---- choice of embedder

    def _opened_file(self) -> VectorFile:
        self._go_on()
        if self._file is None:
            self._file = VectorFile(self._path)
        elif not self._path.exists():  # SQLite would keep writing to the deleted file
            raise IndexDamaged("the file of vectors is gone", at=str(self._path))
        return self._file

    def _model(self, choice: Choice, feed: Feed, era: str) -> Model:
        """The model to update: the serving one, or its replacement."""
        file = self._opened_file()
        for model in (self._building, self.serving):
            if model is not None and model.choice == choice:
                if model.position.era != era:
                    model.position = file.begin(model.embedder.id, choice.written(), era).position
                return model
        embedder = opened(choice, self._secret)
        known = file.begin(embedder.id, choice.written(), era)
        model = Model(choice, embedder, known.position, known.dim, file.count(embedder.id), known.complete)
        self._building, old = None, self.serving
        if old is not None and old.embedder.id == embedder.id:  # the same vectors, requested in another way
            model.nearest = old.nearest
            self.serving = model
            self.changes += 1
            return model
        if old is None and not known.complete:
            old = self._earlier(choice, feed)
        if old is not None and may_serve(old.choice, choice):
            self.serving, self._building = old, model
        else:
            self._load(model)
            self._learn(model, feed)  # first, so that answers equal those before a restart
            self.serving = model
        self.changes += 1
        return model

    def _earlier(self, choice: Choice, feed: Feed) -> Model | None:
        """The model that served before the settings changed, if it may still serve."""
        file = self._opened_file()
        for known in file.embedders():
            try:
                before = Choice.read(known.choice)
                if known.complete and may_serve(before, choice):
                    embedder = opened(before, self._secret)
                    model = Model(before, embedder, known.position, known.dim, file.count(known.name), True)
                    self._load(model)
                    self._learn(model, feed)
                    return model
            except (Invalid, Unavailable):
                continue
        return None

    def _load(self, model: Model) -> None:
        """Read its vectors into memory: 0.5 s for 100k."""
        from kgd.vectors.embedder import from_bytes
        from kgd.vectors.nearest import Nearest

        if not model.dim:
            return
        nearest = Nearest(model.dim)
        try:
            for rows in self._opened_file().vectors(model.embedder.id):
                nearest.put([key for key, _ in rows], from_bytes([vector for _, vector in rows], model.dim))
                self._go_on()
        except Invalid as error:
            raise IndexDamaged("the file of vectors holds something else", at=str(self._path)) from error
        model.nearest = nearest

    def _promote(self, model: Model) -> None:
        """Let a complete model serve."""
        self._load(model)
        old, self.serving, self._building = self.serving, model, None
        self.changes += 1
        if old is not None and old.embedder is not model.embedder:
            old.embedder.close()
        with self._writing:
            self._go_on()
            self._opened_file().drop_others(model.embedder.id)

    # ---- texts

    def _is_current(self, model: Model, end: Position) -> bool:
        at = model.position
        return end.era == at.era and end.number <= at.number and end.gone == at.gone

    def _add(self, model: Model, feed: Feed) -> None:
        """Embed new texts, batch by batch."""
        left = _of(feed, lambda feed: feed.waiting(model.position.number))
        begun = time.monotonic()
        while texts := _of(feed, lambda feed: feed.stored(model.position.number, model.embedder.batch)):
            if self._chosen() != model.choice:
                raise Superseded
            self._tell(model, left)
            self._embed(model, texts)
            left = max(0, left - len(texts))
            if model.count >= 2 * max(model.learned, model.embedder.batch):
                self._learn(model, feed)
            if not self.hurried:
                self._stopping.wait(min(LONGEST_PAUSE, PAUSE * (time.monotonic() - begun)))
            begun = time.monotonic()

    def _embed(self, model: Model, texts: Sequence[Indexed]) -> None:
        from kgd.vectors.embedder import from_bytes
        from kgd.vectors.nearest import Nearest

        spoken = {(one.uri, one.origin): spoken_text(one) for one in texts}
        numbers = {(one.uri, one.origin): one.number for one in texts}
        digests = {key: _digest(text) for key, text in spoken.items()}
        known = self._opened_file().digests(model.embedder.id, spoken)
        fresh = [key for key in spoken if known.get(key) != digests[key]]
        asked = [key for key in fresh if spoken[key]]
        made = dict.fromkeys(fresh, b"")
        for key, vector in self._vectors(model, {key: spoken[key] for key in asked}).items():
            made[key] = vector
        rows = [Row(key, numbers[key], digests[key], made[key]) for key in fresh]
        same = {key: number for key, number in numbers.items() if key not in made}
        with self._writing:
            self._go_on()
            self._opened_file().store(model.embedder.id, rows, same, texts[-1].number, model.dim)
        model.count += len([key for key in fresh if key not in known])
        self._note_change(model, [digests[key] for key in fresh] + [known[key] for key in fresh if key in known])
        model.position = model.position._replace(number=texts[-1].number)
        self.embedded += len(asked)
        if model is not self._building and model.dim:
            model.nearest = model.nearest or Nearest(model.dim)
            model.nearest.drop(key for key in fresh if not made[key])
            speaking = [key for key in fresh if made[key]]
            if speaking:
                model.nearest.put(speaking, from_bytes([made[key] for key in speaking], model.dim))
            self.changes += bool(fresh)

    def _vectors(self, model: Model, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts; a text refused alone gets an empty one."""
        found = self._asked(model, texts)
        if len(found) < len(texts):
            self._asked_once(model, [_PROBE])  # refused too: the texts are not the reason
        return {key: found.get(key, b"") for key in texts}

    def _asked(self, model: Model, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts, except for texts refused both whole and shortened."""
        if not texts:
            return {}
        try:
            return dict(zip(texts, self._asked_once(model, list(texts.values())), strict=True))
        except Limit:
            if len(texts) > 1:
                keys, middle = list(texts), len(texts) // 2
                halves = (keys[:middle], keys[middle:])
                return {k: v for half in halves for k, v in self._asked(model, {k: texts[k] for k in half}).items()}
            [(key, text)] = texts.items()
            return self._asked(model, {key: text[:SHORTENED]}) if len(text) > SHORTENED else {}

    def _asked_once(self, model: Model, texts: list[str]) -> list[bytes]:
        from kgd.vectors.embedder import checked, to_bytes

        self._go_on()
        vectors = checked(model.embedder.embed(texts, "document"), len(texts), model.dim)
        model.dim = vectors.shape[1]
        return to_bytes(vectors)

    def _remove(self, model: Model, feed: Feed, end: Position) -> None:
        """Forget texts removed until `end`; all of its texts were embedded before."""
        name, at = model.embedder.id, model.position
        gone = _of(feed, lambda feed: feed.gone(at.gone))
        if gone is None:  # too many to list: present texts claim their rows, and the others go
            with self._writing:
                self._go_on()
                model.position = Position(end.era, 0, end.gone)
                self._opened_file().look_again(name, model.position)
            self._add(model, feed)
            gone = []
        with self._writing:
            self._go_on()
            dropped = self._opened_file().drop(name, gone[: end.gone - at.gone], end.gone)
        model.count -= len(dropped)
        self._note_change(model, dropped.values())
        if model is not self._building and model.nearest is not None:
            model.nearest.drop(dropped)
            self.changes += bool(dropped)
        model.position = model.position._replace(gone=end.gone)
        model.complete = True

    def _learn(self, model: Model, feed: Feed) -> None:
        """Learn which words are rare, for an embedder that weighs by rarity."""
        from kgd.vectors.embedder import Weighing

        if not isinstance(model.embedder, Weighing):
            return
        file, name = self._opened_file(), model.embedder.id
        sample = file.sample(name, SAMPLE)
        missing = sorted(number for number, tokens in sample if tokens is None)
        found: dict[int, bytes] = {}
        for start in range(0, len(missing), model.embedder.batch):
            some = missing[start : start + model.embedder.batch]
            for one in _of(feed, lambda feed, some=some: feed.read(some)):  # type: ignore[misc]
                found[one.number] = model.embedder.tokens(spoken_text(one))
            self._go_on()
        if found:
            with self._writing:
                self._go_on()
                file.note_tokens(name, found)
        model.embedder.learn([tokens or found.get(number, b"") for number, tokens in sample])
        model.learned, model.is_due = model.count, False
        model.sampled = file.digest_of(name, sample[-1][0]) if len(sample) == SAMPLE else b""
        model.questions = OrderedDict()
        self.changes += 1

    def _note_change(self, model: Model, digests: Iterable[bytes]) -> None:
        """Note changed texts: only texts in the sample affect rarity."""
        if any(not model.sampled or digest <= model.sampled for digest in digests):
            model.is_due = True

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    def _tell(self, model: Model, left: int) -> None:
        self._report(_sentence(model.choice, model.count, left), left)


def _sentence(choice: Choice, count: int, left: int) -> str:
    waiting = f", {left:,} {'waits' if left == 1 else 'wait'} to be embedded" if left else ""
    return f"{choice}: {count:,} of {count + left:,} texts{waiting}"


def spoken_text(text: Indexed) -> str:
    """The text to embed. The name of a message is its time and carries no meaning."""
    name = "" if text.type == "message" else text.name
    summary = "" if text.content.startswith(text.summary.rstrip("…").rstrip()) else text.summary
    return "\n".join(filter(None, (name.strip(), summary.strip(), text.content.strip())))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _of(feed: Feed, asked: Callable[[Feed], T]) -> T:
    """Read the feed. Damage of the text index is mended there, so it becomes `Unavailable` here."""
    try:
        return asked(feed)
    except IndexDamaged as error:
        raise Unavailable("the text index is being rebuilt", next="Embedding continues by itself.") from error
