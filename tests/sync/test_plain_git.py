"""One workspace between daemons and plain git: on its own and on the code's remote, with `kgd install` and without."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.git.store import ObjectStore
from kgd.workspace.merging.histories import merged_tree
from tests.hooks.conftest import programs
from tests.sync.people import Person, bare, git
from tests.waiting import until

pytestmark = pytest.mark.slow

__all__ = ["programs"]
People = Callable[..., Person]


def code_on(server: Path, at: Path) -> Path:
    """The code that a team has on its server, with three commits, cloned."""
    git(server, "config", "uploadpack.allowFilter", "true")
    subprocess.run(["git", "clone", "-q", str(server), str(at)], check=True, capture_output=True)
    for number in range(3):
        (at / "main.py").write_text(f"print({number})\n")
        git(at, "add", "-A")
        git(at, "commit", "-qm", f"{number}")
    git(at, "push", "-q", "origin", "HEAD")
    return at


@pytest.fixture(params=["on its own", "on the code's remote"])
def shared(request: pytest.FixtureRequest, person: People, hub: Path, tmp_path: Path) -> tuple[Person, str]:
    """Ann, with a shared node, and its branch."""
    if request.param == "on its own":
        ann, branch = person("ann"), "main"
        ann.share(hub)
    else:
        ann, branch = person("ann", standalone=False, tree=code_on(hub, tmp_path / "ann/src")), "kgd"
        ann.call("share")
    ann.put("auth", name="Auth", summary="one", content="Tokens are signed.")
    ann.put("cron", summary="at night")
    until(lambda: git(hub, "rev-parse", branch) == ann.tip)
    return ann, branch


def cloned(hub: Path, branch: str, at: Path) -> Path:
    git(hub, "clone", "-q", "--branch", branch, "--single-branch", str(hub), str(at))
    return at


def edit(tree: Path, name: str, old: str, new: str) -> None:
    file = tree / f"nodes/concept/{name}.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.requirement("B8")
def test_with_install_git_merges_what_the_daemon_would_and_the_daemon_takes_it(
    shared: tuple[Person, str], hub: Path, tmp_path: Path, programs: Path
) -> None:
    ann, branch = shared
    cleo = cloned(hub, branch, tmp_path / "cleo")
    subprocess.run(["kgd", "install"], cwd=cleo, check=True, capture_output=True)
    edit(cleo, "auth", "one", "by Cleo")
    git(cleo, "rm", "-q", "nodes/concept/cron.yaml")
    git(cleo, "commit", "-qam", "Cleo's")
    ann.put("auth", name="Auth service")
    ann.put("cron", summary="on Sundays")
    until(lambda: git(hub, "rev-parse", branch) == ann.tip)
    git(cleo, "pull", "-q", "--no-edit")
    ours, theirs = (bytes.fromhex(git(cleo, "rev-parse", f"HEAD^{n}")) for n in (1, 2))
    assert (
        git(cleo, "rev-parse", "HEAD^{tree}")
        == merged_tree(ObjectStore(cleo / ".git"), (ours, theirs), frozenset()).id.hex()
    )
    git(cleo, "push", "-q")
    until(lambda: ann.tip == git(cleo, "rev-parse", "HEAD"))
    found = ann.node("auth")
    assert found is not None
    assert (found["name"], found["summary"]) == ("Auth service", "by Cleo")
    assert ann.summary("cron") == "on Sundays"
    assert ann.workspace.conflict_count == 1


@pytest.mark.requirement("B8")
def test_without_install_git_stops_at_line_conflicts_and_the_users_resolution_is_accepted(
    shared: tuple[Person, str], hub: Path, tmp_path: Path
) -> None:
    ann, branch = shared
    dan = cloned(hub, branch, tmp_path / "dan")
    edit(dan, "auth", "one", "by Dan")
    git(dan, "commit", "-qam", "Dan's")
    ann.put("auth", name="Auth service")
    until(lambda: git(hub, "rev-parse", branch) == ann.tip)
    refused = subprocess.run(["git", "-C", str(dan), "push", "-q"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "rejected" in refused.stderr
    pulled = subprocess.run(["git", "-C", str(dan), "pull", "-q", "--no-rebase"], capture_output=True, check=False)
    assert pulled.returncode != 0, "neighbouring lines"
    text = (dan / "nodes/concept/auth.yaml").read_text()
    assert "<<<<<<<" in text
    git(dan, "checkout", "-q", "--theirs", "nodes/concept/auth.yaml")
    edit(dan, "auth", "one", "by Dan")
    git(dan, "commit", "-qam", "merged by hand")
    git(dan, "push", "-q")
    until(lambda: ann.tip == git(dan, "rev-parse", "HEAD"))
    found = ann.node("auth")
    assert found is not None
    assert (found["name"], found["summary"]) == ("Auth service", "by Dan")


@pytest.mark.requirement("B8")
def test_on_a_protected_branch_plain_git_proposes_and_a_reviewer_accepts(
    shared: tuple[Person, str], hub: Path, tmp_path: Path
) -> None:
    ann, branch = shared
    hook = hub / "hooks/update"
    hook.write_text(
        f'#!/bin/sh\n[ "$1" != refs/heads/{branch} ] || [ -e {tmp_path}/may ] || {{ echo "protected" >&2; exit 1; }}\n'
    )
    hook.chmod(0o755)
    dan = cloned(hub, branch, tmp_path / "dan")
    edit(dan, "auth", "one", "by Dan")
    git(dan, "commit", "-qam", "Dan's")
    refused = subprocess.run(["git", "-C", str(dan), "push"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "remote: protected" in refused.stderr
    git(dan, "push", "-q", "origin", "HEAD:proposals/dan" if branch == "main" else "HEAD:kgd-proposals/dan")
    told = ann.sync()
    assert told["state"] == "ok"
    (waiting,) = ann.call("proposals")["proposals"]
    assert waiting["nodes"] == [f"concept://{ann.id}/auth"]
    ann.call("accept", name=waiting["id"])
    assert ann.sync()["waits"][0]["kind"] == "refused", "Ann is held by the server, too"
    assert ann.summary("auth") == "by Dan"
    (tmp_path / "may").touch()
    assert ann.sync()["state"] == "ok"
    assert git(hub, "rev-parse", branch) == ann.tip


@pytest.mark.requirement("B8")
def test_the_depth_of_the_codes_clone_does_not_matter_for_the_workspace_beside_it(
    person: People, tmp_path: Path
) -> None:
    hub = bare(tmp_path / "shop.git")
    ann = person("ann", id="shop", standalone=False, tree=code_on(hub, tmp_path / "ann/src"))
    ann.put("auth", summary="by Ann")
    ann.put("auth", summary="by Ann, again")
    ann.call("share")
    ways = {
        "shallow": ["--depth=1"],
        "one-branch": ["--depth=1", "--single-branch", "--branch=main"],
        "blobless": ["--filter=blob:none"],
        "treeless": ["--filter=tree:0", "--sparse"],
    }
    for name, way in ways.items():
        tree = tmp_path / name / "src"
        git(tmp_path, "clone", "-q", *way, f"file://{hub}", str(tree))
        before = git(tree, "count-objects", "-v"), git(tree, "rev-parse", "--is-shallow-repository")
        bob = person(name, id="shop", standalone=False, tree=tree)
        assert len(bob.call("history", uri="concept://shop/auth")["commits"]) == 2
        bob.call("share")
        bob.put(name, summary=name)
        bob.sync()
        assert git(hub, "rev-parse", "kgd") == bob.tip
        assert (git(tree, "count-objects", "-v"), git(tree, "rev-parse", "--is-shallow-repository")) == before
        assert git(tree, "status", "--porcelain") == ""
        git(bob.work_tree, "fsck", "--connectivity-only")
        bob.close()
    until(lambda: all(ann.has(name) for name in ways))
