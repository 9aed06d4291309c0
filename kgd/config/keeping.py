"""This file is where a token that somebody gave once is kept, and what is then written down is a reference to it.

The platform's keyring holds it where one answers; else a file that its owner alone may read. What was put away is read
back before it is believed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from kgd.config.credentials import KEYRING_SECONDS, SERVICE, secret
from kgd.errors import KgdError, Unavailable

FOLDER = "tokens"


def keep(state: str, name: str, token: str, environ: Mapping[str, str] | None = None) -> str:
    """Put a token away under a name and return the reference to it (`kgd.config.credentials`).

    Raises:
        Unavailable: It can be kept nowhere.
    """
    env = dict(os.environ if environ is None else environ)
    if _into_keyring(name, token, env):
        return f"keyring:{name}"
    return _into_file(os.path.join(state, FOLDER), name, token)


def drop(state: str, reference: str, environ: Mapping[str, str] | None = None) -> bool:
    """Forget a token that `keep` put away; whether it was one. A person's own file is left alone."""
    kind, _, name = reference.partition(":")
    if kind == "file" and os.path.dirname(name) == os.path.join(state, FOLDER):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        return True
    env = dict(os.environ if environ is None else environ)
    if kind == "keyring" and (program := _program(env)):
        return _run([program, "clear", "service", SERVICE, "account", name], "", env)
    return False


def kept(state: str, name: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """The references under which there is a token of this name."""
    references = [f"file:{_path(os.path.join(state, FOLDER), name)}"]
    if _program(os.environ if environ is None else environ):
        references.append(f"keyring:{name}")
    found = []
    for reference in references:
        with contextlib.suppress(KgdError):
            secret(reference, environ)
            found.append(reference)
    return found


def is_kept_as(state: str, reference: str, name: str) -> bool:
    """Whether this is the reference that `keep` gave, or would give, to a token under this name."""
    return reference in (f"keyring:{name}", f"file:{_path(os.path.join(state, FOLDER), name)}")


def _into_keyring(name: str, token: str, env: Mapping[str, str]) -> bool:
    program = _program(env)
    if not program:
        return False
    words = [program, "store", "--label=kgd", "service", SERVICE, "account", name]
    if not _run(words, token, env):
        return False
    try:
        return secret(f"keyring:{name}", env) == token
    except KgdError:
        return False


def _program(env: Mapping[str, str]) -> str | None:
    """macOS's own program takes a secret as an argument, which every process could read; there it is a file."""
    return None if sys.platform == "darwin" else shutil.which("secret-tool", path=env.get("PATH"))


def _run(words: list[str], fed: str, env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(words, input=fed.encode(), capture_output=True, timeout=KEYRING_SECONDS, check=False,
                              env=dict(env))  # fmt: skip
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 0


def _into_file(folder: str, name: str, token: str) -> str:
    path = _path(folder, name)
    fresh = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(token.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        raise Unavailable(f"the token cannot be kept: {error.strerror}", at=folder) from error
    return f"file:{path}"


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150])
