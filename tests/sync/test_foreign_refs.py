"""Refs of another user's directory: read if they are plain files, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgd.git import refs
from tests.sync.people import Person, git


@pytest.fixture
def shared(ann: Person, hub: Path) -> Person:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    return ann


def test_loose_and_packed_refs_are_read(shared: Person, hub: Path) -> None:
    tip = bytes.fromhex(shared.tip)
    git(hub, "update-ref", "refs/heads/proposals/x/y", shared.tip)
    expected = {"refs/heads/main": tip, "refs/heads/proposals/x/y": tip}
    assert refs.read_foreign(hub, "refs/heads/main", "refs/heads/proposals/", 10) == expected
    git(hub, "pack-refs", "--all")
    assert refs.read_foreign(hub, "refs/heads/main", "refs/heads/proposals/", 10) == expected
    assert refs.read_foreign(hub, "refs/heads/absent", "", 10) == {}


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "symbolic ref", "nonsense", "large"])
def test_symbolic_and_odd_refs_are_left_to_git(hub: Path, kind: str) -> None:
    ref = hub / "refs/heads/main"
    tip = "0123456789" * 4 + "\n"
    if kind == "fifo":
        os.mkfifo(ref)
    elif kind == "link to a fifo":
        os.mkfifo(hub / "pipe")
        ref.symlink_to(hub / "pipe")
    else:
        (hub / "refs/heads/other").write_text(tip)
        ref.write_text({"symbolic ref": "ref: refs/heads/other\n", "nonsense": "\0" * 41, "large": "a" * 2000}[kind])
    with pytest.raises(ValueError, match="not a plain"):
        refs.read_foreign(hub, "refs/heads/main", "", 10)


@pytest.mark.slow
def test_an_excessive_number_of_refs_is_not_listed(shared: Person, hub: Path) -> None:
    for number in range(12):
        git(hub, "update-ref", f"refs/heads/proposals/{number}", shared.tip)
    with pytest.raises(ValueError, match="too many"):
        refs.read_foreign(hub, "refs/heads/main", "refs/heads/proposals/", 10)


@pytest.mark.slow
def test_a_symbolic_branch_works_too(shared: Person, hub: Path) -> None:
    git(hub, "update-ref", "refs/heads/other", shared.tip)
    git(hub, "update-ref", "-d", "refs/heads/main")
    git(hub, "symbolic-ref", "refs/heads/main", "refs/heads/other")
    shared.put("b", summary="b")
    assert shared.sync()["pushed"] == 1
    assert git(hub, "rev-parse", "refs/heads/other") == shared.tip
