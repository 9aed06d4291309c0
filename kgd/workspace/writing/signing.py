"""Signing of the commits that kgd makes in one workspace: the key, and the settings that require it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import requires_signatures
from kgd.config import git_own_file, person_environment
from kgd.config.registry import RegistryFile
from kgd.errors import Forbidden, KgdError, Unavailable
from kgd.git.layout import Layout, signing_key
from kgd.git.objects import ObjectId, with_signature
from kgd.git.staging import Staging
from kgd.signatures import allowed_signers
from kgd.signatures.wire import fingerprint

if TYPE_CHECKING:
    from kgd.signatures.keys import SigningKey

GIT = "git"
"""The setting that selects git's own `user.signingkey`."""
SECONDS = 5.0
"""Longest time in seconds until a change of the key or of git's configuration takes effect."""


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
            "signing needs cryptography", at="signing_key", next="pip install 'kgd-daemon[signing]'"
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
