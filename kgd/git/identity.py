"""This file is where the person behind a work tree gets a name, as git itself would resolve it."""

from __future__ import annotations

import os
import pwd
import socket

import pygit2

from kgd.git.layout import Layout
from kgd.model.change import Author


def person(layout: Layout) -> Author:
    """`author.*`, else `user.*`: of the workspace, else of the code and the person, else login@host.

    Reads files only and runs nothing; about 1 ms.
    """
    outer = layout.git_dir.parent if layout.in_code else layout.git_dir
    settings: dict[str, str] = {}
    try:
        # Bare: a work tree that is missing just now does not change who the person is.
        everybody = pygit2.Repository(str(outer), pygit2.enums.RepositoryOpenFlag.BARE).config
        for config in (everybody, pygit2.Config(str(layout.git_dir / "config"))):
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
