from __future__ import annotations

import builtins
import contextlib
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Damaged
from kgd.git import integrity, pack, pack_upkeep, refs
from kgd.git.integrity import Report, recover
from kgd.git.layout import Layout
from kgd.git.objects import Object, make
from tests.git.support import ANN, Pen, fsck, git, write_loose


def loose(layout: Layout, item: Object) -> Path:
    return write_loose(layout.git_dir / "objects", item)


def test_a_sound_repository_is_unchanged(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"x\n"})
    loose(pen.layout, make("blob", os.urandom(200_000)))
    assert recover(pen.layout) == Report()
    assert not Report().damaged
    assert fsck(pen.layout.git_dir) == []


def test_a_lock_of_a_move_that_the_ref_has_overtaken_goes(pen: Pen) -> None:
    """btrfs brings it back after a power cut; the lock of a move that is still to come stays."""
    first = pen.write({"nodes/a.yaml": b"x\n"})
    ahead = pen.write({"nodes/a.yaml": b"y\n"})
    head, branch = (pen.layout.git_dir / f"{name}.lock" for name in (refs.HEAD, pen.layout.branch))
    refs.move_ref(
        pen.layout.git_dir, pen.layout.derived_dir, pen.layout.branch, pen.store.ref(pen.layout.branch), first
    )
    head.write_text(f"{first.hex()}\n")
    branch.write_text(f"{ahead.hex()}\n")
    assert recover(pen.layout).stale_locks == [refs.HEAD]
    assert branch.exists()
    assert not head.exists()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut before the checksum": lambda data: data[:-4],
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "longer": lambda data: data + b"x",
    "another object": lambda data: zlib.compress(b"blob 1\0x"),
    "no object": lambda data: b"plain text",
}


@pytest.mark.timeout(100)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_loose_object_is_moved_aside_before_libgit2_can_hang_on_it(workspace: Layout, damage: str) -> None:
    item = make("blob", os.urandom(3000))
    path = loose(workspace, item)
    data = path.read_bytes()
    path.write_bytes(DAMAGE[damage](data))
    report = recover(workspace)
    assert report.broken_objects == [item.id.hex()]
    assert report.damaged
    assert not path.exists()
    assert len(list((workspace.derived_dir / "broken").iterdir())) == 1, "kept, never deleted"
    with pytest.raises(Damaged):
        workspace.open().read(item.id)
    write_loose(workspace.git_dir / "objects", item)
    assert workspace.open().read(item.id) == item.body
    assert recover(workspace) == Report()


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_libgit2_really_hangs_on_a_cut_loose_object(workspace: Layout) -> None:
    """Why `recover` comes first (F7). When this fails, libgit2 was mended and the check may become cheaper."""
    item = make("blob", os.urandom(3000))
    path = loose(workspace, item)
    path.write_bytes(path.read_bytes()[:1500])
    naive = f"import pygit2; pygit2.Repository({str(workspace.git_dir)!r}).get({item.id.hex()!r})"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", naive], timeout=4, check=False)


def test_an_object_that_is_also_in_a_pack_survives_the_loss_of_its_broken_copy(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"content\n"})
    path = loose(pen.layout, make("blob", b"content\n"))
    path.write_bytes(b"")
    assert recover(pen.layout).broken_objects
    assert fsck(pen.layout.git_dir) == []


def test_only_objects_newer_than_the_last_checkpoint_are_inflated(
    workspace: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    integrity.checkpoint(workspace)
    path = loose(workspace, make("blob", b"old"))
    path.write_bytes(b"")
    note = workspace.derived_dir / "checkpoint"
    later = time.time() + 100
    os.utime(note, (later, later))
    assert recover(workspace).broken_objects, "a checkpoint from the future is not believed"
    path.write_bytes(b"")
    os.utime(note, (later, later))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 200)
    assert recover(workspace) == Report()


def test_objects_beyond_the_budget_are_counted_and_checked_next_time(workspace: Layout) -> None:
    for n in range(5):
        loose(workspace, make("blob", b"%d" % n))
    report = recover(workspace, budget=-1)
    assert report.unchecked == 5
    assert report.damaged
    path = loose(workspace, make("blob", b"0"))
    path.write_bytes(b"")
    assert recover(workspace).broken_objects == [make("blob", b"0").id.hex()]
    assert recover(workspace) == Report()


def test_a_loose_bomb_is_not_inflated_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = make("blob", bytes(8 << 20))
    path = write_loose(tmp_path, item)
    assert integrity.loose_object_is_sound(path)
    monkeypatch.setattr(integrity, "SIZE_LIMIT", 1 << 20)
    assert not integrity.loose_object_is_sound(path)


def test_a_flush_that_was_killed_is_tidied_and_an_intact_pack_stays(pen: Pen) -> None:
    folder = pen.store.pack_dir
    half = pack.write(folder, [make("blob", b"never visible")])
    half.with_suffix(".idx").rename(half.with_suffix(".kgd"))
    bare = pack.write(folder, [make("blob", b"no index yet")])
    bare.with_suffix(".idx").unlink()
    whole = pack.write(folder, [make("blob", b"visible")])
    cut = pack.write(folder, [make("blob", b"cut by the disk")])
    cut.with_suffix(".pack").chmod(0o644)
    cut.with_suffix(".pack").write_bytes(b"PACK")
    foreign = pack.write(folder, [make("blob", b"kept by a person")])
    foreign.with_suffix(".keep").write_text("mine\n")
    rolled, unlisted = (pack.write(folder, [make("blob", text)]) for text in (b"rolled up", b"rolled up, no index yet"))
    for stem in (rolled, unlisted):
        stem.with_suffix(".keep").write_bytes(pack_upkeep.ROLLED)
    unlisted.with_suffix(".idx").unlink()
    report = recover(pen.layout)
    assert sorted(report.removed_packs) == sorted([half.name, bare.name, unlisted.name])
    assert report.dropped_keeps == [whole.name]
    assert report.broken_packs == [cut.name]
    assert not unlisted.with_suffix(".pack").exists()
    assert {path.name for path in folder.glob("*.keep")} == {f"{stem.name}.keep" for stem in (foreign, rolled)}
    store = pen.layout.open()
    assert store.read(make("blob", b"visible").id) == b"visible"
    assert not store.exists(make("blob", b"cut by the disk").id)
    assert fsck(pen.layout.git_dir) == []
    assert recover(pen.layout) == Report()


