"""A program and its daemon: threads, forks, and daemons that stop, start and die."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kgd
from kgd.client import start
from kgd.config import Home
from tests import forked
from tests.api.conftest import Turn, stop_daemon
from tests.daemon.conftest import ROOT, end_daemon

THREADS, STEPS = 16, 4


@pytest.mark.slow
@pytest.mark.parametrize("turn", ["daemon comes and goes"], indirect=True)
def test_sixteen_threads_read_and_write_at_once(turn: Turn, ws: kgd.Workspace) -> None:
    hub = ws.create_node("concept", "hub")

    def work(number: int) -> None:
        for step in range(STEPS):
            tag = f"tag-{number}"
            made = ws.create_node("concept", "same", namespace=f"t{step}", content=f"text {number}", tags=[tag])
            ws.create_edge(made, hub, "of")
            content = f"by {number}" if step == STEPS - 1 else None
            ws.update_node(hub, data={f"k{number}": step}, content=content)
            found = ws.get_node(made)
            assert found is not None
            assert found.content == f"text {number}"
            assert made.uri in {node.uri for node in ws.nodes(f"t{step}")}
            assert made.uri in {node.uri for node in ws.query_by_tags([tag])}
            if not number:
                turn()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert len(ws.get_edges(hub, "in")) == THREADS * STEPS
    now = ws.get_node(hub)
    assert now is not None
    assert now.data == {f"k{number}": STEPS - 1 for number in range(THREADS)}
    assert len(ws.history(limit=1_000)) == THREADS * STEPS * 3 + 2


@pytest.mark.slow
def test_changes_written_while_daemons_are_killed_are_stored_once(home: Home, ws: kgd.Workspace) -> None:
    """A lost answer is asked for again; the request id keeps a change from being done twice."""
    done, made = threading.Event(), list[str]()

    def write() -> None:
        while not done.is_set():
            made.append(ws.create_node("concept", f"n{len(made)}").uri)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            forked.daemon(home)
            seen = len(made)
            deadline = time.monotonic() + 20
            while len(made) < seen + 3 and time.monotonic() < deadline:
                time.sleep(0.005)
            end_daemon(home)
    finally:
        done.set()
        writer.join(30)
    assert len(made) > 9
    assert sorted(made) == sorted(node.uri for node in ws.nodes())
    assert made == [f"concept://shop/n{number}" for number in range(len(made))]


@pytest.mark.slow
def test_an_ingest_outlives_the_daemon_that_began_it(home: Home, ws: kgd.Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nRule number {number} holds.\n")
    begun = threading.Event()
    taken: list[kgd.Ingested] = []

    def take() -> None:
        def told(done: int, total: int | None, message: str) -> None:
            assert ws.get_node("concept:nobody") is None  # a progress callback may call the workspace
            if done > 3:
                begun.set()

        taken.append(ws.ingest(folder, progress=told))

    taking = threading.Thread(target=take)
    taking.start()
    assert begun.wait(30)
    stop_daemon(home)
    taking.join(60)
    assert taken[0].is_done
    assert not taken[0].trouble
    assert len(list(ws.nodes(types=["document"]))) == 120
    assert not {name: count for name, count in ws.ingest(folder).counts.items() if name.endswith("_new") and count}


PROGRAM = """
import os, sys
sys.path.insert(0, {root!r})
import kgd
{body}
"""


def run(body: str, code: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM.format(root=str(ROOT), body=body)],
        cwd=code,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
def test_a_child_that_is_forked_off_has_connections_of_its_own(home: Home, ws: kgd.Workspace, code: Path) -> None:
    forked.daemon(home)
    done = run(
        """
ws = kgd.open('.')
ws.create_node('concept', 'parent')
if not os.fork():
    assert [ws.get_node('parent').name for _ in range(20)] == ['parent'] * 20
    ws.create_node('concept', 'child')
    os._exit(0)
