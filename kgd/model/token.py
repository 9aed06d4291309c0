"""Tokens: their text, a hub's record of each, which never contains the text, and the interfaces of the state of a
hub and of its browsers: records, used quotas, answers to repeated requests, the audit log; sign-in links and sessions.

The audit log is a chain of hashes: each line's hash covers the line and the hash before it, so a changed, removed or
moved line is detected.

`tests/hub/test_tokens.py` and `tests/ui/test_browser_state.py` test the contracts with each implementation.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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


LINK_SECONDS = 600
"""Lifetime of an unused link."""
CLOCK_SECONDS = 60
"""Backward steps of the clock, and differences between clocks, that are smaller than this are ignored."""
SESSIONS_EACH, SESSIONS_LIMIT = 50, 2_000
"""Largest number of sessions per holder, and in all; beyond it, the least recently used session ends."""
LINKS_EACH, LINKS_LIMIT = 10, 1_000
"""Largest number of unused links per holder, and in all; beyond it, the oldest link expires."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The holder of a session. `token` is the id of their token; empty for the user of this machine."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A sign-in link: its visitor, and the page that it opens."""

    visitor: Visitor
    to: str
    until: float

    def is_good(self, now: float) -> bool:
        """Whether the link is valid; setting back the clock does not extend it."""
        return 0 <= self.until - now <= LINK_SECONDS + CLOCK_SECONDS


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session. Times are Unix seconds."""

    visitor: Visitor
    program: str
    since: float
    seen: float


class BrowserState(Protocol):
    """Sessions and links by the digests of their secrets. Thread-safe.

    Every method raises Unavailable if the state cannot be reached or stored; then nothing has changed, unless the
    method says otherwise.
    """

    def add_link(self, digest: str, link: Link) -> None:
        """Add a link, and delete the oldest links beyond the limits."""

    def link(self, digest: str) -> Link | None:
        """A link, which stays unused."""

    def exchange(self, link: str, session: str, program: str, now: float) -> Link | None:
        """Replace a valid link by a session of its visitor; None without a valid link. Of several calls with the same
        link, at any hubs, only one succeeds."""

    def add(self, digest: str, session: SignedIn) -> None:
        """Add a session, and delete the least recently used sessions beyond the limits."""

    def find(self, digest: str) -> SignedIn | None: ...

    def all(self) -> dict[str, SignedIn]:
        """All sessions."""

    def seen(self, digest: str, at: float) -> None:
        """Record a use of a session."""

    def tidy(self, oldest: float, now: float) -> None:
        """Delete the sessions that were last used before `oldest`. A later last use than `now` becomes `now`, so that a
        clock that was ahead does not extend a session."""

    def end(self, digests: Collection[str]) -> None:
        """End sessions. After Unavailable, the sessions may continue after a restart."""

    def end_links(self) -> None: ...

    def say(self, digest: str, text: str) -> None:
        """Keep a message for the session's next page; may be lost."""

    def said(self, digest: str) -> str:
        """Return and delete the message for the session's next page."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A signed-in browser. Times are Unix seconds.

    `id` names the session and does not give access. `token` is the id of its token; empty for this machine's user.
    `program` is the browser's user agent.
    """

    id: str
    token: str
    program: str
    since: float
    seen: float


class Pages(Protocol):
    """The interface of the pages to one daemon. Thread-safe."""

    @property
    def url(self) -> str:
        """URL of the pages; empty before they are first served."""

    def link(self, workspace: str = "") -> str:
        """A single-use sign-in link to a workspace. Starts serving the pages if needed, which blocks for a moment.

        Raises:
            Unavailable: The pages cannot be served.
        """

    def browsers(self) -> list[Browser]:
        """Signed-in browsers, newest first."""

    def end(self, id: str | None = None) -> int:
        """Sign out one browser or all, and notify their open pages; returns the number."""
