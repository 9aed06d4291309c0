"""Programs get a token for an ID token of their platform, such as a CI system."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kgd.errors import Unauthorized
from kgd.oidc.id_token import verified
from tests.hub.conftest import Hub
from tests.oidc.servers import EXCHANGE, KeyIssuer, form

pytestmark = [pytest.mark.requirement("N7"), pytest.mark.needs("oidc-provider")]

SHOP = {"repository": "acme/shop", "protected": True}


def exchanged(hub: Hub, token: str) -> tuple[int, dict[str, Any]]:
    return form(hub, "token", grant_type=EXCHANGE, subject_token=token)


@pytest.mark.slow
def test_an_id_token_of_a_known_workload_becomes_a_short_token_with_its_groups_scopes(hub: Hub, ci: KeyIssuer) -> None:
    status, answer = exchanged(hub, ci.token({"aud": hub.url, **SHOP}))
    assert status == 200, answer
    assert 0 < answer["expires_in"] <= 300
    assert "refresh_token" not in answer
    who = hub.ask("GET", "/v1/workspaces", answer["access_token"]).json["principal"]
    assert (who["name"], who["kind"]) == ("shop-ci", "agent")
    assert who["scopes"] == [{"workspace": "infra", "verbs": ["read", "propose"], "paths": ["/services/**"]}]
    [line] = [one for one in hub.call("token_log", id=who["id"])["entries"] if one["action"] == "sign in"]
    assert f"subject repo:acme/shop of {ci.url}" in line["detail"]


def forged(ci: KeyIssuer, audience: str) -> str:
    """A token without a signature."""
    body = ci.token({"aud": audience, **SHOP}).split(".")[1]
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "first"}).encode()).decode().rstrip("=")
    return f"{header}.{body}."


OTHER = "https://other.example"
CLAIMS: dict[str, dict[str, Any]] = {
    "another hub's audience": {"aud": OTHER},
    "several audiences": {"aud": [OTHER]},
    "no audience": {"aud": None},
    "expired": {"exp": 1_700_000_000},
    "no expiry": {"exp": None},
    "not valid yet": {"nbf": 4_000_000_000},
    "issued in the future": {"iat": 4_000_000_000},
    "no subject": {"sub": None},
    "an unknown issuer": {"iss": "https://evil.example"},
    "another repository": {"repository": "acme/other"},
    "an unprotected branch": {"protected": False},
}
SIGNATURES: dict[str, dict[str, Any]] = {
    "another type of token": {"header": {"typ": "at+jwt"}},
    "an unknown key": {"header": {"kid": "second"}},
    "another issuer's key": {"key": rsa.generate_private_key(65537, 2048)},
    "a shared secret": {"key": "x" * 64, "algorithm": "HS256"},
}


@pytest.mark.parametrize("why", [*CLAIMS, *SIGNATURES])
def test_another_id_token_is_refused(hub: Hub, ci: KeyIssuer, why: str) -> None:
    claims = {"aud": hub.url, **SHOP, **CLAIMS.get(why, {})}
    if isinstance(claims["aud"], list):
        claims["aud"] = [OTHER, hub.url]
    status, answer = exchanged(hub, ci.token(claims, **SIGNATURES.get(why, {})))
    assert status == 400, answer
    assert answer["error"] in ("invalid_grant", "access_denied")
    assert answer["detail"]
    assert answer["next"]


@pytest.mark.parametrize(
    ("claims", "is_right"),
    [
        ({"aud": "kgd"}, True),
        ({"aud": ["kgd"], "azp": "kgd"}, True),
        ({"aud": ["kgd", "other"], "azp": "kgd"}, True),
        ({"aud": ["kgd", "other"]}, False),
        ({"aud": "kgd", "azp": "other"}, False),
        ({"aud": "other", "azp": "kgd"}, False),
        ({"aud": "kgd", "nonce": "another"}, False),
        ({"aud": "kgd", "nonce": None}, False),
    ],
)
def test_a_persons_id_token_is_for_this_hub_and_this_sign_in(
    ci: KeyIssuer, claims: dict[str, Any], is_right: bool
) -> None:
    token = ci.token({"nonce": "this", **claims})
    known = {"issuer": ci.url, "audience": "kgd", "client": "kgd", "nonce": "this"}
    with contextlib.nullcontext() if is_right else pytest.raises(Unauthorized):
        assert verified(token, lambda id: ci.keys, **known)["sub"] == "repo:acme/shop"


def test_an_unsigned_id_token_is_refused(hub: Hub, ci: KeyIssuer) -> None:
    status, answer = exchanged(hub, forged(ci, hub.url))
    assert (status, answer["error"]) == (400, "invalid_grant")
    assert "algorithm" in answer["detail"]


def test_an_unknown_key_makes_the_hub_read_the_keys_again_but_not_endlessly(hub: Hub, ci: KeyIssuer) -> None:
    old = ci.key
    try:
        ci.key = rsa.generate_private_key(65537, 2048)
        before = len(ci.asked)
        for _ in range(20):
            exchanged(hub, ci.token({"aud": hub.url, **SHOP}, header={"kid": "invented"}))
        assert len(ci.asked) - before <= 6
    finally:
        ci.key = old


def test_other_forms_are_refused_with_the_place_of_the_mistake(hub: Hub) -> None:
    for fields, at in (({}, "grant_type"), ({"grant_type": EXCHANGE}, "subject_token")):
        status, answer = form(hub, "token", **fields)
        assert (status, answer["at"]) == (400, at)
    told = hub.ask("POST", "/v1/sign_in/token", body=b"{}")
    assert (told.status, told.json["at"]) == (400, "Content-Type")
