"""A repeated request is answered by the commit that carried it out here, and by no other, despite its message."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.model.change import Append
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing import signing
from kgd.workspace.writing.signing import KEY
from kgd.workspace.writing.writer import Staged
from tests.builders import ANN, change, upsert, uri

STRANGER = Signature("Mallory", "mallory@example.org", 1_700_000_100)
Reopen = Callable[[], Workspace]


def message_of(ws: Workspace, commit: str) -> str:
    return ws.store.commit(bytes.fromhex(commit)).message


def brought(ws: Workspace, message: str, name: str = "planted") -> str:
    """A foreign commit with one more node and this message."""
    made: list[ObjectId] = []

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        staging.put(f"nodes/concept/{name}.yaml", f"uri: concept://ws/{name}\n".encode())
        made.append(staging.commit(staging.write_tree(), [tip], STRANGER, message))
        return Staged(None, made[0], None)

    ws.run(job)
    return made[0].hex()


def content(ws: Workspace) -> str | None:
    node = ws.node(uri("a"))
    return node.content if node else None


def without_index(ws: Workspace) -> None:
    """Delete all derived data, as a person may at any time."""
    folder = ws.layout.derived_dir
    ws.close()
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_a_request_id_claimed_by_a_foreign_commit_is_still_carried_out(reopen: Reopen, index: str) -> None:
    ws = reopen()
    brought(ws, "innocent\n\nKgd-Request: req-1\n")
    brought(ws, "innocent too\n\nKgd-Request: req-1\nKgd-Seal: " + "0" * 64 + "\n", "second")
    if index == "lost":
        without_index(ws)
        ws = reopen()
    done = ws.submit(change(upsert("a", content="precious\n"), request="req-1"))
    assert (done.repeated, content(ws)) == (False, "precious\n")
    assert ws.submit(change(upsert("a", content="precious\n"), request="req-1")).commit == done.commit


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_a_request_is_answered_by_its_first_result_after_a_restart(reopen: Reopen, index: str) -> None:
    ws = reopen()
    done = ws.submit(change(Append(uri("a"), "once"), request="req-1"))
    brought(ws, "later\n\nKgd-Request: req-1\n")
    if index == "lost":
        without_index(ws)
    ws = reopen()
    again = ws.submit(change(Append(uri("a"), "once"), request="req-1"))
    assert (again.commit, again.repeated, content(ws)) == (done.commit, True, "once\n")


def test_a_seal_is_good_for_its_own_commit_only(reopen: Reopen) -> None:
    ws = reopen()
    waiting, _ = proposals.propose(
        ws, change(upsert("a", content="precious\n"), request="req-1"), bytes.fromhex(ws.tip), holder="ann"
    )
    copied = message_of(ws, waiting.commit)
    assert "\nKgd-Request: req-1\n" in copied
    assert "\nKgd-Seal: " in copied
    subprocess.run(["git", "-C", ws.layout.git_dir, "update-ref", "-d", waiting.ref], check=True)
    brought(ws, copied)
    without_index(ws)
    ws = reopen()
    assert not ws.submit(change(upsert("a", content="precious\n"), request="req-1")).repeated
    assert content(ws) == "precious\n"


def test_a_proposal_that_claims_a_request_is_not_taken_for_it(reopen: Reopen) -> None:
    ws = reopen()
    planted = brought(ws, "innocent\n\nKgd-Request: req-7\n")
    subprocess.run(["git", "-C", ws.layout.git_dir, "update-ref", "refs/heads/proposals/x", planted], check=True)
    wanted = change(upsert("b", content="precious\n"), request="req-7")
    made, outcome = proposals.propose(ws, wanted, bytes.fromhex(ws.tip), holder="ann")
    assert (made.name, outcome.repeated) == ("ann-1", False)
    again, outcome = proposals.propose(ws, wanted, bytes.fromhex(ws.tip), holder="ann")
    assert (again, outcome.repeated) == (made, True)


def test_a_change_without_a_request_id_carries_no_seal(ws: Workspace) -> None:
    commit = ws.submit(change(upsert("a"), author=ANN)).commit or ""
    assert "Kgd-Seal" not in message_of(ws, commit)


def test_the_key_is_private_and_half_a_key_is_replaced(reopen: Reopen) -> None:
    ws = reopen()
    key: Path = ws.layout.git_dir / KEY
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    reopen()
    assert key.read_bytes() == before
    key.write_bytes(b"")
    reopen()
    assert len(key.read_bytes()) == len(before)


def test_a_change_is_refused_if_its_key_cannot_be_stored(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(signing, "replace", full)
    ws.seal = signing.Seal(ws.layout.derived_dir)
    with pytest.raises(Unavailable, match="No space left"):
        ws.submit(change(upsert("a"), request="req-1"))
    assert ws.node(uri("a")) is None
