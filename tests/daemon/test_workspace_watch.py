"""The watch of a code tree scans it after a change, unless git ignores what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.daemon.workspace_watch import WorkspaceWatch
from kgd.overlay.overlay import Overlay
from kgd.workspace.workspace import Workspace
from tests.waiting import until
from tests.workspace.people import code_layout, git


def test_files_of_a_build_that_git_ignores_cause_no_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = code_layout(tmp_path / "code")
    code = tmp_path / "code"
    (code / ".gitignore").write_text("out/\n")
    git(code, "add", ".")
    (code / "out").mkdir()
    (code / "out" / "first.o").write_text("0")
    asked, scans, ignores, rescan = [], [], Overlay.ignores, Overlay.rescan
    monkeypatch.setattr(Overlay, "ignores", lambda self, path: asked.append(path) or ignores(self, path))  # type: ignore[func-returns-value]
    monkeypatch.setattr(Overlay, "rescan", lambda self, *given: scans.append(1) or rescan(self, *given))  # type: ignore[func-returns-value]
    workspace = Workspace.open(layout)
    watch = WorkspaceWatch(workspace, rescan_seconds=60)
    watch.start()
    try:
        until(lambda: len(scans) > 1)  # the tree is scanned at the start, and again when the watches are set up
        before = len(scans)
        (code / "out" / "deep").mkdir()
        (code / "out" / "deep" / "second.o").write_text("1")
        until(lambda: any(path.startswith("out/deep") for path in asked))
        assert len(scans) == before
        git(code, "add", "-f", "out/deep/second.o")  # now it is no longer ignored
        until(lambda: len(scans) > before)
        before = len(scans)
        (code / "main.py").write_text("print(2)\n")
        until(lambda: len(scans) > before)
    finally:
        watch.close()
        workspace.close()
