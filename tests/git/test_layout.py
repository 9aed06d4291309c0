from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kgd.errors import InvariantViolation, NotFound, Unavailable, reason_of
from kgd.git import creation, history, integrity, layout, refs
from kgd.git.layout import Layout
from tests.git.support import FIRST_FILES, Pen, fsck, git


def fingerprint(git_dir: Path) -> dict[str, str]:
    """Every file of a git directory but the workspace inside it."""
    found = {}
    for folder, folders, files in os.walk(git_dir):
        if Path(folder) == git_dir:
            folders[:] = [name for name in folders if name != "kgd"]
        for name in files:
            path = Path(folder, name)
            found[str(path.relative_to(git_dir))] = hashlib.sha1(path.read_bytes()).hexdigest()
    return found


def test_the_code_repository_keeps_every_byte_but_one_line_of_info_exclude(code: Path) -> None:
    before = fingerprint(code / ".git")
    exclude = (code / ".git/info/exclude").read_text()
    creation.create_in_code_repository(code, "demo", FIRST_FILES)
    after = fingerprint(code / ".git")
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"info/exclude"}
    assert (code / ".git/info/exclude").read_text() == exclude + "/.kgd/\n"
    assert git(code, "status", "--porcelain", "--ignored") == "!! .kgd/\n"


def test_both_work_trees_are_clean_and_nothing_is_broken(code: Path, workspace: Layout) -> None:
    assert git(code, "status", "--porcelain") == ""
    assert git(code / ".kgd", "status", "--porcelain") == ""
    assert git(code / ".kgd", "rev-parse", "--abbrev-ref", "HEAD") == "kgd\n"
    assert (code / ".kgd/kgd.yaml").read_bytes() == FIRST_FILES["kgd.yaml"]
    assert refs.read_ref(workspace.git_dir, refs.HEAD) == refs.read_ref(workspace.git_dir, "refs/heads/kgd")
    assert fsck(workspace.git_dir) == []


def test_the_reason_of_a_failed_write_has_no_number() -> None:
    assert reason_of(PermissionError(13, "Permission denied", "/srv/x")) == "Permission denied: /srv/x"
    assert reason_of(OSError(28, "No space left on device")) == "No space left on device"
    assert reason_of(OSError("odd")) == "odd"
    assert reason_of(ValueError("odd")) == "odd"


def test_making_it_twice_changes_nothing(code: Path, workspace: Layout) -> None:
    before = fingerprint(workspace.git_dir)
    again = creation.create_in_code_repository(code, "other", {"kgd.yaml": b"other\n"})
    assert again == workspace
    assert fingerprint(workspace.git_dir) == before
    assert (code / ".git/info/exclude").read_text().count("/.kgd/") == 1


def test_a_place_that_cannot_be_written_is_reported_and_completed_later(code: Path) -> None:
    exclude = code / ".git/info/exclude"
    exclude.unlink()
    exclude.mkdir()
    with pytest.raises(Unavailable, match="the work tree cannot be created: Is a directory") as refused:
        creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert refused.value.at.endswith(".git/info/exclude")
    exclude.rmdir()
    creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert (code / ".kgd/kgd.yaml").read_bytes() == FIRST_FILES["kgd.yaml"]
    assert exclude.read_text() == "/.kgd/\n"


@pytest.mark.requirement("B8")
def test_copies_made_independently_share_their_first_commit(tmp_path: Path) -> None:
    tips = set()
    for name in ("one", "two"):
        tree = tmp_path / name
        tree.mkdir()
        git(tree, "init", "-q")
        made = creation.create_in_code_repository(tree, "demo", FIRST_FILES)
        tips.add(refs.read_ref(made.git_dir, refs.HEAD))
    own = creation.create_standalone(tmp_path / "three", "demo", FIRST_FILES)
    tips.add(refs.read_ref(own.git_dir, refs.HEAD))
    assert len(tips) == 1
    other = creation.first_commit("other", FIRST_FILES)[-1].id
    assert other not in tips


def test_the_format_does_not_follow_a_persons_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "reftable")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path))
    made = creation.create_standalone(tmp_path / "w", "demo", FIRST_FILES)
    assert git(made.work_tree, "rev-parse", "--show-object-format") == "sha1\n"
    settings = dict(line.split("=", 1) for line in git(made.work_tree, "config", "--local", "--list").splitlines())
    assert settings["core.repositoryformatversion"] == "0"
    assert settings["gc.auto"] == "0"
    assert settings["maintenance.auto"] == "false"
    assert settings["receive.autogc"] == "false"
    assert settings["core.autocrlf"] == "false"
    assert settings["core.logallrefupdates"] == "always"
    assert settings["core.protecthfs"] == settings["core.protectntfs"] == "true"


