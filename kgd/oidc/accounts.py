"""Accounts: a person or a program as the claims of an ID token describe them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import Forbidden
from kgd.model.access import ACCOUNT, MAX_NAME, Kind
from kgd.model.token import base62
from kgd.oidc.configuration import EVERYONE, Issuer, claim_text

GROUPS_LIMIT, GROUP_LENGTH, EMAIL_LENGTH = 2_000, 200, 254


@dataclass(frozen=True, slots=True)
class Account:
    """`groups` are named as in ``kgd.yaml``: ``ISSUER:GROUP``."""

    issuer: Issuer
    subject: str
    name: str
    email: str
    kind: Kind
    groups: frozenset[str]

    @property
    def id(self) -> str:
        """An id that is the same for all tokens of the account."""
        digest = hashlib.sha256(f"{self.issuer.url}\0{self.subject}".encode()).digest()
        return ACCOUNT + base62(digest[:16], 22)

    @property
    def told(self) -> str:
        """The account for the audit log."""
        name = f"{self.name} <{self.email}>" if self.email else self.name
        return f"subject {self.subject} of {self.issuer.url}, {name}"


def person(issuer: Issuer, claims: Mapping[str, Any]) -> Account:
    """The person described by the claims of a verified ID token."""
    email = claims.get("email")
    is_unverified = claim_text(claims.get("email_verified")).lower() == "false"  # some issuers send a text
    if not isinstance(email, str) or is_unverified or not _is_address(email):
        email = ""
    given = claims.get(issuer.groups)
    groups = given if isinstance(given, list) else [given]
    named = (claims.get(name) for name in ("name", "preferred_username"))
    name = next((found for one in (*named, email) if (found := _name(one))), _name(claims["sub"]))
    return Account(issuer, claims["sub"], name or "person", email, "person", _groups(issuer, groups))


def program(issuer: Issuer, claims: Mapping[str, Any]) -> Account:
    """The program described by the claims of a verified ID token.

    Raises:
        Forbidden: No configured workload has these claims.
    """
    own = [one for one in issuer.workloads if all(claim_text(claims.get(key)) == one.claims[key] for key in one.claims)]
    if not own:
        raise Forbidden(
            f"subject {claims['sub'][:120]} of {issuer.url} is not a workload of this hub",
            next="Ask the hub's administrator to add its claims to `workloads`.",
        )
    name = _name(own[0].name) or _name(claims["sub"]) or "agent"
    return Account(issuer, claims["sub"], name, "", "agent", _groups(issuer, [one.group for one in own]))


def _groups(issuer: Issuer, given: list[Any]) -> frozenset[str]:
    texts = [one for one in given[:GROUPS_LIMIT] if isinstance(one, str) and 0 < len(one) <= GROUP_LENGTH]
    return frozenset(f"{issuer.name}:{one}" for one in [*texts, EVERYONE])


def _name(value: Any) -> str:
    """The name of a holder, without the characters that it cannot have."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in " ".join(text.split()) if c.isprintable() and c not in "<>()")[:MAX_NAME].strip()


def _is_address(text: str) -> bool:
    return "@" in text and len(text) <= EMAIL_LENGTH and text.isprintable() and not set("<> ") & set(text)
