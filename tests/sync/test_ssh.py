"""Sharing over ssh, with a real sshd: agreement within seconds, and host keys that are checked."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sshd import Sshd
from tests.sync.people import Person, git
from tests.waiting import until

pytestmark = pytest.mark.needs("sshd")

People = Callable[..., Person]


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    server = Sshd(tmp_path / "sshd")
    monkeypatch.setenv("GIT_SSH_COMMAND", server.command)
    yield server
    server.stop()


def kinds(told: dict[str, object]) -> list[str]:
    found = told["waits"]
    assert isinstance(found, list)
    return [one["kind"] for one in found]


@pytest.mark.slow
def test_two_people_share_over_ssh(person: People, hub: Path, sshd: Sshd) -> None:
    ann, bob = person("ann"), person("bob")
    ann.put("a", summary="a")
    assert ann.share(sshd.url(hub), sync=1)["pushed"] == 2
    assert bob.share(sshd.url(hub), sync=1)["pulled"] == 1
    bob.put("b", summary="b")
    until(lambda: ann.has("b"))
    assert git(hub, "rev-parse", "main") == ann.tip == bob.tip


@pytest.mark.slow
def test_an_address_as_scp_writes_it_works_too(ann: Person, hub: Path, sshd: Sshd) -> None:
    assert ann.share(f"kgd-test:{hub}", sync=0)["pushed"] == 1


def test_a_wrong_host_key_is_refused_before_any_data_is_sent(ann: Person, hub: Path, sshd: Sshd) -> None:
    other = subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", sshd.folder / "other"], check=True)
    assert other.returncode == 0
    (sshd.folder / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {(sshd.folder / 'other.pub').read_text()}")
    told = ann.share(sshd.url(hub), sync=0)
    assert kinds(told) == ["host-key"]
    assert "known_hosts" in told["waits"][0]["next"]
    assert git(hub, "for-each-ref") == ""
    assert ann.stage("fetch")["state"] == "blocked"


@pytest.mark.slow
def test_an_unknown_host_is_not_trusted_even_where_the_persons_configuration_would(
    ann: Person, hub: Path, sshd: Sshd
) -> None:
    (sshd.folder / "known_hosts").write_text("")
    client = sshd.folder / "client"
    client.write_text(client.read_text().replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no"))
    assert kinds(ann.share(sshd.url(hub), sync=0)) == ["host-key"]
    assert (sshd.folder / "known_hosts").read_text() == ""


@pytest.mark.slow
def test_a_key_that_may_not_enter_is_named(ann: Person, hub: Path, sshd: Sshd) -> None:
    (sshd.folder / "authorized_keys").write_text("")
    assert kinds(ann.share(sshd.url(hub), sync=0)) == ["credentials"]


@pytest.mark.slow
def test_no_password_or_passphrase_is_requested(ann: Person, hub: Path, sshd: Sshd) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", sshd.folder / "key"], check=True)
    assert kinds(ann.share(sshd.url(hub), sync=0)) == ["credentials"]


@pytest.mark.slow
def test_an_unreachable_server_is_reported_and_work_continues(ann: Person, hub: Path, sshd: Sshd) -> None:
    ann.share(sshd.url(hub), sync=0)
    client = sshd.folder / "client"
    client.write_text(client.read_text().replace(str(sshd.port), "1"))
    ann.put("a", summary="a")
    assert kinds(ann.sync()) == ["unreachable"]
    assert ann.has("a")


@pytest.mark.slow
def test_an_empty_place_on_the_server_is_named(ann: Person, hub: Path, sshd: Sshd) -> None:
    with pytest.raises(Exception, match="no such repository"):
        ann.share(sshd.url(hub.with_name("nowhere.git")))


@pytest.mark.slow
def test_plain_git_in_the_work_tree_uses_the_same_remote(ann: Person, hub: Path, sshd: Sshd) -> None:
    ann.share(sshd.url(hub), sync=0)
    ann.put("a", summary="a")
    ann.published()
    done = subprocess.run(["git", "-C", ann.tree, "push"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert git(hub, "rev-parse", "main") == ann.tip
    assert shlex.split(sshd.command)[0] == "ssh"