def test_it_is_found_from_everywhere_in_the_project(code: Path, workspace: Layout) -> None:
    (code / "src/deep").mkdir(parents=True)
    git(code, "worktree", "add", "-q", str(code.parent / "side"))
    (code.parent / "side/sub").mkdir()
    (code / ".kgd/nodes").mkdir()
    for directory in ("code", "code/src/deep", "side", "side/sub", "code/.kgd", "code/.kgd/nodes", "code/.git"):
        assert layout.locate(code.parent / directory) == workspace, directory
    assert layout.locate(workspace.git_dir) == workspace
    assert layout.code_root(code.parent / "side/sub") == code.parent / "side"
    assert layout.code_root(code / "src/deep") == code
    assert layout.locate(code.parent) is None
    link = code.parent / "link"
    link.symlink_to(code)
    assert layout.locate(link / "src") == workspace


def test_another_worktree_makes_no_second_one(code: Path, workspace: Layout) -> None:
    git(code, "worktree", "add", "-q", str(code.parent / "side"))
    assert creation.create_in_code_repository(code.parent / "side", "demo", FIRST_FILES) == workspace
    assert not (code.parent / "side/.kgd").exists()
    assert git(code.parent / "side", "status", "--porcelain") == ""


def test_the_environment_of_a_hook_leads_nowhere_else(
    code: Path, workspace: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert layout.locate(code) == workspace
    pen = Pen(workspace)
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    assert refs.read_ref(workspace.git_dir, refs.HEAD) == tip
    creation.create_standalone(tmp_path / "own", "demo", FIRST_FILES)
    assert not (other / "index").exists()


def test_a_copied_project_is_independent(code: Path, pen: Pen) -> None:
    before = pen.write({"nodes/a.yaml": b"x\n"})
    copy = code.parent / "copy"
    shutil.copytree(code, copy, symlinks=True)
    found = layout.locate(copy / ".kgd")
    assert found is not None
    assert found.git_dir == copy / ".git/kgd"
    assert found.work_tree == copy / ".kgd"
    integrity.recover(found)
    tip = Pen(found).write({"nodes/a.yaml": b"y\n"})
    assert refs.read_ref(found.git_dir, refs.HEAD) == tip
    assert refs.read_ref(pen.layout.git_dir, refs.HEAD) == before
    assert git(copy / ".kgd", "status", "--porcelain") == ""


def test_a_moved_project_works_on(code: Path, pen: Pen) -> None:
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    moved = code.rename(code.with_name("moved"))
    found = layout.locate(moved)
    assert found is not None
    assert git(moved / ".kgd", "status", "--porcelain") == ""
    assert Pen(found).head == tip


def test_cleaning_the_project_never_takes_knowledge(code: Path, pen: Pen) -> None:
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    git(code, "clean", "-fdxq")
    assert (code / ".kgd/kgd.yaml").exists()
    git(code, "clean", "-ffdxq")
    assert not (code / ".kgd").exists()
    found = layout.locate(code)
    assert found == pen.layout
    assert Pen(found).head == tip, "knowledge is served and written without a work tree"
    assert Pen(found).write({"nodes/a.yaml": b"y\n"}) != tip
    assert [entry.commit.id for entry in history.log(found.open(), tip, limit=1)] == [tip]
    assert creation.link_work_tree(found)
    assert git(code / ".kgd", "log", "-1", "--format=%H", "refs/kgd/head~1") == tip.hex() + "\n"
    assert not creation.link_work_tree(found)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "tracked"])
def test_a_users_folder_named_kgd_is_left_alone(code: Path, kind: str) -> None:
    own = code / ".kgd"
    if kind == "file":
        own.write_text("mine")
    elif kind == "link":
        own.symlink_to(code.parent)
    else:
        own.mkdir()
        (own / "notes.txt").write_text("mine")
    if kind == "tracked":
        git(code, "add", "-f", ".kgd/notes.txt")
        shutil.rmtree(own)
    before = fingerprint(code / ".git")
    with pytest.raises(InvariantViolation) as caught:
        creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert caught.value.next
    assert fingerprint(code / ".git") == before
    assert not (code / ".git/kgd").exists()


