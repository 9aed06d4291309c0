"""Where a hub may listen, and how it is started: in clear words, or not at all."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.errors import Forbidden, Invalid, Unavailable
from kgd.hub.listen import Listen
from tests import forked
from tests.certificates import self_signed
from tests.hub.conftest import Hub

pytestmark = pytest.mark.slow

KGD = [sys.executable, "-P", "-m", "kgd.cli"]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    cert, key = self_signed(tmp_path_factory.mktemp("tls"))
    return str(cert), str(key)


@pytest.mark.parametrize("address", ["0.0.0.0:7601", "[::]:7601", "192.0.2.1:80", "hub.example.org:443"])
def test_beyond_this_machine_it_needs_tls_or_a_proxy(address: str, certificate: tuple[str, str]) -> None:
    with pytest.raises(Forbidden, match="--behind-proxy"):
        Listen.parse(address)
    assert Listen.parse(address, behind_proxy=True)
    assert Listen.parse(address, cert=certificate[0], key=certificate[1])


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:7601", "localhost:7601", "127.9.9.9:1"])
def test_on_this_machine_it_needs_neither(address: str) -> None:
    assert Listen.parse(address).is_loopback


@pytest.mark.parametrize("address", ["", "7601", "localhost", "localhost:", ":7601", "x:99999", "x:-1", "x:http"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(Invalid):
        Listen.parse(address)


def test_an_unusable_certificate_is_reported(certificate: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="key"):
        Listen.parse("0.0.0.0:1", cert=certificate[0])
    with pytest.raises(Invalid, match="cannot be used"):
        Listen.parse("0.0.0.0:1", cert=certificate[1], key=certificate[0])
    with pytest.raises(Invalid, match="cannot be used"):
        Listen.parse("0.0.0.0:1", cert=str(tmp_path / "none"), key=certificate[1])


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unavailable, match="another port"):
        Listen.parse(f"127.0.0.1:{taken.getsockname()[1]}").open()


@pytest.mark.parametrize(
    ("names", "host", "taken"),
    [
        ((), "127.0.0.1:7601", True),
        ((), "localhost", True),
        ((), "[::1]:7601", True),
        ((), "evil.example", False),
        ((), "", False),
        (("hub.example.org",), "hub.example.org:443", True),
        (("hub.example.org",), "other", False),
        (("hub.example.org",), "HUB.example.org", True),
        ((), "127.0.0.1:7601.evil", False),
        ((), "localhost:", False),
        ((), "127.0.0.1:7601@evil.example", False),
        (("hub.example.org",), "hub.example.org:1.evil", False),
    ],
)
def test_it_is_called_by_its_own_names(names: tuple[str, ...], host: str, taken: bool) -> None:
    assert Listen("127.0.0.1", 7601, names=names).takes_host(host) is taken


@pytest.mark.slow
def test_it_serves_over_tls(own_hub: Callable[..., Hub], certificate: tuple[str, str]) -> None:
    cert, key = certificate
    hub = own_hub("--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key).start()
    assert hub.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=cert)
    with urllib.request.urlopen(f"{hub.url}/health", context=trusting) as answer:
        assert json.load(answer)["status"] == "ok"
    token = hub.mint()
    url = hub.url.replace("https://", f"https://x:{token}@") + "/git/infra"
    said = subprocess.run(
        ["git", "-c", f"http.sslCAInfo={cert}", "ls-remote", url], capture_output=True, text=True, check=False
    )
    assert "refs/heads/main" in said.stdout, said.stderr


def kgd(hub: Hub, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(words, hub.folder, hub.environment)


@pytest.mark.slow
def test_the_command_line_mints_a_token_alone_on_its_output(own_hub: Callable[..., Hub]) -> None:
    hub = own_hub()
    scope = ("--verbs", "propose", "--paths", "/services/**", "--expires", "30d")
    done = kgd(hub, "token", "mint", "infra", "--name", "billing-agent", *scope)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("kgd_agent_")
    assert "covers no node" in done.stderr
    shown = json.loads(kgd(hub, "token", "mint", "infra", "--name", "x", "--json").stdout)
    assert {"token", "id", "expires"} <= shown.keys()
    child = json.loads(kgd(hub, "token", "child", shown["id"], "--name", "kid", "--paths", "/a", "--json").stdout)
    listed = kgd(hub, "token", "list").stdout
    assert shown["id"] in listed
    assert shown["token"] not in listed
    fresh = json.loads(kgd(hub, "token", "rotate", shown["id"], "--json").stdout)
    assert fresh["revoked"] == [shown["id"]]
    tokens = {one["id"]: one for one in json.loads(kgd(hub, "token", "list", "--json").stdout)["tokens"]}
    assert {id: one["state"] for id, one in tokens.items() if id in (shown["id"], child["id"], fresh["id"])} == {
        shown["id"]: "revoked",
        child["id"]: "revoked",
        fresh["id"]: "live",
    }
    assert "revoke" in kgd(hub, "token", "log").stdout
    assert "there is no token 'missing'" in kgd(hub, "token", "log", "missing").stderr
    assert kgd(hub, "token", "revoke").returncode == 2
    assert kgd(hub, "token", "revoke", "nobody00").returncode == 3
    assert kgd(hub, "token", "mint", "nowhere", "--name", "x").returncode == 3
    assert kgd(hub, "token", "mint", "infra", "--name", "x", "--expires", "soon").returncode == 2
    # A hub replaces a daemon in the background, and prints its URL.
    hub.start()
    assert hub.call("status")["daemon"]["listening"] == hub.url
    second = kgd(hub, "serve", "--listen", "127.0.0.1:0")
    assert second.returncode == 2
    assert hub.url in second.stderr
    refused = kgd(hub, "serve", "--listen", "0.0.0.0:0")
    assert refused.returncode == 2
    assert "--behind-proxy" in refused.stderr
    assert hub.ask("GET", "/health").status == 200
    assert os.path.exists(Home(*_places(hub)).socket)


def _places(hub: Hub) -> tuple[str, str, str]:
    return hub.home.config, hub.home.state, hub.home.logs


def test_a_workspace_that_is_not_here_is_not_served_in_silence(own_hub: Callable[..., Hub]) -> None:
    done = kgd(own_hub(), "serve", "--listen", "127.0.0.1:0", "-w", "infra,nosuch")
    assert done.returncode == 2
    assert "there is no workspace 'nosuch' to serve" in done.stderr
    assert "Known here: infra" in done.stderr


@pytest.mark.slow
def test_a_hub_that_cannot_serve_ends_instead_of_pretending(own_hub: Callable[..., Hub]) -> None:
    hub = own_hub()
    (hub.folder / "home" / "state" / "hub-hooks").write_text("in the way")
    with pytest.raises(AssertionError, match="could not be started"):
        hub.start()
