"""Refs lost, damaged or moved by hand, with a workspace open or closed: the tip recovers by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.codec.settings import first_files
from kgd.errors import Unavailable
from kgd.git.creation import create_in_code_repository, create_standalone
from kgd.git.layout import Layout, locate
from kgd.git.refs import HEAD
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import WS, change, new_layout, upsert, uri
from tests.git.support import fsck, git
from tests.waiting import until


def of_packed(spoil: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def lose(git_dir: Path) -> None:
        git(git_dir, "pack-refs", "--all")
        packed = git_dir / "packed-refs"
        packed.write_bytes(spoil(packed.read_bytes()))

    return lose


def packed_refs_missing(git_dir: Path) -> None:
    git(git_dir, "pack-refs", "--all")
    (git_dir / "packed-refs").unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "its file is gone": lambda git_dir: (git_dir / HEAD).unlink(),
    "its file is empty": lambda git_dir: (git_dir / HEAD).write_bytes(b""),
    "packed-refs is gone": packed_refs_missing,
    "packed-refs is empty": of_packed(lambda data: b""),
    "packed-refs is cut": of_packed(lambda data: data[: len(data) // 3]),
    "packed-refs is garbage": of_packed(lambda data: b"\x00\xff garbage" * 20),
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return new_layout(tmp_path / "knowledge")


@pytest.fixture
def ws(layout: Layout) -> Iterator[Workspace]:
    workspace = Workspace.open(layout, publish=False)
    for number in range(5):
        workspace.submit(change(upsert(f"n{number}", name=f"N{number}"), request=f"request-{number}"))
    yield workspace
    workspace.close()


def reopened(ws: Workspace, *, publish: bool = False) -> Workspace:
    ws.close()
    return Workspace.open(ws.layout, publish=publish)


def is_whole(ws: Workspace, tip: str) -> None:
    assert ws.tip == tip
    assert git(ws.layout.git_dir, "rev-parse", HEAD).strip() == tip
    assert ws.submit(change(upsert("n4", name="again"), request="request-4")).repeated
    ws.submit(change(upsert("after", name="After")))
    assert check(ws) == []
    assert fsck(ws.layout.git_dir) == []
    assert ws.degraded() == ()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_tip_is_found_again_at_the_next_start(ws: Workspace, loss: str) -> None:
    tip = ws.tip
    ws.close()
    LOSSES[loss](ws.layout.git_dir)
    again = Workspace.open(ws.layout, publish=False)
    is_whole(again, tip)
    again.close()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_tip_lost_under_an_open_workspace_is_restored(ws: Workspace, loss: str) -> None:
    tip = ws.tip
    LOSSES[loss](ws.layout.git_dir)
    ws.submit(change(upsert("n0", name="N0")))  # equal, so no commit: the writer only checks the ref
    is_whole(ws, tip)


def test_an_idle_publication_restores_a_lost_tip_and_branch(layout: Layout) -> None:
    ws = Workspace.open(layout)
    try:
        ws.submit(change(upsert("a", name="A")))
        until(lambda: ws.store.ref(layout.branch) == bytes.fromhex(ws.tip))
        packed_refs_missing(layout.git_dir)
        until(lambda: git(layout.git_dir, "for-each-ref", "--format=%(objectname)").split() == [ws.tip] * 2)
        until(lambda: ws.degraded() == ())
    finally:
        ws.close()


def test_a_tip_deleted_with_its_reflog_continues_from_the_branch_and_the_rest_is_kept(ws: Workspace) -> None:
    tip = ws.tip
    ws.close()
    (ws.layout.derived_dir / "checkpoint").unlink()
    git(ws.layout.git_dir, "update-ref", "-d", HEAD)
    again = Workspace.open(ws.layout, publish=False)
    (said,) = again.degraded()
    assert "5 commits are only in refs/kgd/kept/head/" in said
    assert git(ws.layout.git_dir, "rev-parse", f"refs/kgd/kept/head/{tip[:12]}").strip() == tip
    again.close()


def moved_back(ws: Workspace) -> str:
    git(ws.layout.git_dir, "update-ref", HEAD, f"{HEAD}~3")
    return git(ws.layout.git_dir, "rev-parse", HEAD).strip()


def dropped_are_kept(ws: Workspace, left: str, now: str) -> None:
    name = f"refs/kgd/kept/head/{left[:12]}"
    until(lambda: ws.tip == now)
    assert git(ws.layout.git_dir, "rev-parse", name).strip() == left
    (said,) = ws.degraded()
    assert f"3 commits are only in {name}" in said
    assert not ws.exists(uri("n4"))
    git(ws.layout.git_dir, "reflog", "expire", "--expire=now", "--all")
    git(ws.layout.git_dir, "gc", "-q", "--prune=now")
    git(ws.layout.git_dir, "update-ref", HEAD, name)
    ws.submit(change(upsert("after", name="After")))
    assert ws.exists(uri("n4"))
    assert ws.degraded() == ()


def test_a_tip_moved_back_by_hand_loses_no_commit(ws: Workspace) -> None:
    left, now = ws.tip, moved_back(ws)
    ws.submit(change(upsert("n0", name="N0")))  # equal, so no commit
    dropped_are_kept(ws, left, now)


def test_a_tip_moved_back_while_nothing_ran_loses_no_commit(ws: Workspace) -> None:
    left = ws.tip
    ws.close()
    now = moved_back(ws)
    again = Workspace.open(ws.layout, publish=False)
    dropped_are_kept(again, left, now)
    again.close()


def test_a_tip_moved_back_after_a_kill_is_found_in_the_reflog(ws: Workspace) -> None:
    left = ws.tip
    ws.close()
    (ws.layout.derived_dir / "checkpoint").unlink()
    now = moved_back(ws)
    again = Workspace.open(ws.layout, publish=False)
    dropped_are_kept(again, left, now)
    again.close()


def test_dropping_the_kept_commits_ends_the_notice(ws: Workspace) -> None:
    left = ws.tip
    ws.close()
    moved_back(ws)
    again = Workspace.open(ws.layout, publish=False)
    git(ws.layout.git_dir, "update-ref", "-d", f"refs/kgd/kept/head/{left[:12]}")
    again = reopened(again)
    assert again.degraded() == ()
    again.close()


def head_is_cut(git_dir: Path) -> None:
    (git_dir / "HEAD").write_bytes(b"")


def head_is_gone(git_dir: Path) -> None:
    (git_dir / "HEAD").unlink()


def refs_are_gone(git_dir: Path) -> None:
    shutil.rmtree(git_dir / "refs")


@pytest.mark.parametrize("loss", [head_is_cut, head_is_gone, refs_are_gone])
@pytest.mark.parametrize("in_code", [True, False])
def test_a_workspace_without_head_is_found_and_repaired_at_a_start(
    tmp_path: Path, loss: Callable[[Path], None], in_code: bool
) -> None:
    tree = tmp_path / "shop"
    tree.mkdir()
    if in_code:
        git(tree, "init", "-q")
    make = create_in_code_repository if in_code else create_standalone
    layout = make(tree, WS, first_files(WS))
    ws = Workspace.open(layout, publish=False)
    ws.submit(change(upsert("n", name="N")))
    tip = ws.tip
    ws.close()
    loss(layout.git_dir)
    assert locate(tree) == locate(layout.work_tree) == layout
    again = Workspace.open(layout, publish=False)
    assert again.tip == tip
    again.close()
    assert fsck(layout.git_dir) == []


@pytest.mark.slow
@pytest.mark.parametrize("loss", [head_is_cut, head_is_gone])
def test_a_damaged_head_is_written_again_under_an_open_workspace(layout: Layout, loss: Callable[[Path], None]) -> None:
    ws = Workspace.open(layout)
    loss(layout.git_dir)
    ws.submit(change(upsert("n", name="N")))
    until(lambda: (layout.git_dir / "HEAD").exists() and (layout.git_dir / "HEAD").read_text() != "")
    assert git(layout.git_dir, "symbolic-ref", "HEAD").strip() == layout.branch
    until(lambda: (layout.work_tree / "nodes/concept/n.yaml").exists())
    ws.close()


@pytest.mark.slow
def test_a_write_names_a_lock_that_another_program_left_and_how_to_remove_it(ws: Workspace) -> None:
    lock = ws.layout.git_dir / f"{HEAD}.lock"
    lock.touch()
    with pytest.raises(Unavailable) as refused:
        ws.submit(change(upsert("held", name="Held"), request="held"))
    assert f"`rm {lock}`" in refused.value.next
    assert "disk" not in str(refused.value)
    assert f"`rm {lock}`" in ws.health()["commit"].blocker
    lock.unlink()
    assert not ws.submit(change(upsert("held", name="Held"), request="held")).repeated
