"""The ledger of pushes: the first record of a commit stays, and records of several hubs are united."""

from __future__ import annotations

import pytest

from kgd.git.objects import Signature
from kgd.git.refs import NOTES, move_ref
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.model.access import Principal
from kgd.workspace.history import pushers
from kgd.workspace.workspace import Workspace

ANN, MALLORY = Principal("tok00001", "Ann", "person", ()), Principal("tok00002", "Mallory", "agent", ())
ONE, TWO, THREE = bytes([1]) * 20, bytes([2]) * 20, bytes([1, 2]) * 10


def record(ws: Workspace, holder: Principal, *commits: bytes) -> None:
    pushers.record(ws.layout, ws.store, commits, holder, 1_800_000_000)


def names(ws: Workspace) -> list[str]:
    return [str(pushers.of(ws.store, commit) or "") for commit in (ONE, TWO, THREE)]


def test_the_first_record_of_a_commit_stays(ws: Workspace) -> None:
    record(ws, ANN, ONE, THREE)
    record(ws, MALLORY, ONE, TWO)
    assert names(ws) == ["Ann (tok00001)", "Mallory (tok00002)", "Ann (tok00001)"]
    tip = ws.store.ref(NOTES)
    record(ws, MALLORY, ONE)
    assert ws.store.ref(NOTES) == tip, "nothing new is no commit"


def test_records_of_two_hubs_are_united(ws: Workspace) -> None:
    record(ws, ANN, ONE)
    theirs = ws.store.ref(NOTES)
    assert theirs is not None
    (ws.layout.git_dir / NOTES).unlink()
    record(ws, MALLORY, ONE, TWO)
    pushers.take(ws.layout, ws.store, theirs)
    assert names(ws) == ["Mallory (tok00002)", "Mallory (tok00002)", ""]
    (ws.layout.git_dir / NOTES).unlink()
    pushers.take(ws.layout, ws.store, theirs)
    assert ws.store.ref(NOTES) == theirs
    record(ws, MALLORY, TWO)
    ahead = ws.store.ref(NOTES)
    pushers.take(ws.layout, ws.store, theirs)
    assert ws.store.ref(NOTES) == ahead, "an older ledger adds nothing"


@pytest.mark.parametrize("note", [b"hello\n", b"Kgd-Pushed-By: a\x1b[2J (x), person\n", b"x" * 5_000])
def test_a_foreign_note_names_no_pusher(ws: Workspace, note: bytes) -> None:
    git = Staging(ws.store, None)
    git.put(f"{ONE.hex()[:2]}/{ONE.hex()[2:]}", note)
    made = git.commit(git.write_tree(), [], Signature(*KGD, 0), "notes")
    ws.store.release(ws.store.write(git.objects))
    move_ref(ws.layout.git_dir, ws.layout.derived_dir, NOTES, None, made)
    assert pushers.of(ObjectStore(ws.layout.git_dir), ONE) is None
