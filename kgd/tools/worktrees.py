"""Another worktree or clone of the code, which the caller may be in: its files, and notes about the difference.

kgd indexes one work tree. Lines and cited content are read from the caller's own, since that is the code they mean.
"""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

from kgd.errors import KgdError
from kgd.freshness.code import Code, spans_of
from kgd.freshness.freshness import Freshness
from kgd.git.discovery import Place, find_place
from kgd.git.layout import origin_of
from kgd.git.program import LOCAL, GitFailed, run
from kgd.model.escaping import printable
from kgd.model.uri import Uri, name_of, scheme_of
from kgd.tools.nodes import overlay_of
from kgd.workspace.workspace import Workspace

SECONDS = 10.0


def another(workspace: Workspace, cwd: Path | None) -> Path | None:
    """The top of the work tree that holds a directory, if it is another worktree or clone of the served code. It may be
    a folder of the served one."""
    root = workspace.layout.code_tree
    if root is None or cwd is None:
        return None
    inside = takewhile(lambda at: at != root, (cwd, *cwd.parents)) if cwd.is_relative_to(root) else None
    if inside is not None and not any(os.path.lexists(at / ".git") for at in inside):
        return None
    found = _same_code(cwd, root)
    return found[0].top if found is not None and found[0].top != found[1].top else None


def is_clone_of(directory: Path, other: Path) -> bool:
    """Whether two directories are in one repository, in its worktrees, or in clones with one origin."""
    return _same_code(directory, other) is not None


def _same_code(directory: Path, other: Path) -> tuple[Place, Place] | None:
    try:
        here, there = find_place(directory), find_place(other)
        if here is None or there is None:
            return None
        is_same = here.common_dir == there.common_dir or ((origin := origin_of(here)) and origin == origin_of(there))
    except KgdError:
        return None
    return (here, there) if is_same else None


def root_for(workspace: Workspace, cwd: Path | None) -> Path | None:
    """The top of the code around a directory: of another work tree, or of the served one."""
    return another(workspace, cwd) or workspace.layout.code_tree


def code_for(workspace: Workspace, cwd: Path | None) -> Code | None:
    """The code in `root_for`; None if the code is not followed."""
    return other_code(workspace, cwd) or Freshness.of(workspace).code


def other_code(workspace: Workspace, cwd: Path | None) -> Code | None:
    """The code in `another`."""
    other = another(workspace, cwd)
    return Code(other, lambda path: _is_listed(other, path)) if other is not None else None


def note(workspace: Workspace, cwd: Path | None, what: str) -> str:
    """A sentence that begins with `what` and names the served work tree; empty unless the directory is in another."""
    if another(workspace, cwd) is None:
        return ""
    return printable(f"{what} the code in {workspace.layout.code_tree}, not in this work tree")


def symbol_lines(workspace: Workspace, cwd: Path | None, path: str) -> dict[Uri, tuple[int, int]]:
    """The first and the last line of each indexed symbol of a file, in `root_for`."""
    overlay = overlay_of(workspace)
    nodes = overlay.inside.nodes(path) if overlay is not None and overlay.inside is not None else []
    found = {node.uri: node.data for node in nodes if scheme_of(node.uri) == "symbol"}
    pairs = {uri: (data.get("line"), data.get("end_line")) for uri, data in found.items()}
    served = {uri: (a, b) for uri, (a, b) in pairs.items() if isinstance(a, int) and isinstance(b, int)}
    code = other_code(workspace, cwd)
    if code is None:
        return served
    source = code.text(path)
    spans = spans_of(source, set(map(name_of, served)), path) if source is not None else {}
    return {uri: (spans[name][0] + 1, spans[name][1]) for uri in served if (name := name_of(uri)) in spans}


def _is_listed(top: Path, path: str) -> bool:
    """Whether the path is a file that git tracks there, or does not ignore."""
    command = [*LOCAL, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", path]
    try:
        return bool(run(None, command, cwd=top, deadline=SECONDS))
    except (GitFailed, KgdError):
        return False
