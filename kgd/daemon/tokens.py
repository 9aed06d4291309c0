"""Tokens of a hub: minting, recognition, revocation, quotas and the audit log.

All state is in `SqliteHubState` and not cached here, so that a revocation takes effect at the next use.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kgd.errors import Forbidden, Invalid, KgdError, Limit, NotFound, Unauthorized
from kgd.index.hub_state import SqliteHubState
from kgd.model import token as tokens
from kgd.model.access import Kind, Principal, Scope, check_narrower
from kgd.model.token import AuditEntry, Quota, TokenRecord

log = logging.getLogger("kgd.tokens")

MINUTE, DAY = 60, 86_400
USED_SECONDS = 30
"""Precision of "last used"."""
ANSWERS_KEPT = 7 * DAY
MOST_KINDS = 1_000
"""Tally lines of one minute; further kinds of refusals share one line."""
GENERATIONS = 8
"""Depth of child tokens; each use counts on all ancestors."""


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token. `text` is not stored and cannot be shown again."""

    text: str
    record: TokenRecord


class TooMuch(Limit):
    """A quota is exceeded; `retry_after` is in seconds."""

    status = 429

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, next=f"Ask again in {retry_after} s.")
        self.retry_after = retry_after


@dataclass(slots=True)
class _Line:
    number: int
    entry: AuditEntry
    count: int = 1
    written: int = 1
    at: int = 0


