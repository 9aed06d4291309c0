"""This file is where a commit says which others it takes back, and where it is found which one an undo means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kgd.model.change import ChangeSet, Revert
from kgd.workspace.outcome import Entry
from kgd.workspace.past import Past

UNDO = "undo"
"""The operation of a commit that steps back. One that a person named to be taken back, `revert`, is a change like any
other, and the next undo takes it back in turn."""
LOOKED_AT = 100
"""Commits among which an undo looks for its own."""

_REVERTS = re.compile("Reverts [0-9a-f]{40}").fullmatch
"""What a commit says of one that it takes back in whole."""


def undoable(entries: Iterable[Entry]) -> Iterator[str]:
    """Those of these commits that a person would want undone: no merge, no undo, and not undone already.

    What was undone is passed over with all that it had taken back, which is there again.
    """
    undone: set[str] = set()
    for entry in entries:
        if entry.commit in undone:
            continue
        if entry.operation == UNDO:
            undone |= {line.split()[1] for line in entry.body.splitlines() if _REVERTS(line)}
        elif entry.operation not in ("init", "merge") and len(entry.parents) == 1:
            yield entry.commit


def saying_so(changes: ChangeSet, past: Past) -> ChangeSet:
    """The ChangeSet with a message that names the commits which it takes back, for people and for `undo`.

    Raises:
        NotFound: There is no such commit.
    """
    named = dict.fromkeys(edit.commit for edit in changes.edits if isinstance(edit, Revert))
    if not named:
        return changes
    commits = [past.commit(past.commit_id(one)) for one in named]
    subject = changes.message.strip() or f"revert: {commits[0].subject[:80]}"
    edits = tuple(
        replace(edit, commit=past.commit_id(edit.commit).hex()) if isinstance(edit, Revert) else edit
        for edit in changes.edits
    )
    partly = {edit.commit for edit in edits if isinstance(edit, Revert) and edit.only}
    body = "\n".join(
        f"Reverts a part of {id}" if (id := commit.id.hex()) in partly else f"Reverts {id}" for commit in commits
    )
    is_told = len(edits) > len(commits) or changes.operation == UNDO
    operation = changes.operation if is_told else "revert"
    return replace(changes, message=f"{subject}\n\n{body}", edits=edits, operation=operation)
