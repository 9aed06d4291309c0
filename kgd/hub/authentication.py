"""Authentication of a hub's requests by their token (the caller with its tools, workspaces and session), and sign-in
over HTTP without a browser: the device flow (RFC 8628), renewal (RFC 6749), and the exchange of a program's ID token
(RFC 8693).

Sign-in takes forms and answers JSON; errors are problem details that also have OAuth's `error`. These requests need no
token of kgd, so their clients count as strangers (`kgd.hub.connections`).
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kgd import __version__, tracing
from kgd.daemon.daemon import Daemon
from kgd.daemon.request_bodies import Bodies
from kgd.errors import Forbidden, Invalid, KgdError, NotFound, Unauthorized, of_defect
from kgd.hub.listen import Listen
from kgd.hub.problem_details import MEDIA_TYPE, details, problem
from kgd.model.token import TokenRecord
from kgd.model.token import read as read_token
from kgd.tools import SERVED
from kgd.tools.hubs.token_calls import call, visible
from kgd.tools.hubs.tokens import describe
from kgd.tools.operation import Answer, Operation
from kgd.tools.session import Session


class Caller(Protocol):
    """The caller of one request."""

    line: str
    """Key under which the connections and bodies of the caller are counted."""
    workspaces: Sequence[str]
    """Ids of all workspaces of the caller; answers may depend on them."""

    def spend(self, size: int) -> None:
        """Count bytes of a body. Blocks. Raises TooMuch."""

    def workspace(self, id: str) -> str:
        """The id of the workspace, if the caller may use it. Raises NotFound."""

    def tools(self) -> Mapping[str, Operation]:
        """The tools that the caller may call, by name."""

    def session(self, client: str) -> Session: ...

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool. Raises NotFound if the caller may not call it."""

    def who(self) -> dict[str, Any]:
        """The caller's identity and workspaces, as reported to the caller."""

    def known(self) -> Any:
        """Everything about the caller that an answer depends on, as plain data; None if answers have no validator."""


class Door(Protocol):
    """Authentication: turns a request into a caller."""

    def caller(self, authorization: str) -> Caller:
        """The caller of a request, by its `Authorization` header. Blocks. Raises Unauthorized."""


class Holder:
    """The holder of a token, limited to its scopes."""

    def __init__(self, daemon: Daemon, gate: Gate, record: TokenRecord) -> None:
        self._daemon, self._gate, self.record = daemon, gate, record
        self.line = record.holder.line
        self.workspaces: Sequence[str] = gate.workspaces(record)

    def spend(self, size: int) -> None:
        self._gate.spend(self.record, size)

    def workspace(self, id: str) -> str:
        return self._gate.workspace(self.record, id)

    def tools(self) -> Mapping[str, Operation]:
        return visible(SERVED, self.record.holder)

    def session(self, client: str) -> Session:
        return Session(
            self._daemon,
            client=client,
            context_id=None,
            principal=self.record.holder,
            still_live=lambda: self._gate.still_live(self.record),
        )

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        return call(session, self.record, SERVED, name, arguments)

    def who(self) -> dict[str, Any]:
        return {
            "workspaces": self.workspaces,
            "principal": describe(self.record, self._daemon.tokens.now()),
            "version": __version__,
        }

    def known(self) -> Any:
        return replace(self.record.holder, expires=None).as_dict()


TOKEN_LIMIT = 200


