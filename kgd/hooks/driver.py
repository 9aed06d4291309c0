"""The merge driver for single files. git uses it for stashes, and in clones without kgd's strategy.

git calls ``kgd merge-driver %O %A %B %P`` and reads the result from `%A`. The driver uses the daemon's own merge
function, so equal edits give equal bytes. On a conflict, the file stays valid YAML and keeps the side that the daemon
would show. The driver reports the conflict to git (exit code 1) and writes the record with both sides under
``conflicts/``, to be added together with the file.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgd.codec.settings import PATH, decode_settings
from kgd.errors import InvariantViolation, KgdError
from kgd.git.files import read_regular
from kgd.model.node import NODE_BYTES
from kgd.workspace.merging.files import merge_file, record_files

DONE, CONFLICT, FAILED = 0, 1, 129
"""Exit codes for git: merged; merged with a conflict; 129 or higher for an error."""
INNER = "--inner"
"""The first argument when git merges several merge bases into one; conflicts are not reported then."""


def main(words: Sequence[str], cwd: Path | None = None) -> int:
    """Merge the files named by git's ``%O %A %B`` for the path ``%P``; the result is in ``%A``."""
    inner = list(words[:1]) == [INNER]
    given = list(words[1:] if inner else words)
    if len(given) != 4:
        sys.stderr.write("kgd: usage: kgd merge-driver %O %A %B %P\n")
        return FAILED
    here = cwd or Path.cwd()
    path = given[3]
    try:
        base, ours, theirs = ((here / name).read_bytes() for name in given[:3])
        # git passes an empty file for a missing base; kgd's files are never empty.
        merged = merge_file(path, base or None, ours, theirs)
        (here / given[1]).write_bytes(merged.data if merged.data is not None else ours)
        if inner:
            return DONE
        beside = dict(merged.beside)
        if merged.conflicts:
            beside.update(record_files(merged.conflicts, _sharded(here)))
        return _put_beside(here, path, beside) if beside or merged.data is None else DONE
    except (KgdError, OSError) as error:
        sys.stderr.write(f"kgd: {path} was not merged: {error}\n")
        return FAILED


def _put_beside(here: Path, path: str, beside: Mapping[str, bytes]) -> int:
    for name, data in beside.items():
        _write(here, name, data)
    names = " ".join(shlex.quote(printable(name)) for name in sorted(beside))
    shown = shlex.quote(printable(path))
    sys.stderr.write(
        f"kgd: {printable(path)} was written differently on the two sides; it holds one version"
        + (f", both are in {names}\n" if beside else "\n")
        + f"     `git add {shown} {names}` keeps both for later; "
        "or edit the file, delete the record, and add the file\n"
    )
    return CONFLICT


def printable(text: str) -> str:
    """An untrusted name, made safe for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def _write(here: Path, name: str, data: bytes) -> None:
    """Write a file below the work tree; refuses symbolic links on the way."""
    target = here / name
    for above in reversed(Path(name).parents[:-1]):
        folder = here / above
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise InvariantViolation("this must be a folder, not a link", at=str(above), next="Remove the link.")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(fd, "wb") as file:
        file.write(data)


def _sharded(here: Path) -> frozenset[str]:
    try:
        return decode_settings(read_regular(here / PATH, NODE_BYTES) or b"", newer=True).sharded
    except KgdError:
        return frozenset()