def test_a_bare_repository_with_worktrees_keeps_it_inside(code: Path) -> None:
    bare = code.parent / "project.git"
    git(code.parent, "clone", "-q", "--bare", str(code), str(bare))
    git(bare, "worktree", "add", "-q", str(code.parent / "wt"))
    made = creation.create_in_code_repository(code.parent / "wt", "demo", FIRST_FILES)
    assert (made.git_dir, made.work_tree, made.code_tree) == (bare / "kgd", bare / ".kgd", None)
    assert made.in_code
    for directory in (bare, code.parent / "wt", bare / ".kgd"):
        assert layout.locate(directory) == made
    assert git(code.parent / "wt", "status", "--porcelain") == ""
    assert git(bare / ".kgd", "status", "--porcelain") == ""


def test_a_submodule_has_its_own(code: Path, workspace: Layout) -> None:
    library = code.parent / "library"
    git(code.parent, "clone", "-q", str(code), str(library))
    git(code, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(code, "commit", "-qm", "submodule")
    assert layout.locate(code / "lib") is None
    made = creation.create_in_code_repository(code / "lib", "lib", FIRST_FILES)
    assert made.git_dir == code / ".git/modules/lib/kgd"
    assert made.work_tree == code / "lib/.kgd"
    assert made.code_tree == code / "lib"
    assert layout.locate(code / "lib/.kgd") == made
    assert layout.locate(code) == workspace
    for tree in (code, code / "lib", code / "lib/.kgd"):
        assert git(tree, "status", "--porcelain") == ""


def test_without_a_repository_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="git init"):
        creation.create_in_code_repository(tmp_path, "demo", FIRST_FILES)
    assert layout.locate(tmp_path) is None


@pytest.mark.requirement("B2")
def test_on_its_own_it_is_an_ordinary_repository(tmp_path: Path) -> None:
    made = creation.create_standalone(tmp_path / "w", "demo", FIRST_FILES)
    assert made.code_tree is None
    assert not made.in_code
    assert made.branch == "refs/heads/main"
    assert git(made.work_tree, "status", "--porcelain", "--branch") == "## main\n"
    assert layout.locate(made.work_tree) == made
    assert creation.create_standalone(made.work_tree, "demo", FIRST_FILES) == made
    assert sorted(path.name for path in made.work_tree.iterdir()) == [".git", ".gitattributes", "kgd.yaml"]


def test_a_clone_of_a_standalone_workspace_becomes_a_workspace(tmp_path: Path) -> None:
    first = creation.create_standalone(tmp_path / "w", "demo", FIRST_FILES)
    git(tmp_path, "clone", "-q", "w", "clone")
    assert layout.locate(tmp_path / "clone") is None
    made = creation.create_standalone(tmp_path / "clone", "demo", FIRST_FILES)
    assert layout.locate(tmp_path / "clone") == made
    assert refs.read_ref(made.git_dir, refs.HEAD) == refs.read_ref(first.git_dir, refs.HEAD)
    assert git(made.work_tree, "config", "gc.auto") == "0\n"


