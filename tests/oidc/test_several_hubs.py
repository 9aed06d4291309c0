"""Behind a balancer, each step of a sign-in may reach another hub."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from tests import postgres_server
from tests.hub.conftest import Hub, new_hub
from tests.oidc.conftest import GRANTS, issuers
from tests.oidc.servers import SECRET, KeyIssuer, OidcServer, Person, form, grant
from tests.sync.people import bare, git

pytestmark = [
    pytest.mark.requirement("N7"),
    pytest.mark.needs("oidc-provider"),
    pytest.mark.needs("postgres"),
    pytest.mark.slow,
]
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def hubs(
    tmp_path: Path, address: str, company: OidcServer, ci: KeyIssuer, postgres: postgres_server.Server
) -> Iterator[list[Hub]]:
    """Two hubs with one state, one upstream and one public address, as behind a proxy."""
    upstream = bare(tmp_path / "infra.git")
    git(upstream, "config", "http.receivepack", "true")
    file = tmp_path / "oidc.json"
    file.write_text(json.dumps({"url": address, "issuers": issuers(company.url, ci.url)}))
    made: list[Hub] = []
    with postgres.schema() as url:
        for number in range(2):
            folder = tmp_path / f"hub{number}"
            folder.mkdir()
            options = ("--listen", "127.0.0.1:0", "--behind-proxy", "--state", url, "--oidc", str(file))
            hub = new_hub(folder, *options)
            hub.environment["OIDC_SECRET"] = SECRET
            entry = Entry("infra", str(folder / "infra"), standalone=True, remote=str(upstream))
            RegistryFile(hub.home).register(entry, replace=True)
            made.append(hub.start())
        yield made
        for hub in made:
            hub.stop(signal.SIGKILL)


def test_any_hub_takes_the_next_step_of_a_sign_in(hubs: list[Hub], address: str, company: OidcServer) -> None:
    first, second = hubs
    grant(first, *GRANTS)
    second.call("sync", workspace="infra")
    company.person("ann", name="Ann Smith", groups=["platform"])
    browser = Person(stops_at=address)
    back = browser.sign_in(browser.open(f"{first.url}/ui/sign-in/company"), "ann").url
    here, there = (one.url.removeprefix("http://") for one in hubs)
    browser.cookies |= {(there, name): value for (host, name), value in browser.cookies.items() if host == here}
    browser.stops_at = ""
    assert "Ann Smith" in browser.open(back.replace(address, second.url)).text

    _, asked = form(first, "device")
    browser.open(asked["verification_uri_complete"])
    page = browser.send(browser.open(asked["verification_uri_complete"]))
    browser.sign_in(browser.send(page, confirm="yes"), "ann")
    _, answer = form(second, "token", grant_type=DEVICE, device_code=asked["device_code"])
    assert first.ask("GET", "/v1/workspaces", answer["access_token"]).status == 200
    status, renewed = form(first, "token", grant_type="refresh_token", refresh_token=answer["refresh_token"])
    assert status == 200
    assert second.ask("GET", "/v1/workspaces", renewed["access_token"]).status == 200

    id = renewed["access_token"].split("_")[2]  # a restored backup must not revive it while it could be renewed
    second.call("token_revoke", id=id)
    listed = git(hubs[0].folder.parent / "infra.git", "show", f"refs/kgd/revoked:{id[:2]}/{id[2:]}")
    assert int(listed) > time.time() + 20 * 86_400
