"""The listening address of a hub, its host names, and its TLS settings.

A hub reachable from other machines needs TLS, or a proxy that provides TLS; otherwise tokens would travel unencrypted.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass

from kgd.errors import Forbidden, Invalid, Unavailable

DRAIN_LIMIT = 15
"""Largest `--drain` in seconds: with it, a hub ends within 30 seconds after SIGTERM."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
BACKLOG = 4096
"""Largest number of connections that wait to be accepted; the kernel may allow fewer."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen, and what to serve.

    `workspaces` are the served ids; if empty, all workspaces in the registry are served. `names` are the allowed host
    names; if empty, any name is allowed, which is safe because every request except a probe needs a token. `drain` is
    the number of seconds between SIGTERM and the end of accepting connections.
    """

    host: str
    port: int
    workspaces: frozenset[str] = frozenset()
    cert: str = ""
    key: str = ""
    behind_proxy: bool = False
    names: tuple[str, ...] = ()
    drain: float = 0.0

    @classmethod
    def parse(cls, address: str, **known: object) -> Listen:
        """Parse ``HOST:PORT``; an IPv6 address is in brackets.

        Raises:
            Invalid: The address is malformed.
            Forbidden: Other machines can reach the address, and neither TLS nor a proxy protects the tokens.
        """
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
            raise Invalid("an address must have the form HOST:PORT", at="--listen", next="For example 127.0.0.1:7601.")
        found = cls(host.strip("[]"), int(port), **known)  # type: ignore[arg-type]
        found._check()
        return found

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def hosts(self) -> tuple[str, ...]:
        """Allowed Host names; empty for any."""
        if self.names:
            return (*self.names, *LOOPBACK_NAMES)
        return LOOPBACK_NAMES if self.is_loopback and not self.behind_proxy else ()

    def takes_host(self, header: str) -> bool:
        """Whether to accept this Host header; protects against DNS rebinding."""
        return not self.hosts or _name(header.lower()) in self.hosts

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers use TLS, which ends here or at the proxy."""
        return bool(self.cert) or self.behind_proxy

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a page of this origin belongs to this hub, by the Host of its request.

        Behind a proxy that changes the Host, the configured names are used.
        """
        scheme, _, rest = origin.lower().partition("://")
        if self.behind_proxy and scheme == "https" and rest in self.names:
            return True
        is_near = _name(rest) in LOOPBACK_NAMES and not self.cert
        encrypted = self.is_encrypted and not (is_near and scheme == "http")
        return rest == host.lower() and scheme == ("https" if encrypted else "http") and self.takes_host(host)

    def takes_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may call with a token: a page of this hub or of this machine."""
        scheme, _, rest = origin.lower().partition("://")
        known = (*LOOPBACK_NAMES, *self.names)
        return self.is_own_page(origin, host) or (self.is_loopback and scheme == "http" and _name(rest) in known)

    def open(self) -> socket.socket:
        """The listening socket.

        Raises:
            Unavailable: The port is in use, or the address does not belong to this machine.
        """
        try:
            family, _, _, _, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            # With an explicit protocol asyncio sets TCP_NODELAY; without it, a second segment waits 40 ms for an ACK.
            listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(where)
                listening.listen(BACKLOG)
            except OSError:
                listening.close()
                raise
        except OSError as error:
            raise Unavailable(
                f"the hub cannot listen there: {error.strerror or error}",
                at=f"{self.host}:{self.port}",
                next="Choose another port, or stop the program that uses it.",
            ) from error
        return listening

    def url(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.cert else ''}://{host}:{port}"

    def browser_url(self, port: int) -> str:
        """The URL of the pages for this machine's user, with the first configured host name if there is one."""
        if self.names:
            usual = self.behind_proxy or port == (443 if self.cert else 80)
            return f"http{'s' if self.is_encrypted else ''}://{self.names[0]}" + ("" if usual else f":{port}")
        scheme = "https" if self.cert else "http"
        if self.host in ("0.0.0.0", "::"):
            return f"{scheme}://127.0.0.1:{port}"
        return self.url(port)

    def _check(self) -> None:
        if not 0 <= self.drain <= DRAIN_LIMIT:
            raise Invalid(f"the drain must be 0 to {DRAIN_LIMIT} seconds", at="--drain")
        if bool(self.cert) != bool(self.key):
            raise Invalid("TLS needs both a certificate and its key", at="--tls-cert", next="Give --tls-key as well.")
        if self.cert:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert, self.key)
            except (OSError, ssl.SSLError) as error:
                raise Invalid(f"the certificate or its key cannot be used: {error}", at="--tls-cert") from error
        if not self.is_loopback and not self.cert and not self.behind_proxy:
            raise Forbidden(
                "on this address, tokens would leave the machine unprotected",
                at=f"{self.host}:{self.port}",
                next="Give --tls-cert and --tls-key, or --behind-proxy if a proxy ends TLS.",
            )


def _name(host: str) -> str:
    """The host without its port, if the port is a number."""
    name, _, port = host.rpartition(":")
    return name if name and port.isascii() and port.isdecimal() else host
