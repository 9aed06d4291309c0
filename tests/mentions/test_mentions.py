"""A text mentions the nodes that it names, independent of which existed first."""

from __future__ import annotations

from kgd.model.change import Delete, Upsert
from tests.builders import uri
from tests.mentions.conftest import Graph


def test_new_texts_are_searched_for_names_and_older_texts_for_new_names(graph: Graph) -> None:
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


NAMES: dict[str, tuple[list[str], list[str]]] = {
    # a name, texts that mention it, and texts that do not
    "Key store": (
        ["it asks the KEY STORE", "it asks the key\nstore", "a key-store's"],
        ["a key\n\nStore it", "key stores"],
    ),
    "Kubernetes": (["runs on Kubernetes", "runs on `kubernetes`", "#kubernetes"], ["runs on kubernetes"]),
    "checkout": (["the Checkout, marked"], ["the word checkout"]),
    "JWT": (["a JWT is signed"], ["a Jwt is signed", "a jwt"]),
    "Cat": ([], ["a Cat"]),
    "Session": (
        ["the `session` ends", "#session", "see SESSION"],
        ["Session starts here", "A Session of it", "the session"],
    ),
    "Python": (["written in Python"], ["```python\nx = 1\n```", "> ~~~ python\nx\n> ~~~"]),
    "list": (["returns `list`"], ["list(items)", "List of things", "```list\nx\n```"]),
    "Session store": (["asks the session store"], ["the session"]),
    "This": ([], ["This is nothing"]),
    "It is": ([], ["It is nothing"]),
    "The Others": (["she saw The Others twice"], ["the others left"]),
    "Inception (film)": (["she saw Inception twice", "Inception (film) was shown"], ["at the inception of it"]),
    "2024": ([], ["in 2024"]),
    "Straße Nord": (["an der STRAßE NORD"], ["an der Straße im Norden"]),
    "Ångström unit": (["one ångström unit"], []),
    "東京タワー": (["昨日東京タワーに行った"], ["東京に行った"]),
    "O'Neill Group": (["met the O'Neill group", "the O\u2019Neill Group"], []),
    "design-notes.md": (["see docs/design-notes.md", "in design-notes.md."], ["the design"]),
    "auth_service": (["calls auth_service twice"], []),
    "Ledger writer": (["see LedgerWriter", "`ledgerWriter.post`"], ["LedgerWriterFactory"]),
    '"Quoted" OR name': (["the quoted or NAME"], []),
    " ".join(["Word"] * 13): ([], [" ".join(["Word"] * 13)]),
}


def test_a_name_is_found_as_people_write_it_and_not_where_it_is_only_a_word(graph: Graph) -> None:
    names = [Upsert(uri(f"name{n}"), name=name) for n, name in enumerate(NAMES)]
    texts, expected = [], set()
    for n, (yes, no) in enumerate(NAMES.values()):
        for m, text in enumerate((*yes, *no)):
            texts.append(Upsert(uri(f"text{n}-{m}"), content=text))
            expected |= {(f"text{n}-{m}", f"name{n}")} if m < len(yes) else set()

    def found() -> set[tuple[str, str]]:
        return {(text, name) for text, name in graph.mentions() if text.startswith("text")}

    graph.put(*names)
    graph.put(*texts)
    assert found() == expected
    graph.put(*(Delete(name.uri) for name in names))
    assert found() == set()
    graph.put(*names)
    assert found() == expected
