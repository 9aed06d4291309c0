"""What can be rebuilt is rebuilt, and nobody sees the half of it."""

from __future__ import annotations

from collections.abc import Callable

from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri

NODES = 600


def test_a_search_during_the_rebuild_after_a_start_finds_everything(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.submit(change(*(upsert(f"note-{n}", name="Lease of the clock") for n in range(NODES))))
    ws.close()
    for file in ws.layout.derived_dir.glob("index.sqlite*"):
        file.unlink()
    ws = reopen()
    assert ws.node_version(uri("note-0"))
    assert len(ws.search("lease", limit=NODES + 1)) == NODES
