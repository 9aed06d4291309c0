"""SSH keys for tests, made by ``ssh-keygen``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

needs_ssh_keygen = pytest.mark.needs("ssh-keygen")


def new_key(folder: Path, name: str, *options: str) -> Path:
    """The path of a new private key without a passphrase; the public key is next to it."""
    path = folder / name
    words = options or ("-t", "ed25519")
    subprocess.run(["ssh-keygen", "-q", *words, "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


def public(key: Path) -> str:
    """Type and key, without the comment."""
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


def allow(*keys: Path, options: str = "") -> str:
    """An `allowed_signers` list with these keys, each under its name."""
    return "".join(f"{key.name}@example.org {options + ' ' if options else ''}{public(key)}\n" for key in keys)
