"""Remedies for every state in which a part of kgd fails.

docs/recovery.md lists the same sentences. A test compares the two and finds states without a remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgd.workspace.answers import Stage

BY_ITSELF = "Nothing is lost; it is tried again by itself."

STAGES = {
    "commit": "Make room on the disk, or make it writable; the next change is then written.",
    "publish": "End in .kgd what is said here; kgd then goes on by itself.",
    "integrate": "Mend in .kgd what is said here; kgd then goes on by itself.",
    "index": "Run `kgd doctor --fix`, which builds it anew.",
    "embedding": "Look at `embedder` in workspaces.yaml; `kgd reindex` makes the vectors anew.",
    "mentions": "It is tried again by itself; `kgd reindex` makes them anew. Searches go by words meanwhile.",
    "upkeep": "Nothing is lost; it is attempted again with the next changes.",
    "fetch": "Nothing is lost here; it is tried again by itself, and at once with `kgd sync`.",
    "push": "Nothing is lost here; it is tried again by itself, and at once with `kgd sync`.",
}
"""Remedy by failed stage, for a stage whose blocker names no command."""

SENTENCES = {
    "read-only: its disk": "Make the disk writable, then `kgd down`: the next command opens it anew. Reads go on.",
    "read-only: it has": "Install the newer kgd that wrote it; reads go on.",
    "registry entry ": "Give the entry the id of that workspace, or its own path; nothing goes through it meanwhile.",
    "settings:": "Run `kgd down`: the next command starts a daemon with the new value.",
    "registry:": "Mend the line that is named in workspaces.yaml; until then what it said before holds.",
    "organisation's registry:": "The last good one is used; mend the line that is named, or ask its keepers.",
    "clone ": "Mend `remote`, `ref` or `token` of its entry in workspaces.yaml; the next walk there tries again.",
    "hub ": "Its workspaces are broken links meanwhile; `kgd whoami` tells whether it answers and takes your token.",
    "remotes:": "Run `kgd remote remove NAME`, and add it again.",
    "code tree:": "Put the code tree back where it was, or make it readable; what is stored is served meanwhile.",
    "too few file descriptors:": "Close some clients, or raise the limit: `ulimit -n 65536`, then `kgd down`.",
    "too many folders": "They are noticed within seconds all the same; the command that is named makes it at once.",
    "changes cannot be watched": "They are noticed within seconds all the same; `kgd down` and any command try again.",
    "refs/kgd/head was moved": "Bring the commits back, or drop them, with one of the two commands of the line.",
    "history:": "Nothing, once a remote has the objects; until then take them from a copy, as the line says.",
    "refs/": "In the repository of the workspace: `git update-ref NAME VALUE`, from this line or from another copy.",
}
"""Remedy by the first words of any other sentence in `kgd status`."""


def of_stage(stage: Stage) -> str:
    """The remedy for a stage; empty if the stage is healthy or its blocker names a command."""
    if stage.state not in ("blocked", "degraded") or "`" in stage.blocker:
        return ""
    return STAGES.get(stage.name.partition(" ")[0], BY_ITSELF)


def of(sentence: str) -> str:
    """The remedy for a state that `kgd status` describes in one sentence."""
    return next((remedy for start, remedy in SENTENCES.items() if sentence.startswith(start)), BY_ITSELF)
