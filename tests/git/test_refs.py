from __future__ import annotations

import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from kgd.errors import Damaged, Unavailable
from kgd.git import integrity, refs
from kgd.git.layout import Layout
from kgd.git.refs import RefMoved
from tests.git.support import Pen, fsck, git

NAME = "refs/kgd/test"
A, B = b"a" * 20, b"b" * 20


def test_a_ref_is_read_loose_and_packed(pen: Pen) -> None:
    git_dir = pen.layout.git_dir
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    assert refs.read_ref(git_dir, refs.HEAD) == tip
    git(git_dir, "pack-refs", "--all", "--prune")
    assert not (git_dir / refs.HEAD).exists()
    assert refs.read_ref(git_dir, refs.HEAD) == tip
    assert refs.read_ref(git_dir, "refs/kgd/none") is None
    assert refs.list_refs(git_dir) == {refs.HEAD: tip, pen.layout.branch: refs.read_ref(git_dir, pen.layout.branch)}
    assert pen.write({"nodes/a.yaml": b"2\n"}) == refs.read_ref(git_dir, refs.HEAD), "loose wins over packed"


@pytest.mark.parametrize("at", ["walk", "_loose", "_packed_lines"])
def test_a_ref_that_git_packs_during_a_listing_is_listed(pen: Pen, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    git_dir = pen.layout.git_dir
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    home = os if at == "walk" else refs
    function = getattr(home, at)

    def packed(*arguments: object) -> object:
        git(git_dir, "pack-refs", "--all", "--prune")
        return function(*arguments)

    monkeypatch.setattr(home, at, packed)
    assert refs.list_refs(git_dir, "refs/kgd/") == {refs.HEAD: tip}


def test_a_move_to_the_present_value_is_no_lost_race(pen: Pen) -> None:
    git_dir = pen.layout.git_dir
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    refs.move_ref(git_dir, pen.layout.derived_dir, refs.HEAD, tip, tip)
    assert refs.read_ref(git_dir, refs.HEAD) == tip


def test_head_names_the_branch_that_is_checked_out(workspace: Layout) -> None:
    assert refs.checked_out(workspace.git_dir) == "refs/heads/kgd"
    assert refs.read_ref(workspace.git_dir, "HEAD") == refs.read_ref(workspace.git_dir, "refs/heads/kgd")
    git(workspace.work_tree, "checkout", "-q", "--detach")
    assert refs.checked_out(workspace.git_dir) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"nonsense\n", b"a" * 39 + b"\n"])
def test_a_ref_that_a_power_cut_emptied_is_damaged_not_unborn(workspace: Layout, content: bytes) -> None:
    """libgit2 says of the same ref that it is not unborn, and fails on use (F8)."""
    (workspace.git_dir / NAME).write_bytes(content)
    with pytest.raises(Damaged):
        refs.read_ref(workspace.git_dir, NAME)


def test_a_circle_of_symbolic_refs_is_damaged(workspace: Layout) -> None:
    (workspace.git_dir / NAME).write_text(f"ref: {NAME}\n")
    with pytest.raises(Damaged):
        refs.read_ref(workspace.git_dir, NAME)


@pytest.mark.parametrize("expected", [None, B])
def test_a_move_from_a_stale_value_is_refused_and_changes_nothing(workspace: Layout, expected: bytes | None) -> None:
    refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, None, A)
    with pytest.raises(RefMoved) as caught:
        refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, expected, B)
    assert caught.value.found == A
    assert refs.read_ref(workspace.git_dir, NAME) == A
    assert list(workspace.derived_dir.glob("ref,*")) == []
    assert not (workspace.git_dir / f"{NAME}.lock").exists()


def test_a_move_lost_by_the_disk_is_not_reported_as_done(workspace: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", lambda lock, path: os.unlink(lock))
    with pytest.raises(RefMoved):
        refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, None, A)


def test_every_move_is_in_the_reflog_which_is_the_undo_log(pen: Pen) -> None:
    first = pen.head
    tips = [pen.write({"nodes/a.yaml": b"%d\n" % n}) for n in range(3)]
    lines = refs.read_log(pen.layout.git_dir, refs.HEAD)
    assert [(line.old, line.new) for line in lines] == [(None, first), *zip([first, *tips], tips, strict=False)]
    assert git(pen.layout.git_dir, "rev-parse", "refs/kgd/head@{2}").strip() == tips[0].hex()


