"""Tokens of a hub: minting, recognition, revocation, quotas and the audit log.

All state is in the `HubState` and not cached here, so that a revocation takes effect at the next use.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgd import metrics, tracing
from kgd.errors import Forbidden, Invalid, KgdError, Limit, NotFound, Unauthorized, Unavailable
from kgd.model import token as tokens
from kgd.model.access import Kind, Principal, Scope, check_narrower
from kgd.model.token import SEALED_AT_ONCE, AuditEntry, HubState, Quota, TokenRecord

if TYPE_CHECKING:
    from kgd.daemon.shared_state import Revocations

log = logging.getLogger("kgd.tokens")

MINUTE, DAY = 60, 86_400
USED_SECONDS = 30
"""Precision of "last used" in seconds."""
ANSWERS_KEPT = 7 * DAY
SEALED_EVERY = 60
"""Seconds between two extensions of the audit log's chain of hashes."""
MOST_KINDS = 1_000
"""Largest number of tally lines per minute; further kinds of refusals share one line."""
GENERATIONS = 8
"""Largest depth of child tokens; each use counts on all ancestors."""


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
    """Counts similar audit entries in one line per minute. Thread-safe.

    The first entry of a kind is written at once. The number of later ones is added to its line once a second and when
    the log is read, so that a flood of refusals causes few lines and writes.

    Args:
        log: Returns the state; called at each use, since it may not be open yet.
    """

    def __init__(self, log: Callable[[], HubState]) -> None:
        self._log, self._lock = log, threading.Lock()
        self._minute = 0
        self._lines: dict[tuple[str, ...], _Line] = {}

    def add(self, entry: AuditEntry, kind: str) -> None:
        """Count an entry. Entries with the same token, action, workspace and `kind` share a line, which has the first
        entry's detail."""
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
    """The tokens of one home. Thread-safe.

    Args:
        open_state: Opens the state; called on first use, and again after a failure, so that a repaired file is used.
        clock: Returns Unix seconds.
        entropy: Returns this many random bytes.
        revocations: The record of revocations outside the state, if several hubs share it.
    """

    def __init__(
        self,
        open_state: Callable[[], HubState],
        clock: Callable[[], float],
        entropy: Callable[[int], bytes],
        revocations: Revocations | None = None,
    ) -> None:
        self._open_state, self.now, self._entropy = open_state, clock, entropy
        self._revocations = revocations
        self._lock = threading.Lock()
        self._opened: HubState | None = None
        self._tally = Tally(lambda: self.state)
        self._sealed_at = 0.0

    @property
    def state(self) -> HubState:
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
        """Mint a token; only this call returns its text. `root` is the root of the token that it replaces.

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
        """Mint a token with at most its parent's permissions and lifetime; revoking the parent revokes it.

        With `again`, the new token replaces a token of this name.

        Raises:
            Forbidden: The scopes are wider than the parent's, or a holder outside the parent's lineage has this name.
            Unauthorized: The parent is not live.
            Limit: The token would have more than `GENERATIONS` ancestors.
        """
        above = self.record(parent)
        if not again:
            self._refuse_taken(name, above)
        if len(self.lineage(above)) >= GENERATIONS:
            raise Limit(
                f"child tokens can be at most {GENERATIONS} levels deep", next="Create it from this token's parent."
            )
        made = self._make(name, kind, tuple(scopes), expires, parent=parent, quota=above.quota, root=above.holder.line)
        try:
            check_narrower(made.record.holder, above.holder)
        except Forbidden as error:
            self.refused(parent, "mint", error)
            raise
        if not self.state.add_child(made.record, self.now()):
            raise Unauthorized("the parent token has expired or was revoked")
        self._note(made.record.holder.id, "mint", f"{name}, from {parent}", made.record.holder.scopes)
        return made

    def sign_in(self, holder: Principal, kept: bytes, until: int, oldest: int) -> Minted:
        """Mint a token for a signed-in account, with a new id. The other arguments are as in `add_sign_in`."""
        made = self._make(
            holder.name, holder.kind, holder.scopes, int(holder.expires or 0), quota=Quota(), root=holder.root
        )
        made = replace(made, record=replace(made.record, holder=replace(made.record.holder, email=holder.email)))
        self.state.add_sign_in(made.record, kept, until, oldest)
        return made

    def renew(self, record: TokenRecord, holder: Principal, kept: bytes, *, retext: bool = False) -> Minted:
        """Give a signed-in account's token the scopes and the expiry of `holder` and, with `retext`, a new text; the
        previous text stays valid until the next renewal.

        Raises:
            Unauthorized: The token has been revoked in the meantime.
        """
        text, digests = "", record.digest
        if retext:
            text, digest = tokens.written(holder.kind, holder.id, self._entropy(tokens.SECRET_BYTES))
            digests = digest + record.digest[: len(digest)]
        renewed = replace(record, holder=holder, digest=digests)
        if not self.state.renew(renewed, kept):
            raise Unauthorized("the sign-in was ended", next="Sign in again.")
        return Minted(text, renewed)

    def rotate(self, id: str, expires: int) -> Minted:
        """Mint a token with the same holder and scopes; the old token and its children are revoked.

        Raises:
            NotFound: There is no such token.
            Unauthorized: The token is not live.
        """
        old = self.record(id)
        if not old.is_live(self.now()):
            raise Unauthorized("the token has expired or was revoked", next="Mint a new one.")
        holder = old.holder
        if holder.is_signed_in:
            raise Invalid("a signed-in account renews its token itself", at=id, next="Revoke it to end the sign-in.")
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
        gone = self._revoke(id, "rotated")
        with contextlib.suppress(Unavailable):  # the new token's text is shown only now; recorded with the next one
            self._record(gone)
        return made

    def revoke(self, id: str, why: str = "") -> list[str]:
        """Revoke a token and its children at once; returns the revoked ids.

        Raises:
            NotFound: There is no such token.
            Unavailable: The tokens are revoked, but this could not be recorded outside the state.
        """
        gone = self._revoke(id, why)
        self._record([id, *gone])
        return gone

    def end_sign_in(self, id: str, why: str) -> None:
        """Revoke the token of a sign-in that the person or the issuer ended. Unlike `revoke`, this is not recorded
        outside the state: after the restoration of a backup, the issuer decides whether to renew it."""
        self._revoke(id, why)

    def _record(self, gone: Collection[str]) -> None:
        if self._revocations:
            self._revocations.record(gone)

    def _revoke(self, id: str, why: str) -> list[str]:
        self.record(id)
        gone = self.state.revoke(id, int(self.now()))
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
            Unauthorized: The token is malformed, mistyped, unknown, expired or revoked.
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
        """The record of a live token by its id, after `recognise` has accepted its text.

        Raises:
            Unauthorized: The token has expired or was revoked.
        """
        record = self.state.find(id)
        if record is None:
            raise _unknown()
        return self._used(record)

    def still_live(self, id: str) -> None:
        """Check the token again, right before a write.

        Raises:
            Unauthorized: The token has been revoked or has expired in the meantime.
        """
        record = self.state.find(id)
        if record is None:
            raise _unknown()
        self._refuse_dead(record, self.now())

    def lineage(self, record: TokenRecord) -> list[TokenRecord]:
        """The token and its ancestors, up to the token that the administrator minted."""
        found = [record]
        while (parent := found[-1].holder.parent) and (above := self.state.find(parent)):
            found.append(above)
        return found

    def spend(self, record: TokenRecord, what: str, amount: int) -> None:
        """Count usage: `requests` per minute, `bytes` and `nodes` per day. All ancestors are charged too.

        Raises:
            TooMuch: The quota is exceeded; nothing was counted.
        """
        if not amount:
            return
        length, span = (MINUTE, "minute") if what == "requests" else (DAY, "day")
        limit = getattr(record.quota, f"{what}_per_{span}")
        limits = {_account(one.holder): getattr(one.quota, f"{what}_per_{span}") for one in self.lineage(record)}
        if wait := self.state.spend(limits, what, length, amount, self.now()):
            metrics.QUOTA_REFUSALS.add(what)
            error = TooMuch(f"this token may use at most {limit} {what} per {span}", wait)
            self.refused(record.holder.id, what, error)
            raise error

    def earlier_answer(self, token: str, request: str, asked: bytes) -> str | None:
        """The answer to the same earlier request; None for a new request.

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
        now = int(self.now())
        self.state.keep_answer(token, request, hashlib.sha256(asked).digest(), answer, now, now - ANSWERS_KEPT)

    def note(self, token: str, action: str, workspace: str = "", detail: str = "") -> None:
        """Add a line to the audit log."""
        self.state.note(AuditEntry(int(self.now()), token, action, workspace, _of_request(detail)))
        if self.now() - self._sealed_at > SEALED_EVERY:
            self._seal()

    def refused(self, token: str, action: str, error: KgdError, workspace: str = "", kind: str = "") -> None:
        """Log a refusal; refusals of one kind (by default, with one code) within a minute share a line. `token` is
        empty if unknown."""
        self._count(token, f"{action} refused", workspace, f"{error.code}: {error}", kind or error.code)

    def unchanged(self, token: str, action: str, workspace: str) -> None:
        """Log a write that changed nothing; similar writes share a line."""
        self._count(token, action, workspace, "no change", "")

    def _count(self, token: str, action: str, workspace: str, detail: str, kind: str) -> None:
        try:
            entry = AuditEntry(int(self.now()), token, action, workspace[:100], _of_request(detail[:400]))
            self._tally.add(entry, kind)
        except KgdError as failed:  # the caller's own refusal is more important
            log.warning("the audit log could not be written", extra={"reason": str(failed)[:200]})

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        """The newest lines of the audit log, newest first."""
        self._tally.flush()
        return self.state.trail(token, limit)

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Lines of the audit log with a higher number than `after`, oldest first."""
        self._tally.flush()
        if not after:
            self._seal()
        return self.state.lines(after, limit)

    def _seal(self) -> None:
        """Seal all lines that are old enough. A failure is only logged, and the next call continues."""
        now = self._sealed_at = int(self.now())
        try:
            while self.state.seal(now) == SEALED_AT_ONCE:
                pass
        except KgdError as failed:
            log.warning("the audit log could not be sealed", extra={"reason": str(failed)[:200]})

    def close(self) -> None:
        with self.set_aside():
            pass

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """Close the state. Calls that need it wait until the context ends, and open it again."""
        self.flush()
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
            yield

    def flush(self) -> None:
        """Write the pending counts of the audit log, if possible."""
        if self._opened is not None:
            with contextlib.suppress(KgdError):
                self._tally.flush()

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
        return Minted(text, TokenRecord(holder, digest, int(self.now()), quota=quota))

    def _refuse_taken(self, name: str, above: TokenRecord) -> None:
        """Refuse a name that another holder has: names become authors of commits."""
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
        now = self.now()
        self._refuse_dead(record, now)
        if self._revocations and self._revocations.refresh(record.holder):
            record = self.record(record.holder.id)
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


def _of_request(detail: str) -> str:
    """The detail of an audit line, with the id that the client or a proxy gave to the request."""
    id = tracing.given_id()
    return f"{detail} [request {id}]".lstrip() if id else detail


def _account(holder: Principal) -> str:
    """The id under which the use of a token is counted: one account may sign in several times."""
    return holder.root if holder.is_signed_in else holder.id


def _unknown() -> Unauthorized:
    return Unauthorized("this hub does not know the token", next="Ask the hub's administrator for a token.")


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
