from __future__ import annotations

import os
import random
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest

from kgd.errors import Damaged, Limit, Unavailable
from kgd.git import pack, refs, store
from kgd.git.layout import Layout
from kgd.git.objects import EMPTY_TREE, FILE, FOLDER, ObjectId, Tree, make, tree_body
from kgd.git.store import READ_AGAIN_AFTER, Difference, ObjectStore
from tests.git.support import ANN, Pen, git


def test_a_written_object_is_read_by_path_by_id_and_by_kind(pen: Pen) -> None:
    tip = pen.write({"nodes/concept/a.yaml": b"a\n", "nodes/concept/b/c.yaml": b"c\n"}, "two nodes")
    open_store = pen.layout.open()
    tree = open_store.tree_of(tip)
    blob = open_store.entry(tree, "nodes/concept/b/c.yaml")
    assert blob is not None
    assert open_store.read(blob) == b"c\n"
    assert open_store.kind_and_size(blob) == ("blob", 2)
    assert open_store.commit(tip).subject == "two nodes"
    assert open_store.commit(tip).author == ANN
    assert open_store.entry(tree, "nodes/concept/b") is None
    assert open_store.entry(tree, "nodes/concept/a.yaml/x") is None
    assert open_store.lookup(tree, "") == (FOLDER, tree)
    assert open_store.ref(refs.HEAD) == tip
    with pytest.raises(Damaged):
        open_store.commit(tree)


def test_an_absent_object_is_none_by_its_header_and_damaged_by_its_bytes(pen: Pen) -> None:
    absent = b"\1" * 20
    assert pen.store.kind_and_size(absent) is None
    assert not pen.store.exists(absent)
    with pytest.raises(Damaged, match="missing"):
        pen.store.read(absent)
    assert pen.store.reopened <= 1


def test_a_huge_object_is_refused_by_its_header(workspace: Layout) -> None:
    """Reading the size of a blob inflates it (F10); 600 MB of zeros arrive as 0.6 MB."""
    size = 600 << 20
    engine = zlib.compressobj(9)
    out = [engine.compress(b"blob %d\0" % size)]
    out += [engine.compress(bytes(1 << 20)) for _ in range(8)]  # the rest of it is never looked at
    id = b"\2" * 20
    path = workspace.git_dir / "objects" / id.hex()[:2] / id.hex()[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(out) + engine.flush())
    open_store = workspace.open()
    assert open_store.kind_and_size(id) == ("blob", size)
    with pytest.raises(Limit):
        open_store.read(id)


def test_an_old_handle_reads_what_a_gc_has_moved_to_another_pack(pen: Pen) -> None:
    """A handle goes on listing packs that are gone, and libgit2 then says the object is missing."""
    tips = [pen.write({f"nodes/{n}.yaml": b"%d\n" % n}) for n in range(5)]
    reader = pen.layout.open()
    naive = pygit2.Repository(str(pen.layout.git_dir))
    for tip in tips:
        assert naive.odb.read_header(pygit2.Oid(raw=tip))
    git(pen.layout.git_dir, "gc", "-q", "--prune=now")
    assert [reader.commit(tip).id for tip in tips] == tips
    assert reader.reopened <= 1
    assert reader.kind_and_size(tips[0]) is not None
    assert not reader.exists(b"\1" * 20)


class Interrupted(ObjectStore):
    """A store whose packs are garbage until it has opened the repository `times` times anew, and whole after that."""

    def __init__(self, pen: Pen, times: int) -> None:
        self.times, self._reopened = times, 0
        self.packs = {path: path.read_bytes() for path in (pen.layout.git_dir / "objects/pack").glob("*.pack")}
        super().__init__(pen.layout.git_dir)

    @property
    def reopened(self) -> int:
        return self._reopened

    @reopened.setter
    def reopened(self, count: int) -> None:
        self._reopened = count
        for path, data in self.packs.items():
            path.chmod(0o644)
            with path.open("r+b") as file:  # in place: libgit2 may have mapped it
                file.write(data[:12] + b"\xff" * (len(data) - 32) + data[-20:] if count < self.times else data)


@pytest.mark.slow
@pytest.mark.parametrize("read", [ObjectStore.commit, ObjectStore.kind_and_size])
def test_an_object_whose_pack_cannot_be_read_is_tried_seven_times(
    pen: Pen, read: Callable[[ObjectStore, ObjectId], object]
) -> None:
    tip = pen.write({"nodes/a.yaml": b"a\n"})
    for times in range(7):
        store = Interrupted(pen, times)
        assert read(store, tip)
        assert store.reopened == times
    with pytest.raises(Damaged):
        read(Interrupted(pen, 7), tip)


