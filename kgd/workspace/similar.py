"""This file is where nodes are found that a new one looks like, by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgd.graph.live import LiveGraph
from kgd.index.text import TextIndex
from kgd.model.uri import Uri
from kgd.workspace.outcome import Similar

ASKED = 3
"""Of how many new nodes one answer says what they look like."""
SAID = 3
"""How many each of them is said to look like."""
LOOKED_AT = 10


def similar(created: Sequence[Uri], graph: LiveGraph, text: TextIndex) -> tuple[Similar, ...]:
    """Older nodes that share half of the words of the name, for the first few new ones; may cost little."""
    found = ((uri, _like(uri, graph, text)) for uri in created[:ASKED])
    return tuple(Similar(uri, like) for uri, like in found if like)


def _like(uri: Uri, graph: LiveGraph, text: TextIndex) -> tuple[Uri, ...]:
    card = graph.card(uri)
    if card is None or not card.name:
        return ()
    words = _words(card.name)
    alike = []
    for found in text.named_like(card.name, LOOKED_AT):
        other = graph.card(found)
        if other and found != uri and 2 * len(words & _words(other.name)) >= len(words | _words(other.name)):
            alike.append(found)
    return tuple(alike[:SAID])


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", name.casefold()))
