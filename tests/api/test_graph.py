"""`workspace.graph`: the daemon's graph as a networkx graph in another process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest

import kgd
from kgd.graph import arrays
from tests.api.conftest import stop_daemon
from tests.daemon.conftest import end_daemon

A, B, C, MOVED = (f"concept://shop/{name}" for name in ("a", "b", "c", "moved"))


def node_names(graph: nx.MultiDiGraph[str]) -> set[str]:
    return {graph.nodes[uri]["card"].name for uri in graph if graph.nodes[uri]}


def snapshot_of(code: Path) -> Path:
    (found,) = (code / ".git/kgd").rglob("graph.snapshot")
    return found


@pytest.mark.slow
@pytest.mark.requirement("B7")
def test_a_program_runs_algorithms_on_the_graph_of_the_daemon(ws: kgd.Workspace, code: Path, tmp_path: Path) -> None:
    ws.create_nodes([kgd.NewNode("concept", name, summary=f"Node {name}") for name in "abc"])
    ws.create_edges([kgd.NewEdge(A, B, "uses", 0.5, {"why": ["x"]}), kgd.NewEdge(B, C, "uses", 0.25)])
    graph = ws.graph
    assert isinstance(graph, nx.MultiDiGraph)
    assert nx.dijkstra_path_length(graph, A, C) == 0.75
    assert graph.nodes[A]["card"].summary == "Node a"
    assert graph.edges[A, B, "uses"] == {"weight": 0.5, "data": {"why": ["x"]}}
    assert (graph.graph["workspace"], graph.graph["commit"]) == ("shop", ws.history(limit=1)[0].commit)
    assert ws.graph is graph
    changes: list[Callable[[], object]] = [
        lambda: graph.add_node("x"),
        lambda: graph.nodes[A].update(a=1),
        lambda: graph.graph.clear(),
    ]
    for change in changes:
        with pytest.raises(nx.NetworkXError, match="this graph cannot be changed"):
            change()

    # Changes reach the next graph without a new file.
    written = snapshot_of(code).stat().st_ino
    ws.put({"op": "move", "uri": C, "to": MOVED}, {"op": "delete", "uri": A})
    ws.create_edge(C, B, "of")
    after = ws.graph
    assert snapshot_of(code).stat().st_ino == written
    assert (node_names(graph), node_names(after)) == ({"a", "b", "c"}, {"b", "c"})
    assert after.graph["commit"] == ws.history(limit=1)[0].commit
    assert sorted(after.edges(keys=True)) == [(B, MOVED, "uses"), (MOVED, B, "of")]

    # A program that starts now maps the file, which is rewritten if it cannot be read.
    file, damaged = snapshot_of(code), tmp_path / "damaged"
    damaged.write_bytes(b"kgdgraph")
    for damage in (lambda: None, file.unlink, lambda: damaged.rename(file)):
        damage()
        with kgd.open(code) as other:
            assert nx.utils.graphs_equal(nx.MultiDiGraph(other.graph), nx.MultiDiGraph(after))
    assert nx.dijkstra_path_length(graph, A, C) == 0.75  # its own file was replaced


@pytest.mark.slow
def test_a_graph_shows_its_commit_while_others_write_and_daemons_end(ws: kgd.Workspace, code: Path) -> None:
    def write() -> None:
        for batch in range(6):
            ws.create_nodes([kgd.NewNode("concept", f"n{batch}-{number}") for number in range(120)])

    seen = [ws.graph]
    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        seen.append(ws.graph)
    writer.join()
    stop_daemon(ws._connections._home)
    seen.append(ws.graph)
    end_daemon(ws._connections._home)
    order = [commit.commit for commit in ws.history(limit=100)][::-1]
    made = [len(node_names(graph)) for graph in seen]
    assert made == [(order.index(graph.graph["commit"]) - order.index(seen[0].graph["commit"])) * 120 for graph in seen]
    assert made[-1] == 6 * 120


@pytest.mark.slow
def test_an_unreadable_file_is_an_error_that_names_it(
    ws: kgd.Workspace, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "FORMAT", arrays.FORMAT + 1)  # a library of another version
    with pytest.raises(kgd.Unavailable, match="cannot be read") as refused:
        _ = ws.graph
    assert str(snapshot_of(code)).startswith(refused.value.at)  # long places are cut
    assert "same version" in refused.value.next