@pytest.mark.slow
def test_an_object_on_a_broken_base_is_refused_and_harms_no_memory(pen: Pen) -> None:
    """The error path of pygit2's `Odb.read_header` writes beyond its buffer, at an offset of the object's size."""
    lines = [b"%d %s\n" % (n, random.Random(n).randbytes(40).hex().encode()) for n in range(20_000)]
    older = pen.write({"nodes/a.yaml": b"".join(lines)})
    newer = pen.write({"nodes/a.yaml": b"".join([*lines, b"one more\n"])})
    store = pen.layout.open()
    blobs = [store.entry(store.tree_of(tip), "nodes/a.yaml") for tip in (older, newer)]
    git(pen.layout.git_dir, "repack", "-adfq")
    (index,) = (pen.layout.git_dir / "objects/pack").glob("*.idx")
    listed = [line.split() for line in git(pen.layout.git_dir, "verify-pack", "-v", str(index)).splitlines()]
    ((delta, base, at),) = [
        (line[0], line[6], int(other[4]))
        for line in listed
        for other in listed
        if len(line) == 7 and other[0] == line[6] and bytes.fromhex(line[0]) in blobs
    ]
    packed = index.with_suffix(".pack")
    packed.chmod(0o644)
    with packed.open("r+b") as file:
        file.seek(at)
        file.write(b"\x70" + b"\0" * 20)  # a delta whose base is not in the pack
    broken = pen.layout.open()
    for id in (delta, base):
        with pytest.raises(Damaged, match=r"broken|cannot be read"):
            broken.kind_and_size(bytes.fromhex(id))
        with pytest.raises(Damaged, match="broken"):
            broken.read(bytes.fromhex(id))


def test_many_broken_objects_cost_the_attempts_of_one(pen: Pen) -> None:
    tips = [pen.write({"nodes/a.yaml": b"%d\n" % n}) for n in range(5)]
    store = Interrupted(pen, 100)
    for tip in tips:
        with pytest.raises(Damaged):
            store.commit(tip)
    assert store.reopened <= len(READ_AGAIN_AFTER) + len(tips)


@pytest.mark.timeout(100)
def test_many_threads_read_while_packs_are_replaced_under_them(pen: Pen) -> None:
    tips = [pen.write({f"nodes/{n}.yaml": b"%d\n" % n}) for n in range(12)]
    reader, stop, failed = pen.layout.open(), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            for tip in tips:
                try:
                    assert reader.tree(reader.tree_of(tip))
                except BaseException as error:  # noqa: BLE001 - handed to the test
                    failed.append(error)
                    return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        git(pen.layout.git_dir, "repack", "-adq")
        git(pen.layout.git_dir, "prune", "--expire=now")
        pen.write({"nodes/0.yaml": b"%d\n" % len(failed)})
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_difference_visits_only_differing_folders(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pen.write({f"nodes/{a}/{b}.yaml": b"x\n" for a in "abcdef" for b in "123"} | {"nodes/z": b"file\n"})
    new = pen.write({"nodes/b/2.yaml": b"y\n", "nodes/c/1.yaml": None, "nodes/d/new.yaml": b"n\n", "nodes/z": None})
    newest = pen.write({"nodes/z/now a folder.yaml": b"f\n"})
    blob = {name: make("blob", name.encode() + b"\n").id for name in "xynf"}
    open_store = pen.layout.open()
    a, b, c = (open_store.tree_of(tip) for tip in (old, new, newest))
    read: list[ObjectId] = []
    tree = open_store.tree

    def counted(id: ObjectId) -> Tree:
        read.append(id)
        return tree(id)

    monkeypatch.setattr(open_store, "tree", counted)
    assert list(open_store.diff(a, b)) == [
        Difference("nodes/b/2.yaml", blob["x"], blob["y"]),
        Difference("nodes/c/1.yaml", blob["x"], None),
        Difference("nodes/d/new.yaml", None, blob["n"]),
        Difference("nodes/z", make("blob", b"file\n").id, None),
    ]
    assert len(read) == 2 + 2 + 2 * 3, "the root, nodes and three folders, each on both sides"
    monkeypatch.undo()
    assert list(open_store.diff(a, c))[-2:] == [
        Difference("nodes/z", make("blob", b"file\n").id, None),
        Difference("nodes/z/now a folder.yaml", None, blob["f"]),
    ]
    assert list(open_store.diff(b, b)) == []
    assert len(list(open_store.diff(None, b))) == len(list(open_store.files(b)))


def bomb(workspace: Layout, levels: int, width: int) -> ObjectId:
    """A tree whose files number width to the power of levels, in as many objects as levels."""
    items = [make("blob", b"boom")]
    entry = (FILE, items[0].id)
    for _ in range(levels):
        items.append(make("tree", tree_body({b"%02d" % n: entry for n in range(width)})))
        entry = (FOLDER, items[-1].id)
    pack.release(pack.write(workspace.git_dir / "objects/pack", items))
    return items[-1].id


@pytest.mark.timeout(100)
def test_a_git_bomb_is_refused_by_budget(workspace: Layout) -> None:
    """libgit2's own diff and read_tree hang on it (F10)."""
    tree = bomb(workspace, 10, 10)
    with pytest.raises(Limit):
        for _ in workspace.open().diff(None, tree, budget=100_000):
            pass
    with pytest.raises(Limit):
        for _ in workspace.open().files(tree, budget=100_000):
            pass


def test_folders_without_end_are_refused_and_do_not_exhaust_the_stack(workspace: Layout) -> None:
    tree = bomb(workspace, 5000, 1)
    with pytest.raises(Limit):
        list(workspace.open().diff(None, tree))


def test_all_merge_bases_are_found(pen: Pen) -> None:
    root = pen.head
    sides = []
    for side in "ab":
        tree = pen.staging.tree
        sides.append(pen.staging.commit(tree, [root], ANN, side))
    a, b = sides
    crossed = [pen.staging.commit(pen.staging.tree, parents, ANN, "x") for parents in ([a, b], [b, a])]
    alone = pen.staging.commit(pen.staging.tree, [], ANN, "unrelated")
    pen.store.release(pen.store.write(pen.staging.objects))
    assert pen.store.merge_bases(*crossed) == sorted(sides)
    assert pen.store.merge_bases(a, b) == [root]
    assert pen.store.merge_bases(root, crossed[0]) == [root]
    assert pen.store.merge_bases(alone, a) == []
    assert pen.store.is_ancestor(root, crossed[0])
    assert pen.store.is_ancestor(a, a)
    assert not pen.store.is_ancestor(crossed[0], crossed[1])
    assert {c.id for c in pen.store.history(crossed)} == {*crossed, *sides, root}
    assert [c.id for c in pen.store.history([a], until=[root])] == [a]
    assert len(list(pen.store.history(crossed, limit=2))) == 2


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("extensions.objectFormat", "sha256", "SHA-256"),
        ("extensions.refStorage", "reftable", "reftable"),
        ("extensions.partialClone", "origin", "partial"),
        ("core.worktree", "/somewhere/else", "core.worktree"),
    ],
)
def test_a_repository_that_libgit2_would_misread_is_refused(
    workspace: Layout, setting: str, value: str, said: str
) -> None:
    config = workspace.git_dir / "config"
    section, name = setting.split(".")
    config.write_text(config.read_text() + f"[{section}]\n\t{name} = {value}\n")
    with pytest.raises(Unavailable, match=said) as caught:
        workspace.open()
    assert caught.value.next or said == "core.worktree"


