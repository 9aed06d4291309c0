"""Embeddings: from the feed of the text index into the file of vectors, and into memory.

Progress is tracked by the feed's numbers, and texts are compared by content, so an unchanged text is not embedded
again. After the embedder changes, searches use the old vectors until the new embedder has embedded all texts. The
relevance of an embedder's similarities is measured on the workspace's notes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd.errors import Invalid, KgdError, Limit, Unavailable
from kgd.index.change_feed import Feed, Indexed, Position
from kgd.index.database import IndexDamaged
from kgd.index.vector_file import Key, VectorFile
from kgd.vectors.choosing import Choice, may_serve
from kgd.workspace.child_process import Worker
from kgd.workspace.derived import vector_writer
from kgd.workspace.derived.indexed_text import Place
from kgd.workspace.derived.vector_writer import VectorWriter, of_feed, spoken_text
from kgd.workspace.repository import give_memory_back

if TYPE_CHECKING:  # numpy and models are expensive for a daemon without texts
    from numpy.typing import NDArray

    from kgd.vectors.embedder import Embedder, Kind, Scale
    from kgd.vectors.nearest import Nearest

PAUSE = 1.0
"""The pause between two batches, relative to the duration of the last one: half of a core stays free for calls."""
LONGEST_PAUSE = 0.1
SAMPLE = 1_000
"""Number of texts sampled to learn how rare words are; a few hundred would suffice."""
MANY = 2_000
"""Memory is released after embedding at least this many texts."""
MUCH = 300
"""Texts to embed from which on a child does so, which starts and loads a model in half a second."""


class Stopped(Exception):
    """The workspace is closing."""


class Superseded(Exception):
    """The user chose another embedder in the meantime."""


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
    measured: Scale | None = None
    """The relevance of similarities, if the embedder does not know it."""
    names: dict[str, NDArray[Any] | None] = field(default_factory=dict)
    """The names by which it was measured, with their vectors; None for a refused name."""
    sentences: dict[str, NDArray[Any] | None] = field(default_factory=dict)
    """The sentences by which it was measured, with their vectors; None for a refused sentence."""
    last_considered: int | None = None
    """The last place of a note that was considered for the scale; None if the scale has to be measured."""


class Embedding:
    """The vectors of one workspace, updated by one thread at a time. Any thread may read `serving`.

    Args:
        place: The text index, for a child process.
        secret: Looks up a credential by its reference.
        stopping: Set when writing must stop.
        chosen: The user's current choice; texts are not sent to any other embedder.
        report: Called with a sentence about the progress and the number of waiting texts.
    """

    def __init__(
        self,
        feed: Callable[[], Feed],
        place: Place,
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
        self._embedder: Embedder | None = None
        """The embedder of the batch under way, if it is made here."""
        writer = VectorWriter(self._current_embedder, self._current_feed, self._opened_file, self._permitted)
        self.worker = Worker(
            writer,
            lambda: (*vector_writer.PROGRAM, *place, str(path), self._opened_file().ticket()),
            MUCH,
            "the embeddings",
        )
        self.serving: Model | None = None
        self.hurried = False
        """Whether a caller is waiting, so that pauses are skipped."""
        self.embedded = 0
        """Texts embedded by this object."""
        self.changes = 0
        """The number of changes of the serving vectors, counted after each change."""

    def bring_forward(self, choice: Choice) -> None:
        """Embed new texts and forget removed texts, up to the texts that exist at the call.

        Raises:
            Stopped: `stopping` was set; finished work is kept.
            Superseded: Another embedder was chosen; finished work is kept.
            IndexDamaged: The file is damaged: call `begin_anew`.
            KgdError: The embedder or the disk failed; finished work is kept.
        """
        feed = self._followed = self._feed()
        self._go_on()
        if self.serving is None and not self._path.exists() and not of_feed(feed, Feed.end).number:
            self._report("no texts yet", 0)
            return
        model, before = self._model(choice, feed, of_feed(feed, Feed.end).era), self.embedded
        while True:
            at, end = model.position, of_feed(feed, Feed.end)
            if model.complete and (at.era, at.gone) == (end.era, end.gone) and end.number <= at.number:
                break
            if end.era != model.position.era:
                self.worker.end()  # it reads the former index
                model.position = self._opened_file().begin(model.embedder.id, choice.written(), end.era).position
            self._add(model, feed)
            self._remove(model, feed, end)
        if model is self._building:
            self._load(model)
        if model.is_due:
            self._learn(model, feed)
        self._measure(model, feed)
        if model is self._building:
            self._promote(model)
        if self.embedded - before > MANY:
            give_memory_back()
        self._tell(model, 0)

    def progress(self, choice: Choice) -> Progress | None:
        """The progress with the current texts; None if unknown. Takes time linear in the number of waiting texts.

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

    def rest(self) -> None:
        """End the child, and free the space of a long log."""
        self.worker.end()
        if self._file is not None:
            self._file.trim()

    def begin_anew(self) -> None:
        """Empty the file. Searches use the vectors in memory until all texts are embedded again."""
        self.worker.end()
        if self._file is None:
            self._file = VectorFile(self._path)
            self._file.own()
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
        self.worker.end()
        for model in {self.serving, self._building} - {None}:
            assert model is not None
            model.embedder.close()
        self.serving = self._building = None
        self.changes += 1
        with self._writing:
            if self._file is not None:
                self._file.close()
                self._file = None

    @contextmanager
    def _permitted(self) -> Iterator[None]:
        with self._writing:
            self._go_on()
            yield

    def _current_embedder(self, choice: str) -> Embedder:
        assert self._embedder is not None
        return self._embedder

    def _current_feed(self) -> Feed:
        assert self._followed is not None
        return self._followed

    # ---- choice of embedder

    def _opened_file(self) -> VectorFile:
        self._go_on()
        if self._file is None:
            self._file = VectorFile(self._path)
            self._file.own()
        elif not self._path.exists():  # otherwise SQLite would keep writing to the deleted file
            raise IndexDamaged("the file of vectors is gone", at=str(self._path))
        return self._file

    def _model(self, choice: Choice, feed: Feed, era: str) -> Model:
        """The model to update: the serving one, or its replacement."""
        file = self._opened_file()
        for model in (self._building, self.serving):
            if model is not None and model.choice == choice:
                if model.position.era != era:
                    self.worker.end()
                    model.position = file.begin(model.embedder.id, choice.written(), era).position
                return model
        embedder = self._open(choice)
        known = file.begin(embedder.id, choice.written(), era)
        model = Model(choice, embedder, known.position, known.dim, file.count(embedder.id), known.complete)
        self._building, old = None, self.serving
        if old is not None and old.embedder.id == embedder.id:  # the same vectors from another request
            model.nearest, model.measured = old.nearest, old.measured
            model.names, model.sentences = old.names, old.sentences
            self.serving = model
            self.changes += 1
            return model
        if old is None and not known.complete:
            old = self._earlier(choice, feed)
        if old is not None and may_serve(old.choice, choice):
            self.serving, self._building = old, model
        else:
            self._load(model)
            self._learn(model, feed)  # done first, so that answers are the same as before a restart
            with suppress(KgdError):  # tried again once all texts are embedded
                self._measure(model, feed)
            self.serving = model
        self.changes += 1
        return model

    def _open(self, choice: Choice) -> Embedder:
        # Imported here because it loads numpy, which a workspace without texts does not need.
        from kgd.vectors.configured import opened

        return opened(choice, self._secret)

    def _earlier(self, choice: Choice, feed: Feed) -> Model | None:
        """The model used before the settings changed, if it may still be used."""
        file = self._opened_file()
        for known in file.embedders():
            try:
                before = Choice.read(known.choice)
                if known.complete and may_serve(before, choice):
                    embedder = self._open(before)
                    model = Model(before, embedder, known.position, known.dim, file.count(known.name), True)
                    self._load(model)
                    self._learn(model, feed)
                    return model
            except (Invalid, Unavailable):
                continue
        return None

    def _load(self, model: Model) -> None:
        """Read a model's vectors into memory, in 0.5 s for 100,000."""
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
            raise IndexDamaged("the file of vectors has unexpected content", at=str(self._path)) from error
        model.nearest, model.last_considered = nearest, None

    def _promote(self, model: Model) -> None:
        """Let a complete model serve."""
        old, self.serving, self._building = self.serving, model, None
        self.changes += 1
        if old is not None and old.embedder is not model.embedder:
            old.embedder.close()
        with self._permitted():
            self._opened_file().drop_others(model.embedder.id)

    # ---- texts

    def _add(self, model: Model, feed: Feed) -> None:
        """Embed new texts, batch by batch."""
        left = of_feed(feed, lambda feed: feed.waiting(model.position.number))
        begun = time.monotonic()
        while True:
            if self._chosen() != model.choice:
                raise Superseded
            self._tell(model, left)
            done = self._embed(model, left)
            if not done:
                break
            left = max(0, left - done)
            if model.count >= 2 * max(model.learned, model.embedder.batch):
                self._learn(model, feed)
            if not self.hurried and self.worker.pid is None:
                self._stopping.wait(min(LONGEST_PAUSE, PAUSE * (time.monotonic() - begun)))
            begun = time.monotonic()

    def _embed(self, model: Model, left: int) -> int:
        """Embed the next texts, and return their number."""
        # An endpoint costs no processor time here, and its credential stays in this process.
        due = 0 if model.choice.kind == "openai" else left
        order = {
            "choice": model.choice.written(),
            "era": model.position.era,
            "after": model.position.number,
            "dim": model.dim,
        }
        self._opened_file()
        self._embedder, deaths = model.embedder, self.worker.deaths
        try:
            made = self.worker.carry_out(order, min(due, model.embedder.batch), due)
        except KgdError:
            if of_feed(self._current_feed(), Feed.end).era == model.position.era:
                raise
            return 0  # the index was rebuilt in the meantime, and the caller begins again
        finally:
            self._go_on()
        if not made:
            return 0
        before, model.dim = model.position.number, made["dim"]
        model.position = model.position._replace(number=made["upto"])
        is_repeated = self.worker.deaths > deaths  # then the answer counts only what the last child did
        model.count = self._opened_file().count(model.embedder.id) if is_repeated else model.count + made["added"]
        self._note_change(model, [bytes.fromhex(made["lowest"])] if made["lowest"] else [b""] if is_repeated else [])
        self.embedded += made["embedded"]
        if model is not self._building and model.dim and (made["fresh"] or is_repeated):
            self._take_over(model, before)
        return int(made["texts"])

    def _take_over(self, model: Model, after: int) -> None:
        """Read the vectors of the texts after a number into memory."""
        from kgd.vectors.embedder import from_bytes
        from kgd.vectors.nearest import Nearest

        rows = self._opened_file().between(model.embedder.id, after, model.position.number)
        note_change(model, (key for key, _ in rows))
        model.nearest = model.nearest or Nearest(model.dim)
        model.nearest.drop(key for key, vector in rows if not vector)
        if speaking := {key: vector for key, vector in rows if vector}:
            model.nearest.put(list(speaking), from_bytes(list(speaking.values()), model.dim))
        self.changes += 1

    def _remove(self, model: Model, feed: Feed, end: Position) -> None:
        """Forget texts that were removed up to `end`; all texts present at `end` are already embedded."""
        name, at = model.embedder.id, model.position
        gone = of_feed(feed, lambda feed: feed.gone(at.gone))
        if gone is None:  # too many to list: rows of present texts are kept, all others are removed
            with self._permitted():
                model.position = Position(end.era, 0, end.gone)
                self._opened_file().look_again(name, model.position)
            self._add(model, feed)
            gone = []
        with self._permitted():
            dropped = self._opened_file().drop(name, gone[: end.gone - at.gone], end.gone)
        model.count -= len(dropped)
        self._note_change(model, dropped.values())
        note_change(model, dropped)
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
            for one in of_feed(feed, lambda feed, some=some: feed.read(some)):  # type: ignore[misc]
                found[one.number] = model.embedder.tokens(spoken_text(one))
            self._go_on()
        if found:
            with self._permitted():
                file.note_tokens(name, found)
        model.embedder.learn([tokens or found.get(number, b"") for number, tokens in sample])
        model.learned, model.is_due = model.count, False
        model.sampled = file.digest_of(name, sample[-1][0]) if len(sample) == SAMPLE else b""
        model.questions = OrderedDict()
        self.changes += 1

    def _measure(self, model: Model, feed: Feed) -> None:
        """Measure the relevance of similarities, for an embedder that does not know it."""

        def permitted() -> None:
            self._go_on()
            if self._chosen() != model.choice:
                raise Superseded

        if model.nearest is not None and model.embedder.scale is None and model.last_considered is None:
            found = measured(model, model.nearest, feed, permitted)
            self.changes += found != model.measured
            model.measured = found

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


