"""A real browser signs in at a hub with a company's account, and the pages follow the account's groups."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.hub.conftest import Hub
from tests.oidc.conftest import GRANTS, issuers
from tests.oidc.servers import SECRET, KeyIssuer, OidcServer, configured, grant
from tests.ports import free_port
from tests.ui.conftest import WAIT, account, axe

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.needs("oidc-provider"),
    pytest.mark.requirement("N7"),
    pytest.mark.slow,
]


@pytest.fixture
def company_hub(tmp_path: Path) -> Iterator[tuple[Hub, OidcServer]]:
    address = f"http://127.0.0.1:{free_port()}"
    company, ci = OidcServer(address), KeyIssuer()
    hub = configured(tmp_path, address, issuers(company.url, ci.url))
    hub.environment["OIDC_SECRET"] = SECRET
    hub.start()
    hub.put("concept://infra/services/auth", name="Auth", summary="Issues tokens")
    grant(hub, *GRANTS)
    yield hub, company
    hub.stop(signal.SIGKILL)
    company.stop()
    ci.stop()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context()
    made.set_default_timeout(WAIT)
    yield made
    made.close()


def test_a_person_signs_in_returns_to_the_requested_page_and_signs_out(
    browser: BrowserContext, company_hub: tuple[Hub, OidcServer]
) -> None:
    hub, company = company_hub
    company.person("ann", name="Ann Smith", email="ann@example.org", groups=["platform"])
    page = browser.new_page()
    page.goto(f"{hub.url}/ui/w/infra/node?uri=concept://infra/services/auth")
    expect(page.locator("h1")).to_have_text("Sign in")
    assert axe(page) == []
    page.get_by_role("link", name="Sign in with Example Ltd").click()
    page.locator("input[name=login]").fill("ann")
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.locator("button[type=submit]").click()  # consent
    expect(page.locator(".title")).to_contain_text("Auth")
    assert page.url == f"{hub.url}/ui/w/infra/node?uri=concept://infra/services/auth"
    page.goto(f"{hub.url}/ui/w/infra/workspaces")
    expect(page.locator("main")).to_contain_text("Ann Smith")
    [session] = hub.call("browsers")["browsers"]
    assert session["holder"] == "Ann Smith"
    account(page).get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")
    assert hub.call("browsers")["browsers"] == []
