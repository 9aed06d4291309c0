"""A text mentions the nodes that it names, whichever of the two was there first."""

from __future__ import annotations

from kgd.model.change import Delete, Upsert
from tests.builders import uri
from tests.mentions.conftest import Graph


def test_a_new_text_mentions_what_it_names_and_a_new_name_is_found_in_older_texts(graph: Graph) -> None:
    graph.put(Upsert(uri("auth"), name="Auth service", content="Signs tokens."))
    graph.put(Upsert(uri("shop"), name="Checkout page", content="Asks the auth service, and the Key Store."))
    assert graph.mentions() == {("shop", "auth")}
    graph.put(Upsert(uri("keys"), name="Key store", content="Holds what the Auth Service signs with."))
    assert graph.mentions() == {("shop", "auth"), ("shop", "keys"), ("keys", "auth")}


def test_the_longest_name_counts_and_the_shorter_one_again_when_it_is_gone(graph: Graph) -> None:
    graph.put(
        Upsert(uri("auth"), name="Auth service"), Upsert(uri("text"), content="The auth service registry is full.")
    )
    assert graph.mentions() == {("text", "auth")}
    graph.put(Upsert(uri("registry"), name="Auth service registry"))
    assert graph.mentions() == {("text", "registry"), ("registry", "auth")} - {("registry", "auth")}
    graph.put(Delete(uri("registry")))
    assert graph.mentions() == {("text", "auth")}