EVERY_PLACE = 1 << 32
"""With few notes, all are considered."""


def measured(model: Model, nearest: Nearest, feed: Feed, permitted: Callable[[], None]) -> Scale | None:
    """The scale of a model; None if there are too few notes. Embeds only texts that were not compared before.

    Args:
        permitted: Called before each use of the embedder; raises if it must not be used.

    Raises:
        KgdError: The embedder or the index failed.
    """
    from kgd.vectors import embedder
    from kgd.vectors.nearest import place_of

    notes = nearest.notes(embedder.CONSIDERED)
    named = of_feed(feed, lambda feed: feed.names(notes))
    names = embedder.compared((uri, named.get(uri, "")) for uri in notes)
    model.names = _embedded(model, names.values(), model.names, "query", permitted)
    asked = ((uri, model.names[name]) for uri, name in names.items())
    found = embedder.measured(nearest, {uri: vector for uri, vector in asked if vector is not None and vector.any()})
    if found is not None and len(names) >= embedder.ENOUGH:
        found = found._replace(words=_weight_of_words(model, of_feed(feed, lambda feed: feed.notes(names)), permitted))
    model.last_considered = place_of(notes[-1]) if len(notes) == embedder.CONSIDERED else EVERY_PLACE
    return found


def note_change(model: Model, keys: Iterable[Key]) -> None:
    """Have the scale measured again if one of these texts is, was or becomes one of the considered notes."""
    if model.last_considered is None:
        return
    from kgd.vectors.nearest import place_of

    if any(place_of(uri) <= model.last_considered for uri, _ in keys):
        model.last_considered = None


