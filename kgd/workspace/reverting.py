"""This file is where a commit says which others it takes back, and where it is found which one an undo means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kgd.model.change import ChangeSet, Revert
from kgd.workspace.outcome import Entry
from kgd.workspace.past import Past

UNDO = "undo"
"""The operation of a commit that steps back. One that a person named to be taken back, `revert`, is a change like any
other, and the next undo takes it back in turn."""
ACCEPT = "accept"
"""The operation of a commit that brings in a proposal: in whole as a merge, in part as a plain commit."""
LOOKED_AT = 100
"""Commits among which an undo looks for its own."""

_REVERTS = re.compile("Reverts [0-9a-f]{40}").fullmatch
"""What a commit says of one that it takes back in whole."""


def undoable(entries: Sequence[Entry]) -> Iterator[str]:
    """Those of these commits that a person would want undone: no merge, no undo, and not undone already.

    What was undone is passed over with all that it had taken back, which is there again. A proposal that was accepted
    whole is one change: its merge stands for the commits which it brought in.

    Args:
        entries: The newest commits, the tip first.
    """
    undone, own = set[str](), _own(entries)
    for entry in entries:
        if entry.commit in undone or entry.commit not in own:
            continue
        if entry.operation == UNDO:
            undone |= {line.split()[1] for line in entry.body.splitlines() if _REVERTS(line)}
        elif entry.operation == ACCEPT or (entry.operation not in ("init", "merge") and len(entry.parents) == 1):
            yield entry.commit


def _own(entries: Sequence[Entry]) -> set[str]:
    """Those that were not brought in by an acceptance alone."""
    known = {entry.commit: entry for entry in entries}
    found, open = set[str](), [entry.commit for entry in entries[:1]]
    while open:
        commit = open.pop()
        if commit in known and commit not in found:
            found.add(commit)
            entry = known[commit]
            open += entry.parents[:1] if entry.operation == ACCEPT else entry.parents
    return found


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
