"""A fresh workspace for each test, and holders of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.model.access import Principal, Scope
from kgd.workspace.workspace import Workspace
from tests.builders import WS, new_layout


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield workspace
    workspace.close()


def holder(
    verbs: str, *paths: str, name: str = "billing-agent", workspace: str = WS, kind: str = "agent", id: str = "tok00001"
) -> Principal:
    """The holder of a token: `holder("read,propose", "/services/**")`."""
    return Principal(id, name, kind, (Scope.of(workspace, verbs.split(","), paths),))  # type: ignore[arg-type]
