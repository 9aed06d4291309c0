"""The key that the registry's settings choose for signing commits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.config import git_own_file, person_environment
from kgd.config.registry import RegistryFile
from kgd.errors import Unavailable
from kgd.git.layout import Layout, signing_key

if TYPE_CHECKING:
    from kgd.signatures.keys import SigningKey

GIT = "git"
"""The setting that selects git's own `user.signingkey`."""
SECONDS = 5.0
"""Longest time in seconds until a change of the key or of git's configuration takes effect."""


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
