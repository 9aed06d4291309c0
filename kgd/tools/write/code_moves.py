"""Moves of code: a `move` between two paths of the code tree updates the facts about the former path."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.freshness.freshness import Freshness
from kgd.freshness.moving import is_moved, moving_edits
from kgd.model.change import Edit
from kgd.model.escaping import printable
from kgd.model.uri import CODE_TREE, OWNED, Uri, from_path, path_of, scheme_of, workspace_of
from kgd.tools import addressing, file_paths
from kgd.tools.nodes import overlay_of
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

NOTICED_WITHIN = 2.0
"""Seconds to wait for the watch of the code tree."""


class MovedCode(TypedDict):
    """A file or folder of the code that was renamed, and the number of facts that now name its new path."""

    path: str
    to: str
    facts: int


class CodeMove(NamedTuple):
    told: MovedCode
    edits: tuple[Edit, ...]


def code_move(session: Session, workspace: Workspace, given: str, new: str) -> CodeMove | None:
    """The edits for a move between two paths; None if `given` is a node to move, or the caller holds a token.

    Raises:
        Invalid: The former path still exists, or the new one does not.
        NotFound: No fact names the former path, or there is neither a node nor a path to move.
    """
    if session.principal is not None:
        return None
    to, uri = _target(session, workspace, new), addressing.resolve(session, workspace, given)
    if scheme_of(uri) not in CODE_TREE:
        uri = workspace.resolve(uri)
    is_stored = workspace.graph.card(uri) is not None
    if scheme_of(to) not in CODE_TREE or workspace_of(to) != workspace.id:
        _refuse_missing(session, workspace, (given, uri), (new, to))
        return None
    if scheme_of(uri) not in CODE_TREE and (is_stored or given.partition(":")[0] in OWNED):
        return None
    olds = _former(session, workspace, given, uri)
    for old in olds:
        to = _in_folder(workspace, old, to)
        if is_moved(workspace, old, path_of(to)):
            edits, facts = moving_edits(workspace, old, to)
            if edits:
                _await_noticed(workspace, to)
                return CodeMove({"path": printable(old), "to": printable(path_of(to)), "facts": facts}, edits)
    if not is_stored and olds:
        _refuse(workspace, olds[0], to)
    return None


def _former(session: Session, workspace: Workspace, given: str, uri: Uri) -> list[str]:
    """The paths that a text for the former path may mean: from the top, or from the caller's folder."""
    if scheme_of(uri) in CODE_TREE:
        return [*filter(None, [path_of(uri)])]
    found = (file_paths.locate(session, workspace, text) for text in (given, f"./{given}"))
    return [path.rstrip("/") for path in dict.fromkeys(found) if path]


def _refuse_missing(session: Session, workspace: Workspace, old: tuple[str, Uri], new: tuple[str, Uri]) -> None:
    """Refuse a move of code, or of nothing, to a path at which nothing exists, which would otherwise be the name of a
    concept."""
    code, (given, uri) = Freshness.of(workspace).code, old
    to = file_paths.locate(session, workspace, new[0]) if ":" not in new[0] and not workspace.exists(new[1]) else None
    if code is None or not to or (scheme_of(uri) not in CODE_TREE and workspace.exists(uri)):
        return
    is_stored = workspace.graph.card(uri) is not None
    for path in _former(session, workspace, given, uri):
        if code.present(path).id:
            _refuse_present(path, to, is_stored=is_stored)
        is_known = bool(CodeHistory.of(workspace).renamed(path))
        if is_known or moving_edits(workspace, path, from_path("file", workspace.id, to.rstrip("/")))[0]:
            _refuse_absent(workspace, path, to)
    if scheme_of(uri) == "concept" and ":" not in given and not workspace.exists(uri):
        refusal = _no_path(given, to)
        refusal.message += f", and no node is called {printable(given.rstrip('/'))[:100]}"
        refusal.next = addressing.did_you_mean(workspace, uri, session.sight(workspace.id))
        raise refusal


def _no_path(old: str, to: str) -> NotFound:
    was, there = (printable(path.rstrip("/"))[:150] for path in (old, to))
    return NotFound(f"neither {was} nor {there} is in the code tree", at="uri", next="Name a path that was renamed.")


def _refuse_present(path: str, to: str, *, is_stored: bool = False) -> NoReturn:
    """Refuse to move the facts about code that was not moved."""
    node = "; to make the node a concept instead, write concept:NAME" if is_stored else ""
    first = f"Move it first: `git mv {_word(path)} {_word(to.rstrip('/'))}`{node}."
    if path.rstrip("/") == to.rstrip("/"):
        first = "The new path is the same: name the former path first, then the new one."
    raise Invalid(f"{printable(path)[:200]} is still in the code tree", at="uri", next=first)


