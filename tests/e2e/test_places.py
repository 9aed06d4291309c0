"""Repositories that are copied, moved, cleaned or cloned, and deleted derived data."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kgd.cli.commands import EXIT_CODES
from kgd.config import Home
from tests.e2e.conftest import Machine, git, make_repository
from tests.waiting import at_rest, until

pytestmark = pytest.mark.slow

BOTH = [True, pytest.param(False, marks=pytest.mark.slow)]
REFUSED = EXIT_CODES["INVARIANT_VIOLATION"][0]


def fill(machine: Machine) -> None:
    """A short history of changed, related, moved and deleted nodes."""
    with machine.client() as client:
        for number in range(20):
            relation = {"type": "about", "target": "./src/auth/session.py", "weight": 0.5}
            change = {
                "op": "upsert",
                "uri": f"fact/{number}",
                "summary": f"zebra number {number}",
                "tags": [f"t{number % 3}"],
                "content": "long " * number,
                "relations": [relation],
            }
            client.call("put", changes=[change], message=f"the {number}th")
        for number in range(0, 20, 2):
            client.call("put", changes=[{"op": "append", "uri": f"fact/{number}", "text": "more"}])
        relate = {"op": "relate", "source": "fact/1", "target": "fact/2", "type": "next", "weight": 0.25}
        client.call("put", changes=[relate, {"op": "move", "uri": "fact/3", "to": "moved/3"}])
        client.call("put", changes=[{"op": "delete", "uri": "fact/4"}])


def answers(machine: Machine) -> dict[str, Any]:
    """The answers about all nodes of `fill`, including versions and history."""
    uris = [f"fact/{number}" for number in range(20)] + ["moved/3", "src/auth"]
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "get": ("get", {"uris": uris, "include": ["content", "relations", "incoming", "history"], "budget": 9000}),
        "walk": ("traverse", {"start": ["fact/1"], "max_cost": None, "direction": "both", "budget": 9000}),
        "search": ("search", {"query": "zebra", "limit": 50, "budget": 9000}),
        "tags": ("search", {"tags": ["t1"], "limit": 50, "budget": 9000}),
        "history": ("history", {"diff": True, "limit": 100}),
    }
    with machine.client() as client:
        client.call("search", query="zebra")  # mentions are stored from then on
        until(lambda: at_rest(client.call("status")))
        found = {name: client.call(tool, **arguments) for name, (tool, arguments) in asked.items()}
    for answer in found.values():
        for name in ("context_id", "hint"):
            answer.pop(name, None)
    return found


def derived_of(machine: Machine) -> list[Path]:
    """All derived data, beside the workspace's objects and refs and in the home."""
    git_dir = machine.directory / ".git/kgd"
    return [git_dir / "kgd", git_dir / "index", Path(machine.home.state), Path(machine.home.logs)]


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("end", ["down", pytest.param("kill -9", marks=pytest.mark.slow)])
def test_everything_derived_can_be_deleted_and_the_answers_stay_the_same(machine: Machine, end: str) -> None:
    machine("up")
    fill(machine)
    before = answers(machine)
    assert before["search"]["hits"]
    if end == "down":
        machine("down")
    else:
        pid = machine.pid()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists())
    for place in derived_of(machine):
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
    assert answers(machine) == before
    assert machine.json("fsck")["ok"]
    until(lambda: git(machine.directory / ".kgd", "status", "--porcelain") == "")


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("running", BOTH)
def test_git_clean_deletes_no_knowledge(machine: Machine, running: bool) -> None:
    machine("up")
    machine("put", "fact", "--summary", "it is here")
    files = machine.directory / ".kgd"
    until((files / "nodes/concept/fact.yaml").exists)
    if not running:
        machine("down")
    git(machine.directory, "clean", "-ffdxq", check=not running)  # a daemon may restore files meanwhile
    if not running:
        assert not (files / "nodes/concept/fact.yaml").exists()
    assert "it is here" in machine("get", "fact")
    machine("put", "second", "--summary", "after it")
    until((files / "nodes/concept/second.yaml").exists)
    until(lambda: git(files, "status", "--porcelain", "nodes", "kgd.yaml") == "")
    assert (files / "nodes/concept/fact.yaml").exists()
    assert "delete" not in machine("log")


def copy_of(machine: Machine, to: Path) -> Machine:
    """`cp -a`, which keeps times and links."""
    subprocess.run(["cp", "-a", machine.directory, to], check=True)
    return machine.at(to)


@pytest.mark.parametrize("running", BOTH)
def test_a_copy_with_the_same_id_is_refused_with_its_options_and_shares_nothing(
    machine: Machine, tmp_path: Path, running: bool
) -> None:
    machine("up")
    machine("put", "fact", "--summary", "of the first")
    if not running:
        machine("down")
    copy = copy_of(machine, tmp_path / "copy")
    refused = copy.run("put", "fact", "--summary", "of the copy")
    assert refused.returncode == REFUSED
    assert "--replace" in refused.stderr
    assert "of the first" in machine("get", "fact")
    copy("up", "--replace")
    copy("put", "fact", "--summary", "of the copy")
    assert "of the copy" in copy("get", "fact")
    assert "of the first" in git(machine.directory / ".git/kgd", "show", "refs/kgd/head:nodes/concept/fact.yaml")


