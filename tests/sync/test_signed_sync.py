"""Signed commits between people: each signs with their own key, and the ledger that attests merges travels along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.git.refs import NOTES
from kgd.workspace.history.pushers import SignedHistory, Verdict
from tests.builders import commit_file
from tests.ssh_keys import allow, new_key
from tests.sync.people import Person
from tests.waiting import until
from tests.workspace.people import git

pytestmark = [pytest.mark.slow, pytest.mark.needs("ssh-keygen"), pytest.mark.requirement("N8")]


def signing(person: Person, key: Path) -> None:
    """The person signs commits with git's own setting, and kgd follows it."""
    git(person.workspace.layout.git_dir, "config", "gpg.format", "ssh")
    git(person.workspace.layout.git_dir, "config", "user.signingkey", f"{key}.pub")
    registry = Path(person.daemon.registry.path)
    registry.write_text(registry.read_text() + "settings:\n  signing_key: git\n")


def verdicts(person: Person) -> list[Verdict]:
    workspace = person.workspace
    return list(SignedHistory(workspace.store, bytes.fromhex(workspace.tip), workspace.sharded).walk())


def test_two_people_sign_and_a_third_verifies_the_merge(
    ann: Person, bob: Person, person: Callable[..., Person], hub: Path, tmp_path: Path
) -> None:
    (tmp_path / "keys").mkdir()
    keys = {name: new_key(tmp_path / "keys", name) for name in ("ann", "bob")}
    signing(ann, keys["ann"])
    signing(bob, keys["bob"])
    commit_file(ann.workspace, "allowed_signers", allow(*keys.values()))
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.put("a", summary="a")
    bob.put("b", summary="b")
    ann.sync()
    bob.sync()
    bob.sync()
    until(lambda: git(hub, "rev-parse", "--verify", "--quiet", NOTES, check=False).startswith("0"))
    carl = person("carl")
    carl.share(hub, sync=0)
    carl.sync()
    assert carl.has("a")
    assert carl.has("b")
    found = {one.commit.subject.split()[0]: (one.state, one.by) for one in verdicts(carl)}
    signers = {one.by for one in verdicts(carl) if one.state == "signed"}
    assert signers == {"ann@example.org", "bob@example.org"}
    assert found["merge"] == ("attested", "bob@example.org")
    assert git(hub, "fsck", "--strict") == ""
