"""The issuer of ID tokens as a server: its metadata, keys and endpoints.

Every answer is bounded in size and time, and no redirect is followed. The addresses of the endpoints come from the
issuer's own metadata.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kgd.errors import Invalid, KgdError, Limit, Unauthorized, Unavailable
from kgd.http_client import LOOPBACK, Address, HttpClient, Response
from kgd.oidc import Issuer
from kgd.oidc.id_token import Key, refuse_old, verified

DEADLINE = 10.0
ANSWER_LIMIT = 256 << 10
METADATA_SECONDS = 3_600
KEYS_SECONDS = 600
"""A key that the issuer has removed is accepted for at most this time."""
REST_SECONDS = 3.0
"""Seconds without requests after the issuer did not answer, so that an outage does not keep many threads waiting."""
KEYS_AGAIN = 6
"""Maximum number of times per minute that the hub reads the keys again because of an unknown key id."""
PENDING = ("authorization_pending", "slow_down")
_OPERATORS = (
    *("invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"),
    *("server_error", "temporarily_unavailable"),
)
"""Errors that another sign-in would not fix."""


class Refused(Unauthorized):
    """The issuer refused; `reason` is its error code."""

    def __init__(self, reason: str) -> None:
        self.reason = reason if reason.isprintable() and len(reason) <= 60 else "unknown error"
        super().__init__(f"the sign-in server refused: {self.reason}", next="Sign in again.")


@dataclass(frozen=True, slots=True)
class Granted:
    """The issuer's answer to a sign-in: the claims of the ID token and the userinfo endpoint, and the
    issuer's refresh token, or an empty text."""

    claims: Mapping[str, Any]
    refresh: str


