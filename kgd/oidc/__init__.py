"""Sign-in with an organisation's accounts (OpenID Connect): issuers, their tokens, and sealed values. PyJWT and
cryptography are used only here, and imported only by a hub with `--oidc`.

This module has the operator's configuration (`kgd serve --oidc FILE`): the hub's address and its issuers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError
from kgd.http_client import Address

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}\Z").match
SCOPES = ("openid", "profile", "email", "offline_access")
TOKEN_MINUTES, SESSION_DAYS = 15, 30
EVERYONE = "*"
"""The group of all who sign in with an issuer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The claims that a program's ID token must have, and the group and name that it gets."""

    claims: Mapping[str, str]
    group: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Issuer:
    """One issuer of ID tokens. People sign in if it has a `client_id`, programs if it has `workloads`.

    `name` precedes the names of its groups in ``kgd.yaml``, as in ``company:platform``. `groups` is the claim with a
    person's groups. A token is valid for `token_seconds`; a person signs in again after `session_seconds`.
    """

    name: str
    url: str
    title: str
    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = SCOPES
    groups: str = "groups"
    audience: str = ""
    workloads: tuple[Workload, ...] = ()
    token_seconds: int = TOKEN_MINUTES * 60
    session_seconds: int = SESSION_DAYS * 86_400


@dataclass(frozen=True, slots=True)
class Configuration:
    """`url` is the hub's public address: browsers return to it, and programs' ID tokens have it as their audience."""

    url: str
    issuers: Mapping[str, Issuer]

    def people(self) -> list[Issuer]:
        """The issuers with which people sign in."""
        return [one for one in self.issuers.values() if one.client_id]


def read_configuration(values: Mapping[str, Any], secret: Callable[[str], str]) -> Configuration:
    """The configuration from plain data.

    Args:
        secret: Returns the credential for a reference, such as ``env:NAME``.

    Raises:
        Invalid: A value is missing, unknown or malformed; the place is its path.
        KgdError: A credential cannot be read.
    """
    _refuse_unknown(values, {"url", "issuers"}, "")
    url = _address(values.get("url"), "url")
    issuers = values.get("issuers")
    if not isinstance(issuers, Mapping) or not issuers:
        raise Invalid("sign-in needs at least one issuer", at="issuers", next="See docs/guides/sign-in.md.")
    return Configuration(url, {str(name): _issuer(str(name), one, url, secret) for name, one in issuers.items()})


def _issuer(name: str, values: Any, url: str, secret: Callable[[str], str]) -> Issuer:
    at = f"issuers.{name[:40]}"
    if not NAME(name):
        raise Invalid("an issuer's name has lower-case letters, digits and dashes", at=at, next="For example company.")
    if not isinstance(values, Mapping):
        raise Invalid("an issuer must be a mapping", at=at, next="Write at least issuer: https://login.example.org.")
    known = {"issuer", "title", "client_id", "client_secret", "scopes", "groups", "audience", "workloads"}
    _refuse_unknown(values, known | {"token_minutes", "session_days"}, f"{at}.")
    workloads = values.get("workloads", [])
    if not isinstance(workloads, list):
        raise Invalid("'workloads' must be a list", at=f"{at}.workloads")
    found = Issuer(
        name,
        _address(values.get("issuer"), f"{at}.issuer", verbatim=True),
        title=_text(values, "title", at) or name,
        client_id=_text(values, "client_id", at),
        client_secret=_secret(values, at, secret),
        scopes=_scopes(values.get("scopes", list(SCOPES)), f"{at}.scopes"),
        groups=_text(values, "groups", at) or "groups",
        audience=_text(values, "audience", at) or url,
        workloads=tuple(_workload(one, f"{at}.workloads[{index}]") for index, one in enumerate(workloads)),
        token_seconds=60 * _number(values, "token_minutes", TOKEN_MINUTES, 60, at),
        session_seconds=86_400 * _number(values, "session_days", SESSION_DAYS, 366, at),
    )
    if not found.client_id and not found.workloads:
        raise Invalid("an issuer needs a client_id, for people, or workloads, for programs", at=at)
    return found


def _workload(values: Any, at: str) -> Workload:
    if not isinstance(values, Mapping) or not isinstance(values.get("claims"), Mapping) or not values["claims"]:
        raise Invalid(
            "a workload needs the claims that its ID token must have",
            at=at,
            next="For example claims: {repository: acme/shop}.",
        )
    _refuse_unknown(values, {"claims", "group", "name"}, f"{at}.")
    if not (group := _text(values, "group", at)):
        raise Invalid("a workload needs a group", at=at, next="kgd.yaml grants scopes to this group.")
    claims = {str(name): claim_text(value) for name, value in values["claims"].items()}
    if "" in claims.values():
        raise Invalid("the value of a claim must be a string, a number, true or false", at=f"{at}.claims")
    return Workload(claims, group, _text(values, "name", at))


def claim_text(value: Any) -> str:
    """The value of a claim for comparisons; empty if it is not a single value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else ""


def _address(value: Any, at: str, *, verbatim: bool = False) -> str:
    try:
        Address.parse(value if isinstance(value, str) else "", of=at)
    except Invalid:
        raise Invalid("this must be an https address", at=at, next="http is only for 127.0.0.1.") from None
    assert isinstance(value, str)
    return value if verbatim else value.rstrip("/")


def _scopes(value: Any, at: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.isprintable() for one in value):
        raise Invalid("'scopes' must be a list of strings", at=at)
    return tuple(dict.fromkeys(["openid", *value]))


def _secret(values: Mapping[str, Any], at: str, secret: Callable[[str], str]) -> str:
    reference = _text(values, "client_secret", at)
    if not reference:
        return ""
    try:
        return secret(reference)
    except KgdError as error:
        error.at = f"{at}.client_secret"
        raise


def _text(values: Mapping[str, Any], name: str, at: str) -> str:
    value = values.get(name, "")
    if not isinstance(value, str) or len(value) > 1_000 or not value.isprintable():
        raise Invalid(f"'{name}' must be a string", at=f"{at}.{name}")
    return value


def _number(values: Mapping[str, Any], name: str, usual: int, most: int, at: str) -> int:
    value = values.get(name, usual)
    if type(value) is not int or not 1 <= value <= most:
        raise Invalid(f"'{name}' must be a number from 1 to {most}", at=f"{at}.{name}")
    return value


def _refuse_unknown(values: Mapping[str, Any], known: Collection[str], at: str) -> None:
    if unknown := sorted(map(str, values.keys() - known)):
        raise Invalid(
            f"there is no setting '{unknown[0][:40]}'",
            at=f"{at}{unknown[0][:40]}",
            next=f"Known: {', '.join(sorted(known))}.",
        )
