"""Counts of symbols and documents in the code tree's files, and the languages without a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, cast

from typing_extensions import TypedDict

from kgd.tools.nodes import overlay_of
from kgd.workspace.answers import Stage

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


class LanguageAnswer(TypedDict):
    files: int
    symbols: int


class MissingAnswer(TypedDict):
    """A language with files but without a grammar; `install` names the package to install."""

    language: str
    files: int
    install: str


class CodeAnswer(TypedDict):
    """Contents of the code files. `waiting`: the tree is not listed yet. `left` counts the unread files, `left_out` the
    skipped files by reason."""

    state: Literal["waiting", "reading", "ready"]
    left: int
    symbols: int
    languages: dict[str, LanguageAnswer]
    documents: int
    chunks: int
    left_out: dict[str, int]
    missing: list[MissingAnswer]
    trouble: NotRequired[str]


def code(workspace: Workspace) -> CodeAnswer | None:
    """The contents of the code files, or None without a code tree. O(files), from memory and the derived index."""
    overlay = overlay_of(workspace)
    report = overlay.inside.report() if overlay is not None and overlay.inside is not None else None
    return cast("CodeAnswer", report) if report else None


def code_stage(told: CodeAnswer) -> Stage:
    """How far the files of the code tree are read."""
    if trouble := told.get("trouble"):
        return Stage("code", "degraded", blocker=f"the code tree cannot be read: {trouble}")
    if told["state"] == "ready":
        return Stage("code")
    return Stage("code", "waiting", blocker=f"{told['left']:,} files are still to be read" if told["left"] else "")
