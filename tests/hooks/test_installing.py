"""`kgd install` changes little in one clone and keeps existing hooks; `kgd uninstall` restores the clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgd.hooks import install
from tests.hooks.conftest import ROOT, Person, clone

FOREIGN = "#!/bin/sh\necho foreign hook ran $1 >&2\n[ ! -e stop ]\n"


def snapshot(git_dir: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of everything but the objects."""
    files = (path for path in git_dir.rglob("*") if path.is_file() and "objects" not in path.parts)
    return {str(path.relative_to(git_dir)): (path.read_bytes(), path.stat().st_mode) for path in files}


@pytest.mark.slow
@pytest.mark.requirement("B10")
def test_a_plain_clone_is_set_up_and_left_as_it_was(bob: Person) -> None:
    before = snapshot(bob.git_dir)
    said = bob.kgd("install")
    assert "merges node by node" in said
    for name in install.CLIENT:
        assert f"kgd hook {name}" in (bob.git_dir / "hooks" / name).read_text()
    assert bob.git("config", "pull.twohead").strip() == "kgd"
    assert "merge-driver" in bob.git("config", "merge.kgd.driver")
    assert "are removed from" in bob.kgd("uninstall")
    assert snapshot(bob.git_dir) == before


@pytest.mark.slow
def test_again_changes_nothing_and_a_dry_run_writes_nothing(bob: Person) -> None:
    before = snapshot(bob.git_dir)
    assert "would merge" in bob.kgd("install", "--dry-run")
    assert snapshot(bob.git_dir) == before
    bob.kgd("install")
    installed = snapshot(bob.git_dir)
    assert "nothing changed" in bob.kgd("install")
    assert snapshot(bob.git_dir) == installed
    assert "hooks would be removed from" in bob.kgd("uninstall", "--dry-run")
    assert snapshot(bob.git_dir) == installed


@pytest.mark.slow
def test_a_foreign_hook_is_kept_and_run_and_restored(bob: Person) -> None:
    hook = bob.git_dir / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(FOREIGN)
    hook.chmod(0o755)
    asleep = bob.git_dir / "hooks" / "post-merge"
    asleep.write_text("git runs no hook without an executable bit, so neither do we\n")
    before = snapshot(bob.git_dir)
    assert "pre-commit, post-merge: the existing hook runs first" in bob.kgd("install")
    bob.write("x", name="changed")
    bob.git("add", "-A")
    assert "foreign hook ran" in bob.run("git", "commit", "-m", "one").stderr
    (bob.tree / "stop").touch()
    bob.write("x", name="changed again")
    assert bob.run("git", "commit", "-am", "two").returncode != 0
    bob.kgd("uninstall")
    after = snapshot(bob.git_dir)
    assert {name: after[name] for name in before if name.startswith(("hooks/", "config"))} == {
        name: before[name] for name in before if name.startswith(("hooks/", "config"))
    }


@pytest.mark.slow
def test_settings_changed_in_between_stay(bob: Person) -> None:
    config = bob.git_dir / "config"
    config.write_bytes(config.read_bytes().rstrip(b"\n"))
    bob.kgd("install")
    bob.git("config", "user.name", "Bob")
    bob.git("config", "--add", "include.path", "other")
    bob.kgd("uninstall")
    assert bob.git("config", "user.name").strip() == "Bob"
    assert bob.git("config", "include.path").strip() == "other"
    assert "kgd" not in config.read_text()


@pytest.mark.slow
def test_a_hooks_folder_that_is_shared_with_others_is_not_written_to(bob: Person, tmp_path: Path) -> None:
    shared = tmp_path / "shared-hooks"
    shared.mkdir()
    bob.git("config", "--global", "core.hooksPath", str(shared))
    said = bob.kgd("install")
    assert f"core.hooksPath is set to {shared} and is not changed" in said
    assert list(shared.iterdir()) == []
    assert bob.git("config", "pull.twohead").strip() == "kgd"


@pytest.mark.slow
def test_a_persons_own_way_of_pulling_is_left_alone(bob: Person) -> None:
    bob.git("config", "--global", "pull.rebase", "true")
    bob.kgd("install")
    assert bob.git("config", "pull.rebase").strip() == "true"


