from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import InvariantViolation, Limit
from kgd.git import creation, staging
from kgd.git.objects import EMPTY_TREE, FILE, make
from kgd.git.staging import Staging
from tests.git.support import FIRST_FILES, Pen, fsck, git

names = st.sampled_from(["a", "a.b", "b", "c.yaml"])  # git sorts a folder `a` after the file `a.b`
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
ends = st.sampled_from(["", "write", "discard", "refuse"])
steps = st.lists(st.tuples(paths, st.none() | st.binary(max_size=3), ends), max_size=12)


@given(steps)
def test_the_tree_is_what_the_edits_say(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes | None, str]]
) -> None:
    """Against a plain dictionary; a name is never file and folder at once, and folders never stay empty."""
    pen = Pen(creation.create_standalone(tmp_path_factory.mktemp("own") / "w", "demo", FIRST_FILES))
    model = dict(FIRST_FILES)
    written = dict(model)
    for path, data, end in steps:
        clash = any(known.startswith(path + "/") or path.startswith(known + "/") for known in model)
        if data is None:
            assert pen.staging.remove(path) == (model.pop(path, None) is not None)
        elif clash:
            with pytest.raises(InvariantViolation):
                pen.staging.put(path, data)
        else:
            pen.staging.put(path, data)
            model[path] = data
        if end == "write":
            pen.stage({})
            written = dict(model)
        elif end:
            mark = pen.staging.mark
            if end == "refuse":
                pen.staging.write_tree()  # but no commit
            pen.staging.discard(mark)
            model = dict(written)
        for known, content in model.items():
            assert pen.staging.read(known) == content
    pen.stage({})
    pen.flush()
    store = pen.layout.open()
    found = {file.path: (file.mode, store.read(file.id)) for file in store.files(store.tree_of(pen.head))}
    assert found == {path: (FILE, data) for path, data in model.items()}
    anew = Staging(store, None)
    anew.write(model)
    assert anew.write_tree() == store.tree_of(pen.head), "the entries are in git's order"


def test_only_folders_that_were_touched_are_rewritten(pen: Pen) -> None:
    pen.write({f"nodes/{a}/{b}.yaml": b"x\n" for a in "abc" for b in "12"})
    pen.staging.put("nodes/b/1.yaml", b"y\n")
    pen.staging.write_tree()
    assert [item.kind for item in pen.staging.objects] == ["blob", "tree", "tree", "tree"]


def test_equal_bytes_are_no_edit(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"x\n"})
    before = pen.staging.tree
    pen.staging.put("nodes/a.yaml", b"x\n")
    assert not pen.staging.remove("nodes/none.yaml")
    assert not pen.staging.changed
    assert pen.staging.write_tree() == before
    assert pen.staging.objects == []


def test_an_edit_that_is_taken_back_writes_no_tree(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"x\n"})
    before = pen.staging.tree
    pen.staging.put("nodes/a.yaml", b"y\n")
    pen.staging.put("nodes/a.yaml", b"x\n")
    assert pen.staging.write_tree() == before
    assert {item.kind for item in pen.staging.objects} == {"blob"}


def test_one_change_of_a_batch_can_be_discarded(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"1\n"})
    first = pen.stage({"nodes/b.yaml": b"2\n"})
    waiting = pen.staging.objects
    pen.staging.put("nodes/a.yaml", b"half\n")
    pen.staging.put("nodes/c/d.yaml", b"done\n")
    pen.staging.remove("nodes/b.yaml")
    pen.staging.discard(pen.staging.mark)
    assert pen.staging.objects == waiting
    assert pen.staging.read("nodes/a.yaml") == b"1\n"
    assert pen.staging.read("nodes/b.yaml") == b"2\n"
    assert pen.staging.lookup("nodes/c/d.yaml") is None
    assert pen.flush() == first


def test_a_refused_edit_leaves_nothing_half_marked(pen: Pen) -> None:
    pen.write({"nodes/a.yaml": b"1\n"})
    with pytest.raises(InvariantViolation, match="in the way"):
        pen.staging.put("nodes/a.yaml/b/c.yaml", b"x")
    with pytest.raises(InvariantViolation, match="folder has this name"):
        pen.staging.put("nodes", b"x")
    tree = pen.staging.tree
    assert pen.staging.write_tree() == tree


def test_an_edit_after_a_refused_one_in_the_same_folder_is_written(pen: Pen) -> None:
    edits = {"b/a": b"1", "c/d/e": b"2"}
    pen.staging.write(edits)
    pen.staging.write_tree()
    pen.staging.put("first", b"3")
    for path in ("b/a/x", "c/d/e/f"):
        with pytest.raises(InvariantViolation, match="a file is in the way"):
            pen.staging.put(path, b"4")
    pen.staging.put("b/n", b"5")
    pen.staging.put("c/d/n", b"6")
    after = pen.staging.write_tree()
    whole = Staging(pen.store, None)
    whole.write({**FIRST_FILES, **edits, "first": b"3", "b/n": b"5", "c/d/n": b"6"})
    assert after == whole.write_tree()


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/../b", ".git/config", "x/.GIT/y", "a\0b"])
def test_names_that_git_does_not_allow_are_refused(pen: Pen, path: str) -> None:
    with pytest.raises(InvariantViolation):
        pen.staging.put(path, b"x")


def test_a_path_deeper_than_a_walk_goes_is_refused(pen: Pen) -> None:
    with pytest.raises(Limit):
        pen.staging.put("/".join(["d"] * 90), b"x")


def test_each_change_of_a_batch_is_a_commit_of_its_own_in_one_pack(pen: Pen) -> None:
    for n in range(4):
        pen.stage({f"nodes/{n}.yaml": b"x\n"}, f"change {n}")
    before = len(list(pen.store.pack_dir.glob("*.pack")))
    pen.flush()
    assert len(list(pen.store.pack_dir.glob("*.pack"))) == before + 1
    assert git(pen.layout.git_dir, "log", "--format=%s", "-4", "refs/kgd/head").split("\n")[:4] == [
        f"change {n}" for n in (3, 2, 1, 0)
    ]
    assert fsck(pen.layout.git_dir) == []


def test_memory_stays_bounded_and_nothing_is_forgotten(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CACHED_ENTRIES", 40)
    expected = {}
    for n in range(60):
        path = f"nodes/{n % 12}/{n}.yaml"
        expected[path] = b"%d\n" % n
        pen.stage({path: expected[path]})
        if n % 7 == 0:
            pen.flush()
        assert sum(map(len, pen.staging._folders.values())) <= 40
    pen.flush()
    for path, data in expected.items():
        assert pen.staging.read(path) == data


def test_starting_from_nothing(pen: Pen) -> None:
    fresh = Staging(pen.store, None)
    assert fresh.tree == EMPTY_TREE
    fresh.put("a", b"x")
    assert fresh.write_tree() != EMPTY_TREE
    fresh.remove("a")
    assert fresh.write_tree() == EMPTY_TREE
    assert make("tree", b"") in fresh.objects


def test_names_that_are_not_utf8_survive(pen: Pen, tmp_path: Path) -> None:
    pen.write({"nodes/caf\udce9.yaml": b"x\n"})
    listed = subprocess.run(
        ["git", "-C", str(pen.layout.git_dir), "ls-tree", "-rz", "--name-only", "refs/kgd/head"],
        capture_output=True,
        check=True,
    ).stdout
    assert b"nodes/caf\xe9.yaml" in listed.split(b"\0")
