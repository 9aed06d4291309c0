"""A read that carries the position of a write waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.errors import Unavailable
from kgd.git.layout import locate
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.workspace.workspace import Workspace
from tests.builders import change, commit_file, new_layout, upsert

FILE = "notes.txt", "from another hub\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    made = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    new_layout(tmp_path / "place")
    made.workspace(directory=tmp_path / "place")
    yield made
    made.close()


@pytest.fixture
def workspace(daemon: Daemon) -> Workspace:
    (opened,) = daemon.opened()
    return opened


def expected(workspace: Workspace) -> str:
    """The id of the commit that `commit_file` is about to make."""
    tip = bytes.fromhex(workspace.tip)
    staging = Staging(workspace.store, workspace.store.tree_of(tip))
    staging.put(FILE[0], FILE[1].encode())
    by = Signature("Bob", "bob@example.org", 1)
    return staging.commit(staging.write_tree(), [tip], by, "elsewhere").hex()


def test_a_read_waits_until_the_commit_of_its_position_arrives(daemon: Daemon, workspace: Workspace) -> None:
    position = expected(workspace)
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(daemon.reach, workspace.id, [position])
        commit_file(workspace, *FILE)
        waiting.result(60)
    assert workspace.tip == position


def test_a_read_that_looks_for_its_position_delays_no_write(
    daemon: Daemon, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ancestry of an old commit may take long in a large history."""
    looking, written = threading.Event(), threading.Event()
    was_written: list[bool] = []

    def slow(commit: ObjectId) -> bool:
        looking.set()
        was_written.append(written.wait(60))
        return was_written[-1]

    monkeypatch.setattr(workspace, "holds", slow)
    with ThreadPoolExecutor(2) as others:
        reading = others.submit(daemon.reach, workspace.id, ["1" * 40])
        assert looking.wait(60)
        others.submit(workspace.submit, change(upsert("a", name="A"))).result(60)
        written.set()
        reading.result(60)
    assert was_written == [True], "before the read had ended"


@pytest.mark.slow
def test_commits_of_others_do_not_extend_the_wait_for_a_position(daemon: Daemon, workspace: Workspace) -> None:
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(daemon.reach, workspace.id, ["1" * 40])
        for count in range(10_000):
            if waiting.done():
                break
            workspace.submit(change(upsert(f"n{count}", name="x")))
        with pytest.raises(Unavailable, match="does not have the commit"):
            waiting.result(0)
