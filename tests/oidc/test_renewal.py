"""A hub renews a browser's sign-in while it is used, with the groups of that moment; any of several hubs can do it.

The clock of the tokens is set; the company's server and its tokens are real.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.daemon.sign_in import SignIns
from kgd.daemon.tokens import Tokens
from kgd.errors import Forbidden, KgdError, Unauthorized, Unavailable
from kgd.index.hub_state import SqliteHubState
from kgd.model.access import Grant, read_grants
from kgd.model.token import HubState
from kgd.oidc import Configuration, read_configuration
from tests import postgres_server
from tests.oidc.servers import SECRET, OidcServer, Person, query

pytestmark = [pytest.mark.requirement("N7"), pytest.mark.needs("oidc-provider"), pytest.mark.slow]

LIFE = 900
GRANTS = [{"group": "company:platform", "verbs": ["write"]}, {"group": "company:staff", "paths": ["/services/**"]}]


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """The hubs of one team, and the sign-in of a person at one of them."""

    def __init__(self, company: OidcServer, address: str, open_state: Callable[[], HubState]) -> None:
        self.company, self.clock = company, Clock()
        self.grants: tuple[Grant, ...] = read_grants(GRANTS, "infra")
        self.are_all = True
        values: dict[str, Any] = {
            "issuer": company.url,
            "client_id": "kgd",
            "client_secret": "env:S",
            "session_days": 1,
        }
        values["scopes"] = ["profile", "groups", "offline_access"]
        self._configuration: Configuration = read_configuration(
            {"url": address, "issuers": {"company": values}}, lambda reference: SECRET
        )
        self._open = open_state
        self.tokens: list[Tokens] = []

    def hub(self) -> SignIns:
        tokens = Tokens(self._open, self.clock, os.urandom)
        self.tokens.append(tokens)
        return SignIns(self._configuration, tokens, lambda: (list(self.grants), self.are_all))

    def signed_in(self, hub: SignIns, *, at: SignIns | None = None) -> str:
        """The id of the token of a browser that began at one hub, and came back `at` another."""
        url, cookie = hub.begin("company", "/ui/")
        browser = Person(stops_at=self._configuration.url)
        back = browser.sign_in(browser.open(url), "ann")
        record, to = (at or hub).finish(cookie, query(back.url))
        assert to == "/ui/"
        return record.holder.id

    def verbs(self, id: str) -> list[str]:
        return sorted(verb for scope in self.tokens[0].record(id).holder.scopes for verb in scope.verbs)

    def is_live(self, id: str) -> bool:
        return self.tokens[0].record(id).is_live(self.clock())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def world(request: pytest.FixtureRequest, tmp_path: Path, company: OidcServer, address: str) -> Iterator[World]:
    company.person("ann", name="Ann", groups=["platform"])
    if request.param == "sqlite":
        state = SqliteHubState(tmp_path / "hub.db")
        yield World(company, address, lambda: state)
        state.close()
        return
    server: postgres_server.Server = request.getfixturevalue("postgres")
    with server.schema() as url:
        made = World(company, address, lambda: postgres_server.HubState(url))
        yield made
        for one in made.tokens:
            one.close()


def test_a_browser_that_is_used_stays_signed_in_with_its_present_groups(world: World) -> None:
    hub = world.hub()
    id = world.signed_in(hub)
    hub.keep_alive(id)
    assert world.verbs(id) == ["write"]
    world.company.person("ann", name="Ann", groups=["staff"])
    world.clock.now += LIFE * 0.8
    hub.keep_alive(id)
    assert world.verbs(id) == ["read"]
    world.clock.now += LIFE * 20  # an idle page comes back
    assert not world.is_live(id)
    hub.keep_alive(id)
    assert world.is_live(id)
    world.company.person("ann", name="Ann", groups=["other"])
    world.clock.now += LIFE
    with pytest.raises(Forbidden, match="none of your groups"):
        hub.keep_alive(id)
    assert world.tokens[0].record(id).revoked


def test_a_changed_policy_holds_from_the_next_renewal_on(world: World) -> None:
    hub = world.hub()
    id = world.signed_in(hub)
    world.clock.now += 2 * LIFE
    world.grants, world.are_all = (), False
    with pytest.raises(Unavailable):  # a workspace that cannot be read at the moment ends no sign-in
        hub.keep_alive(id)
    world.are_all = True
    with pytest.raises(Forbidden):
        hub.keep_alive(id)


def test_a_sign_in_ends_after_its_days_and_is_forgotten_later(world: World) -> None:
    hub = world.hub()
    id = world.signed_in(hub)
    world.clock.now += 86_400
    with pytest.raises(Unauthorized, match="has ended"):
        hub.keep_alive(id)
    world.clock.now += 31 * 86_400
    world.signed_in(hub)
    assert world.tokens[0].state.find(id) is None


def test_any_hub_finishes_and_renews_a_sign_in_that_another_began(world: World) -> None:
    first, second = world.hub(), world.hub()
    id = world.signed_in(first, at=second)
    world.clock.now += LIFE * 0.9
    first.keep_alive(id)
    world.clock.now += LIFE * 0.9
    second.keep_alive(id)
    assert world.is_live(id)


def test_requests_at_once_renew_only_once_since_the_server_accepts_each_refresh_token_once(world: World) -> None:
    hubs = [world.hub() for _ in range(3)]
    id = world.signed_in(hubs[0])
    world.clock.now += LIFE * 0.9
    failed: list[KgdError] = []

    def page(hub: SignIns) -> None:
        try:
            hub.keep_alive(id)
        except KgdError as error:
            failed.append(error)

    threads = [threading.Thread(target=page, args=(hub,)) for hub in hubs for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert failed == []
    world.clock.now += LIFE * 0.9
    hubs[1].keep_alive(id)
    assert world.is_live(id)
