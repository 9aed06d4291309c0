"""The relevance of an embedder's similarities in one workspace, measured on its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from kgd.errors import Limit, Unavailable
from kgd.index.change_feed import Feed, Indexed
from kgd.index.vector_file import Key
from kgd.workspace.derived.vector_writer import of_feed

if TYPE_CHECKING:  # numpy is expensive for a daemon without texts
    from numpy.typing import NDArray

    from kgd.vectors.embedder import Kind, Scale
    from kgd.vectors.nearest import Nearest
    from kgd.workspace.derived.embedding import Model

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
