"""GraphML and Mermaid: what is missing is red, names are harmless, and the order is always the same."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.surfaces.conftest import Ask, upsert

NS = {"g": "http://graphml.graphdrawing.org/xmlns", "y": "http://www.yworks.com/xml/graphml"}


def planted(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert("auth", name='<Auth> "&" ]]>', summary="who is who", relations=[
                {"type": "needs", "target": "concept:sessions"}, {"type": "needs", "target": "keys", "weight": 0.2},
            ]),
            upsert("keys", name="Keys"),
        ]
    )  # fmt: skip


def test_a_missing_concept_is_red_and_marked_in_graphml(ask: Ask, tmp_path: Path) -> None:
    planted(ask)
    answer = ask.export(target=str(tmp_path / "graph.graphml"), format="graphml")
    assert answer["wrote"] == {"nodes": 2, "relations": 2, "missing": 1}
    root = ElementTree.parse(tmp_path / "graph.graphml").getroot()
    found = {}
    for node in root.iterfind(".//g:node", NS):
        values = {data.get("key"): data.text for data in node.iterfind("g:data", NS)}
        fill = node.find(".//y:Fill", NS)
        assert fill is not None
        found[node.get("id")] = (values["n_label"], values["n_missing"], values["n_color"], fill.get("color"))
    assert found["concept://shop/sessions"] == ("sessions", "true", "#d62728", "#d62728")
    assert found["concept://shop/auth"][:2] == ('<Auth> "&" ]]>', "false")
