"""Files of an interrupted publication heal after an unclean stop; every other difference is a person's edit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kgd.git.layout import Layout, locate
from kgd.model.change import Delete
from kgd.workspace.publishing import flush_and_repair
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.workspace.people import Desk, code_layout, eventually, hurry, node_text, open_desk

NODES = 16
STATES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "absent": lambda new, old: None,
    "empty": lambda new, old: b"",
    "truncated": lambda new, old: new[: len(new) // 2],
    "zeroed": lambda new, old: bytes(len(new)),
    "zeroed to the end": lambda new, old: new[:10] + bytes(len(new) - 10),
    "the previous version": lambda new, old: old,
}
"""The effects of a power cut on a placed, unflushed file."""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return code_layout(tmp_path / "code")


@pytest.fixture
def desk(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Published and flushed nodes; later publications are not flushed before the end."""
    monkeypatch.setattr(flush_and_repair, "AFTER", 0.0)
    with open_desk(layout, *(upsert(f"n{i}", name=f"N{i}", summary="as it was") for i in range(NODES))) as desk:
        eventually(lambda: not any((layout.derived_dir / "aside").iterdir()))
        monkeypatch.setattr(flush_and_repair, "AFTER", 1e6)
        yield desk


@contextmanager
def after_a_cut(desk: Desk, tmp_path: Path, damage: Callable[[Desk], object]) -> Iterator[Desk]:
    """A copy of the workspace made while it was open, damaged and opened again."""
    subprocess.run(["cp", "-a", str(desk.tree.parent), str(tmp_path / "cut")], check=True)
    layout = locate(tmp_path / "cut")
    assert layout is not None
    with opened(layout, lambda: damage(_closed(desk, layout))) as cut:
        yield cut


@contextmanager
def opened(layout: Layout, before: Callable[[], object]) -> Iterator[Desk]:
    before()
    ws = Workspace.open(layout)
    try:
        yield Desk(ws)
    finally:
        ws.close()


def _closed(desk: Desk, layout: Layout) -> Desk:
    """The files of a closed workspace, under the names of an open one."""
    closed = Desk(desk.ws)
    closed.layout, closed.tree = layout, layout.work_tree
    return closed


