"""A browser may send each request to another hub: its link, its session, its messages and its own changes are there."""

from __future__ import annotations

import re
import signal
from urllib.parse import urlencode

import pytest

from tests.hub.conftest import Answer, Hub
from tests.hubs.conftest import Team

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]

PAGE = "/ui/w/infra/overview"


class Browser:
    """A browser without scripts, behind a balancer that sends each request to the next hub."""

    def __init__(self, hubs: list[Hub]) -> None:
        self.hubs, self._count = hubs, 0
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, **form: str) -> Answer:
        hub = self.hubs[self._count % len(self.hubs)]
        self._count += 1
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        body = urlencode(form).encode() if method == "POST" else None
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        answer = hub.ask(method, path, body=body, headers=headers)
        for found in re.findall(r"(?:^|, )([\w-]+)=([^;,]*);", answer.headers.get("set-cookie", "")):
            self.cookies[found[0]] = found[1].strip('"')
        return answer

    def proof(self, page: Answer) -> str:
        found = re.search(r'name="proof" value="([0-9a-f]+)"', page.body.decode())
        assert found, page.body
        return found[1]


def sign_in(browser: Browser, token: str) -> Answer:
    path = browser.hubs[-1].post(token, "links", {"workspace": "infra"}).json["path"]
    assert browser.ask("GET", path).status == 200
    entered = browser.ask("POST", "/ui/in", code=path.rpartition("/")[2])
    assert entered.status == 303, entered.body
    return entered


@pytest.mark.requirement("N6")
def test_links_sessions_messages_and_own_changes_are_seen_at_every_hub(team: Team) -> None:
    hubs = team.start(3, more=("--behind-proxy",))
    browser = Browser(hubs)
    token = hubs[0].mint("read,write", kind="person")
    sign_in(browser, token)
    for number in range(6):
        page = browser.ask("GET", "/ui/w/infra/node/new")
        assert page.status == 200, page.body
        saved = browser.ask(
            "POST", "/ui/w/infra/node/new", proof=browser.proof(page), name=f"Node {number}", summary="Of a test."
        )
        assert saved.status == 303, saved.body
        shown = browser.ask("GET", saved.headers["location"])
        text = shown.body.decode()
        assert (f"Node {number}" in text, "Saved with commit" in text) == (True, True), text
        assert "Saved with commit" not in browser.ask("GET", saved.headers["location"]).body.decode()
    left = browser.ask("POST", "/ui/out", proof=browser.proof(shown))
    assert left.status == 303
    assert {browser.ask("GET", PAGE).status for _ in hubs} == {401}


def test_sessions_end_at_every_hub_and_outlive_a_killed_hub_and_a_machines_own_user_stays_on_it(team: Team) -> None:
    first, second = team.start(2, more=("--behind-proxy",))
    token, other = first.mint("read", name="ann", kind="person"), first.mint("read", name="bob", kind="person")
    ann, bob, own = (Browser([first, second]) for _ in range(3))
    sign_in(ann, token)
    sign_in(bob, other)
    first.call("token_revoke", id=token.split("_")[2])
    assert {ann.ask("GET", PAGE).status for _ in range(2)} == {401}

    path = "/ui" + first.call("ui")["url"].partition("/ui")[2]
    assert Browser([second]).ask("GET", path).status == 401
    assert own.ask("POST", "/ui/in", code=path.rpartition("/")[2]).status == 303
    assert [own.ask("GET", PAGE).status for _ in range(2)] == [401, 200], "the second hub, then the first"

    first.stop(signal.SIGKILL)
    bob.hubs = [second]
    assert bob.ask("GET", PAGE).status == 200
    assert second.call("browsers", action="end")["ended"]
    assert bob.ask("GET", PAGE).status == 401
