"""Sign-in with accounts of an organisation: from an issuer's answer to a short-lived token, and its renewal.

A sign-in is one token whose text and expiry change. At each renewal the issuer is asked again, and the scopes are those
that the account's groups have then. The data for renewals is kept sealed in the hub's state, so that any hub can renew.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kgd.daemon.daemon import Daemon
from kgd.daemon.tokens import Minted, Tokens
from kgd.errors import Forbidden, KgdError, NotFound, Unauthorized, Unavailable
from kgd.model import token as token_texts
from kgd.model.access import Grant, Principal, scopes_of, told
from kgd.model.token import SECRET_BYTES, SIGN_IN_KEY, TokenRecord
from kgd.oidc import Configuration, Issuer
from kgd.oidc.id_token import KEY_BYTES, Account, Sealing, issuer_of, person, program
from kgd.oidc.provider import PENDING, Granted, Provider, Refused
from kgd.workspace.repository import read_settings

BACK = "/ui/signed-in"
"""The page to which a browser returns."""
BEGUN_SECONDS = 600
"""Seconds that a person has to complete a sign-in."""
FORGET_SECONDS = 30 * 86_400
"""The token of a sign-in is deleted this long after the sign-in ended; the audit log keeps its id and account."""
RENEW_SHARE = 3
"""A browser's token is renewed in the last third of its life."""
REST_SECONDS = 15.0
"""Seconds until the next attempt if the issuer does not answer and the token is still valid."""
_BROWSER, _DEVICE, _KEPT = "browser", "device", "kept"

log = logging.getLogger("kgd.sign_in")


@dataclass(frozen=True, slots=True)
class Given:
    """What a client gets: the text of a token, its record, and the text that renews it, if it can be renewed."""

    text: str
    record: TokenRecord
    refresh: str = ""


