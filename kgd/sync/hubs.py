"""This file is where a hub is called: one tool of one workspace, with a token, an answer or a refusal that says why.

Answers of reads are kept with the hub's validator: asking again costs a short "nothing has changed", not the answer.
What a hub says is somebody else's text; it is parsed, bounded and never followed.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kgd.errors import BY_CODE, KgdError, Stale, Unauthorized, Unavailable, from_dict
from kgd.http_client import Address, HttpClient, Response
from kgd.model.uri import is_workspace_id

DEADLINE = 2.0
"""Seconds that a read of a hub may take; a slow hub costs a walk no more than that."""
WRITE_DEADLINE = 60.0
"""Seconds for what writes: the hub may have to push to its upstream first."""
ANSWER_LIMIT = 8 << 20
KEPT_BYTES = 16 << 20
"""Answers with a validator that one client keeps."""
READS = frozenset({"get", "search", "traverse", "history", "status", "context"})
_AGENT = "kgd"

_BY_STATUS = {
    400: "VALIDATION_ERROR", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "INVARIANT_VIOLATION",
    413: "LIMIT", 422: "VALIDATION_ERROR", 429: "LIMIT", 503: "UNAVAILABLE",
}  # fmt: skip


class HubClient:
    """One hub, called with one token. Safe for threads.

    Args:
        url: ``https://host[:port][/base]``; plain http for this machine alone.
        token: Asked before each call, so that a token that was replaced is used at once; empty sends none.
        tls: Which certificates are believed; the machine's own list where none is given.
        answered: Called after each answer of a hub, a refusal included.
    """

    def __init__(
        self, url: str, token: Callable[[], str] = lambda: "", *, tls: ssl.SSLContext | None = None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._http = HttpClient(Address.parse(url), tls)
        self._token, self._answered = token, answered
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return str(self._http.address)

    def call(
        self, workspace: str, tool: str, args: Mapping[str, Any], *, deadline: float | None = None
    ) -> dict[str, Any]:
        """The structured answer of a tool of one of the hub's workspaces.

        Reads are asked with the validator of the last answer to the same question, under the same token.

        Raises:
            KgdError: The hub's own refusal, with its code; `Stale` carries the current version.
            Unauthorized: The token is missing, expired or revoked.
            Unavailable: The hub did not answer as one in time. What writes may or may not have been carried out: repeat
                it with the same request id.
            Limit: The answer is longer than 8 MiB.
        """
        if not is_workspace_id(workspace) or not tool.replace("_", "").isalnum():
            raise Unavailable("this is not a workspace or tool of a hub", at=workspace[:63])
        body = orjson.dumps(dict(args), option=orjson.OPT_SORT_KEYS)
        reads = tool in READS
        return self._ask("POST", f"/v1/{workspace}/{tool}", body, deadline or (DEADLINE if reads else WRITE_DEADLINE),
                         keep=reads)  # fmt: skip

    def workspaces(self, *, deadline: float = DEADLINE * 5) -> dict[str, Any]:
        """What the hub says about itself and the holder of the token: `workspaces` and, with a token, who that is."""
        return self._ask("GET", "/v1/workspaces", None, deadline, keep=False)

    def link(self, workspace: str, *, deadline: float = DEADLINE * 5) -> dict[str, Any]:
        """The `path` of a page of the hub that lets one browser in, once, as the holder of the token."""
        return self._ask("POST", "/v1/links", orjson.dumps({"workspace": workspace}), deadline, keep=False)

    def close(self) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, body: bytes | None, deadline: float, *, keep: bool) -> dict[str, Any]:
        token = self._token()
        headers = {"Accept": "application/json", "User-Agent": _AGENT}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        key = _key(path, body, token) if keep else ""
        known = self._known(key) if keep else None
        if known:
            headers["If-None-Match"] = known[0]
        response = self._http.request(method, path, body, headers, deadline=deadline, limit=ANSWER_LIMIT)
        if response.status == 304 and known:
            self._answered()
            return self._read(known[1])
        if response.status not in (200, 201):
            refusal = self._refusal(response)
            if not isinstance(refusal, Unavailable):
                self._answered()
            raise refusal
        answer = self._read(response.body)
        self._answered()
        if keep and (validator := response.headers.get("etag", "")):
            self._keep(key, validator, response.body)
        return answer

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._strange() from error
        if not isinstance(answer, dict):
            raise self._strange()
        return answer

    def _refusal(self, response: Response) -> KgdError:
        """The problem details of a hub as the error they were; anything else is no hub's answer."""
        if 300 <= response.status < 400:
            return Unavailable(
                "the hub sends its callers to another address, which is not followed", at=self.url,
                next="If you trust that address, put it into workspaces.yaml.",
            )  # fmt: skip
        try:
            said = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            said = None
        if response.status == 401:
            words, then = (said.get("detail"), said.get("next")) if isinstance(said, dict) else ("", "")
            if not isinstance(words, str) or not words:
                words = "the hub does not take this token: it is missing, expired or revoked"
            if not isinstance(then, str) or not then:
                then = "Ask its keeper for a new one."
            return Unauthorized(words, at=self.url, next=f"{then} Then `kgd join {self.url}`.")
        fallback = _BY_STATUS.get(response.status)
        if not isinstance(said, dict) or fallback is None:
            return Unavailable(f"the hub answered with HTTP status {response.status}", at=self.url)
        code = said.get("code")
        if code not in BY_CODE and code != Stale.code:
            code = fallback
        version = said.get("current_version")
        told = {name: said[name] for name in ("at", "next") if isinstance(said.get(name), str)}
        words = next(
            (said[n] for n in ("message", "detail", "title") if isinstance(said.get(n), str)), "the hub refused"
        )
        return from_dict(
            {**told, "code": code, "message": words, "current_version": version if isinstance(version, int) else 0}
        )

    def _strange(self) -> Unavailable:
        return Unavailable("what answers there is no hub", at=self.url, next="Look at the address in workspaces.yaml.")

    def _known(self, key: str) -> tuple[str, bytes] | None:
        with self._lock:
            found = self._kept.get(key)
            if found:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: str, validator: str, body: bytes) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._held += len(body) - (len(old[1]) if old else 0)
            self._kept[key] = validator, body
            while self._held > KEPT_BYTES:
                self._held -= len(self._kept.popitem(last=False)[1][1])


def _key(path: str, body: bytes | None, token: str) -> str:
    """An answer belongs to the token that was allowed to see it."""
    return hashlib.blake2b(b"\0".join((path.encode(), body or b"", token.encode())), digest_size=16).hexdigest()
