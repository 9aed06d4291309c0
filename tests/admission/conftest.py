"""A workspace with a concept, two memories and a node whose content holds a secret since before there was a check."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.workspace.workspace import Workspace
from tests.admission.ways import Ways
from tests.builders import change, commit_file, upsert
from tests.workspace.conftest import reopen, ws

__all__ = ["reopen", "ways", "ws"]

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.fixture
def ways(ws: Workspace, tmp_path: Path) -> Ways:
    ws.submit(change(upsert("auth", name="Auth", summary="Issues tokens", data={"owner": "ann"})))
    ws.submit(change(upsert("decision://ws/pub/mine", summary="Mine", detail="of mine\n")))
    ws.submit(change(upsert("decision://ws/sec/theirs", summary="Theirs", detail="of theirs\n")))
    commit_file(ws, "nodes/concept/old.yaml", f"uri: concept://ws/old\ncontent: {KEY}\n")
    return Ways(ws, tmp_path / "person")
