"""A workspace that closes in the middle of long work leaves the rest to its next start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Unavailable
from kgd.git.layout import Layout
from kgd.index.text import FileDoc
from kgd.model.uri import Uri
from kgd.workspace.derived import indexed_text
from kgd.workspace.derived.indexed_text import CHUNK
from kgd.workspace.publishing import publication, work_tree
from kgd.workspace.publishing.work_tree import READ, Hurried, WorkTree
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert
from tests.workspace.people import Desk, code_layout, eventually, hurry

CHUNKS = 4
NODES = CHUNKS * CHUNK


class Gate:
    """Holds the first call of a method until `open`, and counts all calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.reached, self.released, self.calls = threading.Event(), threading.Event(), 0
        original = getattr(owner, name)

        def held(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                self.reached.set()
                assert self.released.wait(60)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, held)

    def wait(self) -> None:
        assert self.reached.wait(60)


@pytest.fixture
def closing() -> Iterator[Callable[[Workspace], threading.Thread]]:
    """Close a workspace in another thread."""
    threads: list[threading.Thread] = []

    def close(ws: Workspace) -> threading.Thread:
        threads.append(threading.Thread(target=ws.close))
        threads[0].start()
        return threads[0]

    yield close
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


Closing = Callable[[Workspace], threading.Thread]


@pytest.mark.slow
def test_a_closing_workspace_ends_indexing_and_the_callers_that_wait_for_it(
    reopen: Callable[[], Workspace], closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = reopen()
    ws.submit(change(*(upsert(f"note-{n}", name="Lease of the clock") for n in range(NODES))))
    ws.close()
    for file in ws.layout.derived_dir.glob("index.s*"):
        file.unlink()
    with monkeypatch.context() as patch:
        gate = Gate(patch, indexed_text, "of_nodes")
        ws = Workspace.open(ws.layout, publish=False)
        gate.wait()
        thread = closing(ws)
        with pytest.raises(Unavailable):
            ws.text()
        gate.released.set()
        thread.join(60)
        assert gate.calls < CHUNKS
    assert len(reopen().text().search("lease", limit=NODES + 1)) == NODES


@pytest.mark.slow
def test_a_closing_workspace_ends_the_indexing_of_a_code_tree(
    ws: Workspace, closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.text()
    gate = Gate(monkeypatch, indexed_text, "of_files")
    files = [FileDoc(Uri(f"file://team/src/module{n}.py"), f"src/module{n}.py", "python") for n in range(NODES)]
    ws.note_files(files, complete=True)
    gate.wait()
    thread = closing(ws)
    with pytest.raises(Unavailable):
        ws.text()
    gate.released.set()
    thread.join(60)
    assert gate.calls == 1


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    hurry(monkeypatch)
    return code_layout(tmp_path / "code")


def test_a_closing_workspace_leaves_a_large_work_tree_to_the_next_start(
    layout: Layout, closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = Workspace.open(layout)
    ws.submit(change(*(upsert(f"n{i}", name=f"N{i}", summary="as it was") for i in range(12))))
    desk = Desk(ws)
    desk.published()
    ws.close()
    before = desk.ref(layout.branch)
    file = desk.file("n3")
    file.write_text(file.read_text().replace("as it was", "by hand"))
    with monkeypatch.context() as patch:
        patch.setattr(publication, "LAST_FILES", 3)
        gate = Gate(patch, WorkTree, "scan")
        hurried, original = threading.Event(), WorkTree.hurry

        def note(tree: WorkTree, files: int) -> None:
            original(tree, files)
            hurried.set()

        patch.setattr(WorkTree, "hurry", note)
        ws = Workspace.open(layout)
        gate.wait()
        ws.submit(change(upsert("n3", name="New")))
        thread = closing(ws)
        assert hurried.wait(60)
        gate.released.set()
        thread.join(60)
    assert desk.ref(layout.branch) == before
    assert "by hand" in file.read_text()
    desk = Desk(Workspace.open(layout))
    try:
        desk.serves("n3", "summary", "by hand")
        desk.serves("n3", "name", "New")
        eventually(lambda: "name: New" in file.read_text(), lambda: desk.ws.health())
        desk.published()
    finally:
        desk.ws.close()


def test_a_hurried_scan_reads_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nodes" / "concept"
    folder.mkdir(parents=True)
    for number in range(100):
        (folder / f"n{number}.yaml").write_text("name: N\n")
    gate = Gate(monkeypatch, work_tree, "_read")
    gate.released.set()
    tree = WorkTree(tmp_path, tmp_path / "parts")
    tree.hurry(5 * (READ + 1))
    with pytest.raises(Hurried):
        tree.scan()
    assert gate.calls == 5