@pytest.mark.slow
def test_a_second_repository_of_a_known_name_is_offered_an_id_of_its_own(machine: Machine, tmp_path: Path) -> None:
    machine("up")
    other = machine.at(make_repository(tmp_path / "elsewhere/shop"))
    refused = other.run("up")
    assert refused.returncode == REFUSED
    assert "--id" in refused.stderr
    assert "--replace" in refused.stderr
    assert not (other.directory / ".kgd").exists()
    other("up", "--id", "shop-two")
    other("put", "fact", "--summary", "of the other")
    assert "of the other" not in machine.run("get", "fact").stdout
    assert sorted(machine.json("config")["workspaces"]) == ["shop", "shop-two"]


@pytest.mark.parametrize("running", BOTH)
def test_a_moved_repository_registers_itself_and_loses_nothing(machine: Machine, tmp_path: Path, running: bool) -> None:
    machine("up")
    machine("put", "fact", "--summary", "before the move")
    if not running:
        machine("down")
    moved = machine.at(machine.directory.rename(tmp_path / "moved"))
    assert "before the move" in moved("get", "fact")
    moved("put", "second", "--summary", "after the move")
    assert moved.json("config")["workspaces"] == {"shop": str(moved.directory)}
    until((moved.directory / ".kgd/nodes/concept/second.yaml").exists)
    until(lambda: git(moved.directory / ".kgd", "status", "--porcelain") == "")
    (moved.directory / "new.txt").write_text("found where it is now\n")
    until(lambda: "new.txt" in moved.run("get", "./new.txt").stdout)
    assert not machine.directory.exists(), "nothing is made anew where it was"


@pytest.mark.slow
def test_every_worktree_has_the_same_workspace_and_its_own_files(machine: Machine, tmp_path: Path) -> None:
    machine("up")
    git(machine.directory, "worktree", "add", "-q", tmp_path / "second")
    second = machine.at(tmp_path / "second")
    second("put", "fact", "--summary", "written in the second")
    assert "written in the second" in machine("get", "fact")
    assert not (second.directory / ".kgd").exists()
    git(machine.directory, "worktree", "remove", "--force", second.directory)
    assert "written in the second" in machine("get", "fact")
    assert list(machine.json("config")["workspaces"]) == ["shop"]


@pytest.mark.slow
@pytest.mark.requirement("E14")
def test_a_clone_adopts_the_workspace_of_its_remote(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("up")
    fill(machine)
    before = answers(machine)
    bare = tmp_path / "shop.git"
    git(tmp_path, "clone", "-q", "--bare", machine.directory, bare)
    until(lambda: git(machine.directory / ".kgd", "rev-parse", "kgd") == _tip(machine))
    git(machine.directory / ".kgd", "push", "-q", bare, "kgd")
    for folder in ("second", "colleague/shop"):
        git(tmp_path, "clone", "-q", bare, folder)

    refused = machine.at(tmp_path / "second").run("up")
    assert refused.returncode == REFUSED, "on the same machine the id is taken"
    assert "--replace" in refused.stderr
    assert answers(machine) == before

    monkeypatch.setenv("KGD_HOME", str(tmp_path / "their-home"))
    theirs = Machine(tmp_path / "colleague/shop", Home.at(str(tmp_path / "their-home")))
    try:
        said = theirs.json("up")
        assert "adopted" in said
        assert said["workspace"] == "shop"
        found = answers(theirs)
        assert {name: found[name] for name in found if found[name] != before[name]} == {}
        theirs("put", "fact/0", "--summary", "theirs alone")
        monkeypatch.setenv("KGD_HOME", machine.home.config)
        assert answers(machine) == before
        assert git(theirs.directory, "branch", "--format=%(refname)").split() == ["refs/heads/main"]
    finally:
        monkeypatch.setenv("KGD_HOME", theirs.home.config)
        theirs("down")
        monkeypatch.setenv("KGD_HOME", machine.home.config)


def _tip(machine: Machine) -> str:
    return git(machine.directory / ".kgd", "rev-parse", "refs/kgd/head")


@pytest.mark.slow
def test_outside_a_repository_the_workspace_is_a_separate_repository(machine: Machine, tmp_path: Path) -> None:
    notes = machine.at(tmp_path / "notes")
    notes.directory.mkdir()
    said = notes.json("up")
    assert (said["workspace"], said["path"], said["branch"]) == ("notes", str(notes.directory), "refs/heads/main")
    notes("remember", "the train leaves at nine")
    assert "train" in notes("recall", "train")
    until(lambda: list(notes.directory.glob("nodes/insight/*.yaml")))
    until(lambda: git(notes.directory, "status", "--porcelain") == "")


@pytest.mark.slow
def test_standalone_leaves_the_repository_around_it_alone(machine: Machine) -> None:
    inside = machine.at(machine.directory / "knowledge")
    inside.directory.mkdir()
    exclude = (machine.directory / ".git/info/exclude").read_bytes()
    inside("up", "--standalone")
    assert (inside.directory / ".git/HEAD").exists()
    assert not (machine.directory / ".git/kgd").exists()
    assert (machine.directory / ".git/info/exclude").read_bytes() == exclude
    inside("put", "fact", "--summary", "apart")
    assert "apart" in inside("get", "fact")
    assert json.loads(inside("config", "--json"))["workspaces"] == {"knowledge": str(inside.directory)}
