"""People sign in with their company's accounts, in a browser and on another device. Groups decide their scopes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kgd.oidc.id_token import Sealing
from tests.hub.conftest import Hub
from tests.oidc.conftest import GRANTS
from tests.oidc.servers import OidcServer, Page, Person, form, grant, query
from tests.sync.people import git
from tests.waiting import until

pytestmark = [pytest.mark.requirement("N7"), pytest.mark.needs("oidc-provider"), pytest.mark.slow]

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ANN = {"name": "Ann Smith", "email": "ann@example.org", "email_verified": True}


@pytest.fixture(autouse=True)
def _people(company: OidcServer) -> None:
    company.person("ann", **ANN, groups=["platform"])
    company.person("bob", name="Bob Jones", groups=[])


def begun(hub: Hub, browser: Person, page: str = "/ui/w/infra/overview") -> Page:
    """The first page of the company's server."""
    return browser.open(f"{hub.url}/ui/sign-in/company?to={page}")


def signed_in(hub: Hub, id: str) -> tuple[Person, Page]:
    """A person's browser, and the page where its sign-in ended."""
    browser = Person()
    return browser, browser.sign_in(begun(hub, browser), id)


def on_device(hub: Hub, id: str) -> dict[str, Any]:
    """The hub's answer to a program whose person signs in elsewhere."""
    status, asked = form(hub, "device")
    assert status == 200, asked
    polled = {"grant_type": DEVICE, "device_code": asked["device_code"]}
    assert form(hub, "token", **polled)[1]["error"] == "authorization_pending"
    browser = Person()
    page = browser.send(browser.open(asked["verification_uri_complete"]))  # the code is in the address
    page = browser.send(page, confirm="yes")
    page = browser.sign_in(page, id)
    status, answer = form(hub, "token", **polled)
    return {"status": status, **answer}


