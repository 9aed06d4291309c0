"""The changes that `kgd edit` sends make the stored node equal to the edited one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kgd.cli.editing import changes_between
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask

A, OLD, B = (Uri(f"concept://shop/{name}") for name in ("a", "old", "b"))
FULL = Node(
    A,
    name="A",
    summary="s",
    content="text\n",
    tags=("one", "two"),
    data={"owner": {"name": "Ann", "team": "x"}, "paths": ["a", "b"]},
    source=Source("url", "1"),
    relations=(Relation("uses", B, 0.5, {"since": 1}),),
    aliases=(OLD,),
)


@pytest.mark.parametrize(
    "edited",
    [
        {"name": "", "summary": "", "content": "other\n"},
        {"tags": ("two", "three")},
        {"data": {"owner": {"name": "Ann"}, "paths": ["b"]}},
        {"data": {"owner": "Ann"}},
        {"source": None, "relations": ()},
        {"relations": (Relation("uses", B, 0.25),)},
        {"aliases": ()},
        {"aliases": (Uri("concept://shop/older"),)},
    ],
    ids=lambda one: "-".join(one),
)
def test_an_edited_node_is_stored_as_it_was_edited(ask: Ask, ws: Workspace, edited: dict[str, Any]) -> None:
    ask.put(changes=changes_between(Node(A), FULL, 0))
    assert ws.node(A) == FULL
    after = replace(FULL, **edited)
    ask.put(changes=changes_between(FULL, after, 1))
    assert ws.node(A) == after
    assert changes_between(after, after, 2) == []
