"""Validation of ID tokens, with the algorithms that kgd accepts, and the accounts that their claims describe; and
sealed values: data that a client keeps for the hub, and that only hubs with the key can read or create."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from jwt import PyJWK

from kgd.errors import Forbidden, Unauthorized
from kgd.model.access import ACCOUNT, MAX_NAME, Kind
from kgd.model.token import base62
from kgd.oidc import EVERYONE, Issuer, claim_text

ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", "")),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", ""),
}
"""Accepted algorithms, with the type and the curve of their keys. Algorithms with shared secrets are not accepted."""
LEEWAY_SECONDS = 60
FRESH_SECONDS = 600
"""Largest age of an ID token with which a person signs in."""
LENGTH_LIMIT = 16 << 10
SMALLEST_RSA_KEY = 2048
GROUPS_LIMIT, GROUP_LENGTH, EMAIL_LENGTH = 2_000, 200, 254
_TYPES = ("", "jwt")
_REQUIRED = ("iss", "sub", "aud", "exp", "iat")

Key = Mapping[str, Any]
FindKeys = Callable[[str], Sequence[Key]]
"""Returns the issuer's public keys (JWK) with a key id; all of them for an empty id."""


def verified(
    token: str, keys: FindKeys, *, issuer: str, audience: str, client: str = "", nonce: str | None = None
) -> dict[str, Any]:
    """The claims of an ID token.

    Args:
        audience: The audience of the token. Further audiences are allowed only if `azp` names the client.
        client: The hub as a client of the issuer, if it asked for the token; `azp` must not name another client.
        nonce: The nonce of the request; None if the request had none.

    Raises:
        Unauthorized: The token is malformed, not signed by the issuer, expired, or meant for another program.
        Unavailable: The issuer's keys cannot be read.
    """
    key, algorithm = _key(token, keys)
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key=key.key,
            algorithms=[algorithm],
            audience=audience,
            issuer=issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(_REQUIRED)},
        )
    except jwt.PyJWTError as error:
        raise _refused(_REASONS.get(type(error), "is not valid")) from error
    has_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (has_several or (client and "azp" in claims)) and not (client and claims.get("azp") == client):
        raise _refused("was issued to another program")
    if nonce is not None and not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _refused("does not belong to this sign-in")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= 255:
        raise _refused("names no subject")
    return claims


def refuse_old(claims: Mapping[str, Any]) -> None:
    """Raise Unauthorized if an ID token was not issued just now."""
    if claims["iat"] < time.time() - FRESH_SECONDS:
        raise _refused("was not issued just now")


def _key(token: str, keys: FindKeys) -> tuple[PyJWK, str]:
    """The key that must have signed the token, and the algorithm."""
    if len(token) > LENGTH_LIMIT:
        raise _refused("is too long")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise _refused("is malformed") from error
    algorithm, id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _refused("has an algorithm that kgd does not accept")
    if str(header.get("typ", "")).lower() not in _TYPES or "crit" in header:
        raise _refused("is a token of another type")
    kind, curve = ALGORITHMS[algorithm]
    fitting = [
        one
        for one in keys(id if isinstance(id, str) else "")
        if one.get("kty") == kind
        and one.get("use", "sig") == "sig"
        and one.get("alg", algorithm) == algorithm
        and (not curve or one.get("crv") == curve)
    ]
    if len(fitting) != 1:
        raise _refused("is not signed with a key of its issuer")
    try:
        found = PyJWK(dict(fitting[0]), algorithm=algorithm)
    except jwt.PyJWTError as error:
        raise _refused("is signed with a key that cannot be read") from error
    if kind == "RSA" and found.key.key_size < SMALLEST_RSA_KEY:
        raise _refused("is signed with a key that is too short")
    return found, algorithm


_REASONS: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "has expired",
    jwt.ImmatureSignatureError: "is not valid yet",
    jwt.InvalidAudienceError: "is meant for another program",
    jwt.InvalidIssuerError: "comes from another issuer",
    jwt.InvalidSignatureError: "is not signed by its issuer",
    jwt.MissingRequiredClaimError: "lacks a required claim",
}


def _refused(why: str) -> Unauthorized:
    return Unauthorized(f"the ID token {why}", next="Sign in again, or get a new ID token for this hub.")


def issuer_of(token: str) -> str:
    """The issuer that an ID token names, before it is verified. Raises Unauthorized if the token is malformed."""
    try:
        claims = jwt.decode(token[: LENGTH_LIMIT + 1], options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise _refused("is malformed") from error
    return str(claims.get("iss", ""))


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
    is_unverified = claim_text(claims.get("email_verified")).lower() == "false"  # some issuers send a string
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


KEY_BYTES, NONCE_BYTES = 32, 12
LIMIT = 32 << 10


class Sealing:
    """Seals with one key; thread-safe. A value sealed for one purpose cannot be opened for another."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key[:KEY_BYTES])

    def seal(self, purpose: str, values: Mapping[str, Any]) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, orjson.dumps(dict(values)), purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def open(self, purpose: str, text: str) -> dict[str, Any] | None:
        """The values; None if they were changed, or sealed with another key or for another purpose."""
        if len(text) > LIMIT:
            return None
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            values = orjson.loads(self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], purpose.encode()))
        except (InvalidTag, ValueError, binascii.Error):
            return None
        return values if isinstance(values, dict) else None
