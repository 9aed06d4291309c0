"""A company's sign-in server and a CI system's issuer, for hubs that accept both."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hub.conftest import Hub
from tests.oidc.servers import SECRET, KeyIssuer, OidcServer, configured, grant
from tests.ports import free_port

GRANTS = (
    {"group": "company:platform", "verbs": ["read", "write"], "paths": ["/**"]},
    {"group": "company:*", "paths": ["/services/**"]},
    {"group": "ci:shop", "verbs": ["read", "propose"], "paths": ["/services/**"]},
)


@pytest.fixture(scope="package")
def address() -> str:
    """The address of the hub."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="package")
def company(address: str) -> Iterator[OidcServer]:
    made = OidcServer(address)
    yield made
    made.stop()


@pytest.fixture(scope="package")
def ci() -> Iterator[KeyIssuer]:
    made = KeyIssuer()
    yield made
    made.stop()


def issuers(company: str, ci: str, **more: Any) -> dict[str, Any]:
    """The configuration of both issuers."""
    return {
        "company": {
            "issuer": company,
            "title": "Example Ltd",
            "client_id": "kgd",
            "client_secret": "env:OIDC_SECRET",
            "scopes": ["profile", "email", "groups", "offline_access"],
            **more,
        },
        "ci": {
            "issuer": ci,
            "workloads": [
                {"claims": {"repository": "acme/shop", "protected": True}, "group": "shop", "name": "shop-ci"}
            ],
        },
    }


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory, address: str, company: OidcServer, ci: KeyIssuer) -> Iterator[Hub]:
    """A hub with `infra`, whose groups have `GRANTS`."""
    made = configured(tmp_path_factory.mktemp("hub"), address, issuers(company.url, ci.url))
    made.environment["OIDC_SECRET"] = SECRET
    made.start()
    made.put("concept://infra/services/auth", name="Auth", summary="Issues tokens")
    made.put("concept://infra/plans/next", name="Plan", summary="Hidden from most")
    grant(made, *GRANTS)
    yield made
    made.stop(signal.SIGKILL)