def test_a_repository_that_borrows_objects_is_refused(workspace: Layout, tmp_path: Path) -> None:
    (workspace.git_dir / "objects/info/alternates").write_text(f"{tmp_path}\n")
    with pytest.raises(Unavailable, match="borrows"):
        workspace.open()


def test_an_old_libgit2_is_refused(workspace: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "OLDEST_LIBGIT2", (99, 0, 0))
    with pytest.raises(Unavailable, match="too old"):
        workspace.open()


def test_an_empty_tree_is_a_tree(workspace: Layout) -> None:
    pack.release(pack.write(workspace.git_dir / "objects/pack", [make("tree", b"")]))
    assert workspace.open().tree(EMPTY_TREE) == {}
    assert list(ObjectStore(workspace.git_dir).diff(None, EMPTY_TREE)) == []


@pytest.mark.slow
def test_all_merge_bases_are_found_in_any_history_with_any_clocks(pen: Pen) -> None:
    chance = random.Random(1)
    above: dict[ObjectId, set[ObjectId]] = {pen.head: {pen.head}}
    for number in range(60):
        parents = chance.sample(list(above)[-12:], min(len(above), chance.choice((1, 2, 2))))
        when = ANN._replace(time=1_700_000_000 + chance.randrange(-(10**6), 10**6))
        made = pen.staging.commit(pen.staging.tree, parents, when, f"{number}", committer=when)
        above[made] = {made}.union(*(above[parent] for parent in parents))
    pen.store.release(pen.store.write(pen.staging.objects))
    several = 0
    for _ in range(80):
        a, b = chance.sample(list(above)[-15:], 2)
        common = above[a] & above[b]
        best = sorted(one for one in common if not any(one in above[other] - {other} for other in common))
        assert pen.store.merge_bases(a, b) == best
        several += len(best) > 1
    assert 5 < several < 75


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_repository_of_another_user_is_refused_with_a_next_step(workspace: Layout) -> None:
    os.chown(workspace.git_dir, 65534, 65534)
    with pytest.raises(Unavailable, match="not owned by current user") as refused:
        workspace.open().tree(EMPTY_TREE)
    assert "a clone of your own" in refused.value.next
