"""A workspace without a daemon, written to in one line, and its mentions as they are once they are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.mentions.mentions import Mentions
from kgd.model.change import ChangeSet, Delete, Upsert
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, new_layout


class Graph:
    """`mentions` answers pairs of URIs without their scheme and workspace."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws

    def put(self, *edits: Upsert | Delete) -> None:
        self.ws.submit(ChangeSet(edits, ANN))

    @property
    def derived(self) -> Mentions:
        found = Mentions.of(self.ws)
        assert found.settle()
        return found

    def mentions(self) -> set[tuple[str, str]]:
        derived = self.derived
        uris = list(self.ws.graph.uris())
        found = {(uri, edge.target) for uri in uris for edge in derived.out(uri)}
        back = {(edge.target, uri) for uri in uris for edge in derived.into(uri)}
        assert found == back, "what a text mentions and where a node is mentioned are not the same"
        return {(short(source), short(target)) for source, target in found}


def short(uri: Uri) -> str:
    return uri.split("/", 3)[3]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield Graph(workspace)
    workspace.close()
