"""This file is where a credential is looked up by its reference; nothing else of kgd ever stores or prints one.

References are ``env:NAME``, ``keyring:NAME`` (the platform's keyring, asked through its own program) and ``file:PATH``
(readable by its owner alone). What stands in a registry or a git configuration is the reference.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping

from kgd.errors import Invalid, Unauthorized, Unavailable

SERVICE = "kgd"
"""Under which name the platform's keyring holds what is kgd's."""
FILE_LIMIT = 64 << 10
KEYRING_SECONDS = 5.0

_REFERENCE = re.compile(
    r"(?:env:[A-Za-z_][A-Za-z0-9_]{0,127}|keyring:[A-Za-z0-9._@/:-]{1,200}|file:(?:/|~/).{1,1000})\Z"
)
_FORMS = "Write env:NAME, keyring:NAME or file:/absolute/path."


def check_reference(reference: str, *, at: str = "token") -> None:
    """Whether this refers to a credential. A credential itself is refused, and not repeated.

    Raises:
        Invalid: It is no reference.
    """
    if not _REFERENCE.match(reference) or not reference.isprintable():
        raise Invalid("a token is given by reference here, never itself", at=at, next=_FORMS)


def secret(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The credential itself. Keep it no longer than the call that needs it.

    Raises:
        Invalid: It is no reference.
        Unauthorized: There is nothing under it.
        Unavailable: The file or the keyring cannot be read, or the file is open to others.
    """
    check_reference(reference)
    kind, _, name = reference.partition(":")
    found = {"env": _variable, "keyring": _keyring, "file": _file}[kind](
        name, os.environ if environ is None else environ
    )
    found = found.strip()
    if not found or not found.isprintable() or " " in found:
        raise Unauthorized("there is no credential under this reference", at=reference,
                           next="Put one there, on one line, and ask again.")  # fmt: skip
    return found


def _variable(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "")
    if not value:
        raise Unauthorized(
            "the daemon's environment has no such variable", at=f"env:{name}",
            next="Set it where the daemon is started (`kgd down`, then the next command), or use file:PATH.",
        )  # fmt: skip
    return value


def _file(name: str, environ: Mapping[str, str]) -> str:
    path = os.path.expanduser(name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise Unavailable("a file with a credential is a plain file that its owner alone may read", at=name,
                                  next=f"`chmod 600 {name}`.")  # fmt: skip
            return os.read(fd, FILE_LIMIT).decode("utf-8", "replace")
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise Unauthorized(f"there is no file {name}, which a credential should be in", at=f"file:{name}"[-80:],
                           next="Put it there, or name another place with --token.") from None  # fmt: skip
    except OSError as error:
        raise Unavailable(f"the credential cannot be read: {error.strerror}", at=f"file:{name}") from None


def _keyring(name: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "darwin":
        command = ["security", "find-generic-password", "-s", SERVICE, "-a", name, "-w"]
    else:
        command = ["secret-tool", "lookup", "service", SERVICE, "account", name]
    if not shutil.which(command[0], path=environ.get("PATH")):
        raise Unavailable(f"there is no keyring here: `{command[0]}` is not installed", at=f"keyring:{name}",
                          next="Use file:PATH instead.")  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=KEYRING_SECONDS, check=False, env=dict(environ))
    except (subprocess.TimeoutExpired, OSError):
        raise Unavailable("the keyring does not answer", at=f"keyring:{name}", next="Unlock it.") from None
    if done.returncode:
        store = " ".join(command[:1]) + f" store --label=kgd service {SERVICE} account {name}"
        raise Unauthorized("the keyring holds nothing under this name", at=f"keyring:{name}",
                           next=f"`{store}` puts it there." if sys.platform != "darwin" else "")  # fmt: skip
    return done.stdout.decode("utf-8", "replace")