def refreshed(hub: Hub, answer: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return form(hub, "token", grant_type="refresh_token", refresh_token=answer["refresh_token"])


def who(hub: Hub, token: str) -> dict[str, Any]:
    return hub.ask("GET", "/v1/workspaces", token).json


# ---- browsers


def test_a_person_signs_in_with_a_browser_and_sees_what_their_groups_allow(hub: Hub) -> None:
    assert "Sign in with Example Ltd" in Person().open(f"{hub.url}/ui/").text
    browser, page = signed_in(hub, "ann")
    assert page.status == 200, page.text
    assert "Ann Smith" in page.text
    assert 'url=/ui/w/infra/overview"' in page.text
    assert "Plan" in browser.open(f"{hub.url}/ui/w/infra/node?uri=concept://infra/plans/next").text
    limited, _ = signed_in(hub, "bob")
    hidden = limited.open(f"{hub.url}/ui/w/infra/node?uri=concept://infra/plans/next")
    assert (hidden.status, "Hidden from most" in hidden.text) == (403, False)
    assert "Auth" in limited.open(f"{hub.url}/ui/w/infra/node?uri=concept://infra/services/auth").text


def test_a_person_in_no_group_with_access_is_refused_and_logged(hub: Hub) -> None:
    grant(hub, GRANTS[0])
    try:
        _, page = signed_in(hub, "bob")
        assert page.status == 403
        assert "None of your groups has access" in page.text
        [line] = [one for one in hub.call("token_log")["entries"] if "subject bob" in one.get("detail", "")][:1]
        assert line["action"] == "sign in refused"
    finally:
        grant(hub, *GRANTS)


def test_an_answer_is_accepted_once_and_only_in_the_browser_that_began_the_sign_in(hub: Hub) -> None:
    browser = Person()
    page = begun(hub, browser)
    browser.stops_at = f"{hub.url}/ui/signed-in"
    back = browser.sign_in(page, "ann").url
    assert query(back)["code"]

    thief = Person()
    assert thief.open(back).status == 401  # a stolen address, in another browser
    begun(hub, thief)
    # a stolen address, in a browser that began a sign-in of its own
    assert "started in another browser" in thief.open(back).text
    cookies = dict(browser.cookies)
    changed = back.replace(query(back)["state"], query(back)["state"][::-1])
    assert browser.open(changed).status == 401
    foreign = back.replace("iss=http%3A%2F%2F127", "iss=http%3A%2F%2F128")
    assert "not from the chosen" in browser.open(foreign).text
    assert "Ann Smith" in browser.open(back).text
    browser.cookies = cookies  # everything is sent a second time
    again = browser.open(back)
    assert again.status == 401
    assert "invalid_grant" in again.text


def test_a_person_who_declines_gets_a_page_that_offers_another_try(hub: Hub) -> None:
    browser = Person()
    page = begun(hub, browser)
    page = browser.open(page.url + "/abort")
    assert page.status == 401
    assert "access_denied" in page.text
    assert "Sign in with Example Ltd" in page.text


def test_another_site_cannot_start_a_sign_in(hub: Hub) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = hub.ask("GET", "/ui/sign-in/company", headers=headers)
    assert answer.status == 403
    assert "location" not in answer.headers


def test_signing_out_ends_the_token(hub: Hub) -> None:
    browser, _ = signed_in(hub, "ann")
    page = browser.open(f"{hub.url}/ui/w/infra/overview")
    [newest] = hub.call("browsers")["browsers"][:1]
    out = page.text.index('action="/ui/out"')
    proof = page.text[out:].partition('name="proof" value="')[2].partition('"')[0]
    browser.open(f"{hub.url}/ui/out", {"proof": proof})
    states = {one["id"]: one["state"] for one in hub.call("token_list")["tokens"]}
    assert states[newest["token"]] == "revoked"


# ---- other devices


def test_a_program_gets_a_token_for_a_person_who_signs_in_elsewhere(hub: Hub) -> None:
    answer = on_device(hub, "ann")
    assert answer["status"] == 200, answer
    assert 0 < answer["expires_in"] <= 900
    known = who(hub, answer["access_token"])["principal"]
    assert (known["name"], known["kind"]) == ("Ann Smith", "person")
    verbs = [one["verbs"] for one in known["scopes"]]
    assert sorted(verbs) == [["read"], ["read", "write"]]
    change = {"op": "upsert", "uri": "concept://infra/services/by-ann", "summary": "By a signed-in person"}
    commit = hub.post(answer["access_token"], "infra/put", {"changes": [change]}).json["commit"]
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert entry["author"] == "Ann Smith"
    log = hub.call("token_log", id=known["id"])["entries"]
    assert {"sign in", "put"} <= {one["action"] for one in log}
    assert any("subject ann of http" in one.get("detail", "") for one in log)
    shown = git(hub.workspace("infra"), "show", "-s", "--format=%an <%ae>", commit)
    assert shown == "Ann Smith <ann@example.org>"


def test_a_device_code_works_once_and_only_as_the_hub_gave_it(hub: Hub) -> None:
    _, asked = form(hub, "device")
    status, answer = form(hub, "token", grant_type=DEVICE, device_code=asked["device_code"][:-4] + "AAAA")
    assert (status, answer["error"]) == (400, "invalid_grant")
    sealed = Sealing(bytes(32)).seal("device", {"issuer": "company", "code": "x", "until": 4_000_000_000})
    assert form(hub, "token", grant_type=DEVICE, device_code=sealed)[0] == 400


# ---- renewal


def test_a_renewed_token_has_the_scopes_of_the_groups_of_that_moment(hub: Hub, company: OidcServer) -> None:
    first = on_device(hub, "ann")
    company.person("ann", **ANN, groups=[])
    _, second = refreshed(hub, first)
    known = who(hub, second["access_token"])["principal"]
    assert known["id"] == first["access_token"].split("_")[2]
    assert [one["paths"] for one in known["scopes"]] == [["/services/**"]]
    narrowed = who(hub, first["access_token"])["principal"]  # requests that have begun may still use the old text
    assert narrowed["scopes"] == known["scopes"]
    _, third = refreshed(hub, second)
    assert hub.ask("GET", "/v1/workspaces", first["access_token"]).status == 401
    assert hub.ask("GET", "/v1/workspaces", third["access_token"]).status == 200
    actions = [one["action"] for one in hub.call("token_log", id=known["id"])["entries"]]
    assert actions.count("renew") == 1


def test_a_person_who_left_the_company_or_all_groups_loses_access_at_renewal(hub: Hub, company: OidcServer) -> None:
    left, ungrouped = on_device(hub, "ann"), on_device(hub, "bob")
    company.tell("remove", id="ann")
    status, answer = refreshed(hub, left)
    assert (status, answer["error"]) == (400, "invalid_grant")
    assert "ended your sign-in" in answer["detail"]
    assert hub.ask("GET", "/v1/workspaces", left["access_token"]).status == 401
    grant(hub, GRANTS[0])
    try:
        status, answer = refreshed(hub, ungrouped)
        assert (status, answer["error"]) == (400, "access_denied")
    finally:
        grant(hub, *GRANTS)
    assert hub.ask("GET", "/v1/workspaces", ungrouped["access_token"]).status == 401
    assert refreshed(hub, ungrouped)[0] == 400


def test_a_silent_sign_in_server_ends_no_sign_in(hub: Hub, company: OidcServer) -> None:
    answer = on_device(hub, "ann")
    company.tell("silence", on=True)
    try:
        status, said = refreshed(hub, answer)
        assert (status, said["code"]) == (503, "UNAVAILABLE")
        assert hub.ask("GET", "/v1/workspaces", answer["access_token"]).status == 200
    finally:
        company.tell("silence", on=False)
    until(lambda: refreshed(hub, answer)[0] == 200)


def test_new_keys_of_the_sign_in_server_are_used_at_once(hub: Hub, company: OidcServer) -> None:
    answer = on_device(hub, "ann")
    company.tell("rotate")
    assert refreshed(hub, answer)[0] == 200
    assert on_device(hub, "ann")["status"] == 200


def test_a_refresh_token_renews_and_does_nothing_else(hub: Hub) -> None:
    answer = on_device(hub, "ann")
    assert hub.ask("GET", "/v1/workspaces", answer["refresh_token"]).status == 401
    assert form(hub, "token", grant_type="refresh_token", refresh_token=answer["access_token"])[0] == 400
    hub.call("token_revoke", id=answer["access_token"].split("_")[2])
    status, said = refreshed(hub, answer)
    assert (status, said["error"]) == (400, "invalid_grant")


def test_a_token_made_from_a_persons_token_expires_no_later(hub: Hub) -> None:
    answer = on_device(hub, "ann")
    child = hub.post(answer["access_token"], "tokens", {"name": "helper", "verbs": ["read"], "expires": "1d"})
    assert child.status == 403
    child = hub.post(answer["access_token"], "tokens", {"name": "helper", "verbs": ["read"]})
    assert child.status == 201
    known = who(hub, answer["access_token"])["principal"]
    assert child.json["expires"] <= known["expires"]


def test_a_quota_is_counted_for_the_person_over_all_their_sign_ins(hub: Hub) -> None:
    """Otherwise, each new sign-in would come with a fresh quota."""
    first, second = (on_device(hub, "ann")["access_token"].split("_")[2] for _ in range(2))
    assert first != second
    with sqlite3.connect(Path(hub.home.state) / "hub.db") as db:
        spent = {row[0] for row in db.execute("SELECT token FROM spent")}
    assert any(one.startswith("oidc-") for one in spent)
    assert not {first, second} & spent