class Tally:
    """Counts similar audit entries in one line per minute. Safe for threads.

    The first of a kind is written at once. The count of the others is added to its line once a second and when the log
    is read, so that a flood of refusals costs neither lines nor writes.

    Args:
        log: Returns the state; called at each use, since it may not be open yet.
    """

    def __init__(self, log: Callable[[], SqliteHubState]) -> None:
        self._log, self._lock = log, threading.Lock()
        self._minute = 0
        self._lines: dict[tuple[str, ...], _Line] = {}

    def add(self, entry: AuditEntry, kind: str) -> None:
        """Count an entry. Entries of one token, action, workspace and `kind` share a line with the first's detail."""
        key = (entry.token, entry.action, entry.workspace, kind)
        with self._lock:
            if entry.at // 60 != self._minute:
                self._write()
                self._lines.clear()
                self._minute = entry.at // 60
            if key not in self._lines and len(self._lines) >= MOST_KINDS:
                key = ("", "refused", "", "")
                entry = replace(entry, token="", action="refused", workspace="", detail="refusals of many kinds")
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = _Line(self._log().note(entry), entry, at=entry.at)
                return
            line.count += 1
            if entry.at > line.at:
                line.at = entry.at
                self._write_line(line)

    def flush(self) -> None:
        """Write all pending counts."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        for line in self._lines.values():
            self._write_line(line)

    def _write_line(self, line: _Line) -> None:
        if line.written < line.count:
            self._log().renote(line.number, f"{line.entry.detail} ({line.count} times)")
            line.written = line.count


class Tokens:
    """The tokens of one home. Safe for threads.

    Args:
        open_state: Opens the state; called on first use, and again after a failure, so that a repaired file is used.
        clock: Returns Unix seconds.
        entropy: Returns this many random bytes.
    """

    def __init__(
        self, open_state: Callable[[], SqliteHubState], clock: Callable[[], float], entropy: Callable[[int], bytes]
    ) -> None:
        self._open_state, self._clock, self._entropy = open_state, clock, entropy
        self._lock = threading.Lock()
        self._opened: SqliteHubState | None = None
        self._tally = Tally(lambda: self.state)

    @property
    def state(self) -> SqliteHubState:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_state()
            return self._opened

    def mint(
        self,
        name: str,
        kind: Kind,
        scopes: Iterable[Scope],
        expires: int,
        *,
        quota: Quota | None = None,
        by: str = "",
        root: str = "",
    ) -> Minted:
        """A new token; its text is returned only here. `root` is the root of the token that it replaces.

        Raises:
            Invalid: The name or kind is invalid.
        """
        made = self._make(name, kind, tuple(scopes), expires, quota=quota or Quota(), root=root)
        self.state.add(made.record)
        self._note(made.record.holder.id, "mint", f"{name}, by {by}" if by else name, made.record.holder.scopes)
        return made

    def mint_child(
        self, parent: str, name: str, kind: Kind, scopes: Iterable[Scope], expires: int, *, again: bool = False
    ) -> Minted:
        """A token with at most its parent's rights and lifetime; revoking the parent revokes it.

        With `again` it replaces a token of this name.

        Raises:
            Forbidden: Its scopes are wider, or another holder outside its parent's line has its name.
            Unauthorized: The parent is not live.
            Limit: `GENERATIONS` ancestors are exceeded.
        """
        above = self.record(parent)
        if not again:
            self._refuse_taken(name, above)
        if len(self.lineage(above)) >= GENERATIONS:
            raise Limit(f"child tokens are at most {GENERATIONS} deep", next="Make it from an older token.")
        made = self._make(name, kind, tuple(scopes), expires, parent=parent, quota=above.quota, root=above.holder.line)
        try:
            check_narrower(made.record.holder, above.holder)
        except Forbidden as error:
            self.refused(parent, "mint", error)
            raise
        if not self.state.add_child(made.record, self._clock()):
            raise Unauthorized("the parent token has expired or was revoked")
        self._note(made.record.holder.id, "mint", f"{name}, from {parent}", made.record.holder.scopes)
        return made

    def rotate(self, id: str, expires: int) -> Minted:
        """A new token with the same holder and scopes; the old one and its children are revoked.

        Raises:
            NotFound: There is no such token.
            Unauthorized: The token is not live.
        """
        old = self.record(id)
        if not old.is_live(self._clock()):
            raise Unauthorized("the token has expired or was revoked", next="Mint a new one.")
        holder = old.holder
        if holder.parent:
            made = self.mint_child(holder.parent, holder.name, holder.kind, holder.scopes, expires, again=True)
        else:
            made = self.mint(
                holder.name,
                holder.kind,
                holder.scopes,
                expires,
                quota=old.quota,
                by=f"rotation of {id}",
                root=holder.line,
            )
        self.revoke(id, "rotated")
        return made

    def revoke(self, id: str, why: str = "") -> list[str]:
        """Revoke a token and its children at once; returns the revoked ids.

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
                raise _unknown()
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
            raise _unknown()
        return self._used(record)

    def still_live(self, id: str) -> None:
        """Check the token again, right before a write.

        Raises:
            Unauthorized: It was revoked or has expired meanwhile.
        """
        record = self.state.find(id)
        if record is None:
            raise _unknown()
        self._refuse_dead(record, self._clock())

    def lineage(self, record: TokenRecord) -> list[TokenRecord]:
        """The token and its ancestors, up to the token that the administrator minted."""
        found = [record]
        while (parent := found[-1].holder.parent) and (above := self.state.find(parent)):
            found.append(above)
        return found

    def spend(self, record: TokenRecord, what: str, amount: int) -> None:
        """Count usage: `requests` per minute, `bytes` and `nodes` per day. It counts for all ancestors as well.

        Raises:
            TooMuch: The quota is exceeded; nothing was counted.
        """
        length, span = (MINUTE, "minute") if what == "requests" else (DAY, "day")
        limit = getattr(record.quota, f"{what}_per_{span}")
        limits = {one.holder.id: getattr(one.quota, f"{what}_per_{span}") for one in self.lineage(record)}
        now = int(self._clock())
        if not self.state.spend(limits, what, now // length, amount):
            error = TooMuch(f"this token may use at most {limit} {what} per {span}", length - now % length)
            self.refused(record.holder.id, what, error)
            raise error

    def earlier_answer(self, token: str, request: str, asked: bytes) -> str | None:
        """The answer to the same earlier request, None for a new one.

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
        """Log a refusal; similar ones of a minute share a line. `token` is empty if unknown."""
        self._count(token, f"{action} refused", workspace, f"{error.code}: {error}", error.code)

    def unchanged(self, token: str, action: str, workspace: str) -> None:
        """Log a write that changed nothing; similar ones share a line."""
        self._count(token, action, workspace, "no change", "")

    def _count(self, token: str, action: str, workspace: str, detail: str, kind: str) -> None:
        try:
            self._tally.add(AuditEntry(int(self._clock()), token, action, workspace[:100], detail[:400]), kind)
        except KgdError as failed:  # the caller's own refusal is more important
            log.warning("the audit log could not be written", extra={"reason": str(failed)[:200]})

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        """The newest lines of the audit log, newest first."""
        self._tally.flush()
        return self.state.trail(token, limit)

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Lines of the audit log with a higher number than `after`, oldest first."""
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
        self,
        name: str,
        kind: Kind,
        scopes: tuple[Scope, ...],
        expires: int,
        *,
        quota: Quota,
        parent: str = "",
        root: str,
    ) -> Minted:
        text, id, digest = tokens.write(kind, self._entropy(tokens.ID_BYTES), self._entropy(tokens.SECRET_BYTES))
        holder = Principal(id, name, kind, scopes, float(expires), parent, root)
        return Minted(text, TokenRecord(holder, digest, int(self._clock()), quota=quota))

    def _refuse_taken(self, name: str, above: TokenRecord) -> None:
        """Refuse the name of another holder: names become authors of commits."""
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
        error = Unauthorized(f"the token {why}", next="Ask the hub's administrator for a new one.")
        self.refused(record.holder.id, "sign in", error)
        raise error


def _unknown() -> Unauthorized:
    return Unauthorized("this hub does not know the token", next="Ask the hub's administrator for a token.")


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
