"""Remedies for every state in which a part of kgd fails.

docs/recovery.md lists the same sentences. A test compares both lists and finds states without a remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgd.workspace.answers import Stage

BY_ITSELF = "Nothing is lost; kgd tries again by itself."

STAGES = {
    "commit": "Make room on the disk, or make it writable; the next change is then written.",
    "publish": "Finish the named operation in .kgd; kgd then continues by itself.",
    "integrate": "Fix the named problem in .kgd; kgd then continues by itself.",
    "index": "Run `kgd doctor --fix`, which rebuilds the index.",
    "embedding": "Check `embedder` in workspaces.yaml; `kgd reindex` rebuilds the vectors.",
    "mentions": "kgd tries again by itself; `kgd reindex` rebuilds them. Until then, searches use words only.",
    "code": "kgd tries again by itself. Until then, search finds stored nodes, and code only by file names.",
    "upkeep": "Nothing is lost; kgd tries again with the next changes.",
    "fetch": "Nothing is lost here; kgd tries again by itself, or at once with `kgd sync`.",
    "push": "Nothing is lost here; kgd tries again by itself, or at once with `kgd sync`.",
}
"""Remedy by failed stage, for a stage whose blocker names no command."""

SENTENCES = {
    "read-only: its disk": "Make the disk writable, then `kgd down`: the next command reopens it. Reads still work.",
    "read-only: it has": "Install the newer kgd that wrote it. Reads still work.",
    "registry entry ": "Correct its path, or set its id to that of the workspace there. Until then it is not used.",
    "settings:": "Run `kgd down`: the next command starts a daemon with the new value.",
    "registry:": "Fix the named line in workspaces.yaml. Until then the last valid registry applies.",
    "organisation's registry:": "Fix the named line, or ask its maintainers to. Until then the last valid one applies.",
    "clone ": "Fix `remote`, `ref` or `token` of its entry in workspaces.yaml; the next traversal to it tries again.",
    "hub ": "Until it answers, relations to its workspaces are broken. `kgd whoami` checks the hub and your token.",
    "remotes:": "Run `kgd remote remove NAME`, and add it again.",
    "signing:": "Correct `signing_key` in workspaces.yaml, or git's user.signingkey. Until then, changes are refused.",
    "code tree:": "Move the code tree back, or make it readable. Stored nodes are still served.",
    "code history:": "kgd tries again after some minutes. Until then, answers do not show past commits.",
    "stale nodes:": "kgd tries again with the next change. Until then, facts about changed code may not be marked.",
    "derived data:": "Nothing is lost; the next large change starts a process again. Until then, calls may be slower.",
    "too few file descriptors:": "Close some clients, or raise the limit: `ulimit -n 65536`, then `kgd down`.",
    "too many folders": "Changes are noticed within seconds; the named command makes that immediate.",
    "changes cannot be watched": "kgd still sees changes within seconds. To watch again: `kgd down`, then any command.",
    "refs/kgd/head was moved": "Restore the commits, or drop them, with one of the two commands in the line.",
    "history:": "kgd gets the objects from a remote that has them; or fetch them from another clone, as the line says.",
    "refs/": "In the workspace's repository: `git update-ref NAME VALUE`, with VALUE from this line or another copy.",
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
