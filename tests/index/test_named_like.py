"""Which older nodes a new one is compared with: by the words of their names."""

from __future__ import annotations

import pytest

from kgd.index import text
from kgd.index.database import Database
from kgd.index.text import Doc, TextIndex
from kgd.model.uri import Uri


def uri(name: str) -> Uri:
    return Uri(f"concept://ws/{name}")


@pytest.fixture
def index(database: Database) -> TextIndex:
    index = TextIndex(database)
    names = ("auth service", "auth tokens", "service bus", "billing")
    index.apply([Doc(uri(name.replace(" ", "-")), "concept", name, content="auth service billing") for name in names])
    return index


def test_names_with_all_words_come_first_and_what_only_the_content_says_does_not_count(index: TextIndex) -> None:
    assert index.named_like("The auth service", 10) == [uri("auth-service"), uri("auth-tokens"), uri("service-bus")]


def test_a_word_that_many_nodes_have_finds_only_together_with_the_others(
    index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "FEW", 2)
    assert index.named_like("auth service", 10) == [uri("auth-service")]


@pytest.mark.parametrize("name", ["", "...", '" OR NEAR(', "name:", "getUserName (again)"])
def test_any_name_is_a_question(index: TextIndex, name: str) -> None:
    assert index.named_like(name, 10) == []


@pytest.mark.parametrize("new", ["cache writer", "Cache-Writer", "cache_writer", "cacheWriter", "CacheWriter"])
def test_a_name_finds_the_same_words_however_they_are_joined(index: TextIndex, new: str) -> None:
    names = ("cache writer", "cache-writer", "cache_writer", "cacheWriter", "CacheWriter")
    docs = [Doc(uri(f"n{number}"), "concept", name, content="x") for number, name in enumerate(names)]
    index.apply([*docs, Doc(uri("text"), "concept", "notes", content="cacheWriter is slow")])
    assert set(index.named_like(new, 10)) >= {one.uri for one in docs}
