"""This file is where it is said what full text knows of a node: the words that it is found by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from kgd.graph.live import LiveGraph
from kgd.index.text import Doc, TextIndex
from kgd.model.node import Json, Node
from kgd.model.uri import Uri
from kgd.workspace.outcome import Similar

ASKED = 3
"""Of how many new nodes one answer says what they look like."""
SAID = 3
"""How many each of them is said to look like."""
LOOKED_AT = 10


def doc(node: Node, detail: str, updated: int) -> Doc:
    """The node as the text index takes it.

    Args:
        detail: The text of the file behind a memory; empty where there is none.
        updated: Unix seconds of its last change.
    """
    text = " ".join(_texts(node.data))
    content = "\n".join(filter(None, (node.content, detail)))
    return Doc(node.uri, node.type, node.title, node.summary, content, node.tags, text, updated, node.source,
               people=_people(node), aliases=_aliases(node.data))  # fmt: skip


def _people(node: Node) -> tuple[str, ...]:
    """Who says what a message says."""
    found = [node.data.get(key) for key in ("senderId", "senderName")] if node.type == "message" else []
    return tuple(name for name in found if isinstance(name, str))


def _aliases(data: Mapping[str, Json]) -> tuple[str, ...]:
    """What a node says it is called besides, each on one line."""
    given = data.get("aliases")
    found = (" ".join(text.split()) for text in given if isinstance(text, str)) if isinstance(given, list) else ()
    return tuple(filter(None, found))


def _texts(value: Json) -> Iterator[str]:
    """The words in a node's data, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


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
