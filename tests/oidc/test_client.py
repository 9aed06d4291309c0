"""`kgd join --sign-in`: kgd's own client signs a person in, renews the token by itself, and signs out."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.client.connection import Connection
from kgd.config import Home
from tests.daemon.conftest import end_daemon
from tests.hub.conftest import ROOT, Hub, new_hub
from tests.oidc.conftest import GRANTS, issuers
from tests.oidc.servers import SECRET, KeyIssuer, OidcServer, Person, configured, grant
from tests.ports import free_port

pytestmark = [pytest.mark.requirement("N7"), pytest.mark.needs("oidc-provider"), pytest.mark.slow]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, company: OidcServer, ci: KeyIssuer) -> Iterator[Hub]:
    """A hub whose tokens expire so soon that its clients renew them at each use."""
    address = f"http://127.0.0.1:{free_port()}"
    made = configured(tmp_path_factory.mktemp("hub"), address, issuers(company.url, ci.url, token_minutes=1))
    made.environment["OIDC_SECRET"] = SECRET
    made.start()
    made.put("concept://infra/services/auth", name="Auth", summary="Issues tokens")
    grant(made, *GRANTS)
    yield made
    made.stop()


class Machine:
    """A person's own machine, with its own daemon."""

    def __init__(self, root: Path) -> None:
        self.home = Home.at(str(root / "home"))
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(root),
            "KGD_HOME": self.home.config,
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "kgd.cli", *words]
        return subprocess.Popen(
            command,
            cwd="/",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        running = self.start(*words)
        out, err = running.communicate(timeout=60)
        return subprocess.CompletedProcess(words, running.returncode, out, err)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    end_daemon(made.home)


def test_a_person_joins_by_signing_in_and_the_token_is_renewed_until_they_leave(
    hub: Hub, company: OidcServer, machine: Machine
) -> None:
    company.person("ann", name="Ann Smith", email="ann@example.org", groups=["platform"])
    joining = machine.start("join", hub.url, "--sign-in", "--json")
    assert joining.stderr is not None
    found = re.search(r"Open (\S+) and confirm the code (\S+)", joining.stderr.readline())
    assert found
    browser = Person()
    page = browser.send(browser.open(found[1]))
    assert found[2] in page.text
    browser.sign_in(browser.send(page, confirm="yes"), "ann")
    out, err = joining.communicate(timeout=60)
    assert joining.returncode == 0, err
    answer = json.loads(out)
    assert answer["principal"]["name"] == "Ann Smith"
    assert "kgd_" not in out + err
    kept = Path(answer["token"].removeprefix("file:"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    with Connection(machine.home) as connection:
        first = kept.read_text()
        assert connection.call("get", {"workspace": "infra", "uris": ["concept://infra/services/auth"]})["nodes"]
        connection.call("whoami", {})
        company.person("ann", name="Ann Miller", groups=[])
        # A daemon reads the credential once a minute; a new daemon reads it at once.
    end_daemon(machine.home)
    with Connection(machine.home) as connection:
        [seen] = connection.call("whoami", {})["hubs"]
        assert [one["verbs"] for one in seen["principal"]["scopes"]] == [["read"]]
        assert seen["principal"]["name"] == "Ann Miller"
    assert kept.read_text() != first

    id = seen["principal"]["id"]
    assert machine("leave", hub.url).returncode == 0
    assert not kept.exists()
    states = {one["id"]: one["state"] for one in hub.call("token_list")["tokens"]}
    assert states[id] == "revoked"


def test_a_sign_in_that_ended_reports_how_to_sign_in_again(hub: Hub, company: OidcServer, machine: Machine) -> None:
    company.person("bob", name="Bob", groups=["platform"])
    joining = machine.start("join", hub.url, "--sign-in", "--json")
    assert joining.stderr is not None
    browser = Person()
    page = browser.send(browser.open(joining.stderr.readline().split()[1]))
    browser.sign_in(browser.send(page, confirm="yes"), "bob")
    out, _ = joining.communicate(timeout=60)
    hub.call("token_revoke", id=json.loads(out)["principal"]["id"])
    end_daemon(machine.home)
    with Connection(machine.home) as connection:
        [seen] = connection.call("whoami", {})["hubs"]
    assert "has ended" in seen["problem"]
    assert f"kgd join {hub.url} --sign-in" in seen["problem"]


def test_a_hub_without_sign_in_reports_this(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = new_hub(tmp_path / "plain").start()
    try:
        done = machine("join", plain.url, "--sign-in")
        assert done.returncode
        assert "no sign-in with accounts" in done.stderr
    finally:
        plain.stop()