class Provider:
    """One issuer. Thread-safe."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[Key]] | None = None
        self._reads: deque[float] = deque(maxlen=KEYS_AGAIN)
        self._resting_until = 0.0

    # ---- people

    def browser_url(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """The address that a browser visits to sign in; it returns to `back`. Raises Unavailable."""
        url = self._endpoint("authorization_endpoint")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.issuer.client_id,
            "redirect_uri": back,
            "scope": " ".join(self.issuer.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if "offline_access" in self.issuer.scopes:
            asked["prompt"] = "consent"  # without it, issuers give no refresh token
        return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(asked)}"

    def names_itself(self) -> bool:
        """Whether the issuer adds `iss` to the address to which a browser returns. Raises Unavailable."""
        return self._described().get("authorization_response_iss_parameter_supported") is True

    def redeem(self, code: str, verifier: str, back: str, nonce: str) -> Granted:
        """The person who signed in, for the code that the browser brought.

        Raises:
            Refused: The code was used already, expired, or belongs to another sign-in.
            Unauthorized: The ID token is not valid.
            Unavailable: The issuer does not answer.
        """
        said = self._token(
            {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        )
        return self._granted(said, nonce)

    def begin_device(self) -> dict[str, Any]:
        """Start a sign-in on another device (RFC 8628). Raises Refused or Unavailable."""
        asked = {"scope": " ".join(self.issuer.scopes)}
        said = self._read(self._post("device_authorization_endpoint", asked))
        if not all(isinstance(said.get(name), str) for name in ("device_code", "user_code", "verification_uri")):
            raise self._unusable("does not follow RFC 8628")
        return said

    def poll_device(self, device_code: str) -> Granted:
        """The person who signed in on another device.

        Raises:
            Refused: They have not signed in yet (`reason` is in `PENDING`), have refused, or the code expired.
        """
        said = self._token({"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device_code})
        return self._granted(said, None)

    def renew(self, refresh: str, subject: str, replaced: Callable[[str], object]) -> dict[str, Any]:
        """The claims of the same person as the issuer knows them now.

        Args:
            replaced: Called at once with the new refresh token, if the issuer replaces it.

        Raises:
            Refused: The issuer has ended the sign-in.
            Unauthorized: The answer is about another person.
            Unavailable: The issuer does not answer.
        """
        said = self._token({"grant_type": "refresh_token", "refresh_token": refresh})
        if (new := _text(said, "refresh_token")) not in ("", refresh):
            replaced(new)
        claims = self._claims(said, None) if "id_token" in said else {"sub": subject}
        claims = self._with_groups(claims, said)
        if claims["sub"] != subject:
            raise Unauthorized("the sign-in server answered about another person", next="Sign in again.")
        return claims

    # ---- programs

    def workload(self, token: str) -> dict[str, Any]:
        """The claims of a program's ID token. Raises Unauthorized or Unavailable."""
        return verified(token, self._keys_of, issuer=self.issuer.url, audience=self.issuer.audience)

    # ---- answers

    def _granted(self, said: Mapping[str, Any], nonce: str | None) -> Granted:
        claims = self._claims(said, nonce)
        refuse_old(claims)
        return Granted(self._with_groups(claims, said), _text(said, "refresh_token"))

    def _claims(self, said: Mapping[str, Any], nonce: str | None) -> dict[str, Any]:
        hub = self.issuer.client_id
        token = _text(said, "id_token")
        return verified(token, self._keys_of, issuer=self.issuer.url, audience=hub, client=hub, nonce=nonce)

    def _with_groups(self, claims: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
        """The claims, completed by the userinfo endpoint if they lack the groups, the name or the email."""
        access, wanted = _text(said, "access_token"), {self.issuer.groups, "name", "email"}
        if wanted <= claims.keys() or not access or "userinfo_endpoint" not in self._described():
            return claims
        more = self._read(self._send("GET", "userinfo_endpoint", None, {"Authorization": f"Bearer {access}"}))
        if more.get("sub") != claims["sub"]:
            raise Unauthorized("the sign-in server answered about another person", next="Sign in again.")
        return {**more, **claims}

    def _token(self, asked: Mapping[str, str]) -> dict[str, Any]:
        return self._read(self._post("token_endpoint", asked))

    # ---- metadata and keys

    def _described(self) -> dict[str, Any]:
        """The issuer's metadata. Raises Unavailable."""
        with self._lock:
            if self._metadata is None or time.monotonic() - self._metadata[0] > METADATA_SECONDS:
                url = f"{self.issuer.url.rstrip('/')}/.well-known/openid-configuration"
                said = self._read(self._call("GET", url, None, {}))
                if said.get("issuer") != self.issuer.url:
                    raise self._unusable("names another issuer in its metadata")
                self._metadata = time.monotonic(), said
            return self._metadata[1]

    def _keys_of(self, id: str) -> list[Key]:
        """The keys with this id, read again if there is none. Raises Unavailable."""
        url = self._endpoint("jwks_uri")
        with self._lock:
            now = time.monotonic()
            is_old = self._keys is None or now - self._keys[0] > KEYS_SECONDS
            found = [] if self._keys is None or is_old else _named(self._keys[1], id)
            if not found and (is_old or self._may_read_again(now)):
                said = self._read(self._call("GET", url, None, {})).get("keys")
                if not isinstance(said, list):
                    raise self._unusable("has no list of keys")
                self._keys = now, [one for one in said if isinstance(one, dict)]
                found = _named(self._keys[1], id)
            return found

    def _may_read_again(self, now: float) -> bool:
        """Whether the keys may be read again; bounds the requests that invented key ids cause."""
        if len(self._reads) == KEYS_AGAIN and now - self._reads[0] < 60:
            return False
        self._reads.append(now)
        return True

    # ---- requests

    def _endpoint(self, name: str) -> str:
        url = self._described().get(name)
        parts = urlsplit(url) if isinstance(url, str) and url.isascii() and url.isprintable() else None
        if parts is None or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)):
            raise self._unusable(f"has no usable {name}")
        assert isinstance(url, str)
        return url

    def _post(self, endpoint: str, asked: Mapping[str, str]) -> Response:
        issuer = self.issuer
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        form = dict(asked)
        methods = self._described().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if issuer.client_secret and "client_secret_basic" in methods:
            pair = f"{quote_plus(issuer.client_id)}:{quote_plus(issuer.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = issuer.client_id
        if issuer.client_secret and "client_secret_basic" not in methods:
            form["client_secret"] = issuer.client_secret
        return self._send("POST", endpoint, urlencode(form).encode(), headers)

    def _send(self, method: str, endpoint: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        return self._call(method, self._endpoint(endpoint), body, headers)

    def _call(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        called = f"the sign-in server of '{self.issuer.name}'"
        try:
            client = HttpClient(Address.parse(url, of="sign-in server"), called=called)
        except Invalid as error:
            raise self._unusable(f"names an address that kgd does not accept: {url[:80]}") from error
        sent = {"Accept": "application/json", "User-Agent": "kgd", **headers}
        if time.monotonic() < self._resting_until:
            raise self._unusable("did not answer a moment ago")
        try:
            return client.request(method, "", body, sent, deadline=DEADLINE, limit=ANSWER_LIMIT)
        except Limit as error:
            raise self._unusable("sent an answer that is too large") from error
        except Unavailable:
            self._resting_until = time.monotonic() + REST_SECONDS
            raise
        finally:
            client.close()

    def _read(self, response: Response) -> dict[str, Any]:
        """The JSON object of an answer.

        Raises:
            Refused: The answer is an error of OAuth.
            Unavailable: The answer is anything else.
        """
        said = response.json()
        if response.status == 200 and isinstance(said, dict):
            return said
        if response.status in (400, 401, 403) and isinstance(said, dict) and isinstance(said.get("error"), str):
            if said["error"] in _OPERATORS:
                raise self._unusable(f"does not accept this hub ({said['error']})")
            raise Refused(said["error"])
        raise self._unusable(f"answered with HTTP status {response.status}")

    def _unusable(self, what: str) -> KgdError:
        return Unavailable(
            f"the sign-in server of '{self.issuer.name}' {what}",
            at=self.issuer.url,
            next="Ask the hub's administrator to check its configuration of sign-in.",
        )


def _named(keys: list[Key], id: str) -> list[Key]:
    return [one for one in keys if one.get("kid") == id] if id else keys


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""
