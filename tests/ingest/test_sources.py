"""Nodes are found by what they were taken from."""

from __future__ import annotations

from kgd.model.change import ChangeSet, Delete, Upsert
from kgd.model.node import Source
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, uri


def write(ws: Workspace, *edits: Upsert | Delete) -> None:
    ws.submit(ChangeSet(edits, ANN))


def test_nodes_are_found_by_source_or_by_type_of_source_as_soon_as_they_are_written(plain: Workspace) -> None:
    mail, page = Source("mail", "1"), Source("page", "1")
    write(plain, Upsert(uri("b"), source=mail), Upsert(uri("a"), source=mail), Upsert(uri("c"), source=page))
    write(plain, Upsert(uri("d"), source=Source("mail", "2")), Upsert(uri("e")))
    assert plain.text().by_source("mail", "1") == [uri("a"), uri("b")]
    assert plain.text().by_source("mail") == [uri("a"), uri("b"), uri("d")]
    assert plain.text().by_source("mail", "3") == plain.text().by_source("") == []
    write(plain, Delete(uri("a")), Upsert(uri("b"), source=page))
    assert plain.text().by_source("mail", "1") == []
    assert plain.text().by_source("page", "1") == [uri("b"), uri("c")]


def test_sources_are_known_again_after_the_index_was_thrown_away(plain: Workspace) -> None:
    write(plain, Upsert(uri("a"), source=Source("page", "1")))
    plain.reindex()
    assert plain.text().by_source("page", "1") == [uri("a")]