def _refuse_absent(workspace: Workspace, path: str, to: str) -> NoReturn:
    """Refuse to move the facts about missing code to a path that is missing too, and name the path of a rename."""
    now = CodeHistory.of(workspace).renamed(path)
    advice = after_rename(path, now) if now else (f"Name the path to which {printable(path)} was moved.",)
    raise Invalid(f"{printable(to)[:200]} is not in the code tree", at="to", next=Advice(*advice))


def _word(path: str) -> str:
    """The path as an argument in a shell."""
    return shlex.quote(printable(path)[:200])


def _target(session: Session, workspace: Workspace, new: str) -> Uri:
    """The node at the new address. A path that was just renamed may be missing in the overlay, but not on disk."""
    to, root = addressing.resolve(session, workspace, new, at="to"), workspace.layout.code_tree
    if root is None or ":" in new or workspace.exists(to):
        return to
    path = file_paths.locate_existing(session, workspace, new)
    return _on_disk(workspace, root, path.rstrip("/")) if path else to


def _in_folder(workspace: Workspace, old: str, to: Uri) -> Uri:
    """The place of a file or folder that was moved into an existing folder, as by `git mv`; otherwise `to`."""
    code = Freshness.of(workspace).code
    inside = f"{path_of(to)}/{old.rpartition('/')[2]}"
    if scheme_of(to) != "dir" or code is None or not code.present(inside).id:
        return to
    return _on_disk(workspace, code.root, inside)


def _on_disk(workspace: Workspace, root: Path, path: str) -> Uri:
    return from_path("dir" if (root / path).is_dir() else "file", workspace.id, path)


def _await_noticed(workspace: Workspace, uri: Uri) -> None:
    """Make the code tree notice a new file. Otherwise, a relation to the file would store a node for it."""
    if (overlay := overlay_of(workspace)) is not None:
        overlay.catch_up(path_of(uri), NOTICED_WITHIN)


def after_rename(was: str, now: str) -> tuple[str | Do, ...]:
    """The sentence about the command that updates the facts about a renamed file, as parts of an `Advice`."""
    do = Do("put", op="move", uri=was, to=now)
    return f"{printable(was)} was renamed; ", do, " moves its facts."


def with_folders(workspace: Workspace, moved: Mapping[str, str]) -> dict[str, str]:
    """The renames (new paths by former paths) with one rename of a folder instead of the renames of its files, if the
    whole folder was renamed."""
    renamed = cache(CodeHistory.of(workspace).renamed)
    found: dict[str, str] = {}
    for pair in moved.items():
        was, now = next((one for one in _above(*pair) if renamed(one[0]) == one[1] and _is_whole(one, moved)), pair)
        found[was] = now
    return found


def _above(was: str, now: str) -> list[tuple[str, str]]:
    """The pairs of folders in which two paths are the same, the highest first."""
    found: list[tuple[str, str]] = []
    while was.rpartition("/")[2] == now.rpartition("/")[2]:
        was, now = was.rpartition("/")[0], now.rpartition("/")[0]
        if not was or not now:
            break
        found.append((was, now))
    return found[::-1]


def _is_whole(folder: tuple[str, str], moved: Mapping[str, str]) -> bool:
    """Whether all of these renames in a former folder led to the same place in its new one."""
    was, now = folder
    return all(to == f"{now}{path[len(was) :]}" for path, to in moved.items() if path.startswith(f"{was}/"))


def _refuse(workspace: Workspace, old: str, to: Uri) -> None:
    code = Freshness.of(workspace).code
    if code is None:
        return
    if code.present(old).id and scheme_of(to) == "file" and code.has(path_of(to)) and old != path_of(to):
        first = "Facts move once their file is gone: move or delete it first."
        raise Invalid(f"{printable(old)[:200]} is still in the code tree", at="uri", next=first)
    if code.present(old).id:
        _refuse_present(old, path_of(to))
    if not code.shareable(path_of(to)).id:
        if CodeHistory.of(workspace).renamed(old) or moving_edits(workspace, old, to)[0]:
            _refuse_absent(workspace, old, path_of(to))
        raise _no_path(old, path_of(to))
    advice = Advice("List stale facts with ", Do("stale"), ".")
    raise NotFound(f"no fact cites {old[:200]} or is related to it", at="uri", next=advice)
