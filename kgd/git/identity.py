"""This file is where the person behind a work tree gets a name, as git itself would resolve it."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pygit2

from kgd.model.change import Author


def person(git_dir: Path) -> Author:
    """`author.*`, else `user.*` of the repository's and the person's git configuration, else login@host.

    Reads files only and runs nothing; about 1 ms.
    """
    settings: dict[str, str] = {}
    try:
        # Bare: a work tree that is missing just now does not change who the person is.
        config = pygit2.Repository(str(git_dir), pygit2.enums.RepositoryOpenFlag.BARE).config
        for key in ("author.name", "user.name", "author.email", "user.email"):
            if key in config and (value := str(config[key]).strip()):
                settings[key] = value
    except (pygit2.GitError, OSError, KeyError, ValueError):
        pass  # a configuration that cannot be read names nobody
    login = _login()
    name = settings.get("author.name") or settings.get("user.name") or login
    email = settings.get("author.email") or settings.get("user.email") or f"{login}@{socket.gethostname()}"
    return Author(name, email)


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user{os.getuid()}"