class Gate:
    """Authenticates requests. Results are not cached, so that a revoked token fails at its next request."""

    def __init__(self, daemon: Daemon, listen: Listen, keep_alive: Callable[[str], None] = lambda id: None) -> None:
        """`keep_alive` renews the token of a browser that signed in; it takes the token's id, and may block."""
        self._daemon, self._listen, self._keep_alive = daemon, listen, keep_alive

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """The record of the token in an Authorization header, with only the scopes of served workspaces.

        Counts the request and its bytes. Blocks for about 100 us.

        Raises:
            Unauthorized: The token is missing, or is not a live token of this hub.
            TooMuch: Its quota is exceeded.
            Unavailable, Damaged, Forbidden: The tokens cannot be read.
        """
        return self._counted(self._daemon.tokens.recognise(token_in(authorization)), size)

    def again(self, id: str, size: int = 0) -> TokenRecord:
        """The current record of a token by its id, for a browser session that began with the token.

        Raises:
            Unauthorized: The token has been revoked or has expired since then.
            TooMuch, Unavailable, Damaged, Forbidden: As in `admit`.
        """
        self._keep_alive(id)
        return self._counted(self._daemon.tokens.again(id), size)

    def caller(self, authorization: str) -> Holder:
        """The caller of the HTTP API. Raises like `admit`."""
        return Holder(self._daemon, self, self.admit(authorization))

    def spend(self, record: TokenRecord, size: int) -> None:
        """Count bytes of a body. Raises TooMuch."""
        if size > 0:
            self._daemon.tokens.spend(record, "bytes", size)

    def still_live(self, record: TokenRecord) -> None:
        """Check the token again right before a write. Raises Unauthorized if it has been revoked."""
        if record.holder.is_signed_in:
            self._keep_alive(record.holder.id)
        self._daemon.tokens.still_live(record.holder.id)

    def workspaces(self, record: TokenRecord) -> list[str]:
        """The ids of the served workspaces in the token's scopes."""
        return sorted({scope.workspace for scope in record.holder.scopes} & set(self._daemon.workspace_ids()))

    def workspace(self, record: TokenRecord, id: str) -> str:
        """The id of the workspace, if the token may use it.

        Raises:
            NotFound: The token may not use the workspace, or there is no such workspace; the error does not tell which.
        """
        if id not in self.workspaces(record):
            error = NotFound("there is no such workspace for this token", at="workspace", next="See /v1/workspaces.")
            self._daemon.tokens.refused(record.holder.id, "workspace", error, id)
            raise error
        tracing.note(workspace=id)
        return id

    def _counted(self, found: TokenRecord, size: int) -> TokenRecord:
        record = self._served(found)
        tracing.note(token=record.holder.id)
        self._daemon.tokens.spend(record, "requests", 1)
        self.spend(record, size)
        return record

    def _served(self, record: TokenRecord) -> TokenRecord:
        served = self._listen.workspaces
        if not served:
            return record
        holder = record.holder
        kept = tuple(scope for scope in holder.scopes if scope.workspace in served)
        return replace(record, holder=replace(holder, scopes=kept))


def token_in(authorization: str) -> str:
    """The token of ``Bearer TOKEN``, or of ``Basic`` with the token as the password of any user, as git sends it.

    Raises:
        Unauthorized: There is no token, or it is malformed.
    """
    scheme, _, rest = authorization.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "basic":
        try:
            rest = base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            rest = ""
    elif scheme.lower() != "bearer":
        rest = ""
    if not rest or len(rest) > TOKEN_LIMIT:
        raise Unauthorized("a token is needed", next="Send it as `Authorization: Bearer TOKEN`.")
    read_token(rest)  # detects a typo before any look-up
    return rest


if TYPE_CHECKING:
    from kgd.daemon.sign_in import Given, SignIns

PLACE = "/v1/sign_in"
"""No workspace can have this name, so no tool has this address."""
BODY_LIMIT = 32 << 10
THREADS = 16
"""Number of requests that may wait for a sign-in server."""
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKENS = ("urn:ietf:params:oauth:token-type:id_token", "urn:ietf:params:oauth:token-type:jwt")
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"

Form = dict[str, str]

log = logging.getLogger("kgd.hub")