def test_a_pack_that_nothing_refers_to_is_kept_since_a_gc_may_have_dropped_the_other_copy(pen: Pen) -> None:
    """A gc leaves out of its new pack what a kept pack also holds; removing ours then loses an old object."""
    pen.write({"nodes/a.yaml": b"one\n"})
    pen.write({"nodes/a.yaml": b"two\n"})
    pen.staging.put("nodes/a.yaml", b"one\n")
    pen.staging.commit(pen.staging.write_tree(), [pen.head], ANN, "killed")
    pen.store.write(pen.staging.objects)  # and here the process dies
    git(pen.layout.git_dir, "gc", "-q", "--prune=now")
    report = recover(pen.layout)
    assert len(report.dropped_keeps) == 1
    assert fsck(pen.layout.git_dir) == []
    git(pen.layout.git_dir, "gc", "-q", "--prune=now")
    assert fsck(pen.layout.git_dir) == []
    assert Pen(pen.layout).staging.read("nodes/a.yaml") == b"two\n"


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"garbage\n"])
@pytest.mark.parametrize("which", ["head", "branch", "HEAD"])
def test_a_damaged_ref_gets_its_last_value_back(pen: Pen, content: bytes, which: str) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    name = {"head": refs.HEAD, "branch": layout.branch, "HEAD": "HEAD"}[which]
    before = refs.read_ref(layout.git_dir, name)
    (layout.git_dir / name).write_bytes(content)
    report = recover(layout)
    assert report.repaired_refs == [name]
    assert refs.read_ref(layout.git_dir, name) == before
    assert layout.open().ref(refs.HEAD) == tip
    assert fsck(layout.git_dir) == []


def test_a_ref_that_cannot_be_repaired_is_reported_not_invented(pen: Pen) -> None:
    layout = pen.layout
    pen.write({"nodes/a.yaml": b"x\n"})
    for name in (refs.HEAD, layout.branch):
        (layout.git_dir / name).write_bytes(b"")
        (layout.git_dir / "logs" / name).unlink()
    report = recover(layout)
    assert report.repaired_refs == []
    assert "no earlier good value" in report.notes[0]


def test_the_last_checkpoint_serves_where_the_reflog_is_gone(pen: Pen) -> None:
    layout = pen.layout
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    integrity.checkpoint(layout)
    (layout.git_dir / refs.HEAD).write_bytes(b"\0" * 41)
    (layout.git_dir / "logs" / refs.HEAD).unlink()
    assert recover(layout).repaired_refs == [refs.HEAD]
    assert refs.read_ref(layout.git_dir, refs.HEAD) == tip


def test_a_branch_that_was_deleted_with_its_reflog_is_noted(pen: Pen) -> None:
    integrity.checkpoint(pen.layout)
    tip = git(pen.layout.git_dir, "rev-parse", pen.layout.branch).strip()
    git(pen.layout.git_dir, "update-ref", "-d", pen.layout.branch)
    report = recover(pen.layout)
    assert report.repaired_refs == []
    assert tip in report.notes[0]


def test_a_ref_whose_reflog_is_there_was_lost_and_comes_back(pen: Pen) -> None:
    git(pen.layout.git_dir, "update-ref", "refs/heads/proposals/wish", refs.HEAD)
    tip = refs.read_ref(pen.layout.git_dir, refs.HEAD)
    git(pen.layout.git_dir, "pack-refs", "--all")
    (pen.layout.git_dir / "packed-refs").unlink()
    report = recover(pen.layout)
    assert report.repaired_refs == [pen.layout.branch, refs.HEAD, "refs/heads/proposals/wish"]
    assert set(refs.list_refs(pen.layout.git_dir).values()) == {tip}


def test_half_written_files_of_a_killed_git_go_after_a_day(pen: Pen) -> None:
    old, young = (pen.store.pack_dir / f"tmp_pack_{name}" for name in ("old", "young"))
    old.touch()
    young.touch()
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    recover(pen.layout)
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("step", ["scandir", "lstat", "open"])
def test_a_start_beside_a_gc_that_removes_loose_objects_finds_nothing_broken(
    pen: Pen, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    tip = pen.write({"nodes/a.yaml": b"a\n"})
    blob = git(pen.layout.git_dir, "hash-object", "-w", "--stdin", input="packed elsewhere").strip()
    path = pen.layout.git_dir / "objects" / blob[:2] / blob[2:]
    owner, name = {"scandir": (os, "scandir"), "lstat": (Path, "lstat"), "open": (builtins, "open")}[step]
    before = getattr(owner, name)

    def pruned_meanwhile(place: Any, *rest: Any, **options: Any) -> Any:
        if str(place) in (str(path), str(path.parent)):
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        return before(place, *rest, **options)

    monkeypatch.setattr(owner, name, pruned_meanwhile)
    report = recover(pen.layout)
    monkeypatch.undo()
    assert not path.exists()
    assert not report.damaged
    assert pen.layout.open().commit(tip)
