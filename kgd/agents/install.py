"""Setup and removal of kgd in hosts: each file is checked, minimally edited, and reported.

A broken or read-only file is reported, and the others are still edited. Written entries are noted in kgd's state, since
some hosts reformat their files; without a note kgd recognises its entries by their text.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kgd.agents import files
from kgd.agents.entries import State
from kgd.agents.hosts import Piece
from kgd.errors import Invalid, KgdError

Did = Literal["added", "updated", "removed", "present", "absent", "outdated", "own", "no file", "refused"]


@dataclass(frozen=True, slots=True)
class Report:
    """The result for one entry, or the plan of a dry run. `added` is the inserted text."""

    clients: tuple[str, ...]
    kind: str
    path: Path
    did: Did
    refusal: KgdError | None = None
    added: str = ""


@dataclass(slots=True)
class Notes:
    """A record of kgd's edits: kinds of entries by file, and created folders."""

    path: Path
    entries: dict[str, list[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Notes:
        """The notes; empty if missing or damaged."""
        try:
            found: Any = json.loads(path.read_text())
            entries = {str(place): [str(kind) for kind in kinds] for place, kinds in found["entries"].items()}
            return cls(path, entries, [str(one) for one in found["folders"]])
        except (OSError, ValueError, LookupError, AttributeError, TypeError):
            return cls(path)

    def write(self) -> None:
        if not self.entries and not self.folders:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps({"entries": self.entries, "folders": self.folders}, indent=1)
        files.write(files.read(self.path), text)

    def knows(self, piece: Piece, file: files.HostFile) -> bool:
        return piece.entry.kind in self.entries.get(str(file.place), ())

    def keep(self, piece: Piece, file: files.HostFile, made: Sequence[Path]) -> None:
        kinds = self.entries.setdefault(str(file.place), [])
        kinds += [piece.entry.kind] if piece.entry.kind not in kinds else []
        self.folders += [str(one) for one in made if str(one) not in self.folders]

    def forget(self, piece: Piece, file: files.HostFile) -> None:
        kinds = [kind for kind in self.entries.pop(str(file.place), ()) if kind != piece.entry.kind]
        if kinds:
            self.entries[str(file.place)] = kinds
        self.folders = [one for one in self.folders if os.path.isdir(one)]


def status(pieces: Sequence[Piece], notes: Notes) -> list[Report]:
    """The state of each entry."""
    return [_one(piece, lambda piece=piece: _status(piece, notes)) for piece in pieces]


def install(pieces: Sequence[Piece], notes: Notes, *, dry_run: bool = False) -> list[Report]:
    """Add missing entries and update outdated ones."""
    reports = [_one(piece, lambda piece=piece: _install(piece, notes, dry_run)) for piece in pieces]
    _note(notes, dry_run)
    return reports


def uninstall(pieces: Sequence[Piece], notes: Notes, *, dry_run: bool = False) -> list[Report]:
    """Remove kgd's entries and restore the files byte for byte."""
    reports = [_one(piece, lambda piece=piece: _uninstall(piece, notes, dry_run)) for piece in pieces]
    _note(notes, dry_run)
    return reports


def not_shared(pieces: Sequence[Piece], of_others: Sequence[Piece], notes: Notes) -> list[Piece]:
    """The pieces whose files no other set-up host reads; shared rules and skills stay."""
    there = {
        report.clients[0]
        for report in status([one for one in of_others if one.entry.kind == "server"], notes)
        if report.did in ("present", "outdated", "own")
    }
    shared = {one.path for one in of_others if there.intersection(one.clients)}
    return [one for one in pieces if one.path not in shared]


def _read(piece: Piece) -> files.HostFile:
    """The piece's file.

    Raises:
        Invalid: It is a link out of its project.
        KgdError: As in `files.read`.
    """
    file = files.read(piece.path)
    if piece.within is not None and not file.place.is_relative_to(os.path.realpath(piece.within)):
        raise Invalid("this link leads out of the project", at=str(piece.path), next="Replace it with a file.")
    return file


def _status(piece: Piece, notes: Notes) -> Did:
    file = _read(piece)
    if file.text is None:
        return "no file" if piece.only_there else "absent"
    return _state(piece, file, notes)


def _install(piece: Piece, notes: Notes, dry_run: bool) -> Did:
    file = _read(piece)
    if file.text is None and piece.only_there:
        return "no file"
    state: State = "absent" if file.text is None else _state(piece, file, notes)
    if state in ("present", "own"):
        return state
    text = piece.entry.put(file.text)
    if not dry_run:
        notes.keep(piece, file, files.write(file, text))
    return "updated" if state == "outdated" else "added"


def _uninstall(piece: Piece, notes: Notes, dry_run: bool) -> Did:
    file = _read(piece)
    if file.text is None:
        return "absent"
    state = _state(piece, file, notes)
    if state in ("absent", "own"):
        return state
    text = piece.entry.taken(file.text)
    if not dry_run:
        if text is None:
            files.delete(file, [Path(one) for one in notes.folders])
        else:
            files.write(file, text)
        notes.forget(piece, file)
    return "removed"


def _state(piece: Piece, file: files.HostFile, notes: Notes) -> State:
    assert file.text is not None
    return piece.entry.state(file.text, known=notes.knows(piece, file))


def _one(piece: Piece, act: Any) -> Report:
    try:
        did: Did = act()
    except KgdError as refusal:
        at = refusal.at if refusal.at.startswith("/") else f"{piece.path}{f', {refusal.at}' if refusal.at else ''}"
        named = type(refusal)(refusal.message, at="", next=refusal.next)
        named.at = at
        return Report(piece.clients, piece.entry.kind, piece.path, "refused", named)
    added = piece.entry.shown() if did in ("added", "updated") else ""
    return Report(piece.clients, piece.entry.kind, piece.path, did, added=added)


def _note(notes: Notes, dry_run: bool) -> None:
    if not dry_run:
        with contextlib.suppress(KgdError, OSError):  # the edits are done; the notes are optional
            notes.write()
