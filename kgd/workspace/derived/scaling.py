"""The relevance of an embedder's similarities in one workspace, measured on its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kgd.errors import Limit
from kgd.index.change_feed import Feed
from kgd.index.vector_file import Key
from kgd.workspace.derived.vector_writer import of_feed

if TYPE_CHECKING:  # numpy is expensive for a daemon without texts
    from numpy.typing import NDArray

    from kgd.vectors.nearest import Nearest
    from kgd.vectors.scale import Scale
    from kgd.workspace.derived.embedding import Model

EVERY_PLACE = 1 << 32
"""With few notes, all are considered."""


def measured(model: Model, nearest: Nearest, feed: Feed, permitted: Callable[[], None]) -> Scale | None:
    """The scale of a model; None if there are too few notes. Embeds only names that were not compared before.

    Args:
        permitted: Called before each use of the embedder; raises if it must not be used.

    Raises:
        KgdError: The embedder or the index failed.
    """
    from kgd.vectors import scale
    from kgd.vectors.nearest import place_of

    notes = nearest.notes(scale.CONSIDERED)
    named = of_feed(feed, lambda feed: feed.names(notes))
    names = scale.compared((uri, named.get(uri, "")) for uri in notes)
    for name in names.values():
        if name not in model.names:
            permitted()
            model.names[name] = _asked(model, name)
    model.names = {name: model.names[name] for name in names.values()}
    asked = ((uri, model.names[name]) for uri, name in names.items())
    found = scale.measured(nearest, {uri: vector for uri, vector in asked if vector is not None and vector.any()})
    model.last_considered = place_of(notes[-1]) if len(notes) == scale.CONSIDERED else EVERY_PLACE
    return found


def note_change(model: Model, keys: Iterable[Key]) -> None:
    """Have the scale measured again if one of these texts is, was or becomes one of the considered notes."""
    if model.last_considered is None:
        return
    from kgd.vectors.nearest import place_of

    if any(place_of(uri) <= model.last_considered for uri, _ in keys):
        model.last_considered = None


def _asked(model: Model, name: str) -> NDArray[Any] | None:
    """The vector of a name as a question; None if the embedder refuses it."""
    from kgd.vectors.embedder import checked

    try:
        return checked(model.embedder.embed([name], "query"), 1, model.dim).ravel()
    except Limit:
        return None
