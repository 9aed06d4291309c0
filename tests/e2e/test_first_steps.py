"""The first day with kgd (up twice, remember, recall, uninstall), and its effect on the code repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import KGD, PIP_CACHE, Machine, git, processes_of
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]


def fingerprint(code: Path) -> dict[str, Any]:
    """The foreign content of a code repository as bytes: files, refs, stash, index, hooks and configuration.

    Without Python's compiled files, which appear at the first import.
    """
    status = git(code, "status", "--porcelain", "--ignored")  # first, since it may write file times to the index
    git_dir, parts = code / ".git", {}
    for path in sorted(git_dir.rglob("*")):
        name = path.relative_to(git_dir).as_posix()
        if path.is_file() and name.partition("/")[0] not in ("kgd", "objects") and name != "info/exclude":
            parts[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    tree = {
        path.relative_to(code).as_posix(): path.read_bytes()
        for path in sorted(code.rglob("*"))
        if path.is_file() and not {".git", ".kgd", "__pycache__"} & {*path.relative_to(code).parts}
    }
    return {
        "git": parts,
        "objects": git(code, "count-objects", "-v"),
        "tree": tree,
        "refs": git(code, "show-ref"),
        "status": [line for line in status.splitlines() if ".kgd/" not in line and "__pycache__" not in line],
    }


def lived_in(code: Path) -> Path:
    """Give a repository a hook, a stash, a second branch, and staged and unstaged changes."""
    hook = code / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    git(code, "branch", "topic")
    (code / "a.txt").write_text("stashed\n")
    git(code, "stash", "-q")
    (code / "staged.txt").write_text("staged\n")
    git(code, "add", "staged.txt")
    (code / "a.txt").write_text("changed\n")
    (code / "untracked.txt").write_text("untracked\n")
    return code


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_up_changes_no_user_files_and_a_second_up_changes_nothing(machine: Machine) -> None:
    code = lived_in(machine.directory)
    before = fingerprint(code)
    first = machine.json("up")
    machine("remember", "tokens are signed with HS256", "--about", "src/auth")
    assert "HS256" in machine("recall", "signed")
    assert fingerprint(code) == before
    assert first["created"]
    ours = state_of(machine)
    again = machine.json("up")
    assert (again["created"], again["workspace"], again["git_dir"]) == (False, first["workspace"], first["git_dir"])
    assert state_of(machine) == ours


def state_of(machine: Machine) -> dict[str, object]:
    """The output of `kgd up`: place, setup and content of a workspace."""
    git_dir = machine.directory / ".git/kgd"
    names = [git_dir / "config", git_dir / "HEAD", machine.directory / ".git/info/exclude", Path(machine.home.registry)]
    files = [path for path in (machine.directory / ".kgd").rglob("*") if path.is_file()]
    return {"refs": git(git_dir, "show-ref"), "files": {str(path): path.read_bytes() for path in (*names, *files)}}


@pytest.mark.slow
def test_uninstall_leaves_only_the_knowledge_and_reports_its_place(machine: Machine) -> None:
    code = lived_in(machine.directory)
    before = fingerprint(code)
    exclude = (code / ".git/info/exclude").read_bytes()
    machine("up")
    machine("put", "fact", "--summary", "kept")
    until((code / ".kgd/nodes/concept/fact.yaml").exists)
    machine("token", "mint", machine.json("status")["workspace"]["id"], "--name", "bob")
    would = machine("uninstall", "--all", "--dry-run")
    assert f"The home would also be removed: {machine.home.state}, with the tokens minted here" in would
    assert machine("get", "fact")
    said = machine("uninstall", "--all")
    assert "The home is removed, with the tokens minted here" in said
    assert "`pip uninstall kgd-daemon`, or delete the virtual environment" in said
    kept = next(Path(word) for word in said.split() if word.startswith(str(code)))
    assert "kept" in git(kept, "show", "refs/kgd/head:nodes/concept/fact.yaml")
    assert not (code / ".kgd").exists()
    assert (code / ".git/info/exclude").read_bytes() == exclude
    assert processes_of(machine.home) == []
    assert not Path(machine.home.config).exists()
    assert not Path(machine.home.socket).exists()
    after = fingerprint(code)
    left = {name for name in after["git"] if name not in before["git"]}
    assert all((code / ".git" / name).is_relative_to(kept) for name in left)
    assert {**after, "git": before["git"]} == before
    machine("up")
    assert "kept" in machine("get", "fact"), "it is found again"


@pytest.mark.slow
def test_uninstall_of_a_standalone_workspace_leaves_the_repository(machine: Machine, tmp_path: Path) -> None:
    notes = machine.at(tmp_path / "notes")
    notes.directory.mkdir()
    notes("up")
    notes("put", "fact", "--summary", "kept")
    until((notes.directory / "nodes/concept/fact.yaml").exists)
    assert str(notes.directory) in notes("uninstall")
    assert notes.json("config")["workspaces"] == {}
    assert (notes.directory / "nodes/concept/fact.yaml").exists()
    assert git(notes.directory, "status", "--porcelain") == ""
    assert not (notes.directory / ".git/kgd").exists()


@pytest.mark.slow
@pytest.mark.requirement("B2")
def test_a_fact_goes_from_one_mcp_client_to_another_in_ten_commands(machine: Machine, tmp_path: Path) -> None:
    """The script from an empty machine, without the installation; `make up` has its own test."""
    script = ROOT / "scripts/first_five_minutes.py"
    program = tmp_path / "kgd"
    program.write_text(f'#!/bin/sh\nexec {" ".join(KGD)} "$@"\n')
    program.chmod(0o755)
    assert 5 < script.read_text().count("watch.run(") <= 10
    done = subprocess.run(
        [sys.executable, script, tmp_path / "five"],
        env={**os.environ, "KGD": str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "recalled by another after a restart, shown on the page" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.needs("registry")
@pytest.mark.timeout(300)
def test_make_up_twice_in_a_clean_clone(machine: Machine, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", ROOT, clone)
    environment = {**os.environ, "PIP_CACHE_DIR": PIP_CACHE, "PYTHON": sys.executable}
    environment.pop("PYTHONPATH")

    def make(target: str) -> str:
        done = subprocess.run(
            ["make", target], cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    said = make("up")
    here = machine.at(clone)
    try:
        for expected in ("A walk from the root", 'export PATH="', "mcpServers"):
            assert expected in said
        before, ours = fingerprint(clone), state_of(here)
        assert "up" in make("up")
        assert (fingerprint(clone), state_of(here)) == (before, ours)
        assert git(clone, "status", "--porcelain") == ""
    finally:
        make("down")
    assert processes_of(machine.home) == []
    shutil.rmtree(clone)
