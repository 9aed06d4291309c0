"""Credentials for remotes, and the client's side of sign-in at a hub: the device flow and the renewal of tokens.

A signed-in account's credential is stored where `kgd join` stores tokens, as one line of JSON with the hub's address,
the present token, its expiry, and the refresh token. `bearer` renews it when needed: callers see only valid tokens.
`network_of` gives the credential to git.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from kgd.config import person_environment
from kgd.config.credentials import keep_again, secret
from kgd.config.entries import Entry
from kgd.errors import MALFORMED, Invalid, KgdError, NotFound, Unauthorized, Unavailable
from kgd.git.layout import Layout
from kgd.git.remote import PATIENCE, Network, Progress
from kgd.git.remote_settings import Remote, parse_stored
from kgd.http_client import LOOPBACK, Address, HttpClient

PLACE = "/v1/sign_in"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
DEADLINE = 30.0
ANSWER_LIMIT = 64 << 10
AHEAD_SECONDS = 60
"""A token is renewed this long before it expires."""
SLOW_SECONDS = 5
LONGEST_INTERVAL, LONGEST_WAIT = 60, 1_800

_turns: dict[str, threading.Lock] = {}
"""One renewal at a time for each credential; all its users are in the daemon's process."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A signed-in account at one hub. `expires` is in Unix seconds."""

    hub: str
    token: str
    refresh: str
    expires: int

    def text(self) -> str:
        return orjson.dumps(asdict(self)).decode()


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions for a person: open `url`, and compare or enter `code`."""

    url: str
    code: str
    seconds: int


def bearer(reference: str) -> str:
    """The token to send, for the reference of a hub's credential; renewed first if it is about to expire.

    Raises:
        Unauthorized: There is no credential, or the sign-in has ended.
        Unavailable: The credential or the hub cannot be reached.
    """
    if (text := secret(reference))[:1] != "{":
        return text
    if _left(credential := read(text)) > AHEAD_SECONDS:
        return credential.token
    with _turns.setdefault(reference, threading.Lock()):
        credential = read(secret(reference))
        if _left(credential) <= AHEAD_SECONDS:
            credential = _renewed(credential)
            keep_again(reference, credential.text())
        return credential.token


def read(text: str) -> Credential:
    """The stored credential. Raises Unauthorized if it is malformed."""
    try:
        values = orjson.loads(text)
        return Credential(str(values["hub"]), str(values["token"]), str(values["refresh"]), int(values["expires"]))
    except MALFORMED:
        raise Unauthorized("the stored sign-in is malformed", next="Run `kgd join URL` again.") from None


def sign_in(url: str, prompt: Callable[[Prompt], None], alive: Callable[[], None]) -> Credential:
    """Sign in at a hub with a browser on any device.

    Args:
        prompt: Tells the person what to do.
        alive: Called while waiting; raises to stop.

    Raises:
        NotFound: The hub offers no sign-in.
        Unauthorized, Forbidden: The person refused, took too long, or has no access.
        Unavailable: The hub or the sign-in server does not answer.
    """
    begun = _form(url, "device", {})
    uri = begun.get("verification_uri_complete") or begun.get("verification_uri")
    seconds, interval = (
        _number(begun, "expires_in", 600, LONGEST_WAIT),
        _number(begun, "interval", 5, LONGEST_INTERVAL),
    )
    code = begun.get("user_code")
    if not isinstance(uri, str) or not _is_page(uri) or not isinstance(code, str) or not code.isprintable():
        raise Unavailable("the hub's answer cannot be used", at=url)
    prompt(Prompt(uri, code[:40], seconds))
    deadline, resting = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < deadline:
        resting.wait(interval)
        alive()
        try:
            asked = {"grant_type": DEVICE, "device_code": str(begun.get("device_code"))}
            return _credential(url, _form(url, "token", asked))
        except _Pending as pending:
            interval += SLOW_SECONDS if pending.slower else 0
    raise Unauthorized("the sign-in was not completed in time", at=url, next="Run `kgd join` again.")


def sign_out(text: str) -> None:
    """End the sign-in of a stored credential at its hub. Raises KgdError if the hub does not answer."""
    credential = read(text)
    _form(credential.hub, "revoke", {"token": credential.refresh})


class _Pending(Exception):
    def __init__(self, slower: bool) -> None:
        self.slower = slower


def _renewed(credential: Credential) -> Credential:
    if not credential.refresh:
        raise _ended(credential.hub, "your sign-in has expired")
    asked = {"grant_type": "refresh_token", "refresh_token": credential.refresh}
    try:
        return _credential(credential.hub, _form(credential.hub, "token", asked))
    except Unavailable:
        if _left(credential) > 0:
            return credential
        raise
    except (Unauthorized, Invalid) as error:
        raise _ended(credential.hub, error.message) from error


def _credential(url: str, said: Mapping[str, Any]) -> Credential:
    token, refresh = said.get("access_token"), said.get("refresh_token", "")
    if not isinstance(token, str) or not isinstance(refresh, str):
        raise Unavailable("the hub's answer cannot be used", at=url)
    return Credential(url, token, refresh, int(time.time()) + _number(said, "expires_in", 0, 366 * 86_400))


def _form(url: str, place: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a form.

    Raises:
        _Pending: The person has not signed in yet.
        KgdError: The hub refused.
    """
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", "User-Agent": "kgd"}
    body = urlencode(form).encode()
    with contextlib.closing(HttpClient(Address.parse(url))) as client:
        response = client.request("POST", f"{PLACE}/{place}", body, headers, deadline=DEADLINE, limit=ANSWER_LIMIT)
    said = response.json()
    if response.status == 200 and isinstance(said, dict):
        return said
    if response.status in (401, 404, 405) and not (isinstance(said, dict) and "error" in said):
        raise NotFound(
            "this hub has no sign-in with accounts", at=url, next="Ask its administrator for a token, and pipe it in."
        )
    if not isinstance(said, dict) or not isinstance(said.get("detail"), str):
        raise Unavailable(f"the hub answered with HTTP status {response.status}", at=url)
    if (reason := said.get("error")) in ("authorization_pending", "slow_down"):
        raise _Pending(reason == "slow_down")
    next = said.get("next") if isinstance(said.get("next"), str) else ""
    if reason in ("access_denied", "invalid_grant", "expired_token"):
        raise Unauthorized(said["detail"], at=url, next=str(next))
    raise Unavailable(said["detail"], at=url, next=str(next))


