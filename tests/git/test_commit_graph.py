"""The commit-graph: written when many commits are not in it, with their changed paths."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.git import pack_upkeep, refs
from tests.git.support import Pen, git
from tests.waiting import until


def test_commits_are_listed_with_their_changed_paths_once_many_are_not(
    pen: Pen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_upkeep, "UNLISTED", 60)
    commits(pen, 12)
    assert not pack_upkeep.is_graph_due(pen.layout.git_dir)
    commits(pen, 15)
    assert pack_upkeep.is_graph_due(pen.layout.git_dir)
    assert pack_upkeep.renew_graph(pen.layout.git_dir)
    assert b"BIDX" in file(pen).read_bytes()
    git(pen.layout.git_dir, "commit-graph", "verify")
    commits(pen, 5)
    assert not pack_upkeep.is_graph_due(pen.layout.git_dir)


def test_a_commit_graph_without_changed_paths_is_replaced(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_upkeep, "UNLISTED", 20)
    commits(pen, 15)
    git(pen.layout.git_dir, "commit-graph", "write", "--reachable")
    assert pack_upkeep.renew_graph(pen.layout.git_dir)
    assert b"BIDX" in file(pen).read_bytes()


def test_a_graph_that_git_does_not_write_is_reported(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    """git writes none for a shallow repository, and says nothing."""
    monkeypatch.setattr(pack_upkeep, "UNLISTED", 20)
    commits(pen, 15)
    (pen.layout.git_dir / "shallow").write_text(pen.store.ref(refs.HEAD).hex() + "\n")  # type: ignore[union-attr]
    assert not pack_upkeep.renew_graph(pen.layout.git_dir)


def test_a_stopped_commit_graph_leaves_no_lock(pen: Pen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock, stop = file(pen).with_suffix(".lock"), threading.Event()
    slow = tmp_path / "git"
    slow.write_text(f"#!/bin/sh\ntouch {lock}\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def stop_once_it_is_locked() -> None:
        until(lock.exists)
        stop.set()

    stopper = threading.Thread(target=stop_once_it_is_locked)
    stopper.start()
    with pytest.raises(Unavailable, match="stopped"):
        pack_upkeep.write_graph(pen.layout.git_dir, stop)
    stopper.join()
    assert not lock.exists()


def file(pen: Pen) -> Path:
    return pen.layout.git_dir / "objects/info/commit-graph"


def commits(pen: Pen, count: int) -> None:
    for n in range(count):
        pen.write({f"nodes/{n % 7}.yaml": b"%d\n" % n})
