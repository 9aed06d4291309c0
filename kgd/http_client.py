"""HTTP requests: certificates checked, no redirect or proxy followed, always within a deadline.

The standard library's timeout starts again with each byte, so a server that sends one byte a minute could block it
forever. Here one deadline covers connecting, sending and reading.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from kgd.errors import MALFORMED, Invalid, Limit, Unavailable

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CHUNK = 1 << 16
_SPARE = 4
"""Idle connections to one server that are kept."""
_CHECK = "Check the address, or try again later."
_UNKNOWN_ISSUER = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate of an unknown authority."""
_OWN_AUTHORITY = (
    "If your own authority issued the certificate, run `kgd down`, then the command again with SSL_CERT_FILE set to a "
    "file with the authority's certificate."
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. `base` is the path before every request's own, without a final slash."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    base: str = ""

    @classmethod
    def parse(cls, url: str, *, of: str = "hub") -> Address:
        """Parse ``https://host[:port][/base]``; `of` names the server in errors.

        Raises:
            Invalid: The text is not an address of this form, or uses plain http for another machine: a token never
                travels unencrypted.
        """
        refusal = Invalid(
            f"this is not the address of a {of}",
            at=of,
            next="Write https://host[:port]; plain http is for 127.0.0.1 alone.",
        )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise refusal from None
        host = parts.hostname or ""
        if not url.isascii() or not url.isprintable() or " " in url or not host or parts.query or parts.fragment:
            raise refusal
        if parts.username is not None or parts.scheme not in ("http", "https"):
            raise refusal
        if parts.scheme == "http" and host not in LOOPBACK:
            raise refusal
        scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
        return cls(scheme, host, port or (443 if scheme == "https" else 80), parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.base}"


@dataclass(frozen=True, slots=True)
class Response:
    """The answer. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The value of the JSON body; None if the body is not JSON."""
        try:
            return json.loads(self.body)
        except MALFORMED:
            return None


class HttpClient:
    """Requests to one server, over reused connections. Thread-safe.

    Args:
        tls: The trusted certificates; by default the machine's. Verification cannot be switched off.
        called: The server's name in errors.
    """

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None, *, called: str = "the hub") -> None:
        self.address, self._tls, self._called = address, tls, called
        self._idle: list[http.client.HTTPConnection] = []

    def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, deadline: float, limit: int
    ) -> Response:
        """Send one request and return its answer within `deadline` seconds and `limit` bytes.

        A reused connection that the server had closed is replaced once, if no byte of an answer came.

        Raises:
            Unavailable: There was no usable answer in time; the request may have been carried out.
            Limit: The answer is longer.
        """
        end = time.monotonic() + deadline
        while True:
            try:
                connection, used = self._idle.pop(), True
            except IndexError:
                connection, used = self._connection(), False
            try:
                response, reusable = self._exchange(connection, method, path, body, headers, end, limit)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
                connection.close()
                if used:
                    continue
                raise self._failed("closed the connection") from error
            except ssl.SSLCertVerificationError as error:
                connection.close()
                what = f"has a certificate that is not trusted: {error.verify_message}"
                raise self._failed(what, _OWN_AUTHORITY if error.verify_code in _UNKNOWN_ISSUER else _CHECK) from error
            except TimeoutError as error:
                connection.close()
                raise self._failed(f"did not answer within {deadline:.3g} s") from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                connection.close()
                raise self._failed(f"cannot be reached: {_reason(error)}") from error
            except BaseException:
                connection.close()
                raise
            if reusable and len(self._idle) < _SPARE:
                self._idle.append(connection)
            else:
                connection.close()
            return response

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.scheme == "http":
            return http.client.HTTPConnection(host, port)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, context=self._tls)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        end: float,
        limit: int,
    ) -> tuple[Response, bool]:
        if connection.sock is None:
            connection.timeout = _left(end)
            connection.connect()
            opened: Any = connection  # its socket may be anything that sends and makes a file
            opened.sock = _Bounded(opened.sock)
        bounded: Any = connection.sock
        bounded.end = end
        connection.request(method, self.address.base + path, body, dict(headers))
        answer = connection.getresponse()
        declared = answer.getheader("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            raise self._too_large(limit)
        read = bytearray()
        while part := answer.read(min(_CHUNK, limit + 1 - len(read))):
            read += part
            if len(read) > limit:
                raise self._too_large(limit)
        known = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, known, bytes(read)), not answer.will_close

    def _failed(self, what: str, next: str = _CHECK) -> Unavailable:
        return Unavailable(f"{self._called} {what}", at=str(self.address), next=next)

    def _too_large(self, limit: int) -> Limit:
        return Limit(f"{self._called} answered with more than {limit} bytes", at=str(self.address))


class _Bounded:
    """A socket whose every wait ends at `end`, a time of the monotonic clock."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.end = sock, 0.0

    def sendall(self, data: bytes) -> None:
        self.sock.settimeout(_left(self.end))
        self.sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self, self.sock.makefile("rb", buffering=0)))

    def close(self) -> None:
        self.sock.close()


class _Incoming(io.RawIOBase):
    """The read side of a bounded socket; it keeps the socket open until it is closed itself."""

    def __init__(self, bounded: _Bounded, raw: io.RawIOBase) -> None:
        self._bounded, self._raw = bounded, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._bounded.sock.settimeout(_left(self._bounded.end))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
