"""Tokens: their text, and a hub's record of one, which never contains the text.

    kgd_<kind>_<id>_<secret>_<check>      kgd_agent_Xk3p9QaZ_<43 letters and digits>_<6 letters and digits>

The kind is the kind of holder, the id finds the record, the secret has 256 bits, and the check distinguishes a typing
error from a wrong token without a look-up. The prefix lets scanners find a token that was committed by mistake.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass, field

from kgd.errors import Unauthorized
from kgd.model.access import Kind, Principal

SECRET_BYTES = 32
ID_BYTES = 6
LEEWAY_SECONDS = 60
"""Seconds after its expiry in which a token is still valid: clocks differ."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(r"kgd_(person|agent|token)_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})").fullmatch


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one token. `pending_proposals` limits open proposals; the others are rates."""

    requests_per_minute: int = 600
    bytes_per_day: int = 1 << 30
    nodes_per_day: int = 20_000
    pending_proposals: int = 100


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The stored record of a token. Times are Unix seconds; 0 is "not yet".

    `holder` has the scopes and the expiry. `digest` is SHA-256 of the secret: 256 random bits need no slow hash.
    Revoking a parent token revokes this one.
    """

    holder: Principal
    digest: bytes
    created: int
    revoked: int = 0
    last_used: int = 0
    quota: Quota = field(default_factory=Quota)

    def is_live(self, now: float) -> bool:
        return not self.revoked and not self.holder.has_expired(now - LEEWAY_SECONDS)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit log: the token, its action, the place and the outcome."""

    at: int
    token: str
    action: str
    workspace: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as received; well formed, but not yet known to be valid."""

    kind: str
    id: str
    digest: bytes

    def matches(self, record: TokenRecord | None) -> bool:
        """Whether it is this token; takes as long without a record."""
        known = record.digest if record else bytes(32)
        return hmac.compare_digest(self.digest, known) and record is not None and record.holder.kind == self.kind


def write(kind: Kind, id_bytes: bytes, secret: bytes) -> tuple[str, str, bytes]:
    """(the token's text, its id, the digest to keep) from random bytes."""
    id = base62(id_bytes, 8)
    body = f"kgd_{kind}_{id}_{base62(secret, 43)}"
    return f"{body}_{_check(body)}", id, _digest(base62(secret, 43))


def read(text: str) -> Presented:
    """Parse a received token.

    Raises:
        Unauthorized: It is not a token, or has a typing error. The text is never quoted.
    """
    found = _FORM(text.strip())
    if found is None:
        raise Unauthorized("this is not a token of kgd", next="Send the whole token, from 'kgd_' to its end.")
    kind, id, secret, check = found.groups()
    if not hmac.compare_digest(_check(f"kgd_{kind}_{id}_{secret}"), check):
        raise Unauthorized("the token was mistyped: its check does not fit", next="Copy it again, whole.")
    return Presented(kind, id, _digest(secret))


def base62(data: bytes, width: int) -> str:
    """The bytes as a number in digits and letters, padded; excess leading digits are cut off."""
    number, out = int.from_bytes(data, "big"), ""
    for _ in range(width):
        number, digit = divmod(number, 62)
        out = _ALPHABET[digit] + out
    return out


def _check(body: str) -> str:
    return base62(zlib.crc32(body.encode()).to_bytes(4, "big"), 6)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
