"""This file is where nodes are found that a new one looks like, by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from kgd.graph.live import LiveGraph
from kgd.index.text import TextIndex
from kgd.model.uri import Uri
from kgd.workspace.outcome import Similar

ASKED = 3
"""Of how many new nodes one answer says what they look like."""
SAID = 3
"""How many each of them is said to look like."""
LOOKED_AT = 10


def similar(named: Mapping[Uri, str], graph: LiveGraph, text: TextIndex) -> tuple[Similar, ...]:
    """Older nodes that share half of the words of the name, for the first few new ones; may cost little."""
    found = ((uri, _like(uri, name, graph, text)) for uri, name in islice(named.items(), ASKED) if name)
    return tuple(Similar(uri, like) for uri, like in found if like)


def _like(uri: Uri, name: str, graph: LiveGraph, text: TextIndex) -> tuple[Uri, ...]:
    words = _words(name)
    alike = []
    for found in text.named_like(name, LOOKED_AT):
        other = graph.card(found)
        if other and found != uri and 2 * len(words & _words(other.name)) >= len(words | _words(other.name)):
            alike.append(found)
    return tuple(alike[:SAID])


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", name.casefold()))