class SignInApi:
    """The routes below `/v1/sign_in`."""

    def __init__(self, sign_ins: SignIns, bodies: Bodies, now: Callable[[], float]) -> None:
        self._sign_ins, self._bodies, self._now = sign_ins, bodies, now
        self._threads: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        return [
            Route(PLACE, self.choices, methods=["GET"]),
            Route(f"{PLACE}/device", self.device, methods=["POST"]),
            Route(f"{PLACE}/token", self.token, methods=["POST"]),
            Route(f"{PLACE}/revoke", self.revoke, methods=["POST"]),
        ]

    async def choices(self, request: Request) -> Response:
        """``GET``: the issuers with which people sign in."""
        return _json({"issuers": [{"name": name, "title": title} for name, title in self._sign_ins.choices()]})

    async def device(self, request: Request) -> Response:
        """``POST …/device``: begin a sign-in on another device. `issuer` may name an issuer."""
        return await self._run(request, lambda form: self._sign_ins.begin_device(form.get("issuer", "")))

    async def token(self, request: Request) -> Response:
        """``POST …/token``: a token, by the `grant_type`."""
        return await self._run(request, self._token)

    async def revoke(self, request: Request) -> Response:
        """``POST …/revoke``: end the sign-in of the refresh token `token` (RFC 7009)."""
        return await self._run(request, self._revoke)

    async def _run(self, request: Request, answer: Callable[[Form], dict[str, Any]]) -> Response:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        try:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/x-www-form-urlencoded":
                raise Invalid("the body must be a form", at="Content-Type", next="Send it url-encoded.")
            declared = request.headers.get("content-length")
            async with self._bodies.read(aiter(request.stream()), declared, "", BODY_LIMIT) as body:
                form = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=20))
            return _json(await anyio.to_thread.run_sync(answer, form, limiter=self._threads))
        except ClientDisconnect:
            return Response(status_code=400)
        except KgdError as error:
            return _refusal(error)
        except ValueError:
            return _refusal(Invalid("the form cannot be read", at="body"))
        except Exception as error:
            log.exception("a sign-in failed", extra={"path": request.url.path})
            return problem(of_defect(error, next="The hub's log has the details."))

    def _token(self, form: Form) -> dict[str, Any]:
        grant = form.get("grant_type", "")
        if grant == DEVICE:
            return self._told(self._sign_ins.finish_device(_needed(form, "device_code")))
        if grant == "refresh_token":
            return self._told(self._sign_ins.refresh(_needed(form, "refresh_token")))
        if grant != EXCHANGE:
            known = f"refresh_token, {DEVICE}, {EXCHANGE}"
            raise Invalid("this grant type is not supported", at="grant_type", next=f"Known: {known}.")
        if form.get("subject_token_type", ID_TOKENS[0]) not in ID_TOKENS:
            raise Invalid(
                "the subject token must be an ID token", at="subject_token_type", next=f"Send {ID_TOKENS[0]}."
            )
        given = self._sign_ins.exchange(_needed(form, "subject_token"))
        return {**self._told(given), "issued_token_type": ACCESS_TOKEN}

    def _told(self, given: Given) -> dict[str, Any]:
        left = max(0, int((given.record.holder.expires or 0) - self._now()))
        answer = {"access_token": given.text, "token_type": "Bearer", "expires_in": left}
        return {**answer, "refresh_token": given.refresh} if given.refresh else answer

    def _revoke(self, form: Form) -> dict[str, Any]:
        self._sign_ins.end(_needed(form, "token"))
        return {}


def _needed(form: Form, name: str) -> str:
    if not form.get(name):
        raise Invalid(f"'{name}' is missing", at=name)
    return form[name]


def _refusal(error: KgdError) -> Response:
    """A problem document with OAuth's error code. Errors of a form or a grant have status 400, as OAuth demands."""
    reason = getattr(error, "reason", "")
    if not reason and isinstance(error, Invalid):
        reason = "unsupported_grant_type" if error.at == "grant_type" else "invalid_request"
    if not reason and error.status in (401, 403):
        reason = "access_denied" if isinstance(error, Forbidden) else "invalid_grant"
    if not reason:
        return problem(error)
    error.__traceback__ = None
    body = {**details(error, 400), "error": reason, "error_description": error.message}
    return Response(orjson.dumps(body), 400, {"cache-control": "no-store"}, MEDIA_TYPE)


def _json(answer: dict[str, Any]) -> Response:
    return Response(orjson.dumps(answer), 200, {"cache-control": "no-store"}, "application/json")
