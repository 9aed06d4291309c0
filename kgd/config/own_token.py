"""This file is where the token lies by which programs of this machine are let in over HTTP as its person."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kgd.errors import Forbidden

TOKEN_LENGTH = 32


def token_of(path: Path) -> str:
    """The token of this home; made on first use, readable by its owner alone.

    Raises:
        Forbidden: Others can read the file that is there.
    """
    if not path.exists():
        _make_token(path)
    if path.stat().st_mode & 0o077:
        raise Forbidden("others can read the token", at=str(path), next="Delete the file; a new token is then made.")
    token = path.read_text().strip()
    if len(token) < TOKEN_LENGTH:  # a crash came between its making and its writing
        path.unlink()
        _make_token(path)
        token = path.read_text().strip()
    return token


def _make_token(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(TOKEN_LENGTH) + "\n")