def holds(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def leave(file: Path, data: bytes | None) -> None:
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def by_hand(desk: Desk) -> str:
    return desk.git("log", "--format=%s", "--grep=^Kgd-Op: hand-edit", "refs/kgd/head")


def published_twice(desk: Desk) -> dict[str, tuple[bytes, bytes]]:
    """Publish a new version of a node for each state; return new and old bytes by node."""
    names = [f"n{i}" for i in range(len(STATES))]
    old = {name: desk.file(name).read_bytes() for name in names}
    desk.ws.submit(change(*(upsert(name, summary=f"{name} was changed") for name in names)))
    desk.published()
    return {name: (desk.file(name).read_bytes(), old[name]) for name in names}


def damaged(desk: Desk, versions: dict[str, tuple[bytes, bytes]]) -> None:
    for (name, (new, old)), state in zip(versions.items(), STATES.values(), strict=True):
        leave(desk.file(name), state(new, old))


def test_published_files_lost_in_a_power_cut_are_restored(desk: Desk, tmp_path: Path) -> None:
    versions, tip = published_twice(desk), desk.ws.tip
    with after_a_cut(desk, tmp_path, lambda files: damaged(files, versions)) as cut:
        eventually(lambda: all(holds(cut.file(name)) == new for name, (new, _) in versions.items()))
        cut.published()
        assert (cut.ws.tip, by_hand(cut), cut.ws.invalid_files()) == (tip, "", ())
        integrate = cut.ws.health()["integrate"]
        assert (integrate.state, integrate.blocker) == ("ok", "")
        assert "6 files were restored; nothing is left to do" in integrate.about
        cut.ws.submit(change(upsert("n1", name="Later")))
        cut.published()
        assert "name: Later\n" in cut.file("n1").read_text()


def test_the_same_changes_after_a_clean_stop_are_a_persons(desk: Desk, layout: Layout) -> None:
    versions = published_twice(desk)
    desk.ws.close()
    with opened(layout, lambda: damaged(desk, versions)) as again:
        again.serves("n5", "summary", "as it was")
        eventually(lambda: again.ws.node(uri("n0")) is None)
        unreadable = {again.ws.path(uri(f"n{i}")) for i in (1, 2, 3, 4)}
        eventually(lambda: {file.path for file in again.ws.invalid_files()} >= unreadable - {again.ws.path(uri("n2"))})
        assert again.file("n1").read_bytes() == b""


def test_an_edit_stays_an_edit_after_an_unclean_stop(desk: Desk, tmp_path: Path) -> None:
    published_twice(desk)

    def edited(files: Desk) -> None:
        files.file("n0").write_text(node_text("n0", name="N0", summary="a person's"))
        files.file("n9").unlink()
        files.file("n10").write_text("")

    with after_a_cut(desk, tmp_path, edited) as cut:
        cut.serves("n0", "summary", "a person's")
        eventually(lambda: cut.ws.node(uri("n9")) is None)
        eventually(lambda: [file.uri for file in cut.ws.invalid_files()] == [uri("n10")])


def test_created_and_deleted_nodes_are_restored_as_published(desk: Desk, tmp_path: Path) -> None:
    old = desk.file("n1").read_bytes()
    desk.ws.submit(change(upsert("new/one", name="One"), upsert("new/two", name="Two"), Delete(uri("n1"))))
    desk.published()

    def undone(files: Desk) -> None:
        for name in ("new/one", "new/two"):
            files.file(name).unlink()
        files.file("new/one").parent.rmdir()
        files.file("n1").write_bytes(old)

    with after_a_cut(desk, tmp_path, undone) as cut:
        eventually(lambda: not cut.file("n1").exists() and cut.file("new/two").exists())
        cut.published()
        assert (cut.ws.tip, by_hand(cut)) == (desk.ws.tip, "")


def test_each_of_several_publications_may_be_lost(desk: Desk, tmp_path: Path) -> None:
    """Also a file between the last flush and the last publication."""
    between = []
    for turn in range(3):
        desk.ws.submit(change(upsert("n1", summary=f"turn {turn}"), upsert(f"of/turn/{turn}", name="T")))
        desk.published()
        between.append(desk.file("n1").read_bytes())

    def lost(files: Desk) -> None:
        leave(files.file("n1"), between[1])
        files.file("of/turn/0").write_bytes(b"")

    with after_a_cut(desk, tmp_path, lost) as cut:
        eventually(lambda: holds(cut.file("n1")) == between[2] and holds(cut.file("of/turn/0")))
        cut.published()
        assert (cut.ws.tip, by_hand(cut)) == (desk.ws.tip, "")


def test_a_damaged_displaced_file_is_no_late_edit(desk: Desk, tmp_path: Path) -> None:
    published_twice(desk)

    def emptied(files: Desk) -> None:
        slots = [slot for slot in (files.layout.derived_dir / "aside").glob("*/*") if slot.name.isdigit()]
        assert len(slots) == len(STATES)
        for slot in slots:
            slot.write_bytes(b"")

    with after_a_cut(desk, tmp_path, emptied) as cut:
        eventually(lambda: not any((cut.layout.derived_dir / "aside").glob("*/[0-9]*")))
        cut.published()
        assert (cut.ws.tip, cut.ws.invalid_files()) == (desk.ws.tip, ())


def test_a_missing_folder_comes_back_whole(desk: Desk, tmp_path: Path) -> None:
    published_twice(desk)
    with after_a_cut(
        desk, tmp_path, lambda files: subprocess.run(["rm", "-r", files.tree / "nodes"], check=True)
    ) as cut:
        eventually(lambda: all(cut.file(f"n{i}").exists() for i in range(NODES)))
        cut.published()
        assert (cut.ws.tip, by_hand(cut)) == (desk.ws.tip, "")


def test_files_wait_for_their_branch(desk: Desk, tmp_path: Path) -> None:
    """A file that another branch lacks is not put into its work tree."""
    versions = published_twice(desk)

    def elsewhere(files: Desk) -> None:
        files.git("switch", "-q", "--orphan", "elsewhere")

    with after_a_cut(desk, tmp_path, elsewhere) as cut:
        cut.blocked("elsewhere")
        assert not cut.file("n0").exists()
        cut.git("switch", "-q", "kgd")
        cut.file("n1").write_bytes(b"")
        eventually(lambda: holds(cut.file("n1")) == versions["n1"][0])
        assert cut.file("n0").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 0.5])