def test_a_directory_with_files_does_not_become_a_workspace(code: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    for directory in (tmp_path / "full", code):
        with pytest.raises(InvariantViolation) as refused:
            creation.create_standalone(directory, "demo", FIRST_FILES)
        if directory != code:
            assert refused.value.next == "Run `git init` first, or run this in an empty directory."


def test_uninstalling_keeps_the_knowledge_and_says_where(code: Path, pen: Pen) -> None:
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    kept = creation.remove(pen.layout)
    assert git(kept, "log", "-1", "--format=%H", "refs/kgd/head") == tip.hex() + "\n"
    assert not (code / ".kgd").exists()
    assert layout.locate(code) is None
    assert "/.kgd/" not in (code / ".git/info/exclude").read_text()
    again = creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert refs.read_ref(again.git_dir, refs.HEAD) == tip
    assert git(code / ".kgd", "status", "--porcelain") == ""


def test_uninstalling_leaves_uncommitted_files(code: Path, workspace: Layout) -> None:
    (code / ".kgd/kgd.yaml").write_text("edited by hand")
    (code / ".kgd/nodes").mkdir()
    (code / ".kgd/nodes/draft.yaml").write_text("new")
    creation.remove(workspace)
    assert (code / ".kgd/kgd.yaml").read_text() == "edited by hand"
    assert (code / ".kgd/nodes/draft.yaml").exists()
    assert not (code / ".kgd/.gitattributes").exists()
    assert git(code, "status", "--porcelain") == "", "still excluded, since it is still there"


def test_files_that_a_power_cut_took_before_there_was_an_index_are_written_again(workspace: Layout) -> None:
    pen = Pen(workspace)
    pen.write({"nodes/a.yaml": b"a\n", "nodes/b.yaml": b"b\n", "nodes/c.yaml": b"c\n"})
    git_dir, branch = workspace.git_dir, workspace.branch
    refs.move_ref(git_dir, workspace.derived_dir, branch, refs.read_ref(git_dir, branch), pen.head)
    (git_dir / "index").unlink()
    nodes = workspace.work_tree / "nodes"
    nodes.mkdir()
    for name, left in (("a", b""), ("b", b"\0\0"), ("c", b"a person's\n")):
        (nodes / f"{name}.yaml").write_bytes(left)
    assert creation.fill_work_tree(workspace) == []
    assert [(nodes / f"{name}.yaml").read_bytes() for name in "abc"] == [b"a\n", b"b\n", b"a person's\n"]


def test_files_are_written_past_no_link_and_in_one_mode_only(workspace: Layout, tmp_path: Path) -> None:
    pen = Pen(workspace)
    pen.write({"nodes/a.yaml": b"a\n", "nodes/sub/b.yaml": b"b\n"})
    git_dir, branch = workspace.git_dir, workspace.branch
    refs.move_ref(git_dir, workspace.derived_dir, branch, refs.read_ref(git_dir, branch), pen.head)
    (workspace.git_dir / "index").unlink()
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace.work_tree / "nodes").symlink_to(outside)
    assert creation.fill_work_tree(workspace) == ["nodes/a.yaml", "nodes/sub/b.yaml"]
    assert list(outside.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from kgd.git import creation, layout
creation.build_repository(
    layout.Layout(Path(sys.argv[1]), Path(sys.argv[1]).parent, None, layout.OWN_BRANCH), lambda half: os._exit(9)
)
"""


def killed_while_it_was_made(git_dir: Path) -> None:
    """A process that dies in the first `kgd up`, before the repository is in place."""
    git_dir.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-c", KILLED, str(git_dir)], check=False)
    assert done.returncode == 9
    assert len(list(git_dir.parent.glob(f"{git_dir.name}.new-*"))) == 1


def test_a_kill_in_the_first_up_does_not_stop_the_next_one(tmp_path: Path) -> None:
    place = tmp_path / "knowledge"
    killed_while_it_was_made(place / ".git")
    made = creation.create_standalone(place, "demo", FIRST_FILES)
    assert fsck(made.git_dir) == []
    assert sorted(file.name for file in place.iterdir()) == [".git", ".gitattributes", "kgd.yaml"]


def test_a_kill_in_the_first_up_leaves_nothing_in_a_code_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    killed_while_it_was_made(tmp_path / ".git/kgd")
    creation.create_in_code_repository(tmp_path, "demo", FIRST_FILES)
    assert not list((tmp_path / ".git").glob("kgd.new-*"))


def test_files_of_a_person_beside_the_leftover_are_still_refused(tmp_path: Path) -> None:
    place = tmp_path / "knowledge"
    killed_while_it_was_made(place / ".git")
    (place / "letter.txt").write_text("mine")
    with pytest.raises(InvariantViolation, match="directory has files"):
        creation.create_standalone(place, "demo", FIRST_FILES)


def test_what_a_daemon_left_of_a_deleted_repository_is_no_obstacle(code: Path, workspace: Layout) -> None:
    shutil.rmtree(workspace.git_dir)
    for name in ("kgd/lock", "refs/kgd/head", "logs/refs/kgd/head"):
        (workspace.git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.git_dir / name).write_text("")
    creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert fsck(workspace.git_dir) == []


def test_a_folder_with_other_content_stays_unchanged(code: Path) -> None:
    for name in ("kgd/lock", "objects/aa/b"):
        (code / ".git/kgd" / name).parent.mkdir(parents=True, exist_ok=True)
        (code / ".git/kgd" / name).write_text("mine")
    with pytest.raises(InvariantViolation, match="a kgd folder that kgd did not create"):
        creation.create_in_code_repository(code, "demo", FIRST_FILES)
    assert (code / ".git/kgd/objects/aa/b").read_text() == "mine"
