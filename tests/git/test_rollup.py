from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from kgd.git import history, pack, pack_upkeep, program, refs, store
from kgd.git.layout import Layout
from kgd.git.objects import make
from tests.git.support import Pen, fsck, git


def packs(pen: Pen) -> int:
    return len(list(pen.store.pack_dir.glob("*.pack")))


def test_twenty_small_packs_become_one_and_every_object_stays(pen: Pen) -> None:
    assert not pack_upkeep.due(pen.store.pack_dir)
    tips = [pen.write({f"nodes/{n}.yaml": b"%d\n" % n}) for n in range(25)]
    assert pack_upkeep.due(pen.store.pack_dir)
    assert pack_upkeep.maintain(pen.layout.git_dir) == ""
    assert packs(pen) < 10
    assert [pen.store.commit(tip).id for tip in tips] == tips
    assert fsck(pen.layout.git_dir) == []
    assert not pack_upkeep.due(pen.store.pack_dir)
    git(pen.layout.git_dir, "verify-pack", *(str(idx) for idx in pen.store.pack_dir.glob("*.idx")))


def test_packs_that_were_rolled_up_are_closed(pen: Pen) -> None:
    """libgit2 keeps a removed pack open and mapped for as long as its handle lives."""
    for n in range(25):
        pen.write({f"nodes/{n}.yaml": b"%d\n" % n})
    pen.store.renew()
    pack_upkeep.maintain(pen.layout.git_dir)
    assert removed_and_open(pen.store.pack_dir)
    pen.store.renew()
    assert removed_and_open(pen.store.pack_dir) == []


def test_packs_that_stay_are_let_go_too(pen: Pen) -> None:
    """libgit2 shares an open pack among all handles, with its index and up to 16 MB of bases of deltas."""
    for n in range(5):
        pen.write({f"nodes/{n}.yaml": b"%d\n" % n})
    assert mapped(pen.store.pack_dir)
    for _ in range(3):
        pen.store.renew(anew=True)
        assert mapped(pen.store.pack_dir) == []
        assert pen.store.tree_of(pen.head)
        assert mapped(pen.store.pack_dir)


def test_libgit2_keeps_a_bounded_number_of_packs_open(pen: Pen) -> None:
    for n in range(2 * store.OPEN_PACKS):
        pen.write({f"nodes/{n}.yaml": b"%d\n" % n})
    assert len(open_packs(pen.store.pack_dir)) <= store.OPEN_PACKS
    tree = pen.store.tree_of(pen.head)
    blobs = [pen.store.entry(tree, f"nodes/{n}.yaml") for n in range(2 * store.OPEN_PACKS)]
    assert [pen.store.read(blob) for blob in blobs if blob] == [b"%d\n" % n for n in range(2 * store.OPEN_PACKS)]


@pytest.mark.slow
def test_rolled_up_versions_of_a_large_folder_take_little_more_than_git_needs(pen: Pen) -> None:
    pen.write({f"nodes/{n}.yaml": b"%d\n" % n for n in range(300)})
    for n in range(200):
        pen.write({f"nodes/{n}.yaml": b"version %d\n" % n})
    assert times_a_repack(pen) <= 1.5


@pytest.mark.slow
def test_rolled_up_versions_of_many_folders_take_little_more_than_git_needs(pen: Pen) -> None:
    pen.write({f"nodes/{n % 20}/{n}.yaml": b"%d\n" % n for n in range(1000)})
    for n in range(200):
        pen.write({f"nodes/{n % 20}/{n}.yaml": b"version %d\n" % n})
    assert times_a_repack(pen) <= 1.5


