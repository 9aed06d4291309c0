"""SSH signatures as git makes and checks them, SSH keys, and lists of allowed signers.

The bytes of keys and signatures follow RFC 4251 and OpenSSH's PROTOCOL.sshsig. Lists have the format of ``ssh-keygen``
(ALLOWED SIGNERS) that git's `gpg.ssh.allowedSignersFile` takes. Certificate authorities are not supported. Only
`kgd.signatures.keys` imports cryptography.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hashlib
import re
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from kgd.errors import MALFORMED, Invalid

MAGIC = b"SSHSIG"
GIT = b"git"
"""The namespace of commit signatures. kgd accepts no other namespace for a commit."""
HASHES = {b"sha512": hashlib.sha512, b"sha256": hashlib.sha256}
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_VERSION = 1
_WIDTH = 70
LARGEST = 16_384
"""Largest signature in characters; a signature by an RSA key of 16,384 bits needs 6,000."""


class Fields:
    """Reads the fields of a structure one after another. Each method raises Invalid if the data ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise Invalid("the structure is truncated")
        self._at, found = end, self._data[self._at : end]
        return found

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        return self.take(self.number())

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        if self.rest():
            raise Invalid("the structure has extra bytes")


@dataclass(frozen=True, slots=True)
class SshSignature:
    """A signature with the key that made it."""

    key: bytes
    namespace: bytes
    hash: bytes
    value: bytes

    def covers(self, message: bytes) -> bytes:
        """The bytes that the key signs for a message."""
        digest = HASHES[self.hash](message).digest()
        return MAGIC + b"".join(map(string, (self.namespace, b"", self.hash, digest)))

    def armored(self) -> str:
        parts = (self.key, self.namespace, b"", self.hash, self.value)
        body = MAGIC + _VERSION.to_bytes(4, "big") + b"".join(map(string, parts))
        text = base64.b64encode(body).decode()
        lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
        return "\n".join([_BEGIN, *lines, _END])


def parse(armored: str) -> SshSignature:
    """Parse an armored signature. Raises Invalid."""
    lines = armored.strip().split("\n")
    if len(armored) > LARGEST or lines[0] != _BEGIN or lines[-1] != _END:
        raise Invalid("this is not an SSH signature")
    try:
        fields = Fields(base64.b64decode("".join(lines[1:-1]), validate=True))
    except (binascii.Error, ValueError):
        raise Invalid("the signature is not base64") from None
    if fields.take(len(MAGIC)) != MAGIC or fields.number() != _VERSION:
        raise Invalid("this version of SSH signatures is not supported")
    key, namespace, _, hash, value = (fields.string() for _ in range(5))
    fields.end()
    if hash not in HASHES:
        raise Invalid("the signature's hash algorithm is not supported")
    return SshSignature(key, namespace, hash, value)


def string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def mpint(number: int) -> bytes:
    """A positive number as SSH writes it."""
    return string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def key_type(key: bytes) -> str:
    return Fields(key).string().decode("ascii", "replace")


def fingerprint(key: bytes) -> str:
    """As ``ssh-keygen -l`` shows it: ``SHA256:…``."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def public_text(key: bytes) -> str:
    """A public key as one line of a file, without a comment."""
    return f"{key_type(key)} {base64.b64encode(key).decode()}"


def public_key(text: str) -> bytes:
    """The key in a line such as ``ssh-ed25519 AAAA… comment``. Raises Invalid."""
    words = text.split()
    try:
        key = base64.b64decode(words[1], validate=True)
        if key_type(key) != words[0]:
            raise Invalid("the key has another type than its line states")
    except MALFORMED:
        raise Invalid("this is not a public SSH key") from None
    return key


SIGNERS_PATH = "allowed_signers"
"""The file of a workspace, at the top of its tree."""
LARGEST_LIST = 1 << 20

_LINE = re.compile(r'("[^"]*"|\S+)\s+(.*)').fullmatch
_OPTION = re.compile(r'([A-Za-z-]+)(?:="([^"]*)"|=([^\s",]*))?(?:,|\s+|$)').match
_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-\S+ ").match
_MOMENT = re.compile(r"(\d{8})(\d{4}(?:\d{2})?)?(Z?)").fullmatch


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """One line of the list. The key is valid from `after` up to `before`, in seconds since 1970."""

    principals: str
    key: bytes
    namespaces: tuple[str, ...] = ()
    after: float = 0.0
    before: float = float("inf")

    def signs(self, when: float) -> bool:
        named = not self.namespaces or any(fnmatchcase(GIT.decode(), one) for one in self.namespaces)
        return named and self.after <= when < self.before


@dataclass(frozen=True, slots=True)
class AllowedSigners:
    """A list; `problems` has a sentence for each line that cannot be used."""

    lines: tuple[AllowedSigner, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, key: bytes, when: float) -> str | None:
        """The principals of the key for commits of this time; None if it is not allowed."""
        return next((one.principals for one in self.lines if one.key == key and one.signs(when)), None)


@lru_cache(maxsize=64)
def parse_signers(data: bytes) -> AllowedSigners:
    """The list in a file. A line that cannot be read allows no key, and is reported in `problems`."""
    lines, problems = list[AllowedSigner](), list[str]()
    for number, line in enumerate(data[:LARGEST_LIST].decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            lines.append(_line(text))
        except Invalid as error:
            problems.append(f"{SIGNERS_PATH}:{number}: {error.message}")
    return AllowedSigners(tuple(lines), tuple(problems))


def _line(text: str) -> AllowedSigner:
    found = _LINE(text)
    if not found:
        raise Invalid("a line needs a name and a key")
    rest, options = found[2], dict[str, str]()
    while not _KEY(rest):
        option = _OPTION(rest)
        if not option or not option[0]:
            raise Invalid("this is not a public SSH key")
        options[option[1].lower()] = option[2] or option[3] or ""
        rest = rest[option.end() :].lstrip()
    if unknown := sorted(options.keys() - {"namespaces", "valid-after", "valid-before"}):
        raise Invalid(f"'{unknown[0][:40]}' is not supported")
    return AllowedSigner(
        found[1].strip('"'),
        public_key(rest),
        tuple(filter(None, options.get("namespaces", "").split(","))),
        _moment(options["valid-after"]) if "valid-after" in options else 0.0,
        _moment(options["valid-before"]) if "valid-before" in options else float("inf"),
    )


def _moment(text: str) -> float:
    """Seconds since 1970 of ``YYYYMMDD[HHMM[SS]][Z]``; without Z in local time, as for ``ssh-keygen``."""
    found = _MOMENT(text)
    try:
        if found:
            parts = time.strptime(found[1] + (found[2] or "0000").ljust(6, "0"), "%Y%m%d%H%M%S")
            return float(calendar.timegm(parts) if found[3] else time.mktime(parts))
    except (ValueError, OverflowError):
        pass
    raise Invalid(f"'{text[:20]}' is not a time such as 20261231 or 202612312359Z")
