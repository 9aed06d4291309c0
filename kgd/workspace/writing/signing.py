"""Signing of the commits that kgd makes in one workspace, and the settings that require it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import requires_signatures
from kgd.errors import Forbidden, KgdError
from kgd.git.objects import ObjectId, with_signature
from kgd.git.staging import Staging
from kgd.signatures import allowed_signers
from kgd.signatures.wire import fingerprint

if TYPE_CHECKING:
    from kgd.signatures.keys import SigningKey


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
        now = (staging.blob_at(SETTINGS), staging.blob_at(allowed_signers.PATH), key and key.public)
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
    listed = allowed_signers.parse(staging.object(signers) if signers else b"")
    if not any(one.key == key.public for one in listed.lines):
        raise Forbidden(
            f"this workspace requires signed commits, and the key {fingerprint(key.public)} is not an allowed signer",
            at=allowed_signers.PATH,
            next="Ask a maintainer to add the key to that file.",
        )
