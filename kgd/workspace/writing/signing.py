"""Proofs in the commits that kgd makes in one workspace: seals of requests, and signatures with an SSH key.

A *seal* proves that a commit was made here, so that it may answer a repeated request. Any pusher can write a request id
into a commit message. If kgd trusted such an id, a pushed commit could stand for a change that was never made. So each
commit with a request id ends in a seal over all its bytes, computed with a key that never leaves this repository. kgd
does not accept a commit without a valid seal as the result of a request, so it carries out the change.

A *signature* proves to others who made a commit. The settings of a workspace may require it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import requires_signatures
from kgd.config import git_own_file, person_environment
from kgd.config.registry import RegistryFile
from kgd.errors import Forbidden, KgdError, Unavailable, reason_of
from kgd.git.files import replace
from kgd.git.layout import Layout, signing_key
from kgd.git.objects import ObjectId, Signature, commit_body, signed_parts, trailers, with_signature
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.signatures import SIGNERS_PATH, fingerprint, parse_signers

if TYPE_CHECKING:
    from kgd.signatures.keys import SigningKey

KEY = "kgd-seal"
"""The key file in the git directory, private to its owner. Without it, only the index knows request ids."""
REQUEST, SEAL = "Kgd-Request", "Kgd-Seal"
_SIZE = 32
_LINE = len(f"\n{SEAL}: \n") + 2 * _SIZE
GIT = "git"
"""The setting that selects git's own `user.signingkey`."""
SECONDS = 5.0
"""Longest time in seconds until a change of the key or of git's configuration takes effect."""


class Seal:
    """The key of one repository, created with its first workspace. Thread-safe."""

    def __init__(self, git_dir: Path) -> None:
        self._path = git_dir / KEY
        self._key = _read(self._path)

    def make(self) -> None:
        """Create the key unless it exists; durable on return.

        Raises:
            OSError: The key cannot be written.
        """
        if self._key is None:
            self.replace(secrets.token_bytes(_SIZE))

    def key(self) -> bytes:
        """The key, which is created if necessary. Raises as `make` does."""
        self.make()
        assert self._key is not None
        return self._key

    @property
    def name(self) -> str:
        """A name for the key that does not reveal it; empty if there is no key."""
        return hashlib.blake2b(self._key, digest_size=8).hexdigest() if self._key else ""

    def replace(self, key: bytes) -> None:
        """Use another key from now on, for example the key of several hubs; durable on return.

        Raises:
            OSError: The key cannot be written.
        """
        if key != self._key:
            replace(self._path, key.hex().encode() + b"\n", mode=0o600)
            self._key = key

    def commit(
        self, staging: Staging, tree: ObjectId, parents: Sequence[ObjectId], author: Signature, message: str
    ) -> ObjectId:
        """Make a sealed commit like `Staging.commit`. The message must end in trailers, for a request including its id.

        Raises:
            Unavailable: There is no key, and it cannot be written.
        """
        try:
            self.make()
        except OSError as error:
            raise Unavailable(
                f"nothing was written: {reason_of(error)}",
                next="Free or repair the disk, then ask again.",
            ) from None
        body = commit_body(tree, parents, author, Signature(*KGD, author.time), message)
        return staging.commit(tree, parents, author, f"{message.rstrip()}\n{SEAL}: {self._of(body)}\n")

    def request(self, store: ObjectStore, commit: ObjectId, message: str) -> str:
        """The id of the request that this commit carried out here; empty if it has no request id or no valid seal."""
        said = next((value for key, value in trailers(message) if key == REQUEST), "")
        return said if said and self.is_on(store, commit) else ""

    def is_on(self, store: ObjectStore, commit: ObjectId) -> bool:
        """Whether a commit ends in a valid seal."""
        if self._key is None:
            return False
        try:
            body = store.read(commit)
        except KgdError:
            return False
        body, _ = signed_parts(body)
        unsealed, line = body[:-_LINE] + b"\n", body[-_LINE:]
        expected = f"\n{SEAL}: {self._of(unsealed)}\n".encode()
        return hmac.compare_digest(line, expected)

    def renewed(self, store: ObjectStore, before: ObjectId, body: bytes) -> bytes:
        """The bytes of a commit that replaces another, with a valid seal if the other one has one."""
        if not body[-_LINE:].startswith(f"\n{SEAL}: ".encode()) or not self.is_on(store, before):
            return body
        unsealed = body[:-_LINE] + b"\n"
        return body[:-_LINE] + f"\n{SEAL}: {self._of(unsealed)}\n".encode()

    def _of(self, body: bytes) -> str:
        assert self._key is not None
        return hmac.new(self._key, b"kgd request\0" + body, hashlib.sha256).hexdigest()


