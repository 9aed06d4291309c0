"""Seals: proof that a commit was made here, so that it may answer a repeated request.

Any pusher can write a request id into a commit message. If kgd trusted such an id, a pushed commit could stand for a
change that was never made. So each commit with a request id ends in a seal over all its bytes, computed with a key that
never leaves this repository. kgd does not accept a commit without a valid seal as the result of a request, so it
carries out the change.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path

from kgd.errors import KgdError, Unavailable
from kgd.git.files import replace
from kgd.git.objects import ObjectId, Signature, commit_body, signed_parts, trailers
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore

KEY = "kgd-seal"
"""The key file in the git directory, private to its owner. Without it, only the index knows request ids."""
REQUEST, SEAL = "Kgd-Request", "Kgd-Seal"
_SIZE = 32
_LINE = len(f"\n{SEAL}: \n") + 2 * _SIZE


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
                f"nothing was written: {error}",
                next="Free or repair the disk, then ask again with the same request_id.",
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