@pytest.mark.slow
def test_a_large_roll_up_is_listed_in_another_process(pen: Pen) -> None:
    """Here it would take megabytes for a moment, and the heaps would keep some of them."""
    for n in range(4):
        pen.write({f"nodes/{n}/{m}.yaml": b"%d\n" % m * n for m in range(4_000)})
    stems = sorted(path.with_suffix("") for path in pen.store.pack_dir.glob("*.pack"))
    assert sum(map(pack.count_of, stems)) > pack_upkeep.LISTED_HERE
    tracemalloc.start()
    try:
        made = pack_upkeep.roll_up(pen.layout.git_dir, stems)
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()
    assert pack.count_of(made) > pack_upkeep.LISTED_HERE
    assert fsck(pen.layout.git_dir) == []


@pytest.mark.slow
def test_another_process_lists_as_this_one(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(25):
        pen.write({f"nodes/{n % 5}.yaml": b"%d\n" % n})
    stems = sorted(path.with_suffix("") for path in pen.store.pack_dir.glob("*.pack"))
    copies = [Path(shutil.copytree(pen.layout.git_dir, pen.layout.git_dir.parent / f"copy-{n}")) for n in (1, 2)]
    names = []
    for copy, here in zip(copies, (pack_upkeep.LISTED_HERE, 0), strict=True):
        monkeypatch.setattr(pack_upkeep, "LISTED_HERE", here)
        names.append(pack_upkeep.roll_up(copy, [copy / "objects/pack" / stem.name for stem in stems]).name)
    assert names[0] == names[1], "the name of a pack is the checksum of all of it"


@pytest.mark.slow
def test_all_packs_of_many_flushes_take_at_any_time_about_what_they_need(pen: Pen) -> None:
    """Each flush is of 20 changes, as with many clients at a time. Git itself needs a bit more for these folders, since
    it guesses from their names which are versions of one."""
    pen.write({f"nodes/{n % 20}/{n}.yaml": b"%d\n" % n for n in range(1000)})
    sizes = []
    for n in range(60 * 20):
        pen.stage({f"nodes/{n % 20}/{n % 1000}.yaml": b"version %d\n" % n})
        if n % 20 == 19:
            pen.flush()
            assert pack_upkeep.maintain(pen.layout.git_dir) == ""
            sizes.append(size_of_packs(pen))
    for keep in pen.store.pack_dir.glob("*.keep"):
        keep.unlink()
    git(pen.layout.git_dir, "repack", "-adfq")
    assert max(sizes) <= 0.75 * size_of_packs(pen)


def test_the_objects_of_large_packs_are_listed_by_git(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_upkeep, "LISTED", 10)
    loose_end = pen.store.write([make("blob", b"no ref leads to it")])
    pen.store.release(loose_end)
    tips = [pen.write({f"nodes/{n}.yaml": b"%d\n" % n}) for n in range(25)]
    assert pack_upkeep.maintain(pen.layout.git_dir) == ""
    assert packs(pen) < 10
    assert [pen.store.commit(tip).id for tip in tips] == tips
    assert pen.store.read(make("blob", b"no ref leads to it").id) == b"no ref leads to it"
    assert fsck(pen.layout.git_dir) == []


def test_reads_keep_a_megabyte_of_a_large_pack_in_memory(pen: Pen) -> None:
    """Otherwise the memory of a daemon would grow with the history."""
    blobs = [make("blob", random.Random(n).randbytes(32 << 10)) for n in range(128)]
    pen.store.release(pen.store.write(blobs))
    for blob in blobs:
        pen.store.read(blob.id)
    sizes = [line.split()[0].split("-") for line in mapped(pen.store.pack_dir) if line.endswith(".pack")]
    assert 0 < sum(int(end, 16) - int(begin, 16) for begin, end in sizes) <= 1 << 20


def times_a_repack(pen: Pen) -> float:
    """The size of all packs of a kgd repository, as a multiple of git's own."""
    pack_upkeep.roll_up(pen.layout.git_dir, sorted(path.with_suffix("") for path in pen.store.pack_dir.glob("*.idx")))
    ours = size_of_packs(pen)
    for keep in pen.store.pack_dir.glob("*.keep"):
        keep.unlink()  # git would leave the pack as it is
    git(pen.layout.git_dir, "repack", "-adfq")
    return ours / size_of_packs(pen)


def size_of_packs(pen: Pen) -> int:
    return sum(path.stat().st_size for path in pen.store.pack_dir.glob("*.pack"))


def open_packs(pack_dir: Path) -> list[str]:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return [target for link in links if link.is_symlink() and (target := os.readlink(link)).startswith(f"{pack_dir}/")]


def mapped(pack_dir: Path) -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if f"{pack_dir}/" in line]


