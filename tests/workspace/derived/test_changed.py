"""Features that keep derived state learn which nodes to read again, each once."""

from __future__ import annotations

from kgd.model.change import Delete
from kgd.model.uri import parse
from kgd.workspace.served import Changed
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert

ANN, BOB = parse("entity://ws/Ann"), parse("entity://ws/Bob")


def test_a_node_written_often_is_listed_once_and_others_never(ws: Workspace) -> None:
    changed = Changed(ws, "entity")
    for number in range(5):
        ws.submit(change(upsert("n", summary=str(number)), upsert(ANN, summary=str(number))))
    ws.submit(change(upsert(BOB), Delete(ANN)))
    assert changed.take() == {ANN, BOB}
    assert changed.take() == set()


def test_a_deleted_node_is_listed_too(ws: Workspace) -> None:
    ws.submit(change(upsert(ANN), upsert("n")))
    changed = Changed(ws, "entity", "atom")
    ws.submit(change(Delete(ANN)))
    assert changed.take() == {ANN}
