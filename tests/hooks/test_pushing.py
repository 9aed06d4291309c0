"""A server's `pre-receive` judges what a push changes as a whole, and each commit that it brings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.conftest import Person, clone
from tests.sshd import Sshd

INFRA = "infra/dns"
APP = "app/z"

BILLING = {
    "id": "t1", "name": "billing", "kind": "agent",
    "scopes": [{"workspace": "ws", "verbs": ["write"], "paths": ["/infra/**"]}],
}  # fmt: skip
_AS = """\
#!/bin/sh
KGD_PRINCIPAL='{principal}'
export KGD_PRINCIPAL
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""


class Server:
    """A bare repository with kgd's hooks, and what a scoped person pushes to."""

    def __init__(self, bare: Path, url: str, folder: Path) -> None:
        self.bare, self.url, self._folder = bare, url, folder

    def clone(self, name: str, environment: dict[str, str]) -> Person:
        subprocess.run(["git", "clone", "-q", str(self.bare), str(self._folder / name)], check=True)
        person = Person(self._folder / name, environment)
        person.git("remote", "set-url", "origin", self.url)
        return person

    def git(self, *words: str) -> str:
        return Person(self.bare).git(*words)


@pytest.fixture(params=["file", pytest.param("ssh", marks=[pytest.mark.needs("sshd"), pytest.mark.slow])])
def server(request: pytest.FixtureRequest, upstream: Path, tmp_path: Path) -> Iterator[Server]:
    maker = clone(upstream, tmp_path / "maker")
    maker.write(INFRA, name="dns", summary="one")
    maker.commit("infra")
    maker.git("push", "-q")
    Person(upstream).kgd("install")
    if request.param == "file":
        yield Server(upstream, str(upstream), tmp_path)
        return
    (tmp_path / "as-billing").write_text(_AS.format(principal=json.dumps(BILLING)))
    (tmp_path / "as-billing").chmod(0o755)
    sshd = Sshd(tmp_path / "ssh", forced=str(tmp_path / "as-billing"))
    request.getfixturevalue("monkeypatch").setenv("GIT_SSH_COMMAND", sshd.command)
    yield Server(upstream, sshd.url(upstream), tmp_path)
    sshd.stop()


@pytest.fixture
def billing(server: Server) -> Person:
    """May write below /infra, and nowhere else."""
    return server.clone("billing", {"KGD_PRINCIPAL": json.dumps(BILLING)})


@pytest.fixture
def owner(server: Server) -> Person:
    """Somebody of whom the server says nothing."""
    return Server(server.bare, str(server.bare), server.bare.parent).clone("owner", {})


def refused(person: Person, *words: str, because: str) -> None:
    """The push is refused with one sentence, and nothing of it stays on the server."""
    done = person.run("git", "push", *words)
    assert done.returncode != 0, done.stdout + done.stderr
    assert because in done.stderr, done.stderr


def test_a_change_inside_the_scope_is_taken(server: Server, billing: Person) -> None:
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("push", "-q", "origin", "HEAD:main")
    assert server.git("rev-parse", "main").strip() == billing.head()


@pytest.mark.requirement("B5")
def test_a_change_outside_is_refused_with_the_node_and_the_rule_and_leaves_nothing(
    server: Server, billing: Person
) -> None:
    billing.write(APP, name="mine")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="'billing' may not write concept://ws/app/z: no scope of its token")
    assert server.git("cat-file", "--batch-check", "--batch-all-objects").find(billing.head()) < 0
    assert not list((server.bare / "objects").glob("*incoming*"))


def test_a_change_outside_that_a_later_commit_takes_back_is_refused(billing: Person) -> None:
    billing.write(APP, name="mine")
    billing.commit()
    billing.git("revert", "--no-edit", "HEAD")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


def test_a_node_of_others_cannot_be_moved_into_the_scope(billing: Person) -> None:
    billing.git("rm", "-q", f"nodes/concept/{APP}.yaml")
    billing.write("infra/z", name="app/z", summary="one", content="first")
    billing.commit()
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


@pytest.mark.parametrize("ref", ["refs/heads/other", "refs/tags/v1", "refs/kgd/head"])
def test_no_other_ref_is_made(billing: Person, ref: str) -> None:
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    refused(billing, "origin", f"HEAD:{ref}", because="nothing is pushed to this ref")


def test_history_is_not_rewritten(billing: Person) -> None:
    billing.git("reset", "-q", "--hard", "HEAD~1")
    billing.write(INFRA, name="dns", summary="other")
    billing.commit()
    refused(billing, "--force", "origin", "HEAD:main", because="history is never rewritten")


def test_the_branch_is_not_deleted(billing: Person) -> None:
    refused(billing, "origin", ":main", because="never deleted")


def test_a_merge_that_carries_what_others_have_on_the_server_already_is_taken(
    server: Server, billing: Person, owner: Person
) -> None:
    owner.write(APP, name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("pull", "-q", "--no-rebase", "--no-edit", str(server.bare), "main")
    billing.git("push", "-q", "origin", "HEAD:main")
    assert server.git("rev-parse", "main").strip() == billing.head()


def test_a_merge_that_changes_something_on_the_way_is_refused(server: Server, billing: Person, owner: Person) -> None:
    owner.write("x", name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("fetch", "-q", str(server.bare), "main")
    billing.git("merge", "-q", "--no-commit", "FETCH_HEAD")
    billing.write(APP, name="hidden in the merge")
    billing.commit("merge")
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")


def test_a_merge_that_drops_what_others_did_is_refused(server: Server, billing: Person, owner: Person) -> None:
    owner.write(APP, name="theirs")
    owner.commit()
    owner.git("push", "-q", "origin", "HEAD:main")
    billing.write(INFRA, name="dns", summary="two")
    billing.commit()
    billing.git("fetch", "-q", str(server.bare), "main")
    billing.git("merge", "-q", "-s", "ours", "--no-edit", "FETCH_HEAD")
    refused(billing, "origin", "HEAD:main", because="concept://ws/app/z")
