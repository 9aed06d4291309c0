"""This file is where tokens are minted, recognised, narrowed and revoked, and what they use up is counted.

Everything that several hubs over one upstream would have to share goes through `HubState`; nothing of it is cached
here, so that a revocation holds from the next look on.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kgd.daemon.tally import Tally
from kgd.errors import Forbidden, Invalid, KgdError, Limit, NotFound, Unauthorized
from kgd.model import token as tokens
from kgd.model.access import Kind, Principal, Scope, check_narrower
from kgd.model.token import AuditEntry, Quota, TokenRecord

log = logging.getLogger("kgd.tokens")

MINUTE, DAY = 60, 86_400
USED_SECONDS = 30
"""How exact "last used" is."""
ANSWERS_KEPT = 7 * DAY
GENERATIONS = 8
"""How deep tokens are made from one another; each use is counted on all of them."""


class HubState(Protocol):
    """What a hub must not forget. One contract suite holds every implementation to the same behaviour.

    Each method is one step: whole or not at all, and durable before it returns (but `used` and `spend`). Any of them
    raises Unavailable or Damaged where the state cannot be used; nobody is let in then.
    """

    def add(self, record: TokenRecord) -> None: ...

    def add_child(self, record: TokenRecord, now: float) -> bool:
        """Add it unless its parent is gone, has expired or is revoked; whether it was added."""

    def find(self, id: str) -> TokenRecord | None: ...

    def all(self) -> list[TokenRecord]:
        """Oldest first."""

    def revoke(self, id: str, at: int) -> list[str]:
        """Revoke it and whatever was made from it; the ids of those that were not revoked before."""

    def used(self, id: str, at: int) -> None: ...

    def spend(self, limits: Mapping[str, int], what: str, window: int, amount: int) -> bool:
        """Add to what each of these tokens used up in that window, unless one would go past its limit.

        Whether it was added: to all of them, or to none.
        """

    def answer(self, token: str, request: str) -> tuple[bytes, str] | None:
        """What that token asked under that request id (a digest), and the answer it got."""

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str, at: int, oldest: int) -> None: ...

    def note(self, entry: AuditEntry) -> int:
        """Add a line to the audit log; its number."""

    def renote(self, number: int, detail: str) -> None:
        """Change the detail of a line; it may lose a moment to a power cut."""

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Lines with a higher number than `after`, oldest first, in files or not; none at the end."""

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        """Newest first."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token; `text` is nowhere else and cannot be shown again."""

    text: str
    record: TokenRecord


