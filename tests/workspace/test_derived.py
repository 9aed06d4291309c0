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


def test_a_version_asked_for_before_a_change_is_not_answered_after_it(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    for count in range(1, 6):
        before = ws.node_version(uri("lease"))
        assert (before.count if before else 0) == count - 1
        answer = ws.submit(change(upsert("lease", name=f"Lease {count}")))
        assert dict(answer.nodes) == {uri("lease"): count}
        assert ws.graph.card(uri("lease")).name == f"Lease {count}"  # type: ignore[union-attr]
        ws.search("lease")  # the derived file has it now, and memory need not
        after = ws.node_version(uri("lease"))
        assert after is not None
        assert (after.count, after.updated_commit) == (count, answer.commit)