def _ended(url: str, why: str) -> KgdError:
    return Unauthorized(why, at=url, next=f"Sign in again: `kgd join {url} --sign-in`.")


def _left(credential: Credential) -> float:
    return credential.expires - time.time()


def _number(said: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    value = said.get(name)
    return min(value, most) if isinstance(value, int) and value > 0 else usual


def _is_page(uri: str) -> bool:
    parts = urlsplit(uri)
    return uri.isascii() and uri.isprintable() and (parts.scheme == "https" or parts.hostname in LOOPBACK)


def is_shared_by(entry: Entry | None, layout: Layout, remote: Remote) -> bool:
    """Whether the registry shares a workspace through exactly this address."""
    return entry is not None and bool(entry.remote) and parse_stored(layout, entry.remote) == remote.url


def credential_of(remote: Remote, layout: Layout, entry: Entry | None) -> str:
    """The reference of a remote's credential: its own, or the registry's for exactly this address."""
    return remote.token or (entry.token if entry and is_shared_by(entry, layout, remote) else "")


def network_of(
    token: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Network:
    """Network access with the credential that `token` refers to.

    Args:
        environment: Replaces the user's environment, unless empty.
        patience: Seconds without progress before a call ends.
        stop: Ends a running call.
        progress: Called with the steps of a transfer, in another thread.

    Raises:
        KgdError: The credential cannot be read.
    """
    variables = dict(environment or {}) or person_environment()
    return Network(variables, bearer(token) if token else "", patience, stop=stop, progress=progress)