class TooMuch(Limit):
    """A quota is used up. `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, next=f"Ask again in {retry_after} s.")
        self.retry_after = retry_after


class Tokens:
    """The tokens of one home. Safe for threads.

    Args:
        open_state: Opens the state; called on first use, and again where that failed, so that a repaired file helps.
        clock: Unix seconds.
        entropy: So many bytes of chance.
    """

    def __init__(
        self, open_state: Callable[[], HubState], clock: Callable[[], float], entropy: Callable[[int], bytes]
    ) -> None:
        self._open_state, self._clock, self._entropy = open_state, clock, entropy
        self._lock = threading.Lock()
        self._opened: HubState | None = None
        self._tally = Tally(lambda: self.state)

    @property
    def state(self) -> HubState:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_state()
            return self._opened

    def mint(
        self, name: str, kind: Kind, scopes: Iterable[Scope], expires: int, *, quota: Quota | None = None, by: str = "",
        root: str = "",
    ) -> Minted:  # fmt: skip
        """A new token, whose text is returned this once. `root` is that of one which it replaces.

        Raises:
            Invalid: The name or kind cannot be.
        """
        made = self._make(name, kind, tuple(scopes), expires, quota=quota or Quota(), root=root)
        self.state.add(made.record)
        self._note(made.record.holder.id, "mint", f"{name}, by {by}" if by else name, made.record.holder.scopes)
        return made

    def mint_child(
        self, parent: str, name: str, kind: Kind, scopes: Iterable[Scope], expires: int, *, again: bool = False
    ) -> Minted:
        """A token that may do no more than its parent, and ends no later; with the parent revoked it is too.

        With `again` it replaces one of this name.

        Raises:
            Forbidden: It would be wider, or has the name of a holder that is not of its parent's line.
            Unauthorized: The parent is not live.
            Limit: It is itself made from one that was made from one, and so on.
        """
        above = self.record(parent)
        if not again:
            self._refuse_taken(name, above)
        if len(self.lineage(above)) >= GENERATIONS:
            raise Limit(
                f"tokens are made from one another {GENERATIONS} deep at most", next="Make it from an older one."
            )
        made = self._make(
            name, kind, tuple(scopes), expires, parent=parent, quota=above.quota, root=above.holder.line
        )  # fmt: skip
        try:
            check_narrower(made.record.holder, above.holder)
        except Forbidden as error:
            self.refused(parent, "mint", error)
            raise
        if not self.state.add_child(made.record, self._clock()):
            raise Unauthorized("the token that it should be made from has expired or was revoked")
        self._note(made.record.holder.id, "mint", f"{name}, from {parent}", made.record.holder.scopes)
        return made

    def rotate(self, id: str, expires: int) -> Minted:
        """A new token for the same holder with the same scopes; the old one, and what was made from it, is revoked.

        Raises:
            NotFound: There is no such token.
            Unauthorized: It is not live.
        """
        old = self.record(id)
        if not old.is_live(self._clock()):
            raise Unauthorized("the token has expired or was revoked", next="Mint a new one.")
        holder = old.holder
        if holder.parent:
            made = self.mint_child(holder.parent, holder.name, holder.kind, holder.scopes, expires, again=True)
        else:
            made = self.mint(
                holder.name, holder.kind, holder.scopes, expires, quota=old.quota, by=f"rotation of {id}",
                root=holder.line,
            )  # fmt: skip
        self.revoke(id, "rotated")
        return made

    def revoke(self, id: str, why: str = "") -> list[str]:
        """Revoke a token and whatever was made from it, from this moment on; the ids that are dead now.

        Raises:
            NotFound: There is no such token.
        """
        self.record(id)
        gone = self.state.revoke(id, int(self._clock()))
        for one in gone:
            self.note(one, "revoke", detail=why or ("" if one == id else f"with {id}"))
        return gone

    def record(self, id: str) -> TokenRecord:
        found = self.state.find(id)
        if found is None:
            raise NotFound(f"there is no token '{id[:20]}'", next="`kgd token list` shows them.")
        return found

    def recognise(self, text: str) -> TokenRecord:
        """The record of a live token.

        Raises:
            Unauthorized: It is malformed, mistyped, unknown, expired or revoked.
        """
        try:
            presented = tokens.read(text)
            record = self.state.find(presented.id)
            if not presented.matches(record) or record is None:
                raise Unauthorized("this hub does not know the token", next="Ask whoever runs the hub for one.")
        except Unauthorized as error:
            self.refused("", "sign in", error)
            raise
        return self._used(record)

    def again(self, id: str) -> TokenRecord:
        """The record of a live token that was recognised before, by its id.

        Raises:
            Unauthorized: It has expired or was revoked.
        """
        record = self.state.find(id)
        if record is None:
            raise Unauthorized("this hub does not know the token", next="Ask whoever runs the hub for one.")
        return self._used(record)

    def still_live(self, id: str) -> None:
        """Look once more, right before something is written.

        Raises:
            Unauthorized: It was revoked or has expired meanwhile.
        """
        record = self.state.find(id)
        if record is None:
            raise Unauthorized("this hub does not know the token")
        self._refuse_dead(record, self._clock())

    def lineage(self, record: TokenRecord) -> list[TokenRecord]:
        """The token, the one that it was made from, and so on up to the one that the keeper minted."""
        found = [record]
        while (parent := found[-1].holder.parent) and (above := self.state.find(parent)):
            found.append(above)
        return found

    def spend(self, record: TokenRecord, what: str, amount: int) -> None:
        """Count what is used up: `requests` by the minute, `bytes` and `nodes` by the day.

        It counts for those that the token was made from as well, so that nobody gets more by making children.

        Raises:
            TooMuch: The quota does not allow it; nothing was counted.
        """
        length, span = (MINUTE, "minute") if what == "requests" else (DAY, "day")
        limit = getattr(record.quota, f"{what}_per_{span}")
        limits = {one.holder.id: getattr(one.quota, f"{what}_per_{span}") for one in self.lineage(record)}
        now = int(self._clock())
        if not self.state.spend(limits, what, now // length, amount):
            error = TooMuch(f"this token may use {limit} {what} a {span}, and no more", length - now % length)
            self.refused(record.holder.id, what, error)
            raise error

    def earlier_answer(self, token: str, request: str, asked: bytes) -> str | None:
        """What the same request got when it was asked before; None for a new one.

        Raises:
            Invalid: Another request had the same id.
        """
        found = self.state.answer(token, request)
        if found is None:
            return None
        digest, answer = found
        if digest != hashlib.sha256(asked).digest():
            raise Invalid("this request id was used for another request", at="request_id", next="Use a fresh id.")
        return answer

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str) -> None:
        now = int(self._clock())
        self.state.keep_answer(token, request, hashlib.sha256(asked).digest(), answer, now, now - ANSWERS_KEPT)

    def note(self, token: str, action: str, workspace: str = "", detail: str = "") -> None:
        """Add a line to the audit log."""
        self.state.note(AuditEntry(int(self._clock()), token, action, workspace, detail))

    def refused(self, token: str, action: str, error: KgdError, workspace: str = "") -> None:
        """Note a refusal; those of a minute that are alike are one line. The token is empty where none is known."""
        self._count(token, f"{action} refused", workspace, f"{error.code}: {error}", error.code)

    def unchanged(self, token: str, action: str, workspace: str) -> None:
        """Note a write that changed nothing, likewise."""
        self._count(token, action, workspace, "no change", "")

    def _count(self, token: str, action: str, workspace: str, detail: str, kind: str) -> None:
        try:
            self._tally.add(AuditEntry(int(self._clock()), token, action, workspace[:100], detail[:400]), kind)
        except KgdError as failed:  # the caller hears of its own refusal first
            log.warning("the audit log could not be written", extra={"reason": str(failed)[:200]})

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        """The newest lines of the audit log, newest first."""
        self._tally.flush()
        return self.state.trail(token, limit)

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """See `HubState.lines`."""
        self._tally.flush()
        return self.state.lines(after, limit)

    def close(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(KgdError):
                self._tally.flush()
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def now(self) -> float:
        return self._clock()

    def _make(
        self, name: str, kind: Kind, scopes: tuple[Scope, ...], expires: int, *, quota: Quota, parent: str = "",
        root: str,
    ) -> Minted:  # fmt: skip
        text, id, digest = tokens.write(kind, self._entropy(tokens.ID_BYTES), self._entropy(tokens.SECRET_BYTES))
        holder = Principal(id, name, kind, scopes, float(expires), parent, root)
        return Minted(text, TokenRecord(holder, digest, int(self._clock()), quota=quota))

    def _refuse_taken(self, name: str, above: TokenRecord) -> None:
        """A holder's name is the author of what it writes, so a child cannot choose that of another holder."""
        if any(_folded(one.holder.name) == _folded(name) for one in self.lineage(above)):
            return
        for one in self.state.all():
            if one.holder.line != above.holder.line and _folded(one.holder.name) == _folded(name):
                error = Forbidden("another holder has this name", at="name", next="Choose a name of your own.")
                self.refused(above.holder.id, "mint", error)
                raise error

    def _note(self, id: str, action: str, detail: str, scopes: Iterable[Scope]) -> None:
        for workspace in sorted({scope.workspace for scope in scopes}):
            self.note(id, action, workspace, detail)

    def _used(self, record: TokenRecord) -> TokenRecord:
        now = self._clock()
        self._refuse_dead(record, now)
        if now - record.last_used > USED_SECONDS:
            self.state.used(record.holder.id, int(now))
        return record

    def _refuse_dead(self, record: TokenRecord, now: float) -> None:
        if record.is_live(now):
            return
        why = "was revoked" if record.revoked else "has expired"
        error = Unauthorized(f"the token {why}", next="Ask whoever runs the hub for a new one.")
        self.refused(record.holder.id, "sign in", error)
        raise error


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
