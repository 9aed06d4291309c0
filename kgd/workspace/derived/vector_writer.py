"""Writing vectors of the index's texts, the process that does this for a daemon, and the relevance of similarities.

Texts are compared by content, so an unchanged text is not embedded again. A text gets an empty vector if the embedder
cannot embed it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgd.errors import Limit, Unauthorized, Unavailable
from kgd.index.change_feed import Feed, Indexed
from kgd.index.database import IndexDamaged
from kgd.index.vector_file import Key, Row, VectorFile
from kgd.vectors.choosing import Choice
from kgd.vectors.opening import opened
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order
from kgd.workspace.derived.search_words import opened_feed

if TYPE_CHECKING:  # numpy and models are expensive for a daemon without texts
    from numpy.typing import NDArray

    from kgd.vectors.embedder import Embedder, Kind, Scale
    from kgd.vectors.nearest import Nearest
    from kgd.workspace.derived.embedding import Model

PROGRAM = ("-m", "kgd.workspace.derived.vector_writer")
SHORTENED = 1_000
"""Maximum characters to send of a text that an embedder refused."""
_PROBE = "text"
"""A text that an embedder has no reason to refuse."""

T = TypeVar("T")

EVERY_PLACE = 1 << 32
"""With few notes, all are considered."""


class VectorWriter:
    """Embeds texts and stores their vectors, for one thread.

    Args:
        embedder: The embedder of a choice.
        feed: The feed of the text index.
        file: The file of vectors. Raises IndexDamaged if it is gone.
        permitted: Entered around each write; raises if writing must stop. Also called before each use of the embedder.
    """

    def __init__(
        self,
        embedder: Callable[[str], Embedder],
        feed: Callable[[], Feed],
        file: Callable[[], VectorFile],
        permitted: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._embedder, self._feed, self._file, self._permitted = embedder, feed, file, permitted
        self._dim = 0

    def __call__(self, order: Order, begin: Callable[[str], None] = lambda part: None) -> Answer:
        """Embed the next batch of texts, in one transaction.

        The order has the `choice` of the embedder, the `era` of the feed, the number `after` which texts are new, and
        the length `dim` of a vector, 0 if unknown. The answer has the last text's number `upto`, or nothing if there
        are no more texts.

        Raises:
            IndexDamaged: The file of vectors is unsound.
            KgdError: The index, the embedder or the disk failed; nothing was written.
        """
        feed, embedder, self._dim = self._feed(), self._embedder(order["choice"]), order["dim"]
        if of_feed(feed, Feed.end).era != order["era"]:
            raise Unavailable("the text index was rebuilt")
        texts = of_feed(feed, lambda feed: feed.stored(order["after"], embedder.batch))
        if not texts:
            return {}
        spoken = {(one.uri, one.origin): spoken_text(one) for one in texts}
        numbers = {(one.uri, one.origin): one.number for one in texts}
        digests = {key: _digest(text) for key, text in spoken.items()}
        known = self._file().digests(embedder.id, spoken)
        fresh = [key for key in spoken if known.get(key) != digests[key]]
        made = dict.fromkeys(fresh, b"")
        asked = {key: spoken[key] for key in fresh if spoken[key]}
        made |= self._vectors(embedder, asked)
        rows = [Row(key, numbers[key], digests[key], made[key]) for key in fresh]
        same = {key: number for key, number in numbers.items() if key not in made}
        with self._permitted():
            self._file().store(embedder.id, rows, same, texts[-1].number, self._dim)
        touched = [digests[key] for key in fresh] + [known[key] for key in fresh if key in known]
        return {
            "upto": texts[-1].number,
            "texts": len(texts),
            "fresh": len(fresh),
            "added": len([key for key in fresh if key not in known]),
            "embedded": len(asked),
            "lowest": min(touched, default=b"").hex(),
            "dim": self._dim,
        }

    def _vectors(self, embedder: Embedder, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts; a text that is refused even by itself gets an empty vector."""
        found = self._asked(embedder, texts)
        if len(found) < len(texts):
            self._asked_once(embedder, [_PROBE])  # refused too: the texts are not the reason
        return {key: found.get(key, b"") for key in texts}

    def _asked(self, embedder: Embedder, texts: dict[Key, str]) -> dict[Key, bytes]:
        """Vectors of texts, except for texts refused both whole and shortened."""
        if not texts:
            return {}
        try:
            return dict(zip(texts, self._asked_once(embedder, list(texts.values())), strict=True))
        except Limit:
            if len(texts) > 1:
                keys, middle = list(texts), len(texts) // 2
                halves = (keys[:middle], keys[middle:])
                return {k: v for half in halves for k, v in self._asked(embedder, {k: texts[k] for k in half}).items()}
            [(key, text)] = texts.items()
            return self._asked(embedder, {key: text[:SHORTENED]}) if len(text) > SHORTENED else {}

    def _asked_once(self, embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        from kgd.vectors.embedder import checked, to_bytes

        with self._permitted():
            pass
        vectors = checked(embedder.embed(texts, "document"), len(texts), self._dim)
        self._dim = vectors.shape[1]
        return to_bytes(vectors)


def spoken_text(text: Indexed) -> str:
    """The text to embed, without the name of a message, which is only its time."""
    name = "" if text.type == "message" else text.name
    summary = "" if text.content.startswith(text.summary.rstrip("…").rstrip()) else text.summary
    return "\n".join(filter(None, (name.strip(), summary.strip(), text.content.strip())))


def of_feed(feed: Feed, asked: Callable[[Feed], T]) -> T:
    """Read the feed. Another process rebuilds a damaged text index, so the damage is raised here as `Unavailable`."""
    try:
        return asked(feed)
    except IndexDamaged as error:
        raise Unavailable("the text index is being rebuilt", next="Embedding continues by itself.") from error


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()


def main(arguments: list[str]) -> int:
    """`arguments`: the index and its repository as a `Place`, the file of vectors, and its ticket."""
    git_dir, work_tree, index, vectors, ticket = arguments
    feed, file = opened_feed(git_dir, work_tree, index), VectorFile(Path(vectors), ticket=ticket)
    embedders: dict[str, Embedder] = {}

    def embedder(choice: str) -> Embedder:
        if choice not in embedders:
            embedders[choice] = opened(Choice.read(choice), _no_secret)
        return embedders[choice]

    child_process.serve(VectorWriter(embedder, lambda: feed, lambda: file))
    return 0


def _no_secret(reference: str) -> str:
    raise Unauthorized("the process that embeds has no credentials", at=reference[:40])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


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
