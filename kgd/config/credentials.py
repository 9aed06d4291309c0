"""Credentials: looking them up by reference, storing tokens, and the token of this home.

References are ``env:NAME``, ``keyring:NAME`` (read through the platform's own program) and ``file:PATH`` (readable only
by its owner). Registries and git configurations hold references; no other module stores or prints a credential.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kgd.errors import Forbidden, Invalid, KgdError, Unauthorized, Unavailable
from kgd.git.files import replace

SERVICE = "kgd"
"""The name of kgd's entries in the platform's keyring."""
FILE_LIMIT = 64 << 10
FOLDER = "tokens"
TOKEN_LENGTH = 32
KEYRING_SECONDS = 5.0

_REFERENCE = re.compile(
    r"(?:env:[A-Za-z_][A-Za-z0-9_]{0,127}|keyring:[A-Za-z0-9._@/:-]{1,200}|file:(?:/|~/).{1,1000})\Z"
)
_FORMS = "Write env:NAME, keyring:NAME or file:/absolute/path."


def check_reference(reference: str, *, at: str = "token") -> None:
    """Raise Invalid unless this is a reference; the message does not repeat it, since it may be a credential."""
    if not _REFERENCE.match(reference) or not reference.isprintable():
        raise Invalid("this must be a reference to a token, not the token itself", at=at, next=_FORMS)


def secret(reference: str, environ: Mapping[str, str] | None = None, *, of_command: bool = False) -> str:
    """The credential. Do not keep it longer than the call that needs it.

    Args:
        of_command: The user's command looks it up, in its own environment, and not a daemon that is already running.

    Raises:
        Invalid: This is not a reference.
        Unauthorized: There is no credential under the reference.
        Unavailable: The file or the keyring cannot be read, or other users can read the file.
    """
    check_reference(reference)
    kind, _, name = reference.partition(":")
    known = os.environ if environ is None else environ
    if kind == "env" and of_command and not known.get(name):
        raise Unauthorized(
            "the environment of this command has no such variable",
            at=reference,
            next="Set the variable and run the command again, or use file:PATH.",
        )
    found = {"env": _variable, "keyring": _keyring, "file": _file}[kind](name, known)
    found = found.strip()
    if not found or not found.isprintable() or " " in found:
        raise Unauthorized(
            "there is no credential under this reference",
            at=reference,
            next="Store the credential there, on one line, and try again.",
        )
    return found


def _variable(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "")
    if not value:
        raise Unauthorized(
            "the daemon's environment has no such variable",
            at=f"env:{name}",
            next="Set the variable and restart the daemon (`kgd down`, then any command), or use file:PATH.",
        )
    return value


def _file(name: str, environ: Mapping[str, str]) -> str:
    path = os.path.expanduser(name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise Unavailable(
                    "a credential's file must be a plain file that only its owner can read",
                    at=name,
                    next=f"`chmod 600 {name}`.",
                )
            return os.read(fd, FILE_LIMIT).decode("utf-8", "replace")
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise Unauthorized(
            f"the credential's file {name} does not exist",
            at=f"file:{name}"[-80:],
            next="Create it, or give another reference with --token.",
        ) from None
    except OSError as error:
        raise Unavailable(f"the credential cannot be read: {error.strerror}", at=f"file:{name}") from None


def _keyring(name: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "darwin":
        command = ["security", "find-generic-password", "-s", SERVICE, "-a", name, "-w"]
    else:
        command = ["secret-tool", "lookup", "service", SERVICE, "account", name]
    if not shutil.which(command[0], path=environ.get("PATH")):
        raise Unavailable(
            f"there is no keyring here: `{command[0]}` is not installed",
            at=f"keyring:{name}",
            next="Use file:PATH instead.",
        )
    try:
        done = subprocess.run(command, capture_output=True, timeout=KEYRING_SECONDS, check=False, env=dict(environ))
    except (subprocess.TimeoutExpired, OSError):
        raise Unavailable("the keyring does not answer", at=f"keyring:{name}", next="Unlock it.") from None
    if done.returncode:
        store = " ".join(command[:1]) + f" store --label=kgd service {SERVICE} account {name}"
        raise Unauthorized(
            "the keyring has no entry of this name",
            at=f"keyring:{name}",
            next=f"`{store}` adds it." if sys.platform != "darwin" else "",
        )
    return done.stdout.decode("utf-8", "replace")


# ---- storage


def keep(state: str, name: str, token: str, environ: Mapping[str, str] | None = None) -> str:
    """Store a token in the keyring, or in a private file if there is no keyring, and return its reference.

    Raises:
        Unavailable: The file cannot be written.
    """
    env = dict(os.environ if environ is None else environ)
    if _into_keyring(name, token, env):
        return f"keyring:{name}"
    return _into_file(os.path.join(state, FOLDER), name, token)


def keep_again(reference: str, token: str) -> None:
    """Replace a token that `keep` stored.

    Raises:
        Unavailable: The new token cannot be stored; the old one is unchanged.
    """
    kind, _, name = reference.partition(":")
    if kind == "file":
        _into_file(os.path.dirname(name), os.path.basename(name), token)
    elif kind != "keyring" or not _into_keyring(name, token, dict(os.environ)):
        raise Unavailable("the token cannot be stored again", at=reference, next="Unlock the keyring.")


def drop(state: str, reference: str, environ: Mapping[str, str] | None = None) -> bool:
    """Delete a token that `keep` stored; returns whether it was deleted. A user's own file is never deleted."""
    kind, _, name = reference.partition(":")
    if kind == "file" and os.path.dirname(name) == os.path.join(state, FOLDER):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        return True
    env = dict(os.environ if environ is None else environ)
    if kind == "keyring" and (program := _program(env)):
        return _run([program, "clear", "service", SERVICE, "account", name], "", env)
    return False


def kept(state: str, name: str) -> list[str]:
    """The references under which a token of this name is stored."""
    references = [f"file:{_path(os.path.join(state, FOLDER), name)}"]
    if _program(os.environ):
        references.append(f"keyring:{name}")
    found = []
    for reference in references:
        with contextlib.suppress(KgdError):
            secret(reference)
            found.append(reference)
    return found


def is_kept_as(state: str, reference: str, name: str) -> bool:
    """Whether `keep` uses this reference for a token of this name."""
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
    """The keyring's program. None on macOS, whose program takes a secret as an argument, which every process can
    read."""
    return None if sys.platform == "darwin" else shutil.which("secret-tool", path=env.get("PATH"))


def _run(words: list[str], fed: str, env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            words, input=fed.encode(), capture_output=True, timeout=KEYRING_SECONDS, check=False, env=dict(env)
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 0


def _into_file(folder: str, name: str, token: str) -> str:
    path = _path(folder, name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace(Path(path), token.encode() + b"\n", mode=0o600)
    except OSError as error:
        raise Unavailable(f"the token cannot be stored: {error.strerror}", at=folder) from error
    return f"file:{path}"


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150])


# ---- the token of this home


def token_of(path: Path) -> str:
    """The token of this home for local HTTP clients; created on first use, readable only by its owner.

    Raises:
        Forbidden: Other users can read its file.
    """
    if not path.exists():
        _make_token(path)
    if path.stat().st_mode & 0o077:
        raise Forbidden(
            "other users can read the token", at=str(path), next="Delete the file; a new token is then created."
        )
    token = path.read_text().strip()
    if len(token) < TOKEN_LENGTH:  # left by a crash
        path.unlink()
        _make_token(path)
        token = path.read_text().strip()
    return token


def _make_token(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(TOKEN_LENGTH) + "\n")
