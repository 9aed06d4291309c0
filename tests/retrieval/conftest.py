"""A workspace without a daemon, and questions to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.mentions.mentions import Mentions
from kgd.retrieval.query import Question, Retrieved
from kgd.retrieval.retrieve import retrieve
from kgd.workspace.workspace import Workspace
from tests.builders import new_layout

Asked = Callable[..., Retrieved]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield workspace
    workspace.close()


@pytest.fixture
def asked(ws: Workspace) -> Asked:
    """Asks as `search` does, once everything that was written was looked through for names."""

    def ask(query: str, *, offset: tuple[int, int] = (0, 0), **narrowed: object) -> Retrieved:
        mentions = Mentions.of(ws)
        assert mentions.settle()
        wanted = {"edges": narrowed.get("max_depth") != 0, **narrowed}
        return retrieve(ws, Question(query, **wanted), mentions, offset=offset)  # type: ignore[arg-type]

    return ask


def uris(found: Retrieved) -> list[str]:
    return [hit.uri for hit in found.hits]


def in_code(found: Retrieved) -> list[str]:
    return [hit.uri for hit in found.code]