class SignIns:
    """Sign-in at one hub. Thread-safe; every method blocks.

    Args:
        grants: Returns the grants of the served workspaces, and whether all of them could be read.
    """

    def __init__(
        self, configuration: Configuration, tokens: Tokens, grants: Callable[[], tuple[list[Grant], bool]]
    ) -> None:
        self._configuration, self._tokens, self._grants = configuration, tokens, grants
        self._providers = {name: Provider(one) for name, one in configuration.issuers.items()}
        self._longest = max(one.token_seconds for one in configuration.issuers.values())
        self._resting: dict[str, float] = {}

    def choices(self) -> list[tuple[str, str]]:
        """(name, title) of the issuers with which people sign in."""
        return [(one.name, one.title) for one in self._configuration.people()]

    # ---- browsers

    def begin(self, name: str, to: str) -> tuple[str, str]:
        """The address at which a person signs in, and the value for a cookie of their browser. `to` is the page to open
        afterwards.

        Raises:
            NotFound: There is no such issuer.
            Unavailable: The issuer does not answer.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        url = self._of_people(name).browser_url(self._back, state, nonce, verifier)
        until = int(self._tokens.now()) + BEGUN_SECONDS
        begun = {"issuer": name, "state": state, "nonce": nonce, "verifier": verifier, "to": to, "until": until}
        return url, self._sealing.seal(_BROWSER, begun)

    def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[TokenRecord, str]:
        """The token of the person who signed in, and the page to open. Takes the cookie, and the parameters with which
        the issuer sent the browser back.

        Raises:
            Unauthorized: This browser did not begin the sign-in, or the issuer refused.
            Forbidden: The person has no access.
            Unavailable: The issuer does not answer.
        """
        with self._audited():
            record, to = self._finished(cookie, answer)
        return record, to

    def _finished(self, cookie: str, answer: Mapping[str, str]) -> tuple[TokenRecord, str]:
        begun = self._begun(_BROWSER, cookie)
        if not hmac.compare_digest(answer.get("state", "").encode(), begun["state"].encode()):
            raise Unauthorized("this sign-in was started in another browser", next="Sign in again.")
        provider = self._of_people(begun["issuer"])
        url = provider.issuer.url
        if answer.get("iss", "" if provider.names_itself() else url) != url:
            raise Unauthorized("the answer is not from the chosen sign-in server", next="Sign in again.")
        if "error" in answer:
            raise Refused(answer["error"])
        granted = provider.redeem(answer.get("code", ""), begun["verifier"], self._back, begun["nonce"])
        return self._admit(provider.issuer, granted, is_browser=True).record, begun["to"]

    def keep_alive(self, id: str) -> None:
        """Renew the token of a browser that signed in, in the last part of its life or after it.

        Raises:
            Unauthorized, Forbidden: The issuer ended the sign-in, or the person has lost access.
            Unavailable: The issuer does not answer, and the token has expired.
        """
        record, now = self._tokens.state.find(id), self._tokens.now()
        if record is None or record.revoked or not record.holder.is_signed_in:
            return
        left = (record.holder.expires or 0) - now
        is_resting = record.is_live(now) and time.monotonic() < self._resting.get(id, 0.0)
        if left > self._longest / RENEW_SHARE or is_resting:
            return
        kept = self._kept(id)
        if kept is None or not kept["browser"] or left > self._token_seconds(kept) / RENEW_SHARE:
            return
        try:
            self._renewed(id, is_due=lambda found: (found.holder.expires or 0) - self._tokens.now() <= left)
        except Unavailable:
            if not record.is_live(now):
                raise
            if len(self._resting) > 1_000:
                self._resting.clear()
            self._resting[id] = time.monotonic() + REST_SECONDS

    # ---- other devices, and clients

    def begin_device(self, name: str) -> dict[str, Any]:
        """Begin a sign-in by a program without a browser (RFC 8628). Returns the fields of the answer.

        Raises:
            NotFound: There is no such issuer.
            Unavailable: The issuer does not answer, or does not support this.
        """
        provider = self._of_people(name or next(iter(self.choices()), ("", ""))[0])
        said = provider.begin_device()
        seconds = said.get("expires_in")
        seconds = min(seconds, BEGUN_SECONDS) if isinstance(seconds, int) and seconds > 0 else BEGUN_SECONDS
        begun = {
            "issuer": provider.issuer.name,
            "code": said["device_code"],
            "until": int(self._tokens.now()) + seconds,
        }
        known = ("user_code", "verification_uri", "verification_uri_complete", "interval")
        answer = {key: said[key] for key in known if isinstance(said.get(key), str | int)}
        return {**answer, "device_code": self._sealing.seal(_DEVICE, begun), "expires_in": seconds}

    def finish_device(self, device_code: str) -> Given:
        """The token of a person who has signed in on another device.

        Raises:
            Refused: They have not signed in yet, have refused, or the code expired.
            Unauthorized, Forbidden, Unavailable: As in `finish`.
        """
        with self._audited():
            begun = self._begun(_DEVICE, device_code)
            provider = self._of_people(begun["issuer"])
            return self._admit(provider.issuer, provider.poll_device(begun["code"]), is_browser=False)

    def refresh(self, text: str) -> Given:
        """A new text for the token of a sign-in, with the present scopes of the account.

        Raises:
            Unauthorized: The refresh token is unknown, or the sign-in has ended.
            Forbidden: The person has lost access; the sign-in ends.
            Unavailable: The issuer does not answer; the refresh token stays valid.
        """
        with self._audited("renew"):
            given = token_texts.read(text, refresh=True)
            kept = self._kept(given.id) or {}
            if not hmac.compare_digest(given.digest.hex(), kept.get("key", "")):
                raise Unauthorized("this hub does not know the refresh token", next="Sign in again.")
        made = self._renewed(given.id, retext=True)
        return Given(made.text, made.record, text)

    def exchange(self, id_token: str) -> Given:
        """Exchange a program's ID token for a token of this hub.

        Raises:
            Unauthorized: The ID token is not valid, or not for this hub.
            Forbidden: The program is not a workload of this hub, or has no access.
            Unavailable: The issuer's keys cannot be read.
        """
        with self._audited():
            url = issuer_of(id_token)
            provider = next((one for one in self._providers.values() if one.issuer.url == url), None)
            if provider is None or not provider.issuer.workloads:
                raise Unauthorized(
                    "the ID token comes from an issuer that this hub does not accept",
                    at=url[:200],
                    next="Ask the hub's administrator to add the issuer and its workloads.",
                )
            claims = provider.workload(id_token)
            account = program(provider.issuer, claims)
            end = min(int(self._tokens.now()) + provider.issuer.token_seconds, int(claims["exp"]))
            made = self._mint(account, self._holder(account, end), {}, end)
        return Given(made.text, made.record)

    def end(self, text: str) -> None:
        """End the sign-in of a refresh token. An unknown one is ignored."""
        given = token_texts.read(text, refresh=True)
        kept = self._kept(given.id)
        if kept and hmac.compare_digest(given.digest.hex(), kept.get("key", "")):
            self._tokens.end_sign_in(given.id, "signed out")

    def leave(self, id: str) -> None:
        """End the sign-in of a browser, by the id of its token. A token without a sign-in does not change."""
        kept = self._kept(id)
        if kept and kept.get("browser"):
            self._tokens.end_sign_in(id, "signed out")

    # ---- inside

    @contextlib.contextmanager
    def _audited(self, action: str = "sign in") -> Iterator[None]:
        """Log a refusal inside the context, unless it only means that the person has not signed in yet."""
        try:
            yield
        except (Unauthorized, Forbidden) as error:
            if not (isinstance(error, Refused) and error.reason in PENDING):
                # Only verified accounts get Forbidden, so one line for each refusal cannot flood the log.
                self._tokens.refused("", action, error, kind=str(error) if isinstance(error, Forbidden) else "")
            raise

    @cached_property
    def _sealing(self) -> Sealing:
        return Sealing(self._tokens.state.key(SIGN_IN_KEY, secrets.token_bytes(KEY_BYTES)))

    @property
    def _back(self) -> str:
        return self._configuration.url + BACK

    def _of_people(self, name: str) -> Provider:
        provider = self._providers.get(name)
        if provider is None or not provider.issuer.client_id:
            known = ", ".join(one for one, _ in self.choices())
            raise NotFound("there is no such sign-in server", at=name[:40], next=f"Known: {known}." if known else "")
        return provider

    def _begun(self, purpose: str, sealed: str) -> dict[str, Any]:
        begun = self._sealing.open(purpose, sealed)
        if begun is None or begun["until"] < self._tokens.now():
            raise Unauthorized(
                "this sign-in was started elsewhere, or more than ten minutes ago", next="Sign in again."
            )
        return begun

    def _sealed(self, kept: Mapping[str, Any]) -> bytes:
        return self._sealing.seal(_KEPT, kept).encode()

    def _kept(self, id: str) -> dict[str, Any] | None:
        kept = self._tokens.state.sign_in(id)
        return self._sealing.open(_KEPT, kept.decode()) if kept else None

    def _token_seconds(self, kept: Mapping[str, Any]) -> int:
        issuer = self._configuration.issuers.get(kept["issuer"])
        return issuer.token_seconds if issuer else 0

    def _admit(self, issuer: Issuer, granted: Granted, *, is_browser: bool) -> Given:
        account, now = person(issuer, granted.claims), int(self._tokens.now())
        holder = self._holder(account, now + issuer.token_seconds)
        secret = secrets.token_bytes(SECRET_BYTES)
        until = now + (issuer.session_seconds if granted.refresh else issuer.token_seconds)
        kept = {
            "issuer": issuer.name,
            "subject": account.subject,
            "refresh": granted.refresh,
            "key": "" if is_browser else token_texts.written("refresh", "", secret)[1].hex(),
            "until": until,
            "browser": is_browser,
        }
        made = self._mint(account, holder, kept, until)
        if is_browser or not granted.refresh:
            return Given(made.text, made.record)
        return Given(made.text, made.record, token_texts.written("refresh", made.record.holder.id, secret)[0])

    def _mint(self, account: Account, holder: Principal, kept: Mapping[str, Any], until: int) -> Minted:
        now = int(self._tokens.now())
        made = self._tokens.sign_in(holder, self._sealed(kept), until, now - FORGET_SECONDS)
        self._tokens.note(made.record.holder.id, "sign in", detail=f"{account.told}: {told(holder.scopes)}")
        return made

    def _holder(self, account: Account, expires: int) -> Principal:
        """The account with the scopes that its groups have now.

        Raises:
            Forbidden: It has no scopes.
            Unavailable: It has no scopes, but the grants of some workspace cannot be read at the moment.
        """
        grants, are_all = self._grants()
        scopes = scopes_of(account.groups, grants)
        if not scopes and not are_all:
            raise Unavailable("the grants of a workspace cannot be read", next="The hub's log has the reason.")
        if not scopes:
            raise Forbidden(
                f"none of your groups has access to a workspace of this hub ({account.told[:200]})",
                next="Ask a workspace's administrator to add one of your groups to `groups` in kgd.yaml.",
            )
        return Principal("new", account.name, account.kind, scopes, float(expires), "", account.id, account.email)

    def _renewed(
        self, id: str, *, retext: bool = False, is_due: Callable[[TokenRecord], bool] = lambda found: True
    ) -> Minted:
        """Renew a sign-in, one request at a time, since an issuer's refresh token may be valid only once."""
        with self._tokens.state.turn(f"sign-in {id}"):
            record, kept = self._tokens.record(id), self._kept(id)
            if not is_due(record):  # another request renewed it meanwhile
                return Minted("", record)
            try:
                return self._asked_again(record, kept, retext=retext)
            except (Unauthorized, Forbidden) as error:
                self._tokens.refused(id, "renew", error)
                if not record.revoked:
                    self._tokens.end_sign_in(id, "the sign-in ended")
                raise

    def _asked_again(self, record: TokenRecord, kept: dict[str, Any] | None, *, retext: bool) -> Minted:
        now = int(self._tokens.now())
        if record.revoked or kept is None or kept["until"] <= now or kept["issuer"] not in self._providers:
            raise Unauthorized("your sign-in has ended", next="Sign in again.")
        provider = self._providers[kept["issuer"]]
        if not kept["refresh"]:
            raise Unauthorized("the sign-in server does not allow renewals", next="Sign in again.")

        def keep(refresh: str) -> None:
            """Store an issuer's new refresh token at once: the old one is no longer valid."""
            kept["refresh"] = refresh
            self._tokens.renew(record, record.holder, self._sealed(kept))

        try:
            claims = provider.renew(kept["refresh"], kept["subject"], keep)
        except Refused as error:
            said = f"the sign-in server ended your sign-in ({error.reason})"
            raise Unauthorized(said, next="Sign in again.") from error
        old = record.holder
        known = {} if "iss" in claims else {"name": old.name, "email": old.email}  # there was no ID token
        account = person(provider.issuer, {**known, **claims})
        end = min(now + provider.issuer.token_seconds, kept["until"])
        holder = replace(self._holder(account, end), id=old.id)
        made = self._tokens.renew(record, holder, self._sealed(kept), retext=retext)
        if holder.scopes != old.scopes:
            self._tokens.note(old.id, "renew", detail=f"{account.told}: {told(holder.scopes)}")
        return made


def grants_of(daemon: Daemon, served: frozenset[str]) -> tuple[list[Grant], bool]:
    """The grants in ``kgd.yaml`` of the served workspaces (of all, if `served` is empty), and whether all were read."""
    found: list[Grant] = []
    are_all = True
    for id, entry in daemon.registry.current().entries.items():
        if entry.hub or not entry.path or (served and id not in served):
            continue
        try:
            layout = daemon.places.layout(entry)
            opened = daemon.open_workspaces.get(layout.git_dir)  # reading grants does not keep it open
            grants = read_settings(layout, opened.workspace.store if opened else layout.open()).grants
            found += (one for one in grants if one.scope.workspace == id)  # another id is an error in the registry
        except (KgdError, OSError) as error:  # a broken workspace must not block the others
            log.warning("grants cannot be read", extra={"workspace": id, "reason": str(error)[:200]})
            are_all = False
    return found, are_all
