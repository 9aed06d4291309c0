"""GraphML and Mermaid: missing nodes are red, names are harmless, and the order is always the same."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.cli import printing, printing_running, terminal
from kgd.errors import KgdError
from kgd.exchange import View, drawings
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert

NS = {"g": "http://graphml.graphdrawing.org/xmlns", "y": "http://www.yworks.com/xml/graphml"}
LINE = re.compile(
    r"%% written by kgd|flowchart LR"
    r'|    n\d+\["[^"\n<>\[\]{}`;]*(?:#\d+;[^"\n<>\[\]{}`;]*)*(?:<br/>\(missing\))?"\](?::::missing)?'
    r'|    n\d+ (?:-->|-\.->)\|"[^"\n<>|]*"\| n\d+'
    r"|    classDef missing fill:#ffd6d6,[a-z0-9#:,\- ]+|    linkStyle [\d,]+ stroke:#d62728,color:#8b0000"
).fullmatch


def planted(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert(
                "auth",
                name='<Auth> "&" ]]>',
                summary="who is who",
                relations=[
                    {"type": "needs", "target": "concept:sessions"},
                    {"type": "needs", "target": "keys", "weight": 0.2},
                    {"type": "about", "target": "./src/auth/keys.py"},
                ],
            ),
            upsert("keys", name="Keys", relations=[{"type": "near", "target": "vault"}]),
            upsert("vault", name="Vault"),
        ]
    )


@pytest.mark.requirement("E9")
def test_a_missing_concept_is_red_and_marked_in_graphml(ask: Ask, tmp_path: Path) -> None:
    planted(ask)
    answer = ask.export(target=str(tmp_path / "graph.graphml"), format="graphml")
    assert answer["wrote"] == {"nodes": 4, "relations": 4, "missing": 1}
    root = ElementTree.parse(tmp_path / "graph.graphml").getroot()
    found = {}
    for node in root.iterfind(".//g:node", NS):
        values = {data.get("key"): data.text for data in node.iterfind("g:data", NS)}
        fill, border = node.find(".//y:Fill", NS), node.find(".//y:BorderStyle", NS)
        assert fill is not None
        assert border is not None
        found[node.get("id")] = (values["n_label"], values["n_missing"], fill.get("color"), border.get("type"))
    assert found["concept://shop/sessions"] == ("sessions", "true", "#d62728", "dashed")
    assert found["concept://shop/auth"] == ('<Auth> "&" ]]>', "false", "#e8eef7", "line")
    assert "file://shop/src/auth/keys.py" in found
    edges = {(e.get("source"), e.get("target")): e for e in root.iterfind(".//g:edge", NS)}
    broken = edges["concept://shop/auth", "concept://shop/sessions"]
    assert {d.get("key"): d.text for d in broken.iterfind("g:data", NS)}["e_color"] == "#d62728"


@pytest.mark.requirement("E9")
def test_a_missing_concept_is_red_and_marked_in_mermaid(ask: Ask) -> None:
    planted(ask)
    text = ask.export(target="-", format="mermaid", roots=["auth"], max_cost=1)["text"]
    lines = text.splitlines()
    assert all(map(LINE, lines)), [line for line in lines if not LINE(line)]
    (missing,) = [line for line in lines if line.endswith(":::missing")]
    assert missing.endswith('["sessions<br/>(missing)"]:::missing')
    number = missing.split("[")[0].strip()
    assert f'n0 -.->|"needs"| {number}' in text
    assert "stroke:#d62728" in next(line for line in lines if "classDef missing" in line)
    assert "#60;Auth#62; #34;#38;#34; #93;#93;#62;" in text


def test_a_walk_and_a_limit_report_omissions(ask: Ask, tmp_path: Path) -> None:
    planted(ask)
    near = ask.export(target="-", format="graphml", roots=["auth"], max_cost=0.5)
    assert near["wrote"] == {"nodes": 3, "relations": 3, "missing": 1, "relations_out_of_view": 1}
    few = ask.export(target="-", format="graphml", max_nodes=1)
    assert few["cut"] >= 2
    again = ask.export(target="-", format="graphml", max_nodes=1)
    assert again["text"] == few["text"]


@pytest.mark.slow
def test_a_named_file_of_a_person_is_not_replaced_and_one_of_kgd_is(ask: Ask, tmp_path: Path) -> None:
    planted(ask)
    target = tmp_path / "notes.mmd"
    target.write_text("flowchart TD\n")
    with pytest.raises(KgdError, match="did not write"):
        ask.export(target=str(target), format="mermaid")
    assert target.read_text() == "flowchart TD\n"
    ask.export(target=str(target), format="mermaid", replace=True)
    ask.put(changes=[upsert("new")])
    assert ask.export(target=str(target), format="mermaid")["files"]["changed"] == 1


class Stored:
    id = "w"

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {node.uri: node for node in nodes}

    def is_broken(self, target: Uri) -> bool:
        return target not in self.nodes

    def node(self, uri: Uri) -> Node | None:
        return self.nodes.get(uri)

    def resolve(self, uri: Uri) -> Uri:
        return uri


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=60)
hostile = st.sampled_from(['"]; click n0 "javascript:alert(1)"', "%%{init: {}}%%", "<script>", "]]>", "end", "#quot;"])


@given(name=st.one_of(names, hostile), summary=st.one_of(names, hostile))
def test_no_name_breaks_out_of_a_drawing(name: str, summary: str) -> None:
    uri, gone = Uri("concept://w/a"), Uri("concept://w/gone%5D%22")
    node = Node(uri, name=name, summary=summary, relations=(Relation("is", gone),))
    view = View(Stored(node), [uri])
    document = ElementTree.fromstring(drawings.graphml(view).files[0].data)
    assert len(document.findall(".//g:node", NS)) == 2
    lines = drawings.mermaid(view).files[0].data.decode().removesuffix("\n").split("\n")
    assert all(map(LINE, lines)), [line for line in lines if not LINE(line)]
    assert len(lines) == 7


@pytest.mark.requirement("E9")
def test_every_view_agrees_on_which_links_are_broken(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    """Also on a link into another workspace: it is broken while that workspace is not known."""
    uris = [f"concept://{workspace}/x" for workspace in ("shop", "unknown", "known")]
    ask.put(changes=upsert("a", relations=[{"type": "needs", "target": uri} for uri in uris]))
    registered = ws.is_registered
    ws.is_registered = lambda id: id == "known" or registered(id)
    told = {link["target"]: link["reason"] for link in ask.traverse(start="a")["broken_links"]}
    assert told["concept://unknown/x"] == "unknown_workspace"
    broken = set(uris[:2])
    assert {one["uri"] for one in ask.broken()["broken"]} == broken
    assert {one["target"] for one in ask.status()["broken_links"]} == broken
    [node] = ask.get(uris="a")["nodes"]
    assert {one["target"] for one in node["relations"] if one.get("broken")} == broken
    assert ask.export(target=str(tmp_path / "a.mmd"), format="mermaid")["wrote"]["missing"] == len(broken)


@pytest.mark.requirement("E9")
def test_show_and_status_list_broken_links_in_red_and_in_words(
    ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(ask)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = ask.get(uris=["auth"], include=["content", "relations", "incoming", "history"])
    printing.get(terminal.clean(dict(shown)))
    told = capsys.readouterr().out
    line = next(line for line in told.splitlines() if "sessions" in line)
    assert terminal.red("  (broken link)") in line
    assert "broken link" not in next(line for line in told.splitlines() if "needs" in line and "shop/keys" in line)
    status = ask.status()
    assert status["broken_links"] == [
        {"source": "concept://shop/auth", "type": "needs", "target": "concept://shop/sessions"}
    ]
    printing_running.status(terminal.clean(dict(status)))
    told = capsys.readouterr().out
    assert terminal.red("! broken link:") in told
