"""Sign-in over HTTP without a browser: the device flow (RFC 8628), renewal (RFC 6749), and the exchange of a program's
ID token (RFC 8693).

Sign-in takes forms and answers JSON; errors are problem details that also have OAuth's `error`. These requests need no
token of kgd, so their clients count as strangers (`kgd.hub.connections`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kgd.daemon.request_bodies import Bodies
from kgd.errors import Forbidden, Invalid, KgdError, of_defect
from kgd.hub import MEDIA_TYPE, details, problem

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
        self._threads = anyio.CapacityLimiter(THREADS)

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