def _read(path: Path) -> bytes | None:
    """The key; None if it is absent, or incomplete after a power cut."""
    try:
        key = bytes.fromhex(path.read_bytes().decode("ascii").strip())
    except (OSError, ValueError):
        return None
    return key if len(key) == _SIZE else None


class CommitSigning:
    """Signs staged commits. Implements `kgd.git.staging.Sign`.

    Args:
        key: Returns the key, or None if commits are not signed. Raises Unavailable if the key cannot be used.
    """

    def __init__(self, key: Callable[[], SigningKey | None]) -> None:
        self._key = key
        self._checked: tuple[object, ...] = ()
        """Settings, list and key of the last commit that passed the check."""

    def __call__(self, staging: Staging, body: bytes) -> bytes:
        """A staged commit with its signature.

        Raises:
            Unavailable: The key cannot be used.
            Forbidden: The settings require signatures, and there is no key or the key is not allowed.
        """
        key = self._key()
        now = (staging.blob_at(SETTINGS), staging.blob_at(SIGNERS_PATH), key and key.public)
        if now != self._checked:
            _check(staging, now[1], key)
            self._checked = now
        return with_signature(body, key.sign(body)) if key else body

    @property
    def is_on(self) -> bool:
        """Whether commits are signed."""
        try:
            return self._key() is not None
        except KgdError:
            return False

    def problem(self) -> str:
        """Why the key cannot be used; empty if it can, or if commits are not signed."""
        try:
            self._key()
        except KgdError as error:
            return f"signing: {error}"
        return ""


def _check(staging: Staging, signers: ObjectId | None, key: SigningKey | None) -> None:
    if not requires_signatures(staging.read(SETTINGS)):
        return
    if key is None:
        raise Forbidden(
            "this workspace requires signed commits, and kgd has no signing key here",
            at=SETTINGS,
            next="Set signing_key in the registry's settings to `git` or to the path of an SSH key (docs/signing.md).",
        )
    listed = parse_signers(staging.object(signers) if signers else b"")
    if not any(one.key == key.public for one in listed.lines):
        raise Forbidden(
            f"this workspace requires signed commits, and the key {fingerprint(key.public)} is not an allowed signer",
            at=SIGNERS_PATH,
            next="Ask a maintainer to add the key to that file.",
        )


def key_for(registry: RegistryFile, layout: Layout) -> Callable[[], SigningKey | None]:
    """A function that returns the current key for a workspace, or None if commits are not signed.

    The function raises Unavailable if the key cannot be used. It reads files at most every `SECONDS`.
    """
    known: tuple[str, float, SigningKey] | None = None

    def current() -> SigningKey | None:
        nonlocal known
        chosen = registry.current().settings.signing_key
        if not chosen:
            return None
        if known is None or known[0] != chosen or time.monotonic() - known[1] > SECONDS:
            known = chosen, time.monotonic(), _load(chosen, layout)
        return known[2]

    return current


def _load(chosen: str, layout: Layout) -> SigningKey:
    try:
        from kgd.signatures import keys  # cryptography, which most homes do not need
    except ImportError:
        raise Unavailable(
            "signing needs cryptography",
            at="signing_key",
            next="Run `uv tool install '.[signing]'` in the clone of kgd.",
        ) from None
    path = chosen
    if chosen == GIT:
        format, path = signing_key(layout, git_own_file())
        if format != "ssh" or not path:
            raise Unavailable(
                "git has no SSH key for signing",
                at="user.signingkey",
                next="`git config --global gpg.format ssh`, and set user.signingkey to the path of a key.",
            )
        if path.startswith(("key::", "ssh-", "ecdsa-", "sk-")):
            raise Unavailable(
                "kgd needs the path of a key file", at="user.signingkey", next="Set it to the path of the .pub file."
            )
    return keys.load(Path(os.path.expanduser(path)), person_environment())
