"""Documents become nodes, chunk by chunk, and a second time changes what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask


def long(*parts: str) -> str:
    """Sections of some sentences each, under a heading of their own."""
    return "# Handbook\n\nHow we work.\n\n" + "\n".join(
        f"## {part.title()}\n\n" + " ".join(f"The {part} rule number {n} is to be kept by all." for n in range(20)) + "\n"
        for part in parts
    )


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "handbook.md"
    path.parent.mkdir()
    path.write_text(long("leave", "travel", "expenses"))
    return path


@pytest.mark.requirement("U8")
def test_a_document_becomes_chunks_in_a_chain_and_a_second_time_changes_nothing(
    ask: Ask, ws: Workspace, book: Path
) -> None:
    first = ask.ingest(source=str(book))
    assert first["state"] == "done", first
    assert first["nodes"] == ["document://shop/handbook.md"]
    assert first["counts"]["documents_new"] == 1
    [hit, *_] = ask.search(query="travel rule", types=["chunk"])["hits"]
    assert hit["uri"].startswith("chunk://shop/handbook.md/")
    tip = ws.tip
    again = ask.ingest(source=str(book))
    assert again["counts"] == {"documents_unchanged": 1}
    assert ws.tip == tip