def test_an_unreadable_index_is_rebuilt_and_keeps_staged_changes(desk: Desk, tmp_path: Path, kept: float) -> None:
    (desk.tree / "notes.txt").write_text("of a person\n")
    desk.git("add", "notes.txt")
    for turn in range(2):
        desk.ws.submit(change(upsert("n3", summary=f"turn {turn}"), Delete(uri(f"n{turn}"))))
        eventually(lambda: desk.status() == "A  notes.txt\n" and desk.in_step)

    def cut_short(files: Desk) -> None:
        index = files.layout.git_dir / "index"
        whole = index.read_bytes()
        index.write_bytes(whole[: int(len(whole) * kept)])

    with after_a_cut(desk, tmp_path, cut_short) as cut:
        eventually(lambda: _readable(cut) == "A  notes.txt\n", lambda: _readable(cut))
        assert cut.ws.tip == desk.ws.tip


def test_an_index_that_a_publication_had_replaced_is_updated_and_keeps_staged_changes(
    desk: Desk, tmp_path: Path
) -> None:
    """Otherwise git would take new nodes for removed ones, and the next commit would remove them."""
    (desk.tree / "notes.txt").write_text("of a person\n")
    desk.git("add", "notes.txt")
    before = (desk.layout.git_dir / "index").read_bytes()
    desk.file("by/hand").parent.mkdir(parents=True)
    desk.file("by/hand").write_text(node_text("by/hand", name="Hand"))
    desk.ws.hint(None)
    desk.serves("by/hand", "name", "Hand")
    desk.ws.submit(change(upsert("n3", summary="later"), upsert("new", name="New"), Delete(uri("n1"))))
    eventually(lambda: desk.status() == "A  notes.txt\n" and desk.in_step)

    with after_a_cut(desk, tmp_path, lambda files: comes_back(files, before)) as cut:
        eventually(lambda: cut.status() == "A  notes.txt\n" and cut.in_step, cut.status)
        assert (cut.ws.tip, by_hand(cut).count("\n")) == (desk.ws.tip, 1)


def test_an_index_that_came_back_is_updated_where_a_file_waits_for_its_person(desk: Desk, tmp_path: Path) -> None:
    before = (desk.layout.git_dir / "index").read_bytes()
    desk.file("n3").write_text("not: [a node\n")
    desk.ws.hint(None)
    eventually(lambda: desk.ws.invalid_files())
    desk.ws.submit(change(upsert("n3", summary="later"), upsert("n4", summary="later")))
    modified = f" M {desk.ws.path(uri('n3'))}\n"
    eventually(lambda: desk.status() == modified and desk.in_step, desk.status)

    with after_a_cut(desk, tmp_path, lambda files: comes_back(files, before)) as cut:
        eventually(lambda: cut.status() == modified, cut.status)


@pytest.mark.parametrize("command", [["rm", "-q", "--cached"], ["reset", "-q", "HEAD~", "--"]])
def test_after_the_death_of_the_process_alone_a_staged_change_stays_staged(
    desk: Desk, tmp_path: Path, command: list[str]
) -> None:
    """Even one that stages an earlier version, which an old index would also have."""
    published_twice(desk)
    staged = []

    def stage(files: Desk) -> None:
        files.git(*command, files.ws.path(uri("n3")))
        staged.append(files.status())

    with after_a_cut(desk, tmp_path, stage) as cut:
        eventually(lambda: cut.in_step)
        cut.ws.submit(change(upsert("n9", summary="later")))
        eventually(lambda: cut.in_step and "later" in cut.file("n9").read_text())
        assert (cut.status(), staged[0] != "") == (staged[0], True)


