"""SSH keys: signing and checking in this process, or with a key that only an agent holds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from kgd.errors import Invalid, Unavailable
from kgd.signatures import GIT, HASHES, Fields, SshSignature, mpint, parse, public_key, public_text, string

AGENT_SECONDS = 10
LARGEST_FILE = 64 << 10
_CURVES: dict[int, hashes.HashAlgorithm] = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
_RSA: dict[bytes, hashes.HashAlgorithm] = {b"rsa-sha2-256": hashes.SHA256(), b"rsa-sha2-512": hashes.SHA512()}
_SMALLEST_RSA = 1_024
_HARDWARE = b"sk-ssh-ed25519@openssh.com"
_TOUCHED = 1

Private: TypeAlias = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class WrongSignature(Exception):
    """The signature does not belong to this message."""


class UnknownSignature(Exception):
    """The kind of signature or key is not supported."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs commits. `public` is its public part; `sign` returns an armored signature of a message."""

    public: bytes
    sign: Callable[[bytes], str]


def load(path: Path, environment: Mapping[str, str]) -> SigningKey:
    """Load the key in a file: a private key or, if an agent holds the private key, the public key.

    Args:
        environment: Names the agent's socket, `SSH_AUTH_SOCK`.

    Raises:
        Unavailable: The file cannot be read, or its key cannot sign; the error names the next step.
    """
    data = _read(path)
    if data.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = path.with_suffix("") if path.suffix == ".pub" else path
        if private == path or not private.exists():
            return _of_agent(path, data, environment)
        path, data = private, _read(private)
    try:
        return _of_file(data)
    except TypeError:  # encrypted
        beside = path.with_name(f"{path.name}.pub")
        if beside.exists() and environment.get("SSH_AUTH_SOCK"):
            return _of_agent(beside, _read(beside), environment)
        raise Unavailable(
            "the key is encrypted, and no SSH agent holds it",
            at=str(path),
            next="Add it to the agent with `ssh-add`, or use a key without a passphrase.",
        ) from None
    except (ValueError, UnsupportedAlgorithm, Invalid):
        raise Unavailable(
            "this is not an SSH key that can sign", at=str(path), next="`ssh-keygen -t ed25519` makes one."
        ) from None


def check(armored: str, message: bytes) -> bytes:
    """The public key that signed a message, in the namespace of git.

    Raises:
        WrongSignature: The signature is malformed, or not of this message.
        UnknownSignature: The kind of signature or key is not supported.
    """
    if not armored.startswith("-----BEGIN SSH"):
        raise UnknownSignature("it is not an SSH signature")
    try:
        found = parse(armored)
        if found.namespace != GIT:
            raise WrongSignature("it was not made for a commit")
        _check(found, found.covers(message))
    except InvalidSignature:
        raise WrongSignature("it does not belong to this commit") from None
    except (UnsupportedAlgorithm, Invalid, ValueError) as error:
        raise WrongSignature(str(error)) from None
    return found.key


def _check(signature: SshSignature, data: bytes) -> None:
    """Raises InvalidSignature, UnknownSignature, or ValueError for a malformed key."""
    fields = Fields(signature.value)
    algorithm, value = fields.string(), fields.string()
    type = Fields(signature.key).string()
    if type == _HARDWARE == algorithm:
        return _check_hardware(signature.key, value, fields.rest(), data)
    fields.end()
    if type not in (b"ssh-ed25519", b"ssh-rsa") and not type.startswith(b"ecdsa-sha2-nistp"):
        raise UnknownSignature(f"keys of type {type[:40].decode('ascii', 'replace')} are not supported")
    key = serialization.load_ssh_public_key(public_text(signature.key).encode())
    if isinstance(key, ed25519.Ed25519PublicKey) and algorithm == type:
        key.verify(value, data)
    elif isinstance(key, rsa.RSAPublicKey) and algorithm in _RSA and key.key_size >= _SMALLEST_RSA:
        key.verify(value, data, padding.PKCS1v15(), _RSA[algorithm])
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == type:
        numbers = Fields(value)
        r, s = (int.from_bytes(numbers.string(), "big") for _ in range(2))
        key.verify(encode_dss_signature(r, s), data, ec.ECDSA(_CURVES[key.key_size]))
    else:
        raise UnknownSignature(f"signatures of type {algorithm[:40].decode('ascii', 'replace')} are not supported")


def _check_hardware(key: bytes, value: bytes, rest: bytes, data: bytes) -> None:
    """Check a signature of a hardware key, which also signs its application and its counter."""
    fields = Fields(key)
    _, point, application = (fields.string() for _ in range(3))
    if len(rest) != 5 or not rest[0] & _TOUCHED:
        raise InvalidSignature
    sha256 = HASHES[b"sha256"]
    signed = sha256(application).digest() + rest + sha256(data).digest()
    ed25519.Ed25519PublicKey.from_public_bytes(point).verify(value, signed)


def _of_file(data: bytes) -> SigningKey:
    """Raises TypeError if the key is encrypted, and ValueError if the file is not a key."""
    is_openssh = b"BEGIN OPENSSH PRIVATE KEY" in data[:200]
    key = (serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key)(data, None)
    if not isinstance(key, Private):
        raise ValueError("unsupported")
    openssh = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    public = public_key(openssh.decode())

    def sign(message: bytes) -> str:
        unsigned = SshSignature(public, GIT, b"sha512", b"")
        value = _value(key, unsigned.covers(message))
        return SshSignature(public, GIT, b"sha512", value).armored()

    return SigningKey(public, sign)


def _value(key: Private, data: bytes) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return string(b"ssh-ed25519") + string(key.sign(data))
    if isinstance(key, rsa.RSAPrivateKey):
        return string(b"rsa-sha2-512") + string(key.sign(data, padding.PKCS1v15(), hashes.SHA512()))
    size = key.curve.key_size
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(_CURVES[size])))
    return string(b"ecdsa-sha2-nistp%d" % size) + string(mpint(r) + mpint(s))


def _of_agent(path: Path, data: bytes, environment: Mapping[str, str]) -> SigningKey:
    """A key whose private part is in an agent. Each signature starts a process."""

    def sign(message: bytes) -> str:
        command = ["ssh-keygen", "-Y", "sign", "-q", "-n", GIT.decode(), "-f", str(path)]
        try:
            done = subprocess.run(
                command, input=message, env=dict(environment), capture_output=True, timeout=AGENT_SECONDS, check=True
            )
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode("utf-8", "replace").strip()[-200:]
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)[:200]
        else:
            return done.stdout.decode("ascii", "replace").strip()
        raise Unavailable(
            f"the SSH agent did not sign: {reason}",
            at=str(path),
            next="Check it with `ssh-add -l`, then repeat the call.",
        )

    return SigningKey(public_key(data.decode("utf-8", "replace")), sign)


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE)
    except OSError as error:
        raise Unavailable(
            f"the signing key cannot be read: {error.strerror}", at=str(path), next="Check the setting signing_key."
        ) from None
