"""Plain git merges node by node: the tree after a merge on the command line equals the daemon's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.hooks.conftest import Person, clone, daemons_tree

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_two_edits_of_one_node_are_merged_by_field(ann: Person, bob: Person) -> None:
    bob.write("x", name="renamed", summary="one", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.write("x", name="x", summary="two", content="first")
    ours = ann.commit()
    ann.git("pull", "-q", "--no-edit")
    text = ann.file("x").read_text()
    assert "name: renamed" in text
    assert "summary: two" in text
    assert ann.tree_id() == daemons_tree(ann, ours, bob.head())
    assert ann.is_clean()


@pytest.mark.requirement("B8")
def test_a_deletion_against_an_edit_keeps_the_edit_and_records_the_deletion(ann: Person, bob: Person) -> None:
    bob.git("rm", "-q", "nodes/concept/y.yaml")
    bob.commit()
    bob.git("push", "-q")
    ann.write("y", name="y", summary="better", content="first")
    ours = ann.commit()
    done = ann.run("git", "pull", "--no-edit")
    assert done.returncode == 0
    assert "1 node was written differently" in done.stderr
    assert "concept://ws/y" in done.stderr
    assert "run `kgd up` in this clone first" in done.stderr
    assert "summary: better" in ann.file("y").read_text()
    assert list((ann.tree / "conflicts/concept/y").glob("*.yaml"))
    assert ann.tree_id() == daemons_tree(ann, ours, bob.head()) == daemons_tree(ann, bob.head(), ours)
    assert ann.is_clean()


@pytest.mark.slow
def test_a_node_that_one_side_moved_takes_the_edit_of_the_other_along(ann: Person, bob: Person) -> None:
    bob.write("x", name="x", summary="edited at the old place", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.git("mv", "nodes/concept/x.yaml", "nodes/concept/moved.yaml")
    ann.write("moved", name="x", summary="one", aliases="\n- concept://ws/x", content="first")
    ours = ann.commit()
    ann.git("pull", "-q", "--no-edit")
    assert "summary: edited at the old place" in ann.file("moved").read_text()
    assert not ann.file("x").exists()
    assert ann.tree_id() == daemons_tree(ann, ours, bob.head())
    assert ann.is_clean()


@pytest.mark.slow
def test_conflicting_edits_are_both_kept_and_merge_on_either_side(ann: Person, bob: Person) -> None:
    bob.kgd("install")
    for person, word in ((ann, "red"), (bob, "blue")):
        person.write("x", name="x", summary=word, content="first")
        person.commit()
    theirs, ours = bob.head(), ann.head()
    ann.git("fetch", "-q", str(bob.tree), "main")
    ann.git("merge", "-q", "--no-edit", "FETCH_HEAD")
    bob.git("fetch", "-q", str(ann.tree), ours)
    bob.git("merge", "-q", "--no-edit", "FETCH_HEAD")
    assert ann.tree_id() == bob.tree_id() == daemons_tree(ann, ours, theirs)
    record = next((ann.tree / "conflicts/concept/x").glob("*.yaml")).read_text()
    assert "red" in record
    assert "blue" in record


def test_a_merge_never_overwrites_uncommitted_changes(ann: Person, bob: Person) -> None:
    bob.write("x", name="theirs", summary="one", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.write("y", name="y", summary="committed", content="first")
    before = ann.commit()
    ann.write("x", name="not committed", summary="one", content="first")
    done = ann.run("git", "pull", "--no-edit")
    assert done.returncode != 0
    assert "not committed" in ann.file("x").read_text()
    assert ann.head() == before
    assert ann.git("status", "--porcelain") == " M nodes/concept/x.yaml\n"
    ann.git("add", "-A")
    assert "staged" in ann.run("git", "merge", "origin/main").stderr
    assert ann.head() == before
    assert "not committed" in ann.file("x").read_text()


@pytest.mark.slow
def test_a_file_that_git_does_not_know_is_not_overwritten(ann: Person, bob: Person) -> None:
    bob.write("new", name="theirs")
    bob.commit()
    bob.git("push", "-q")
    ann.write("y", name="y", summary="mine", content="first")
    ann.commit()
    ann.write("new", name="mine, not added yet")
    assert ann.run("git", "pull", "--no-edit").returncode != 0
    assert "mine, not added yet" in ann.file("new").read_text()


@pytest.mark.slow
def test_in_a_linked_worktree_and_from_a_folder_below_the_merge_is_the_same(ann: Person, bob: Person) -> None:
    bob.git("rm", "-q", "nodes/concept/y.yaml")
    bob.commit()
    bob.git("push", "-q")
    ann.git("fetch", "-q")
    ann.git("worktree", "add", "-q", "../linked", "-b", "side")
    linked = Person(ann.tree.parent / "linked")
    linked.write("y", name="y", summary="better", content="first")
    ours = linked.commit()
    Person(linked.tree / "nodes").git("merge", "-q", "--no-edit", "origin/main")
    assert linked.tree_id() == daemons_tree(ann, ours, bob.head())
    assert linked.is_clean()


@pytest.mark.slow
def test_a_repository_that_kgd_does_not_read_is_merged_by_git_with_the_driver(
    ann: Person, bob: Person, upstream: Path, tmp_path: Path
) -> None:
    bob.write("x", name="renamed", summary="one", content="first")
    bob.commit()
    shared = tmp_path / "shared"
    Person(tmp_path).git("clone", "-q", "--shared", str(upstream), str(shared))
    person = Person(shared)
    shutil.copytree(ann.git_dir / "kgd-install", person.git_dir / "kgd-install")
    person.git("config", "include.path", "kgd-install/config")
    person.write("x", name="x", summary="two", content="first")
    person.commit()
    person.git("fetch", "-q", str(bob.tree), "main")
    done = person.run("git", "merge", "--no-edit", "FETCH_HEAD")
    assert done.returncode == 0, done.stderr
    assert "borrows objects" in done.stderr
    assert "git merges without kgd" in done.stderr
    assert "name: renamed\nsummary: two" in person.file("x").read_text()


@pytest.mark.slow
def test_two_workspaces_are_not_merged_into_one(ann: Person, tmp_path: Path) -> None:
    other = Person(tmp_path / "other")
    other.tree.mkdir()
    other.git("init", "-q")
    (other.tree / "kgd.yaml").write_text("workspace: another\nformat: 1\nmerge_rules: 1\n")
    other.commit()
    ann.git("fetch", "-q", str(other.tree), "main")
    before = ann.head()
    done = ann.run("git", "merge", "--allow-unrelated-histories", "--no-edit", "FETCH_HEAD")
    assert done.returncode != 0
    assert "different workspaces" in done.stderr
    assert ann.head() == before
    assert ann.is_clean()


# Where one commit is applied elsewhere


def both_wrote(ann: Person, bob: Person) -> None:
    """Ann and the upstream have edited x in a way that merges, and y in a way that does not."""
    bob.write("x", name="renamed", summary="one", content="first")
    bob.write("y", name="y", summary="theirs", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.write("x", name="x", summary="two", content="first")
    ann.write("y", name="y", summary="mine", content="first")
    ann.commit()
    ann.git("fetch", "-q")


def both_sides_are_kept(ann: Person) -> None:
    assert "name: renamed\nsummary: two" in ann.file("x").read_text()
    assert "<<<" not in ann.file("y").read_text()
    record = next((ann.tree / "conflicts/concept/y").glob("*.yaml")).read_text()
    assert "mine" in record
    assert "theirs" in record


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rebase", "merge -s ort"])
def test_the_driver_alone_leaves_one_version_in_the_file_and_both_beside(
    how: str, bob: Person, upstream: Path, tmp_path: Path, programs: Path
) -> None:
    (programs / "git-merge-kgd").unlink()
    ann = clone(upstream, tmp_path / "ann")
    assert "git-merge-kgd is not on your PATH" in ann.kgd("install")
    both_wrote(ann, bob)
    done = ann.run("git", *how.split(), "origin/main")
    assert done.returncode != 0
    assert "concept/y.yaml was written differently" in done.stderr
    assert "git add nodes/concept/y.yaml conflicts/concept/y/" in done.stderr
    both_sides_are_kept(ann)
    ann.git("add", "-A")
    ann.git(how.split()[0], "--continue")
    both_sides_are_kept(ann)
    assert ann.tree_id() == daemons_tree(ann, "ORIG_HEAD", "origin/main")
    assert ann.is_clean()


@pytest.mark.slow
def test_a_rebase_comes_to_the_tree_that_a_merge_has(ann: Person, bob: Person) -> None:
    both_wrote(ann, bob)
    done = ann.run("git", "rebase", "origin/main")
    assert done.returncode == 0, done.stderr
    assert "1 node was written differently" in done.stderr
    both_sides_are_kept(ann)
    assert ann.tree_id() == daemons_tree(ann, "ORIG_HEAD", "origin/main")
    assert ann.git("rev-list", "--count", "--merges", "HEAD").strip() == "0"
    assert ann.is_clean()


def test_a_cherry_pick_takes_one_commit_without_its_ancestors(ann: Person, bob: Person) -> None:
    bob.write("y", name="y", summary="not wanted", content="first")
    bob.commit()
    both_wrote(ann, bob)
    bob.write("x", name="renamed", summary="one", content="wanted")
    bob.commit("wanted")
    bob.write("app/z", name="not wanted either")
    bob.commit()
    bob.git("push", "-q")
    ann.git("fetch", "-q")
    ann.git("cherry-pick", "origin/main~1")
    text = ann.file("x").read_text()
    assert "name: x\nsummary: two\ncontent: wanted" in text
    assert "summary: mine" in ann.file("y").read_text()
    assert "not wanted" not in ann.file("app/z").read_text()
    assert ann.is_clean()


@pytest.mark.slow
def test_a_revert_takes_back_one_field_and_picks_may_pile_up(ann: Person, bob: Person) -> None:
    ann.write("x", name="renamed", summary="one", content="first")
    renamed = ann.commit()
    ann.write("x", name="renamed", summary="three", content="first")
    later = ann.commit()
    ann.git("revert", "--no-edit", renamed)
    assert "name: x\nsummary: three" in ann.file("x").read_text()
    ann.git("switch", "-qc", "side", "origin/main")
    ann.git("cherry-pick", "-n", renamed, later)
    assert "name: renamed\nsummary: three" in ann.file("x").read_text()
    assert ann.git("diff", "--cached", "--name-only") == "nodes/concept/x.yaml\n"


# Where git asks the driver: one file at a time


@pytest.mark.slow
def test_a_stash_is_put_back_by_field(ann: Person, bob: Person) -> None:
    bob.write("x", name="renamed", summary="one", content="first")
    bob.commit()
    bob.git("push", "-q")
    ann.write("x", name="x", summary="not committed", content="first")
    ann.git("stash", "-q")
    ann.git("pull", "-q")
    ann.git("stash", "pop", "-q")
    assert "name: renamed\nsummary: not committed" in ann.file("x").read_text()


@pytest.mark.slow
def test_without_installing_git_stops_at_conflicts_and_loses_nothing(ann: Person, bob: Person) -> None:
    ann.write("y", name="y", summary="theirs", content="first")
    ann.commit()
    ann.git("push", "-q")
    bob.write("y", name="y", summary="mine", content="first")
    bob.commit()
    assert bob.run("git", "pull", "--no-rebase", "--no-edit").returncode != 0
    assert bob.git("ls-files", "--unmerged").count("nodes/concept/y.yaml") == 3
    bob.git("merge", "--abort")
    assert "summary: mine" in bob.file("y").read_text()


@pytest.mark.slow
def test_a_link_in_the_tree_leads_nothing_out_of_it(ann: Person, bob: Person, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (bob.tree / "conflicts").symlink_to(outside)
    bob.commit()
    bob.git("push", "-q")
    both_wrote(ann, bob)
    ann.run("git", "rebase", "origin/main")
    assert list(outside.iterdir()) == []
    assert "summary" in ann.file("y").read_text()
