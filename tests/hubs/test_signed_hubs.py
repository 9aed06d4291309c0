"""Several hubs that sign: each with its own key, and a request that two of them get is still made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.config.registry import RegistryFile
from tests.hubs.conftest import Team
from tests.hubs.test_hubs import put
from tests.ssh_keys import allow, new_key
from tests.sync.people import git
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.needs("postgres"), pytest.mark.needs("ssh-keygen")]


@pytest.mark.requirement("N8")
@pytest.mark.requirement("N6")
def test_each_hub_signs_with_its_own_key(team: Team, tmp_path: Path) -> None:
    first, second = team.start(2)
    (tmp_path / "keys").mkdir()
    keys = [new_key(tmp_path / "keys", name) for name in ("one", "two")]
    for hub, key in zip((first, second), keys, strict=True):
        registry = Path(RegistryFile(hub.home).path)
        registry.write_text(registry.read_text() + f"settings:\n  signing_key: {key}\n")
    admin = tmp_path / "admin"
    token = first.mint("read,write,admin", kind="person")
    git(tmp_path, "clone", "-q", first.git_url(token), str(admin))
    (admin / "allowed_signers").write_text(allow(*keys))
    (admin / "kgd.yaml").write_text((admin / "kgd.yaml").read_text() + "signatures: required\n")
    git(admin, "add", ".")
    git(admin, "-c", "user.name=Admin", "-c", "user.email=a@example.org", "commit", "-qm", "require signatures")
    git(admin, "push", "-q", "origin", "HEAD:main")
    one = put(first, token, "a", "one", "r1")
    assert one.status == 200, one.body
    assert put(second, token, "a", "one", "r1").json["commit"] == one.json["commit"]
    two = put(second, token, "b", "two")
    assert two.status == 200, two.body
    until(lambda: first.call("verify_history", workspace="infra")["commits"] == 4)
    found = first.call("verify_history", workspace="infra", all=True)
    assert found["ok"], found["problems"]
    by = {commit["commit"]: commit.get("by") for commit in found["listed"]}
    assert (by[one.json["commit"]], by[two.json["commit"]]) == ("one@example.org", "two@example.org")
