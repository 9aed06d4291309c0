"""This file is where the text of a token is defined, and what a hub keeps about one: never the text itself.

    kgd_<kind>_<id>_<secret>_<check>      kgd_agent_Xk3p9QaZ_<43 letters and digits>_<6 letters and digits>

The kind says who holds it, the id finds its record, the secret has 256 bits, and the check tells a slip of the hand
from a wrong token without asking anybody. The prefix lets scanners find a token that was committed by mistake.
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
"""How much later than its expiry a token is still taken: clocks differ."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(r"kgd_(person|agent|token)_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})").fullmatch


@dataclass(frozen=True, slots=True)
class Quota:
    """What one token may use up. `pending_proposals` are those that wait at a time; the others are by time."""

    requests_per_minute: int = 600
    bytes_per_day: int = 1 << 30
    nodes_per_day: int = 20_000
    pending_proposals: int = 100


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is kept of a token. Times are Unix seconds; 0 is "not yet".

    `holder` is who comes with it, with its scopes and its end. `digest` is SHA-256 of the secret: that has 256 bits of
    chance, so no slow hash is needed. When the token that it was made from is revoked, so is this.
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
    """One line of the audit trail: which token did what, where, and what came of it."""

    at: int
    token: str
    action: str
    workspace: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as somebody sent it; well formed, but not yet known to be one of ours."""

    kind: str
    id: str
    digest: bytes

    def matches(self, record: TokenRecord | None) -> bool:
        """Whether it is that token; takes as long where there is no record."""
        known = record.digest if record else bytes(32)
        return hmac.compare_digest(self.digest, known) and record is not None and record.holder.kind == self.kind


def write(kind: Kind, id_bytes: bytes, secret: bytes) -> tuple[str, str, bytes]:
    """(the token's text, its id, the digest to keep) from chance."""
    id = base62(id_bytes, 8)
    body = f"kgd_{kind}_{id}_{base62(secret, 43)}"
    return f"{body}_{_check(body)}", id, _digest(base62(secret, 43))


def read(text: str) -> Presented:
    """What was sent, taken apart.

    Raises:
        Unauthorized: It is no token, or one letter of it is wrong. The text is never quoted.
    """
    found = _FORM(text.strip())
    if found is None:
        raise Unauthorized("this is not a token of kgd", next="Send the whole token, from 'kgd_' to its end.")
    kind, id, secret, check = found.groups()
    if not hmac.compare_digest(_check(f"kgd_{kind}_{id}_{secret}"), check):
        raise Unauthorized("the token was mistyped: its check does not fit", next="Copy it again, whole.")
    return Presented(kind, id, _digest(secret))


def base62(data: bytes, width: int) -> str:
    """The bytes as a number in digits and letters, padded; what does not fit the width is cut off at the top."""
    number, out = int.from_bytes(data, "big"), ""
    for _ in range(width):
        number, digit = divmod(number, 62)
        out = _ALPHABET[digit] + out
    return out


def _check(body: str) -> str:
    return base62(zlib.crc32(body.encode()).to_bytes(4, "big"), 6)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
