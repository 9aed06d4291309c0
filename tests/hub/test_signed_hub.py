"""A hub that signs its commits, and a workspace on it that requires signatures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.config.registry import RegistryFile
from tests.hub.conftest import Hub, new_hub
from tests.hub.test_git import Clone
from tests.ssh_keys import allow, new_key

pytestmark = [pytest.mark.slow, pytest.mark.needs("ssh-keygen"), pytest.mark.requirement("N8")]

NODE = "nodes/concept/services/auth.yaml"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: new_key(folder, name) for name in ("hub", "ann", "mallory")}


@pytest.fixture(scope="module")
def hub(keys: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a key, whose workspace requires signatures by the hub or by Ann."""
    made = new_hub(tmp_path_factory.mktemp("hub"))
    registry = Path(RegistryFile(made.home).path)
    registry.write_text(registry.read_text() + f"settings:\n  signing_key: {keys['hub']}\n")
    made.start()
    admin = clone(made, made.mint("read,write,admin", name="Admin", kind="person"), made.folder / "admin")
    (admin.at / "allowed_signers").write_text(allow(keys["hub"], keys["ann"]))
    (admin.at / "kgd.yaml").write_text((admin.at / "kgd.yaml").read_text() + "signatures: required\n")
    admin.commit("require signatures")
    admin.git("push", "-q", "origin", "HEAD:main")
    yield made
    made.stop()


def clone(hub: Hub, token: str, at: Path) -> Clone:
    subprocess.run(["git", "clone", "-q", hub.git_url(token), at], check=True)
    made = Clone(at)
    made.git("config", "user.name", "A person")
    made.git("config", "user.email", "person@example.org")
    return made


def signs_with(mine: Clone, key: Path) -> None:
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true")):
        mine.git("config", name, value)


def edit(mine: Clone, name: str) -> str:
    file = mine.at / f"nodes/concept/{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"uri: concept://infra/{name}\nsummary: {name}\n")
    return mine.commit(f"add {name}")


def verified(hub: Hub) -> dict[str, Any]:
    answer = hub.call("verify_history", workspace="infra", all=True)
    return {**answer, "by": {one["commit"]: (one["state"], one.get("by", "")) for one in answer["listed"]}}


def test_an_unsigned_push_is_refused_and_a_signed_one_is_merged(
    hub: Hub, keys: dict[str, Path], tmp_path: Path
) -> None:
    mine = clone(hub, hub.mint("read,write", name="Ann"), tmp_path / "mine")
    edit(mine, "unsigned")
    refusal = subprocess.run(
        ["git", "push", "origin", "HEAD:main"], cwd=mine.at, capture_output=True, text=True, check=False
    )
    assert refusal.returncode
    assert "is not signed, and this workspace requires signatures" in refusal.stderr
    assert "git commit --amend --no-edit -S" in refusal.stderr
    signs_with(mine, keys["mallory"])
    mine.git("commit", "-q", "--amend", "--no-edit", "-S")
    mine.git("push", "origin", "HEAD:refs/for/main", ok=False)
    signs_with(mine, keys["ann"])
    mine.git("commit", "-q", "--amend", "--no-edit", "-S")
    commit = mine.git("rev-parse", "HEAD").strip()
    mine.git("push", "-q", "origin", "HEAD:main")
    found = verified(hub)
    assert found["ok"], found["problems"]
    assert found["by"][commit] == ("signed", "ann@example.org")


def test_only_an_administrator_changes_the_list(hub: Hub, keys: dict[str, Path], tmp_path: Path) -> None:
    mine = clone(hub, hub.mint("read,write", name="Ann"), tmp_path / "mine")
    signs_with(mine, keys["ann"])
    (mine.at / "allowed_signers").write_text(allow(*keys.values()))
    mine.commit("add mallory")
    refusal = mine.git("push", "origin", "HEAD:main", ok=False)
    assert "allowed_signers" in refusal
    assert "needs admin" in refusal


def test_writers_acceptances_and_pushers_are_signed_and_plain_git_verifies_them(
    hub: Hub, keys: dict[str, Path], tmp_path: Path
) -> None:
    writer, proposer = hub.mint("read,write", name="Writer"), hub.mint("read,propose", name="Carol")
    change = {"op": "upsert", "uri": "concept://infra/by-http", "summary": "By HTTP"}
    written = hub.post(writer, "infra/put", {"changes": [change], "request_id": "r1"}).json["commit"]
    mine = clone(hub, hub.mint(), tmp_path / "mine")
    mine.git("remote", "set-url", "--push", "origin", hub.git_url(proposer))
    signs_with(mine, keys["ann"])
    proposed = edit(mine, "proposed")
    mine.git("push", "-q", "origin", "HEAD:main")
    [proposal] = hub.post(writer, "infra/proposals").json["proposals"]
    accepted = hub.post(writer, "infra/accept", {"name": proposal["id"]}).json["commit"]
    asked = {"op": "upsert", "uri": "concept://infra/asked", "summary": "Please"}
    made = hub.post(proposer, "infra/submit_subgraph", {"changes": [asked], "message": "Please"}).json
    assert hub.post(writer, "infra/accept", {"name": made["proposal"]}).json["commit"]
    found = verified(hub)
    assert found["ok"], found["problems"]
    assert found["by"][written] == found["by"][accepted] == ("signed", "hub@example.org")
    assert found["by"][proposed] == ("signed", "ann@example.org")
    mine.git("fetch", "-q", "origin", "main", "refs/notes/kgd:refs/notes/kgd")
    assert "Kgd-Accepted-By: Writer" in mine.git("log", "-1", "--format=%B", accepted)
    ledger = mine.git("log", "--format=%H %(trailers:key=Kgd-Pushed-By,valueonly)", "refs/notes/kgd")
    assert "Carol (" in ledger
    (tmp_path / "list").write_text(allow(keys["hub"], keys["ann"]))
    mine.git("config", "gpg.ssh.allowedSignersFile", str(tmp_path / "list"))
    signed = [commit for commit, (state, _) in found["by"].items() if state == "signed"]
    mine.git("verify-commit", *signed, ledger.split()[0])
    for commit in set(found["by"]) - set(signed):
        mine.git("verify-commit", commit, ok=False)


def test_a_requirement_without_keys_is_refused(own_hub: Callable[..., Hub], tmp_path: Path) -> None:
    hub = own_hub().start()
    admin = clone(hub, hub.mint("read,write,admin", name="Admin"), tmp_path / "admin")
    (admin.at / "kgd.yaml").write_text((admin.at / "kgd.yaml").read_text() + "signatures: required\n")
    admin.commit("require signatures")
    assert "no key would be allowed" in admin.git("push", "origin", "HEAD:main", ok=False)


def test_a_hub_without_an_allowed_key_refuses_changes(
    own_hub: Callable[..., Hub], keys: dict[str, Path], tmp_path: Path
) -> None:
    hub = own_hub().start()
    admin = clone(hub, hub.mint("read,write,admin", name="Admin"), tmp_path / "admin")
    (admin.at / "allowed_signers").write_text(allow(keys["ann"]))
    (admin.at / "kgd.yaml").write_text((admin.at / "kgd.yaml").read_text() + "signatures: required\n")
    admin.commit("require signatures")
    admin.git("push", "-q", "origin", "HEAD:main")
    change = {"op": "upsert", "uri": "concept://infra/new", "summary": "New"}
    refusal = hub.post(hub.mint("read,write"), "infra/put", {"changes": [change]})
    assert refusal.status == 403
    assert "no signing key" in refusal.json["detail"]