def test_a_change_that_is_staged_while_the_index_is_mended_stays(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (desk.layout.git_dir / "index").read_bytes()
    published_twice(desk)
    (desk.tree / "notes.txt").write_text("of a person\n")
    link, raced = os.link, list[object]()

    def racing(source: Path, target: Path) -> None:
        if target.name == "index.lock" and not raced:
            cut = locate(tmp_path / "cut")
            assert cut is not None
            raced.append(subprocess.run(["git", "-C", cut.work_tree, "add", "notes.txt"], check=True))
        link(source, target)

    def damage(files: Desk) -> None:
        comes_back(files, before)
        monkeypatch.setattr(os, "link", racing)

    with after_a_cut(desk, tmp_path, damage) as cut:
        eventually(lambda: cut.status() == "A  notes.txt\n" and cut.in_step, cut.status)
    assert raced


def test_after_a_restart_of_the_machine_an_old_index_is_updated_although_git_wrote_it_since(
    desk: Desk, tmp_path: Path
) -> None:
    before = (desk.layout.git_dir / "index").read_bytes()
    published_twice(desk)
    (desk.tree / "notes.txt").write_text("of a person\n")

    def restarted(files: Desk) -> None:
        comes_back(files, before)
        files.git("add", "notes.txt")
        for plan in (files.layout.derived_dir / "aside").glob("*/done"):
            plan.write_text(json.dumps({**json.loads(plan.read_text()), "boot": "another"}))

    with after_a_cut(desk, tmp_path, restarted) as cut:
        eventually(lambda: cut.status() == "A  notes.txt\n" and cut.in_step, cut.status)


def comes_back(desk: Desk, index: bytes) -> None:
    """The index is the one before the plans again, with its time."""
    file, plans = desk.layout.git_dir / "index", sorted((desk.layout.derived_dir / "aside").glob("*/done"))
    file.write_bytes(index)
    os.utime(file, ns=(plans[0].stat().st_mtime_ns - 1, plans[0].stat().st_mtime_ns - 1))


@pytest.mark.parametrize("content", ["whole", "empty"])
def test_an_index_lock_that_a_power_cut_brought_back_is_removed(desk: Desk, tmp_path: Path, content: str) -> None:
    versions = published_twice(desk)

    def brought_back(files: Desk) -> None:
        lock, plan = files.layout.git_dir / "index.lock", next((files.layout.derived_dir / "aside").glob("*/done"))
        lock.write_bytes((files.layout.git_dir / "index").read_bytes() if content == "whole" else b"")
        os.utime(lock, ns=(plan.stat().st_mtime_ns, plan.stat().st_mtime_ns))
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "lock": lock.stat().st_ino}))
        damaged(files, versions)

    with after_a_cut(desk, tmp_path, brought_back) as cut:
        eventually(lambda: all(holds(cut.file(name)) == new for name, (new, _) in versions.items()))
        cut.published()
        assert not (cut.layout.git_dir / "index.lock").exists()


def test_an_index_lock_of_a_git_command_stays_after_an_unclean_stop(desk: Desk, tmp_path: Path) -> None:
    """Even if it has the inode number that kgd's lock had."""
    published_twice(desk)

    def locked(files: Desk) -> None:
        lock, plan = files.layout.git_dir / "index.lock", next((files.layout.derived_dir / "aside").glob("*/done"))
        lock.write_bytes(b"")
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "lock": lock.stat().st_ino}))
        os.utime(lock, ns=(plan.stat().st_mtime_ns + 1, plan.stat().st_mtime_ns + 1))

    with after_a_cut(desk, tmp_path, locked) as cut:
        cut.blocked("a git command is running")
        (cut.layout.git_dir / "index.lock").unlink()
        cut.published()


def test_a_publication_records_the_lock_that_it_takes(desk: Desk) -> None:
    published_twice(desk)
    plan = next((desk.layout.derived_dir / "aside").glob("*/done"))
    assert json.loads(plan.read_text())["lock"] == (desk.layout.git_dir / "index").stat().st_ino


def test_a_persons_edit_is_flushed_before_it_is_committed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the disk may have it later than the tip, and the older file would look like an undone edit."""
    flushed, fsync = [], os.fsync

    def noting(fd: int) -> None:
        flushed.append((os.fstat(fd).st_ino, desk.ws.tip))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    before = desk.ws.tip
    desk.edit("n1", "as it was", "edited")
    desk.file("n2").unlink()
    desk.ws.hint(None)
    desk.serves("n1", "summary", "edited")
    eventually(lambda: desk.ws.node(uri("n2")) is None)
    assert (desk.file("n1").stat().st_ino, before) in flushed
    assert any(inode == desk.file("n2").parent.stat().st_ino for inode, _ in flushed)


def test_without_a_former_index_it_is_built_from_the_tip(desk: Desk, tmp_path: Path) -> None:
    published_twice(desk)

    def lost(files: Desk) -> None:
        for index in (files.layout.git_dir / "index", *(files.layout.derived_dir / "aside").glob("*/index")):
            index.write_bytes(b"")

    with after_a_cut(desk, tmp_path, lost) as cut:
        eventually(lambda: cut.in_step and _readable(cut) == "")
        assert cut.ws.tip == desk.ws.tip


def _readable(desk: Desk) -> str:
    """As `Desk.status`; if git cannot read the index, its error."""
    failure = desk.git("--no-optional-locks", "status", check=False)
    return desk.status() if failure == "0 " else failure