def test_a_held_lock_is_named_with_the_command_to_remove_it(workspace: Layout) -> None:
    lock = workspace.git_dir / f"{NAME}.lock"
    lock.touch()
    with pytest.raises(Unavailable) as caught:
        refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, None, A, deadline=0.05)
    assert str(lock) in caught.value.message
    assert "s old" in caught.value.message
    assert caught.value.next.endswith(f"`rm {lock}`")
    assert lock.exists(), "a foreign lock is never removed"
    assert refs.read_ref(workspace.git_dir, NAME) is None
    lock.unlink()
    refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, None, A, deadline=0.05)


def test_a_lock_of_a_killed_process_of_ours_is_known_by_its_inode(workspace: Layout) -> None:
    ours, foreign = (workspace.git_dir / f"refs/kgd/{name}.lock" for name in ("ours", "foreign"))
    for name, lock in (("refs/kgd/ours", ours), ("refs/kgd/foreign", foreign)):
        mine = workspace.derived_dir / f"ref,{name.replace('/', '%2F')},123-0"
        mine.write_text("x")
        if lock is ours:
            os.link(mine, lock)
        else:
            lock.write_text("x")
    assert refs.drop_stale_locks(workspace.git_dir, workspace.derived_dir) == ["refs/kgd/ours"]
    assert not ours.exists()
    assert foreign.exists()
    assert list(workspace.derived_dir.glob("ref,*")) == []


def test_a_folder_that_pack_refs_removed_is_made_again(pen: Pen) -> None:
    git(pen.layout.git_dir, "pack-refs", "--all", "--prune")
    (pen.layout.git_dir / "refs/kgd").rmdir()
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    assert git(pen.layout.git_dir, "rev-parse", refs.HEAD).strip() == tip.hex()


def test_a_repository_moved_away_while_a_ref_waits_for_its_lock_is_not_made_anew(
    workspace: Layout, tmp_path: Path
) -> None:
    (workspace.git_dir / f"{NAME}.lock").touch()
    raised: list[Exception] = []

    def move() -> None:
        try:
            refs.move_ref(workspace.git_dir, workspace.derived_dir, NAME, None, A)
        except OSError as error:
            raised.append(error)

    waiting = threading.Thread(target=move, daemon=True)
    waiting.start()
    while not list(workspace.derived_dir.glob("ref,*")):
        assert waiting.is_alive()
    workspace.git_dir.rename(tmp_path / "moved.git")
    waiting.join(60)
    assert isinstance(raised[0], FileNotFoundError)
    assert not workspace.git_dir.exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 41])
def test_a_damaged_ref_gets_its_newest_usable_value_from_the_reflog(pen: Pen, content: bytes) -> None:
    layout = pen.layout
    first, last = pen.write({"nodes/a.yaml": b"1\n"}), pen.write({"nodes/a.yaml": b"2\n"})
    git(layout.git_dir, "pack-refs", "--all", "--no-prune")
    (layout.git_dir / refs.HEAD).write_bytes(content)
    repaired = refs.repair_ref(layout.git_dir, layout.derived_dir, refs.HEAD, pen.store.exists)
    assert repaired == last == refs.read_ref(layout.git_dir, refs.HEAD)
    (layout.git_dir / refs.HEAD).write_bytes(content)
    assert refs.repair_ref(layout.git_dir, layout.derived_dir, refs.HEAD, lambda id: id == first) == first
    assert len(list((layout.derived_dir / "broken").iterdir())) == 2, "the bad bytes are kept"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def large(path: Path) -> None:
    path.touch()
    os.truncate(path, (64 << 20) + 1)


def endless_link(path: Path) -> None:
    path.symlink_to(path)


