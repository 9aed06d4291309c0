"""The check of a workspace ends when nobody waits for its result any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert


class Client:
    """Disconnects after some reports of progress about a part."""

    def __init__(self, part: str, reports: int) -> None:
        self._part, self.left = part, reports

    def progress(self, done: int, total: int | None, message: str) -> None:
        self.left -= message == f"checking {self._part}"
        if self.left <= 0:
            raise Unavailable("the client has disconnected")


def test_a_check_ends_with_its_client_between_two_files(ws: Workspace) -> None:
    ws.submit(change(*(upsert(f"n{number}") for number in range(20))))
    client = Client("files", 5)
    with pytest.raises(Unavailable, match="disconnected"):
        check(ws, client.progress)
    assert client.left == -1  # once more, to tell it from an unreadable file


def test_a_check_ends_with_its_client_while_git_works(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "git"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    ws.text()  # no other work of the workspace meets this git
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Unavailable, match="disconnected"):
        check(ws, Client("objects", 4).progress)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
