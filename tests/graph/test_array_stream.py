"""Arrays built node by node, compared with a graph of dictionaries."""

from __future__ import annotations

import random

from kgd.graph.array_builder import ArrayStream
from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.model.node import Relation
from kgd.model.uri import Uri


def uri(number: int) -> Uri:
    return Uri(f"concept://w/é{number:03}")


def facts(graph: LiveGraph) -> dict[Uri, object]:
    every = set(graph.uris())
    data = {
        (uri, edge.target, edge.type): graph.relation_data(uri, edge.target, edge.type)
        for uri in every
        for edge in graph.out(uri)
    }
    return {
        uri: (graph.card(uri), list(graph.out(uri)), list(graph.into(uri)), graph.aliases(uri)) for uri in every
    } | {Uri("all"): (len(graph), graph.types(), graph.broken_links(), data)}


def test_a_stream_of_nodes_gives_the_same_graph_as_single_writes() -> None:
    for seed in range(40):
        chance, stream, live = random.Random(seed), ArrayStream(), LiveGraph()
        for number in chance.choices(range(60), k=80):  # some more than once
            card = Card(
                uri(number), chance.choice("ab"), "näme" * chance.randrange(2), "s", bytes([number + 1] * 20), ""
            )
            keys = {(chance.choice("xyz"), uri(chance.randrange(90))) for _ in range(chance.randrange(6))}
            relations = [
                Relation(type, target, chance.choice((0, 0.1, 0.5, 1)), chance.choice(({}, {"why": seed})))
                for type, target in keys
            ]
            aliases = [uri(chance.randrange(60, 120)) for _ in range(chance.randrange(2))]
            live.put(card, relations, aliases)
            stream.put(card, [(r.type, r.target, r.weight, r.data) for r in relations], aliases)
            assert stream.card(card.uri) == card
            if not chance.randrange(5):
                gone = uri(chance.randrange(60))
                assert stream.remove(gone) == live.remove(gone)
                assert stream.card(gone) is None
        loaded = LiveGraph()
        loaded.load(stream.arrays())
        assert facts(loaded) == facts(live), f"seed {seed}"
