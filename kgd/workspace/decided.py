"""This file is where it is looked up what became of a proposal that does not wait any more, and by whose decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kgd.errors import KgdError
from kgd.git import program
from kgd.git.objects import trailers
from kgd.git.refs import HEAD, PROPOSALS, REJECTED, list_refs, read_log
from kgd.model.uri import Uri
from kgd.workspace.proposals import is_name

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

ORIGIN = "Kgd-Origin"
_BY = "kgd: rejected by "


@dataclass(frozen=True, slots=True)
class Decision:
    """Who accepted or rejected it (empty: history does not tell), and when. `commit` is what it became, `nodes` what
    that changed."""

    how: Literal["accepted", "rejected"]
    by: str
    at: int
    commit: str = ""
    reason: str = ""
    nodes: tuple[Uri, ...] = ()


def decision(workspace: Workspace, id: str) -> Decision | None:
    """The last decision about a proposal of this name, or of this name and commit; None where none is known.

    Costs a walk through the messages of history.
    """
    name, _, commit = id.removeprefix(PROPOSALS).removeprefix("proposals/").partition("@")
    if not is_name(name):
        return None
    return _rejection(workspace, name, commit) or _acceptance(workspace, name, commit)


def _rejection(workspace: Workspace, name: str, commit: str) -> Decision | None:
    git_dir, flat = workspace.layout.git_dir, REJECTED + name.replace("/", ".")
    for ref, tip in list_refs(git_dir, flat).items():
        if ref not in (flat, f"{flat}-{tip.hex()[:10]}") or not tip.hex().startswith(commit):
            continue
        for line in reversed(read_log(git_dir, ref)):
            if line.note.startswith(_BY):
                by, _, reason = line.note.removeprefix(_BY).partition(": ")
                return Decision("rejected", by, line.time, reason=reason)
    return None


def _acceptance(workspace: Workspace, name: str, commit: str) -> Decision | None:
    origin = f"proposals/{name}@{commit[:10]}"
    try:
        said = program.run(
            workspace.layout.git_dir,
            ["log", "--max-count=1", "--format=%H", "--fixed-strings", f"--grep={ORIGIN}: {origin}", HEAD],
        )
        if not (id := said.decode().strip()):
            return None
        made = workspace.past.commit(bytes.fromhex(id))
        entry = workspace.past.entry(made, limit=2_000)
    except (KgdError, program.GitFailed):
        return None
    if not dict(trailers(made.message)).get(ORIGIN, "").startswith(origin):
        return None  # a text that only says so
    by = entry.author if len(made.parents) > 1 else ""  # a part of one is a commit of who proposed it
    return Decision("accepted", by, entry.at, id, nodes=entry.nodes)
