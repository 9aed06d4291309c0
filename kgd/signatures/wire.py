"""The bytes of SSH keys and signatures (RFC 4251, OpenSSH's PROTOCOL.sshsig), without cryptography."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

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
