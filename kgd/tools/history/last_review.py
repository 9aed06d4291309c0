"""The last review of each person: the commit up to which they have reviewed, as a ref of this repository."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from kgd.git.refs import move_ref, read_log
from kgd.workspace.proposals.proposals import holder_name
from kgd.workspace.workspace import Workspace

REVIEWED = "refs/kgd/reviewed/"
"""Ref prefix of the last reviewed commit of each person."""
SHARED_NOTE = "kgd: reviewed"
"""The reflog note of a version that gave several people one ref."""
_WORDS = re.compile(r"[A-Za-z0-9_]+(?: [A-Za-z0-9_]+)*").fullmatch


def reviewer(person: str) -> str:
    """A person's name in refs and files, different for different people. A hash follows a name with characters
    other than letters, digits and single spaces.

    >>> reviewer("Ann Person"), reviewer("Ann.Person")
    ('Ann-Person', 'Ann-Person-x0b68adcc')
    """
    name, even = holder_name(person), unicodedata.normalize("NFC", person)
    hash = f"-x{hashlib.sha256(even.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return name if _WORDS(person) or name.endswith(hash) else name + hash


def last_review(workspace: Workspace, person: str) -> bytes | None:
    """The commit up to which a person has reviewed; None before the first review."""
    reviewed = workspace.store.ref(REVIEWED + reviewer(person))
    if reviewed is not None or holder_name(person) == reviewer(person):
        return reviewed
    shared = REVIEWED + holder_name(person)
    log = read_log(workspace.layout.git_dir, shared)
    return workspace.store.ref(shared) if log and log[-1].note == SHARED_NOTE else None


def note_review(workspace: Workspace, person: str, tip: bytes) -> None:
    """Record that a person has reviewed everything up to a commit, durably."""
    name = REVIEWED + reviewer(person)
    before = workspace.store.ref(name)
    if before != tip:
        note = f"{SHARED_NOTE} by {reviewer(person)}"
        move_ref(workspace.layout.git_dir, workspace.layout.derived_dir, name, before, tip, note=note)
