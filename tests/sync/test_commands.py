"""Sharing by the command line: two homes, two daemons, and a bare directory between them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.config import Home
from tests.cli.conftest import Kgd
from tests.daemon.conftest import ROOT, end_daemon
from tests.sync.people import git
from tests.waiting import until

pytestmark = pytest.mark.slow


class Somebody(Kgd):
    """A person at a terminal of their own."""

    def run(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return super().run(*words, stdin=stdin, KGD_HOME=self.home.config, PYTHONPATH=str(ROOT), **environment)


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Callable[[str], Somebody]]:
    made: list[Somebody] = []

    def make(name: str) -> Somebody:
        tree = tmp_path / name / "knowledge"
        tree.mkdir(parents=True)
        made.append(Somebody(tree, Home.at(str(tmp_path / name / "home"))))
        made[-1]("up", "--standalone", "--id", "infra", "--quiet")
        return made[-1]

    yield make
    for one in made:
        end_daemon(one.home)


def test_two_daemons_agree_within_seconds(people: Callable[[str], Somebody], hub: Path) -> None:
    ann, bob = people("ann"), people("bob")
    assert ann("remote") == (
        "not shared: nothing leaves this machine\n"
        "`kgd share` publishes to the remote of this repository, `kgd remote add NAME URL` to another.\n"
    )
    ann("put", "fact", "--summary", "by Ann")
    assert ann("remote", "add", "origin", "../../hub.git") == f"origin  {hub}  refs/heads/main: ok\n  2 pushed\n"
    said = bob("remote", "add", "origin", str(hub))
    assert "1 pulled" in said
    assert "by Ann" in bob("get", "fact")
    bob("put", "fact", "--summary", "by Bob")
    until(lambda: "by Bob" in ann("get", "fact"))
    assert "nothing to do" in ann("sync")
    assert f"shared     origin ({hub} refs/heads/main)" in ann("up")
    status = ann.json("status")
    assert {one["name"]: one["state"] for one in status["stages"]}["push"] == "ok"
    assert status["workspace"]["tip"] == git(hub, "rev-parse", "main")
    ann("down")
    bob("put", "later", "--summary", "while Ann was away")
    assert "while Ann was away" in _soon(ann, "later")


def _soon(one: Somebody, node: str) -> str:
    until(lambda: one.run("get", node).returncode == 0)
    return one("get", node)


def test_waits_are_printed_with_the_next_step_and_set_the_exit_code(
    people: Callable[[str], Somebody], hub: Path
) -> None:
    ann = people("ann")
    for number in range(2):
        ann("put", f"n{number}", "--summary", "x")
    ann("remote", "add", "origin", str(hub), "--sync", "0")
    git(hub, "update-ref", "refs/heads/main", "main~1")
    done = ann.run("sync")
    assert done.returncode == 12
    assert "diverged" in done.stdout
    assert "kgd sync --confirm" in done.stdout
    assert "rewritten" in ann.run("status").stdout
    assert "rewritten" in ann.run("doctor").stdout
    assert "1 pushed" in ann("sync", "--confirm")
    assert ann.run("sync").returncode == 0
    refused = ann.run("remote", "add", "other", "https://ann:secret@example.org/x.git")
    assert refused.returncode == 2
    assert "secret" not in refused.stderr
    assert ann.run("remote", "remove", "nobody").returncode == 3
    ann("remote", "remove", "origin")
    assert "not shared" in ann("remote")


def test_two_workspaces_that_were_begun_under_two_names_become_one_as_the_page_says(tmp_path: Path, hub: Path) -> None:
    page = (ROOT / "docs/sync.md").read_text()
    recipe = page.split("## Merge two workspaces")[1].split("```sh\n")[1].split("```")[0]
    made = []
    for name in ("alpha", "beta"):
        tree = tmp_path / name / name
        tree.mkdir(parents=True)
        git(tree, "init", "-q")
        made.append(Somebody(tree, Home.at(str(tmp_path / name / "home"))))
        made[-1]("up", "--quiet")
        made[-1]("put", f"by-{name}/fact", "--summary", f"of {name}")
        made[-1]("put", f"by-{name}/other", "--summary", "x")
        made[-1]("link", f"by-{name}/other", f"by-{name}/fact", "--type", "needs")
    alpha, beta = made
    try:
        alpha("remote", "add", "origin", str(hub))
        refused = beta.run("remote", "add", "origin", str(hub))
        assert refused.returncode == 9
        assert "'alpha'" in refused.stderr
        assert "Merge two workspaces" in refused.stderr
        program = f'kgd() {{ {sys.executable} -P -m kgd.cli "$@"; }}\n'
        environment = {**os.environ, "KGD_HOME": beta.home.config, "PYTHONPATH": str(ROOT), "URL": str(hub)}
        subprocess.run(["sh", "-ec", program + recipe], cwd=beta.directory, env=environment, check=True)
        until(lambda: "of beta" in alpha.run("get", "by-beta/fact").stdout)
        assert "by-beta/fact" in alpha("traverse", "by-beta/other")
        assert "of alpha" in beta("get", "by-alpha/fact")
        assert "invalid" not in beta("status")
    finally:
        for one in made:
            end_daemon(one.home)
