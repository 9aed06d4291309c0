"""Writing of exported files: each one atomically, and never over a file written by hand.

A file is written if it is absent, if its content equals the last export (the folder's `LIST` has the hashes), or if the
format recognises a file that kgd wrote. Every other file stays unchanged and is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import InvariantViolation, KgdError, Unavailable
from kgd.exchange.formats import Format
from kgd.exchange.plan import Output, Trouble
from kgd.git.files import replace as replace_file

LIST = ".kgd-export.json"
BEGIN, END = "<!-- kgd export begin -->", "<!-- kgd export end -->"
BIGGEST = 64 * 2**20


@dataclass(slots=True)
class Placed:
    became: Counter[str] = field(default_factory=Counter)
    troubles: list[Trouble] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: self.became[name] for name in ("new", "changed", "unchanged", "left")}


def put_in_place(
    target: Path, chosen: Format, files: Sequence[Output], *, replace: bool = False, dry_run: bool = False
) -> Placed:
    """Write the files below the target, or the one file at the target.

    Raises:
        InvariantViolation: The target of a single file was not written by kgd.
        Unavailable: Writing failed; files written before the failure stay.
    """
    placed = Placed()
    try:
        if chosen.shape == "file":
            _one_file(target, chosen, files[0].data, placed, replace=replace, dry_run=dry_run)
        else:
            _folder(target, files, placed, replace=replace, dry_run=dry_run)
    except OSError as error:
        raise Unavailable(f"writing failed: {error.strerror}", at=str(error.filename or target)[-80:]) from None
    return placed


def _one_file(target: Path, chosen: Format, data: bytes, placed: Placed, *, replace: bool, dry_run: bool) -> None:
    old = _bytes(target)
    if old == data:
        placed.became["unchanged"] += 1
        return
    if old and not replace and not chosen.own(old):
        raise InvariantViolation(
            "the file exists, and kgd did not write it", at=str(target)[-80:], next="Name another, or use --replace."
        )
    _write(target, data, dry_run=dry_run)
    placed.became["new" if old is None else "changed"] += 1


def _folder(target: Path, files: Iterable[Output], placed: Placed, *, replace: bool, dry_run: bool) -> None:
    known = _known(target)
    now = dict(known)
    for file in files:
        try:
            path = target / file.path
            _refuse_links(target, path)
            old = _bytes(path)
        except KgdError as error:
            placed.troubles.append(Trouble(file.path, error.message))
            placed.became["left"] += 1
            continue
        data = _within(old, file.data) if file.block else file.data
        if data is None:
            placed.troubles.append(Trouble(file.path, "its kgd marker lines are not a pair; left unchanged"))
            placed.became["left"] += 1
        elif old == data:
            placed.became["unchanged"] += 1
        elif old is None or file.block or replace or known.get(file.path) == _hash(old):
            _write(path, data, dry_run=dry_run)
            placed.became["new" if old is None else "changed"] += 1
        else:
            placed.troubles.append(
                Trouble(file.path, "it differs, and kgd did not write it: left unchanged (--replace)")
            )
            placed.became["left"] += 1
            continue
        if not file.block and data is not None and (old != data or file.path in known):
            now[file.path] = _hash(data)
    if now != known and not dry_run:
        text = json.dumps({"written_by": "kgd export", "files": now}, indent=1, sort_keys=True, ensure_ascii=False)
        _write(target / LIST, text.encode() + b"\n", dry_run=False)


def _within(old: bytes | None, block: bytes) -> bytes | None:
    """The file with the block between its marker lines; None if the markers are no single pair."""
    marked = f"{BEGIN}\n".encode() + block.strip(b"\n") + f"\n{END}\n".encode()
    if old is None:
        return marked
    begin, end = old.find(BEGIN.encode()), old.find(END.encode())
    if begin < 0 and end < 0:
        return old + (b"" if not old or old.endswith(b"\n") else b"\n") + (b"\n" if old else b"") + marked
    if begin < 0 or end < begin or old.count(BEGIN.encode()) > 1 or old.count(END.encode()) > 1:
        return None
    rest = old[end + len(END.encode()) :]
    return old[:begin] + marked.removesuffix(b"\n") + rest


def _refuse_links(target: Path, path: Path) -> None:
    """Refuse a path out of the folder, into `.git`, or through a symbolic link, which would lead the file elsewhere."""
    parts = path.relative_to(target).parts
    if ".." in parts or not parts or any(part.lower() == ".git" for part in parts):
        raise InvariantViolation("a file cannot be written to this path; left out", at=str(path)[-80:])
    for folder in [path, *path.parents]:
        if folder == target:
            break
        if folder.is_symlink():
            raise InvariantViolation("the path has a symbolic link; left unchanged", at=str(folder)[-80:])


def _bytes(path: Path) -> bytes | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InvariantViolation("the target is not a file", at=str(path)[-80:], next="Name another path.")
        if found.st_size > BIGGEST:
            raise InvariantViolation("the existing file is larger than 64 MiB", at=str(path)[-80:])
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _known(target: Path) -> dict[str, str]:
    """Path to hash of the files that kgd wrote there; empty if the list cannot be read, so that nothing is replaced."""
    try:
        found = json.loads((_bytes(target / LIST) or b"{}").decode())
        return {str(path): str(hash) for path, hash in found.get("files", {}).items()}
    except (ValueError, AttributeError):
        return {}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes, *, dry_run: bool) -> None:
    if dry_run:
        return
    os.makedirs(path.parent, exist_ok=True)
    replace_file(path, data, flush=False)
