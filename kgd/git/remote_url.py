"""Addresses of remotes: parsed, and refused where git could misread them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kgd.errors import Invalid

PATH, SSH, HTTPS, HTTP = "path", "ssh", "https", "http"
LENGTH_LIMIT = 2048

_SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._+-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):(?!/?/)?.+\Z").match
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FORMS = "Write https://host/path, ssh://user@host/path, user@host:path or a directory."


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """The address of a remote. `text` is what git gets; for a directory that is its absolute path."""

    text: str
    kind: str

    @property
    def directory(self) -> Path | None:
        """The directory, for a remote on this machine."""
        return Path(self.text) if self.kind == PATH else None

    @property
    def protocol(self) -> str:
        """The name in git's allow list of protocols."""
        return "file" if self.kind == PATH else self.kind


def parse(text: str, base: Path | None = None) -> RemoteUrl:
    """Parse an address; a relative path starts at `base`.

    Refuses an address that begins like an option, transports that run commands (``ext::``), control characters, a
    password or token inside the address, a query or fragment (which may hold one), and plain http to another machine.

    Raises:
        Invalid: The address is refused; the message gives the reason, and does not repeat an address that may hold a
            secret.
    """
    if not text or len(text) > LENGTH_LIMIT or not text.isprintable() or text != text.strip():
        raise Invalid("a remote's address must be one line of printable characters", at="url", next=_FORMS)
    if text.startswith("-"):
        raise Invalid("a remote's address cannot begin with a dash", at="url", next=_FORMS)
    if re.match(r"[A-Za-z0-9+.-]*::", text):
        raise Invalid("an address that names a transport helper (`ext::`) is refused", at="url", next=_FORMS)
    if "://" in text:
        return _with_scheme(text)
    if _SCP_LIKE(text) and "/" not in text.partition(":")[0] and not (base and (base / text).exists()):
        if "@" in text.partition(":")[0].partition("@")[2] or text.partition("@")[2].startswith("-"):
            raise Invalid("the host's name cannot begin with a dash", at="url", next=_FORMS)
        return RemoteUrl(text, SSH)
    path = os.path.expanduser(text)
    if not os.path.isabs(path) and base is None:
        raise Invalid("the path of a directory must be absolute here", at="url")
    return RemoteUrl(os.path.normpath(os.path.join(base or "/", path)), PATH)


def take_credential(text: str) -> tuple[str, str]:
    """Split an http address into the address without credentials and ``user:password``, which may be empty.

    Credentials that cannot be sent in a header stay in the address, so that `parse` refuses them.
    """
    try:
        parts = urlsplit(text)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return text, ""
    written = f"{user}:{password}"
    if parts.scheme not in (HTTPS, HTTP) or written == ":" or " " in written or not written.isprintable():
        return text, ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), written


def _with_scheme(text: str) -> RemoteUrl:
    try:
        parts = urlsplit(text)
        host, password = parts.hostname or "", parts.password
        _ = parts.port
    except ValueError:
        raise Invalid("this address cannot be parsed", at="url", next=_FORMS) from None
    if "?" in text or "#" in text:
        raise Invalid(
            "a remote's address must not have a query or fragment: a token there would show up in settings and logs",
            at="url",
            next="Leave it out; pass a token by reference: --token env:NAME, keyring:NAME or file:PATH.",
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise Invalid("a file:// address must name a directory on this machine", at="url")
        return RemoteUrl(os.path.normpath(parts.path), PATH)
    if parts.scheme not in (SSH, HTTPS, HTTP):
        raise Invalid(f"'{parts.scheme[:20]}' is not a supported protocol", at="url", next=_FORMS)
    if not host or host.startswith("-"):
        raise Invalid("the address does not name a host", at="url", next=_FORMS)
    if password is not None or (parts.scheme != SSH and parts.username is not None):
        raise Invalid(
            "an address must not contain credentials: anyone who can read the configuration would see them",
            at="url",
            next="Pass them by reference: --token env:NAME, keyring:NAME or file:PATH.",
        )
    if parts.scheme == HTTP and host not in _LOOPBACK:
        raise Invalid("plain http to another machine can be read and changed in transit", at="url", next="Use https.")
    return RemoteUrl(text, parts.scheme)
