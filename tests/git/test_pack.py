from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgd.errors import Damaged, Limit
from kgd.git import creation, pack, refs
from kgd.git.layout import Layout
from kgd.git.objects import Object, make
from tests.git.support import Pen, fsck, git


def some_objects(count: int = 300) -> list[Object]:
    return [make("blob", os.urandom(n % 50) * n) for n in range(count)] + [make("blob", b"same")] * 3


def test_git_accepts_a_pack_of_ours(workspace: Layout) -> None:
    objects = some_objects()
    stem = pack.write(workspace.git_dir / "objects/pack", objects)
    git(workspace.git_dir, "index-pack", "--verify", f"{stem}.pack")
    git(workspace.git_dir, "verify-pack", f"{stem}.idx")
    assert fsck(workspace.git_dir) == []
    assert pack.ids_of(stem) == list(dict.fromkeys(item.id for item in objects))
    assert pack.count_of(stem) == len({item.id for item in objects})
    store = workspace.open()
    for id, kind, body in objects:
        assert (store.kind_and_size(id), store.read(id)) == ((kind, len(body)), body)


def test_a_pack_is_kept_until_it_is_released(workspace: Layout) -> None:
    """Without the keep file a gc beside us deletes the pack before any ref leads to it."""
    item = make("blob", b"not yet referred to")
    stem = pack.write(workspace.git_dir / "objects/pack", [item])
    git(workspace.git_dir, "gc", "-q", "--prune=now")
    assert workspace.open().read(item.id) == item.body
    pack.release(stem)
    git(workspace.git_dir, "gc", "-q", "--prune=now")
    assert not workspace.open().exists(item.id)


def test_the_same_objects_again_go_beside_the_pack_of_a_flush_that_failed(workspace: Layout) -> None:
    objects = some_objects(5)
    first = pack.write(workspace.git_dir / "objects/pack", objects)
    second = pack.write(workspace.git_dir / "objects/pack", objects)
    assert first != second
    assert pack.intact(first)
    assert pack.intact(second)
    assert fsck(workspace.git_dir) == []


def test_a_pack_that_cannot_be_moved_leaves_nothing_behind(workspace: Layout, tmp_path: Path) -> None:
    pack_dir = workspace.git_dir / "objects/pack"
    before = sorted(pack_dir.iterdir())
    made = pack.write(tmp_path, some_objects(5))
    made.with_suffix(".idx").unlink()
    with pytest.raises(FileNotFoundError):
        pack.place(made, pack_dir, pack.KEEP)
    assert sorted(pack_dir.iterdir()) == before


@pytest.mark.parametrize("damage", ["cut pack", "cut index", "flip pack", "flip index", "empty", "gone", "swapped"])
def test_a_pack_that_is_not_whole_is_noticed(workspace: Layout, damage: str) -> None:
    stem = pack.write(workspace.git_dir / "objects/pack", some_objects(20))
    other = pack.write(workspace.git_dir / "objects/pack", some_objects(20))
    kind, _, what = damage.partition(" ")
    path = stem.with_suffix(".idx" if what == "index" else ".pack")
    data = bytearray(path.read_bytes())
    path.unlink()
    if kind == "cut":
        path.write_bytes(data[:-30])
    elif kind == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "swapped":
        path.write_bytes(other.with_suffix(".pack").read_bytes())
    assert not pack.intact(stem)
    assert pack.intact(other)


def test_a_failed_flush_leaves_nothing_that_was_never_visible(
    workspace: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.git_dir / "objects/pack"
    before = sorted(folder.iterdir())
    for step in range(1, 4):
        calls = 0

        def fail(fd: int, step: int = step) -> None:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="Input/output"):
                pack.write(folder, [make("blob", b"%d" % step)])
        left = [path.suffix for path in folder.iterdir() if path not in before]
        # Only the last flush, the folder's, fails after the pack was visible: then it stays, unreferenced.
        assert sorted(left) == ([] if step < 3 else [".idx", ".pack"])


def test_short_writes_are_finished(workspace: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    stem = pack.write(workspace.git_dir / "objects/pack", [make("blob", b"x" * 100)])
    assert pack.intact(stem)


def test_a_flush_too_large_for_the_index_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_SIZE_LIMIT", 100)
    with pytest.raises(Limit):
        pack.build([make("blob", os.urandom(200))])


def test_a_missing_folder_of_packs_is_created_durably(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, synced = pen.store.pack_dir, list[Path]()
    aside = folder.with_name("pack-aside")
    folder.rename(aside)
    monkeypatch.setattr(pack, "sync_folder", synced.append)
    item = make("blob", b"content")
    stem = pack.write(folder, [item])
    assert synced == [folder.parent, folder]
    assert pack.ids_of(stem) == [item.id]
    for file in aside.iterdir():
        file.rename(folder / file.name)
    assert fsck(pen.layout.git_dir) == []


def test_an_object_that_cannot_be_read_back_is_not_acknowledged(pen: Pen) -> None:
    with pytest.raises(Damaged):
        pen.store.confirm([make("blob", b"never written")])


def test_the_bytes_of_a_flush_are_the_same_for_the_same_objects() -> None:
    objects = some_objects(30)
    assert pack.build(objects) == pack.build(objects)
    first = creation.first_commit("demo", {"kgd.yaml": b"x"})
    assert pack.build(first) == pack.build(creation.first_commit("demo", {"kgd.yaml": b"x"}))


def test_the_smallest_pack_is_intact(tmp_path: Path) -> None:
    assert pack.intact(pack.write(tmp_path, [make("blob", b"")]))


def test_an_object_that_is_unreachable_somewhere_is_written_again(pen: Pen) -> None:
    """A flush that relied on the old copy would lose it to a prune."""
    pen.write({"nodes/a.yaml": b"one\n"})
    pen.write({"nodes/a.yaml": b"two\n"})
    tree = pen.staging
    tree.put("nodes/a.yaml", b"one\n")
    tree.write_tree()
    kinds = sorted(item.kind for item in tree.objects)
    assert kinds == ["blob", "tree", "tree"]
    assert refs.read_ref(pen.layout.git_dir, refs.HEAD) == pen.head


def test_pack_paths_are_stems(tmp_path: Path) -> None:
    stem = pack.write(tmp_path, [make("blob", b"x")])
    assert stem.suffix == ""
    assert {path.suffix for path in tmp_path.iterdir()} == {".keep", ".pack", ".idx"}
