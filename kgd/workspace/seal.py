"""This file is where a commit proves that it was made here: only then is a repeated request answered by it.

A request id stands in a commit's message, where whoever pushes may write any. Believed, it would let a commit of
somebody else stand for a change that was never made. So each commit that carries a request id ends in a seal over all
of its bytes, by a key that never leaves this repository. What has none, or another's, answers no request: that change
is carried out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path

from kgd.errors import KgdError, Unavailable
from kgd.git.files import replace
from kgd.git.objects import ObjectId, Signature, commit_body, trailers
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore

KEY = "kgd-seal"
"""The key's file in the git directory, for its owner alone. Without it, request ids are known from the index only."""
REQUEST, SEAL = "Kgd-Request", "Kgd-Seal"
_SIZE = 32
_LINE = len(f"\n{SEAL}: \n") + 2 * _SIZE


class Seal:
    """The key of one repository; made with the first workspace that is opened on it. Safe for any thread."""

    def __init__(self, git_dir: Path) -> None:
        self._path = git_dir / KEY
        self._key = _read(self._path)

    def make(self) -> None:
        """Have a key, durable before this returns; one that is there stays.

        Raises:
            OSError: The disk did not take it.
        """
        if self._key is None:
            key = secrets.token_bytes(_SIZE)
            replace(self._path, key.hex().encode() + b"\n", mode=0o600)
            self._key = key

    def commit(
        self, staging: Staging, tree: ObjectId, parents: Sequence[ObjectId], author: Signature, message: str
    ) -> ObjectId:
        """Make a commit as `Staging.commit`, sealed. The message ends in trailers, the request id among them.

        Raises:
            Unavailable: There is no key, and the disk takes none.
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
        """The request that this commit carried out here; empty where it has none, or says so without proof."""
        said = next((value for key, value in trailers(message) if key == REQUEST), "")
        if not said or self._key is None:
            return ""
        try:
            body = store.read(commit)
        except KgdError:
            return ""
        unsealed, line = body[:-_LINE] + b"\n", body[-_LINE:]
        expected = f"\n{SEAL}: {self._of(unsealed)}\n".encode()
        return said if hmac.compare_digest(line, expected) else ""

    def _of(self, body: bytes) -> str:
        assert self._key is not None
        return hmac.new(self._key, b"kgd request\0" + body, hashlib.sha256).hexdigest()


def _read(path: Path) -> bytes | None:
    """The key; None where there is none, or a power cut left half of one: then a new one is made."""
    try:
        key = bytes.fromhex(path.read_bytes().decode("ascii").strip())
    except (OSError, ValueError):
        return None
    return key if len(key) == _SIZE else None