def removed_and_open(pack_dir: Path) -> list[str]:
    return [target for target in open_packs(pack_dir) if target.endswith(" (deleted)")]


@pytest.mark.slow
def test_levels_are_found_on_the_disk(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_upkeep, "FANOUT", 4)
    monkeypatch.setattr(pack_upkeep, "SMALL", 12)
    monkeypatch.setattr(pack_upkeep, "GROWTH", 4)
    for n in range(70):
        pen.write({f"nodes/{n % 7}.yaml": b"%d\n" % n})
        if pack_upkeep.due(pen.store.pack_dir):
            assert pack_upkeep.maintain(pen.layout.git_dir) == ""
    assert packs(pen) <= 3 * 4
    assert fsck(pen.layout.git_dir) == []


def write(pen: Pen, count: int) -> None:
    for n in range(count):
        pen.write({f"nodes/{n % 7}.yaml": b"%d\n" % n})


def test_a_roll_up_outlives_a_multi_pack_index_of_its_moment(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    """git names the removed packs as the places of all objects, and its next expiry deletes packs without a place."""
    write(pen, 25)
    tip = refs.read_ref(pen.layout.git_dir, refs.HEAD)
    assert tip is not None

    def listed_before_the_old_packs_go(pack_dir: Path) -> None:
        for path in pack_dir.glob("*.pack"):
            os.utime(path, (1, 1) if path.with_suffix(".keep").exists() else None)
        git(pen.layout.git_dir, "multi-pack-index", "write")

    monkeypatch.setattr(pack_upkeep, "sync_folder", listed_before_the_old_packs_go)
    index = pen.store.pack_dir / "multi-pack-index"
    stale = b""

    def expired_before_it_is_settled(pack_dir: Path) -> None:
        nonlocal stale
        stale = index.read_bytes()
        assert history.first_missing(pen.layout.git_dir, tip) == "", "an object is looked up in every pack"
        git(pen.layout.git_dir, "multi-pack-index", "expire", check=False)

    settle = pack_upkeep.settle
    monkeypatch.setattr(pack_upkeep, "settle", expired_before_it_is_settled)
    assert pack_upkeep.maintain(pen.layout.git_dir) == ""
    settle(pen.store.pack_dir)
    assert stale
    assert fsck(pen.layout.git_dir) == []
    assert not index.exists()
    assert [keep.read_bytes() for keep in pen.store.pack_dir.glob("*.keep")] == [pack_upkeep.ROLLED]
    monkeypatch.setattr(pack_upkeep, "PROTECTED_SECONDS", 0.0)
    settle(pen.store.pack_dir)
    assert list(pen.store.pack_dir.glob("*.keep")) == []


def test_a_roll_up_is_protected_before_git_can_see_it(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gc that lists the new pack as unprotected, and then finds its objects protected, deletes the only copy."""
    write(pen, 25)
    seen = list[tuple[bool, bool]]()
    rename = os.rename

    def looked_at(source: str, target: str) -> None:
        made = Path(target)
        seen.append((made.with_suffix(".keep").exists(), made.with_suffix(".idx").exists()))
        rename(source, target)

    monkeypatch.setattr(os, "rename", looked_at)
    pack_upkeep.maintain(pen.layout.git_dir)
    assert seen == [(True, False)] * 2
    assert not list((pen.layout.git_dir / "objects").glob(f"{pack_upkeep.PARTIAL}*"))


def test_a_multi_pack_index_without_removed_packs_stays(pen: Pen) -> None:
    write(pen, 5)
    git(pen.layout.git_dir, "multi-pack-index", "write")
    pack_upkeep.settle(pen.store.pack_dir)
    assert (pen.store.pack_dir / "multi-pack-index").exists()


def test_a_kept_pack_is_left_alone(pen: Pen) -> None:
    for n in range(25):
        pen.write({f"nodes/{n}.yaml": b"%d\n" % n})
    waiting = pack.write(pen.store.pack_dir, [make("blob", b"a flush that is not over")])
    pack_upkeep.maintain(pen.layout.git_dir)
    assert waiting.with_suffix(".keep").exists()
    assert pack.intact(waiting)


def test_a_roll_up_that_a_gc_spoils_is_tried_again_and_loses_nothing(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    tips = [pen.write({f"nodes/{n}.yaml": b"%d\n" % n}) for n in range(25)]
    run, spoiled = program.run, list[str]()

    def spoil(git_dir: object, arguments: list[str], **rest: object) -> bytes:
        if arguments[0] == "pack-objects" and not spoiled:
            spoiled.append(git(pen.layout.git_dir, "gc", "-q", "--prune=now"))
            for stem in pen.store.pack_dir.glob("pack-*.pack"):
                spoiled.append(stem.name)
            raise program.GitFailed(arguments, 128, "bad object")
        return run(git_dir, arguments, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(program, "run", spoil)
    failed = pack_upkeep.maintain(pen.layout.git_dir)
    assert spoiled
    assert failed == "" or "bad object" in failed
    assert [pen.store.commit(tip).id for tip in tips] == tips
    assert fsck(pen.layout.git_dir) == []


@pytest.mark.slow
@pytest.mark.timeout(110)
@pytest.mark.parametrize("seconds", [2, 8])
def test_writers_and_roll_ups_beside_an_impatient_gc_lose_nothing(workspace: Layout, seconds: int) -> None:
    """`gc --prune=now` beside libgit2's own way of writing corrupts a repository within seconds."""
    pen, rnd = Pen(workspace), random.Random(1)
    reader = workspace.open()
    stop, failures, rounds = time.monotonic() + seconds, [], [0, 0]

    def collect() -> None:
        while time.monotonic() < stop:
            command = ["git", "-C", str(workspace.git_dir), "gc", "--prune=now", "-q"]
            rounds[0] += 1
            # A gc that meets our ref lock or a pack that a roll-up took ends with an error; that is its own affair.
            subprocess.run(command, capture_output=True, check=False)

    def roll() -> None:
        while time.monotonic() < stop:
            if pack_upkeep.due(pen.store.pack_dir):
                pack_upkeep.maintain(workspace.git_dir)
                rounds[1] += 1
            time.sleep(0.01)

    threads = [threading.Thread(target=work) for work in (collect, roll)]
    for thread in threads:
        thread.start()
    tips = [pen.head]
    while time.monotonic() < stop:
        for _ in range(rnd.choice([1, 1, 5])):
            # Few values: objects come back that exist in older packs, which is where a skipped one would hurt.
            tips.append(pen.stage({f"nodes/{rnd.randrange(30)}.yaml": b"%d\n" % rnd.randrange(4)}, str(len(tips))))
        pen.flush()
        old = rnd.choice(tips)
        if not reader.tree(reader.tree_of(old)):
            failures.append(old)
    for thread in threads:
        thread.join()
    assert failures == []
    assert rounds[0] >= 1
    reachable = set(git(workspace.git_dir, "rev-list", refs.HEAD).split())
    assert [tip.hex() for tip in tips if tip.hex() not in reachable] == []
    assert fsck(workspace.git_dir) == []
    assert [keep.name for keep in pen.store.pack_dir.glob("*.keep") if keep.read_bytes() != pack_upkeep.ROLLED] == []