@pytest.mark.slow
def test_a_repository_without_a_workspace_is_refused(tmp_path: Path, programs: Path) -> None:
    code = Person(tmp_path / "code")
    code.tree.mkdir()
    assert "no git repository" in code.run("kgd", "install").stderr
    code.git("init", "-q")
    (code.tree / "main.py").write_text("print(1)\n")
    code.commit()
    before = snapshot(code.git_dir)
    done = code.run("kgd", "install")
    assert done.returncode == 5
    assert "not a workspace" in done.stderr
    assert snapshot(code.git_dir) == before


@pytest.mark.slow
def test_in_a_code_repository_it_is_the_workspaces_own_that_is_set_up(tmp_path: Path, programs: Path) -> None:
    from tests.workspace.people import code_layout

    layout = code_layout(tmp_path / "shop")
    code = Person(tmp_path / "shop")
    before = snapshot(code.git_dir)
    code.kgd("install")
    after = snapshot(code.git_dir)
    assert {name for name in after if after[name] != before.get(name) and not name.startswith("kgd/")} == set()
    assert (layout.git_dir / "hooks" / "pre-commit").exists()
    inside = Person(layout.work_tree)
    inside.write("x", name="by hand")
    inside.git("add", "-A")
    inside.git("commit", "-qm", "by hand")


def test_the_hooks_of_the_repository_equal_the_installed_hooks() -> None:
    for name in (*install.CLIENT, *install.SERVER):
        file = ROOT / "hooks" / name
        assert file.read_text() == install.script(name), f"python -m kgd.hooks.install hooks ({name})"
        assert file.stat().st_mode & 0o111
        assert subprocess.run(["sh", "-n", file], check=False).returncode == 0


# Where kgd is missing


def gone(person: Person) -> None:
    """As after kgd was uninstalled from the Python that the hooks name."""
    for file in [*(person.git_dir / "hooks").iterdir(), *(person.git_dir / "kgd-install").glob("config")]:
        file.write_text(file.read_text().replace("-m kgd.cli", "-m kgd_is_gone"))


@pytest.mark.slow
def test_without_kgd_a_commit_is_let_pass_and_says_so(ann: Person) -> None:
    gone(ann)
    ann.write("x", name="changed")
    done = ann.run("git", "commit", "-am", "without")
    assert done.returncode == 0
    assert "kgd is missing or broken here, so nothing was checked" in done.stderr


@pytest.mark.slow
def test_without_kgd_a_server_takes_nothing(upstream: Path, bob: Person) -> None:
    Person(upstream).kgd("install")
    hook = upstream / "hooks" / "pre-receive"
    hook.write_text(hook.read_text().replace("-m kgd.cli", "-m kgd_is_gone"))
    bob.write("x", name="changed")
    bob.commit()
    done = bob.run("git", "push")
    assert done.returncode != 0
    assert "kgd is missing or broken on this server" in done.stderr


@pytest.mark.slow
def test_without_the_driver_a_rebase_keeps_one_side_and_says_that_there_is_a_conflict(
    ann: Person, bob: Person, programs: Path
) -> None:
    bob.write("x", name="theirs", summary="one", content="first")
    bob.commit()
    bob.git("push", "-q")
    gone(ann)
    ann.write("x", name="x", summary="mine", content="first")
    ann.commit()
    ann.git("fetch", "-q")
    done = ann.run("git", "rebase", "-s", "ort", "origin/main")
    assert done.returncode != 0
    assert "kgd_is_gone" in done.stderr
    assert "<<<" not in ann.file("x").read_text()


@pytest.mark.slow
def test_the_path_needs_only_a_bare_python_with_kgd_and_git(upstream: Path, tmp_path: Path, programs: Path) -> None:
    (programs / "git-merge-kgd").unlink()
    person = clone(upstream, tmp_path / "person")
    assert "git-merge-kgd is not on your PATH" in person.kgd("install")
    (programs / "kgd").unlink()
    assert person.run("git", "config", "pull.twohead").returncode == 1
    person.file("x").write_text("uri: concept://ws/x\nname: one\nname: two\n")
    assert "nodes/concept/x.yaml:3" in person.run("git", "commit", "-am", "broken").stderr
