"""The hub: a daemon that serves other machines through an HTTP API, git's smart HTTP and tokens.

HTTP responses for errors are problem details (RFC 9457) with kgd's error code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from kgd.daemon.tokens import TooMuch
from kgd.errors import Advice, Invalid, KgdError

TITLE = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Invalid request",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2


class NotJson(Invalid):
    """A body that is not JSON. (A wrong parameter gets status 422 instead.)"""

    status = 400


def problem(error: KgdError, *, status: int = 0, request_id: str = "") -> Response:
    """The response for an error. Clears the error's traceback."""
    error.__traceback__ = None  # a traceback would keep the request and its body until a full garbage collection
    code = status or error.status
    headers = {"x-request-id": request_id} if request_id else {}
    if code == 401:
        headers["www-authenticate"] = 'Bearer realm="kgd", error="invalid_token"'
    elif isinstance(error, TooMuch):
        headers["retry-after"] = str(error.retry_after)
    elif code == 503:
        headers["retry-after"] = str(RETRY_SECONDS)
    return Response(orjson.dumps(details(error, code)), code, headers, MEDIA_TYPE)


def details(error: KgdError, status: int) -> Mapping[str, Any]:
    known = error.as_dict()
    message = known.pop("message")
    if isinstance(error.next, Advice):
        known["advice"] = error.next.as_list()
    return {"type": "about:blank", "title": TITLE[status], "status": status, "detail": message, **known}
