"""The interface of a hub's state: tokens, used quotas, answers to repeated requests, and the audit log.

`tests/hub/test_tokens.py` tests its contract with each implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kgd.model.token import AuditEntry, TokenRecord


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
