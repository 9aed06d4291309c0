"""Another work tree of the code's repository, which the caller may be in: its files, and notes about the difference.

kgd indexes one work tree. Lines and cited content are read from the caller's own, since that is the code they mean.
"""

from __future__ import annotations

from pathlib import Path

from kgd.errors import KgdError
from kgd.freshness.code import Code, spans_of
from kgd.freshness.freshness import Freshness
from kgd.git.discovery import find_place
from kgd.git.program import LOCAL, GitFailed, run
from kgd.model.uri import name_of, scheme_of
from kgd.tools.nodes import overlay_of, printable
from kgd.workspace.workspace import Workspace

SECONDS = 10.0


def another(workspace: Workspace, cwd: Path | None) -> Path | None:
    """The top of the work tree that holds a directory, if it belongs to the code's repository and kgd serves another
    one. It may be a folder of the served one."""
    root = workspace.layout.code_tree
    if root is None or cwd is None or cwd == root:
        return None
    try:
        there, here = find_place(cwd), find_place(root)
    except KgdError:
        return None
    if there is None or here is None or there.common_dir != here.common_dir or there.top == here.top:
        return None
    return there.top


def root_for(workspace: Workspace, cwd: Path | None) -> Path | None:
    """The top of the code around a directory: of another work tree, or of the served one."""
    return another(workspace, cwd) or workspace.layout.code_tree


def code_for(workspace: Workspace, cwd: Path | None) -> Code | None:
    """The code in `root_for`; None if the code is not followed."""
    other = another(workspace, cwd)
    return Code(other, lambda path: _is_listed(other, path)) if other is not None else Freshness.of(workspace).code


def note(workspace: Workspace, cwd: Path | None, what: str) -> str:
    """That `what` is about the served work tree; empty unless the directory is in another one."""
    if another(workspace, cwd) is None:
        return ""
    return printable(f"{what} the code in {workspace.layout.code_tree}, not in this work tree")


def symbol_lines(workspace: Workspace, cwd: Path | None, path: str) -> dict[str, tuple[int, int]]:
    """The first and the last line of each indexed symbol of a file, in `root_for`."""
    overlay = overlay_of(workspace)
    nodes = overlay.inside.nodes(path) if overlay is not None and overlay.inside is not None else []
    found = {name_of(node.uri): node.data for node in nodes if scheme_of(node.uri) == "symbol"}
    pairs = {name: (data.get("line"), data.get("end_line")) for name, data in found.items()}
    served = {name: (a, b) for name, (a, b) in pairs.items() if isinstance(a, int) and isinstance(b, int)}
    if another(workspace, cwd) is None:
        return served
    code = code_for(workspace, cwd)
    source = code.text(path) if code is not None else None
    spans = spans_of(source, served, path) if source is not None else {}
    return {name: (first + 1, last) for name, (first, last) in spans.items()}


def _is_listed(top: Path, path: str) -> bool:
    """Whether the path is a file that git tracks there, or does not ignore."""
    command = [*LOCAL, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", path]
    try:
        return bool(run(None, command, cwd=top, deadline=SECONDS))
    except (GitFailed, KgdError):
        return False