def endpoint(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("make", [pipe, large, endless_link, endpoint])
def test_a_ref_that_is_no_plain_file_is_repaired(pen: Pen, make: Callable[[Path], None]) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    (layout.git_dir / refs.HEAD).unlink()
    make(layout.git_dir / refs.HEAD)
    report = integrity.recover(layout)
    assert report.repaired_refs == [refs.HEAD]
    assert refs.read_ref(layout.git_dir, refs.HEAD) == tip
    assert len(list((layout.derived_dir / "broken").iterdir())) == 1, "it is kept"


@pytest.mark.parametrize("make", [pipe, endless_link, endpoint])
def test_packed_refs_that_are_no_plain_file_are_set_aside(pen: Pen, make: Callable[[Path], None]) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    make(layout.git_dir / "packed-refs")
    assert integrity.recover(layout).repaired_refs == ["packed-refs"]
    assert refs.read_ref(layout.git_dir, refs.HEAD) == tip
    assert refs.list_refs(layout.git_dir)[refs.HEAD] == tip


def test_a_damaged_ref_without_a_reflog_gets_the_last_value_known_to_be_good(pen: Pen) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    (layout.git_dir / refs.HEAD).write_bytes(b"")
    (layout.git_dir / "logs" / refs.HEAD).write_bytes(b"\0" * 300)
    assert refs.repair_ref(layout.git_dir, layout.derived_dir, refs.HEAD, pen.store.exists) is None
    (layout.git_dir / refs.HEAD).write_bytes(b"")
    good = refs.repair_ref(layout.git_dir, layout.derived_dir, refs.HEAD, pen.store.exists, known_good=(tip,))
    assert good == tip


def test_packed_refs_with_zero_bytes_lose_only_the_lines_that_are_gone(pen: Pen) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"1\n"})
    git(layout.git_dir, "pack-refs", "--all", "--prune")
    path = layout.git_dir / "packed-refs"
    path.write_bytes(path.read_bytes() + b"\0" * 50)
    with pytest.raises(Damaged):
        refs.read_ref(layout.git_dir, refs.HEAD)
    assert refs.repair_ref(layout.git_dir, layout.derived_dir, refs.HEAD, pen.store.exists) == tip
    assert fsck(layout.git_dir) == []


def _race(layout: Layout, number: int, start: Barrier, wanted: int) -> None:
    pen = Pen(layout)
    start.wait(20)
    done = tries = 0
    while done < wanted:
        tries += 1
        pen.stage({f"nodes/{number}.yaml": b"%d %d\n" % (number, tries)}, f"{number} {done}")
        try:
            pen.flush()
        except RefMoved:
            continue
        done += 1


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("wanted", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_six_processes_that_race_for_one_ref_lose_nothing(workspace: Layout, wanted: int) -> None:
    """The move of the ref is the one point where order is decided; no other lock is needed for safety (F5)."""
    context = multiprocessing.get_context("forkserver")
    start = context.Barrier(6)
    racers = [context.Process(target=_race, args=(workspace, n, start, wanted)) for n in range(6)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(80)
    assert [racer.exitcode for racer in racers] == [0] * 6
    subjects = git(workspace.git_dir, "log", "--format=%s", refs.HEAD).split("\n")
    assert set(subjects) >= {f"{n} {done}" for n in range(6) for done in range(wanted)}
    assert len(subjects) == 6 * wanted + 2  # the first commit, and what follows the last line end
    assert fsck(workspace.git_dir) == []
    left = [path for path in (workspace.git_dir / "objects/pack").iterdir() if path.suffix in (".keep", ".kgd")]
    assert left == []


def test_a_ref_name_survives_the_lock_file_of_ours(workspace: Layout, tmp_path: Path) -> None:
    refs.move_ref(workspace.git_dir, workspace.derived_dir, "refs/kgd/a,b/%2F", None, A)
    assert refs.read_ref(workspace.git_dir, "refs/kgd/a,b/%2F") == A


def test_a_ref_whose_name_is_not_utf_8_can_be_deleted(pen: Pen) -> None:
    git_dir, name = pen.layout.git_dir, "refs/kgd/proposals/ann-\udcff"
    commit = pen.head
    (git_dir / "refs/kgd/proposals").mkdir(parents=True, exist_ok=True)
    (git_dir / name).write_text(f"{commit.hex()}\n")
    refs.delete_refs(git_dir, {name: commit})
    assert refs.read_ref(git_dir, name) is None
