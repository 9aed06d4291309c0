"""Three homes and two hubs as real processes, with the commands that a user types."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from tests import forked
from tests.across.sites import names
from tests.daemon.conftest import ROOT, end_daemon
from tests.waiting import until

KGD = [sys.executable, "-P", "-m", "kgd.cli"]


class Person:
    """A home, a folder with a workspace, and the program."""

    def __init__(self, root: Path, name: str) -> None:
        self.folder, self.home = root / name, Home.at(str(root / f"{name}-home"))
        self.folder.mkdir()
        self.env = {**os.environ, "KGD_HOME": self.home.config, "PYTHONPATH": str(ROOT)}
        self.serving: subprocess.Popen[bytes] | None = None
        self.address = "127.0.0.1:0"

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return forked.run(words, self.folder, self.env, stdin)

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def serve(self) -> None:
        """Start a hub; a restart uses the same port."""
        self.serving = subprocess.Popen(
            [*KGD, "serve", "--listen", self.address],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        found: list[str] = []

        def listens() -> bool:
            done = self.run("status", "--json")
            found[:] = [json.loads(done.stdout)["daemon"].get("listening", "")] if done.returncode in (0, 1) else []
            return bool(found and found[0])

        until(listens)
        self.address = found[0].removeprefix("http://")

    def kill(self) -> None:
        assert self.serving
        self.serving.send_signal(signal.SIGKILL)
        self.serving.wait(60)

    def end(self) -> None:
        if self.serving and self.serving.poll() is None:
            self.serving.terminate()
            self.serving.wait(60)
        end_daemon(self.home)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Callable[[str], Person]]:
    made: list[Person] = []

    def make(name: str) -> Person:
        made.append(Person(tmp_path, name))
        made[-1]("up", "--standalone", "--id", name, "--quiet")
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.mark.slow
@pytest.mark.requirement("E11")
@pytest.mark.requirement("E12")
def test_a_walk_crosses_two_hubs_names_a_stopped_hub_and_recovers(person: Callable[[str], Person]) -> None:
    ann, bea, cem = person("ann"), person("bea"), person("cem")
    cem("put", "concept://cem/c", "--summary", "at the end")
    bea("put", "concept://bea/b", "--relations", "uses:concept://cem/c@0.25")
    ann("put", "concept://ann/a", "--relations", "uses:concept://bea/b@0.25")
    for hub in (bea, cem):
        hub.serve()
        token = hub("token", "mint", hub.folder.name, "--name", "ann", "--quiet")
        said = ann("join", f"http://{hub.address}", stdin=token)
        assert hub.folder.name in said
        assert token.strip() not in said
    whole = ["ann/a", "bea/b", "cem/c"]
    assert names(ann.json("traverse", "concept://ann/a")) == whole
    assert [hub["principal"]["name"] for hub in ann.json("whoami")["hubs"]] == ["ann", "ann"]

    cem.kill()
    found = ann.json("traverse", "concept://ann/a")
    assert names(found) == whole[:2]
    (link,) = found["broken_links"]
    assert (link["source"], link["target"], link["reason"], link["workspace"]) == (
        "concept://bea/b",
        "concept://cem/c",
        "unreachable",
        "cem",
    )
    assert link["last_seen"]

    cem.serve()
    assert names(ann.json("traverse", "concept://ann/a")) == whole
    ann("leave", "cem")
    (link,) = ann.json("traverse", "concept://ann/a")["broken_links"]
    assert link["reason"] == "unknown_workspace"


@pytest.mark.slow
def test_a_node_that_cannot_be_looked_up_is_not_reported_as_missing(person: Callable[[str], Person]) -> None:
    ann, bea = person("ann"), person("bea")
    bea("put", "concept://bea/b", "--summary", "there")
    bea.serve()
    token = bea("token", "mint", "bea", "--name", "ann", "--quiet")
    ann("join", f"http://{bea.address}", stdin=token)
    for verb in ("get", "show"):
        assert "there" in ann(verb, "concept://bea/b")
        gone = ann.run(verb, "concept://bea/none")
        assert (gone.returncode, "no such node" in gone.stderr) == (3, True)
    bea("token", "revoke", token.split("_")[2])
    for verb in ("get", "show"):
        done = ann.run(verb, "concept://bea/b")
        assert (done.returncode, "no such node" in done.stderr) == (6, False), done.stderr
        assert "does not allow you to read this: " in done.stderr
        assert "revoked" in done.stderr
    bea.kill()
    for verb in ("get", "show"):
        done = ann.run(verb, "concept://bea/b")
        assert (done.returncode, "no such node" in done.stderr) == (9, False), done.stderr
        assert "does not answer" in done.stderr
        assert "last seen 20" in done.stderr
