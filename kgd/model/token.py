"""Tokens: their text, a hub's record of each, which never contains the text, and the interface of the state that keeps
records, used quotas, answers to repeated requests, and the audit log.

The audit log is a chain of hashes: each line's hash covers the line and the hash before it, so a changed, removed or
moved line is detected.

`tests/hub/test_tokens.py` tests the contract of the state with each implementation.

    kgd_<kind>_<id>_<secret>_<check>      kgd_agent_Xk3p9QaZ_<43 letters and digits>_<6 letters and digits>

`kind` is the kind of holder, `id` identifies the record, `secret` has 256 bits, and `check` distinguishes a typing
error from a wrong token without a look-up. The prefix lets scanners find a token that was committed by mistake. The
kind `refresh` marks a text that only renews a token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from kgd.errors import Unauthorized
from kgd.model.access import Kind, Principal, principal_from

SECRET_BYTES = 32
ID_BYTES = 6
LEEWAY_SECONDS = 60
"""Seconds for which a token stays valid after its expiry, since clocks differ."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(r"kgd_(person|agent|token|refresh)_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})").fullmatch


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one token. `pending_proposals` limits open proposals; the others are rates."""

    requests_per_minute: int = 600
    bytes_per_day: int = 1 << 30
    nodes_per_day: int = 20_000
    pending_proposals: int = 100


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The stored record of a token. Times are in Unix seconds; 0 means "not yet".

    `holder` has the scopes and the expiry. `digest` is the SHA-256 of the secret: 256 random bits need no slow hash. A
    renewed token has two digests, one after the other: the second is for its previous text, which is still accepted.
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
    """One line of the audit log: the token, its action, what it acted on, and the outcome."""

    at: int
    token: str
    action: str
    workspace: str = ""
    detail: str = ""
    hash: str = ""
    """See `ChainCheck`; empty until the line is in the chain."""


DETAIL_LIMIT = 500
"""Largest stored length of a detail; a longer one is cut."""


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, which databases refuse."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def to_row(record: TokenRecord) -> tuple[object, ...]:
    """The columns of a record in every database: id, parent, holder, digest, quota, created, revoked, last_used."""
    holder, quota = json.dumps(record.holder.as_dict()), json.dumps(asdict(record.quota))
    who = record.holder
    return who.id, who.parent, holder, record.digest, quota, record.created, record.revoked, record.last_used


def from_row(row: tuple[Any, ...]) -> TokenRecord:
    """The inverse of `to_row`."""
    _, _, holder, digest, quota, created, revoked, last_used = row
    who = principal_from(json.loads(holder))
    return TokenRecord(who, bytes(digest), created, revoked, last_used, Quota(**json.loads(quota)))


@dataclass(frozen=True, slots=True)
class Presented:
    """A received token that is well formed but not yet known to be valid."""

    kind: str
    id: str
    digest: bytes

    def matches(self, record: TokenRecord | None) -> bool:
        """Whether the record belongs to this token. Takes equally long if there is no record."""
        known = record.digest if record else bytes(32)
        is_one = [hmac.compare_digest(self.digest, known[at : at + 32]) for at in (0, 32)]
        return any(is_one) and record is not None and record.holder.kind == self.kind


def write(kind: Kind, id_bytes: bytes, secret: bytes) -> tuple[str, str, bytes]:
    """(the token's text, its id, the digest to keep) from random bytes."""
    id = base62(id_bytes, 8)
    text, digest = written(kind, id, secret)
    return text, id, digest


def written(kind: Kind | Literal["refresh"], id: str, secret: bytes) -> tuple[str, bytes]:
    """The text of a token with this id, and the digest to store."""
    body = f"kgd_{kind}_{id}_{base62(secret, 43)}"
    return f"{body}_{_check(body)}", _digest(base62(secret, 43))


def read(text: str, *, refresh: bool = False) -> Presented:
    """Parse a received token or, with `refresh`, a refresh token.

    Raises:
        Unauthorized: The text is not a token, or has a typing error. The error never quotes it.
    """
    found = _FORM(text.strip())
    if found is None or (found[1] == "refresh") != refresh:
        raise Unauthorized("this is not a kgd token", next="Send the whole token, from 'kgd_' to its end.")
    kind, id, secret, check = found.groups()
    if not hmac.compare_digest(_check(f"kgd_{kind}_{id}_{secret}"), check):
        raise Unauthorized(
            "the token was mistyped: its check characters do not match", next="Copy the whole token again."
        )
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


@dataclass(frozen=True, slots=True)
class HubContents:
    """A hub's whole state, for another state that takes it over. `id` identifies its origin."""

    id: str
    tokens: list[TokenRecord]
    spent: list[tuple[str, str, int, int]]
    """Token, resource, number of the window, amount."""
    answers: Iterator[tuple[str, str, bytes, str, int]]
    """Token, request id, digest of the request, answer, time."""
    lines: Callable[[int], Iterator[list[tuple[int, AuditEntry]]]]
    """The lines of the audit log with a higher number, oldest first, in parts."""
    keys: list[tuple[str, bytes]]
    """Secret keys with their names."""
    sign_ins: list[tuple[str, int, bytes]]
    """Id of the token, end, data sealed with the key `SIGN_IN_KEY`."""


SIGN_IN_KEY = "sign-in"
"""Name of the key that seals the data of sign-ins."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Counts of the entries that a state took over; it may have had others already."""

    tokens: int = 0
    answers: int = 0
    lines: int = 0


class HubState(Protocol):
    """Shared by all threads and processes of a hub, or by several hubs. Times are in Unix seconds.

    When a method returns, tokens, revocations, answers and new lines of the audit log survive a power cut; counters and
    times of use may be lost. Every method raises Unavailable while the state cannot be reached, and Damaged if it
    cannot be read; after either, nothing has changed.
    """

    def add(self, record: TokenRecord) -> None:
        """Add a token."""

    def add_child(self, record: TokenRecord, now: float) -> bool:
        """Add a child token if its parent is live; returns whether it was added. A parent that is being revoked gets no
        more children."""

    def find(self, id: str) -> TokenRecord | None:
        """The token with this id. A revocation by any hub is visible at once."""

    def all(self) -> list[TokenRecord]:
        """All tokens, oldest first."""

    def revoke(self, id: str, at: int) -> list[str]:
        """Revoke a token and its descendants; returns the ids that were live, sorted."""

    def used(self, id: str, at: int) -> None:
        """Record a use of a token. Earlier times are ignored."""

    def spend(self, limits: Mapping[str, int], what: str, seconds: int, amount: int, at: float) -> int:
        """Count an amount against the limits of several tokens, by token id, within the current window of `seconds`.

        Hubs with shared state use its clock; a single hub uses its own, which reads `at`. Returns 0. If the amount
        would exceed one of the limits, nothing is counted, and the seconds until the window ends are returned.
        """

    def answer(self, token: str, request: str) -> tuple[bytes, str] | None:
        """(digest of the request, its answer), if the token has sent this request id."""

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str, at: int, oldest: int) -> None:
        """Keep an answer, unless there is one already, and delete the answers from before `oldest`."""

    def note(self, entry: AuditEntry) -> int:
        """Add a line to the audit log; returns its number. Numbers increase."""

    def renote(self, number: int, detail: str) -> None:
        """Replace the detail of a line; if the line is sealed, add a copy of it with this detail."""

    def seal(self, now: int) -> int:
        """Add the next lines that are older than `SEAL_SECONDS` to the chain of hashes; returns their number, at most
        `SEALED_AT_ONCE`. All hubs make one chain."""

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Lines with a higher number than `after`, oldest first. A reader that pages through them misses none."""

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        """The newest lines, newest first; those of one token, if given."""

    def key(self, name: str, proposed: bytes) -> bytes:
        """The secret key of this name; the first value that a hub proposes becomes the key."""

    def add_sign_in(self, record: TokenRecord, kept: bytes, until: int, oldest: int) -> None:
        """Add the token of a sign-in that ends at `until`, with the data for its renewal, and delete the tokens of
        sign-ins that ended before `oldest`."""

    def sign_in(self, id: str) -> bytes | None:
        """The data for the renewal of a sign-in; None if there is none."""

    def renew(self, record: TokenRecord, kept: bytes) -> bool:
        """Replace the holder, the digest and the data of a sign-in; returns whether it still exists and is not
        revoked."""

    def turn(self, name: str) -> AbstractContextManager[None]:
        """A named lock, as a context: only one thread of all hubs holds it at a time. Raises Unavailable if others
        occupy it for many seconds."""

    def close(self) -> None:
        """Release files and connections."""


SEAL_SECONDS = 120
"""Age in seconds at which a line no longer changes and is added to the chain."""
SEALED_AT_ONCE = 1_000
MOST_PROBLEMS = 100


def chain_hash(before: str, number: int, entry: AuditEntry) -> str:
    """SHA-256, in hex, of a JSON list: the hash of the line before (empty for the first), and the line's fields."""
    fields = [before, number, entry.at, entry.token, entry.action, entry.workspace, entry.detail]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def sealed(before: str, lines: Iterable[tuple[int, AuditEntry]]) -> list[tuple[int, str]]:
    """The numbers of consecutive lines with their hashes. `before` is the hash of the line before them."""
    found = []
    for number, entry in lines:
        before = chain_hash(before, number, entry)
        found.append((number, before))
    return found


@dataclass(slots=True)
class ChainCheck:
    """The result of checking lines in order.

    The chain begins at the line `first`, because earlier lines are older than the chain or were removed with their
    file. `last` is its last line, with the hash `hash`; `open` counts the lines after it.
    """

    first: int = 0
    last: int = 0
    hash: str = ""
    open: int = 0
    problems: list[str] = field(default_factory=list)
    _number: int = 0

    def add(self, number: int, entry: AuditEntry) -> None:
        if number <= self._number:
            self._found(f"line {number} follows line {self._number}")
        self._number = number
        if not entry.hash:
            self.open += bool(self.first)
            return
        if self.open:
            self._found(f"{self.open} lines before line {number} are not in the chain")
            self.open = 0
        if not self.first:
            self.first = number
        if (self.first < number or number == 1) and entry.hash != chain_hash(self.hash, number, entry):
            self._found(f"line {number} was changed, or does not follow line {self.last}")
        self.last, self.hash = number, entry.hash

    def _found(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