def _weight_of_words(model: Model, notes: Sequence[Indexed], permitted: Callable[[], None]) -> float:
    """See `Scale.words`; 1.0 without the built-in model, to which the embedder is compared."""
    from kgd.index.words import sentences
    from kgd.vectors import embedder
    from kgd.vectors.builtin import Builtin

    said = [sentences(note.name, note.summary, note.content)[: embedder.SENTENCES] for note in notes]
    model.sentences = _embedded(model, chain.from_iterable(said), model.sentences, "document", permitted)
    vectors = ((place, text, model.sentences[text]) for place, some in enumerate(said) for text in some)
    rows = [(place, text, vector) for place, text, vector in vectors if vector is not None]
    places, own = [place for place, *_ in rows], [vector for *_, vector in rows]
    try:
        builtin = Builtin.load().embed([text for _, text, _ in rows], "document")
    except Unavailable:
        return 1.0
    return embedder.weight_of_words(embedder.contrast(own, places), embedder.contrast(builtin, places))


def _embedded(
    model: Model,
    texts: Iterable[str],
    known: Mapping[str, NDArray[Any] | None],
    kind: Kind,
    permitted: Callable[[], None],
) -> dict[str, NDArray[Any] | None]:
    """The vectors of these texts; None for a text that the embedder refuses."""
    wanted = list(dict.fromkeys(texts))
    fresh = [text for text in wanted if text not in known]
    found = dict(known)
    for start in range(0, len(fresh), model.embedder.batch):
        some = fresh[start : start + model.embedder.batch]
        permitted()
        found |= zip(some, _vectors(model, some, kind), strict=True)
    return {text: found[text] for text in wanted}


def _vectors(model: Model, texts: Sequence[str], kind: Kind) -> list[NDArray[Any] | None]:
    from kgd.vectors.embedder import checked

    try:
        return [*checked(model.embedder.embed(texts, kind), len(texts), model.dim)]
    except Limit:
        return [None] if len(texts) == 1 else [one for text in texts for one in _vectors(model, [text], kind)]