assert [ws.get_node('parent').name for _ in range(20)] == ['parent'] * 20
print(os.wait()[1], ws.get_node('child').name)
""",
        code,
    )
    assert (done.stdout, done.stderr) == ("0 child\n", "")


@pytest.mark.slow
def test_importing_kgd_loads_nothing_and_a_call_to_a_daemon_little(home: Home, ws: kgd.Workspace, code: Path) -> None:
    forked.daemon(home)
    ws.close()
    done = run(
        """
assert not [name for name in sys.modules if name.startswith('kgd.')], sys.modules
assert kgd.errors.NotFound is kgd.NotFound
assert not hasattr(kgd, 'nonsense')
with kgd.open('.') as ws:
    ws.create_node('concept', 'x')
print(*sorted({'pydantic', 'pygit2', 'networkx', 'ruamel', 'sqlite3', 'asyncio', 'mcp', 'numpy'} & set(sys.modules)))
""",
        code,
    )
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.slow
def test_an_error_without_a_workspace_names_the_next_step(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(kgd.NotFound) as refused:
        kgd.open(tmp_path / "empty")
    assert "kgd up" in refused.value.next
    made = kgd.open(tmp_path / "empty", create=True)
    assert made.id == "empty"
    with kgd.open(workspace="empty") as same:
        assert same.create_node("concept", "x").uri == "concept://empty/x"
    assert made.get_node("x") is not None  # one of two objects was closed
    made.close()
    made.close()
    with pytest.raises(kgd.Invalid, match="closed"):
        made.get_node("x")
    assert start.running(home), "the library starts the daemon, as the command line does"


BAD: list[Callable[[kgd.Workspace], object]] = [
    lambda ws: ws.create_node("concept", "x", data={"when": object()}),
    lambda ws: ws.create_node("concept", "x", data={"n": float("nan")}),
    lambda ws: ws.create_node("concept", "half \ud800"),
    lambda ws: ws.create_node("concept", ""),
    lambda ws: ws.create_node(),
    lambda ws: ws.create_node("concept", "x" * 300),
    lambda ws: ws.create_node("bad\ntype", "x"),
    lambda ws: ws.create_node("concept", "x", content="c" * 300_000),
    lambda ws: ws.create_nodes([kgd.NewNode("concept", "x", content="c" * 250_000)] * 40),
    lambda ws: ws.create_nodes([kgd.NewNode("concept", f"x{n}") for n in range(2_001)]),
    lambda ws: ws.create_nodes([kgd.NewNode(uri="concept://shop/x"), kgd.NewNode(uri="concept://shop/x")]),
    lambda ws: ws.create_node("concept", "x", uri="concept://elsewhere/x"),
    lambda ws: ws.create_edge("concept:there", "concept:x", "of", weight=2.0),
    lambda ws: ws.create_edge("concept:there", "concept:x", ""),
    lambda ws: ws.delete_edge("edge-0123456789abcdef01234567"),
    lambda ws: ws.delete_edge("nonsense"),
    lambda ws: ws.delete_nodes(["concept:there", "concept:nobody"]),
    lambda ws: ws.delete_edges_for_node("concept:nobody"),
    lambda ws: ws.get_edges("concept:nobody"),
    lambda ws: ws.get_node("concept://elsewhere/x"),
    lambda ws: ws.put({"op": "nonsense"}),
    lambda ws: ws.put(),
    lambda ws: ws.traverse([]),
    lambda ws: ws.retrieve("x", limit=0),
    lambda ws: ws.retrieve("x", max_depth=-1),
]


@pytest.mark.slow
@pytest.mark.parametrize("call", BAD)
def test_a_wrong_call_is_one_typed_error_and_changes_nothing(
    ws: kgd.Workspace, call: Callable[[kgd.Workspace], object]
) -> None:
    ws.create_node("concept", "there")
    with pytest.raises(kgd.KgdError) as refused:
        call(ws)
    assert refused.value.code != "INTERNAL"
    assert len(list(ws.nodes())) == 1
