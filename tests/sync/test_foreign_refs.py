"""Refs of another user's directory: read if they are plain files, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgd.errors import Damaged
from kgd.git import refs, remote
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import parse_url
from kgd.git.store import ObjectStore
from tests.sync.people import Person, git


@pytest.fixture
def shared(ann: Person, hub: Path) -> Person:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    return ann


def test_loose_and_packed_refs_are_read(shared: Person, hub: Path) -> None:
    tip = bytes.fromhex(shared.tip)
    git(hub, "update-ref", "refs/heads/proposals/x/y", shared.tip)
    for _ in range(2):
        assert refs.read_ref(hub, "refs/heads/main") == tip
        assert refs.list_refs(hub, "refs/heads/proposals/") == {"refs/heads/proposals/x/y": tip}
        git(hub, "pack-refs", "--all")
    assert refs.read_ref(hub, "refs/heads/absent") is None


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "nonsense", "large"])
def test_odd_refs_are_left_to_git(hub: Path, kind: str) -> None:
    ref = hub / "refs/heads/main"
    if kind == "fifo":
        os.mkfifo(ref)
    elif kind == "link to a fifo":
        os.mkfifo(hub / "pipe")
        ref.symlink_to(hub / "pipe")
    else:
        ref.write_text({"nonsense": "\0" * 41, "large": "a" * 2000}[kind])
    with pytest.raises(Damaged):
        refs.read_ref(hub, "refs/heads/main")
    assert refs.list_refs(hub) == {}


@pytest.mark.slow
def test_an_excessive_number_of_refs_is_not_listed(shared: Person, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "REFS_LIMIT", 10)
    for number in range(12):
        git(hub, "update-ref", f"refs/heads/proposals/{number}", shared.tip)
    there = remote.GitRemote(parse_url(str(hub)), ObjectStore(hub), remote.Network())
    with pytest.raises(Trouble, match="more than 10"):
        there.ls("refs/heads/main", "refs/heads/proposals/")


@pytest.mark.slow
def test_a_symbolic_branch_works_too(shared: Person, hub: Path) -> None:
    git(hub, "update-ref", "refs/heads/other", shared.tip)
    git(hub, "update-ref", "-d", "refs/heads/main")
    git(hub, "symbolic-ref", "refs/heads/main", "refs/heads/other")
    shared.put("b", summary="b")
    assert shared.sync()["pushed"] == 1
    assert git(hub, "rev-parse", "refs/heads/other") == shared.tip
