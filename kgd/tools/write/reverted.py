"""The reason why the revert of a commit changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgd.errors import Advice, Do
from kgd.workspace.history.history import reverted_by

if TYPE_CHECKING:
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace


def nothing_left(session: Session, workspace: Workspace, commit: str) -> str:
    """The warning about a revert of `commit` that changed nothing: names the commit that has reverted it, if that is
    among the newest hundred. The holder of a token learns no id."""
    newest = workspace.history.newest() if session.principal is None else ()
    by = next((one for one in newest if commit in (it.commit for it in reverted_by(one))), None)
    if by is None:
        return f"nothing that {commit[:10]} changed is left to revert"
    return Advice(f"{by.commit[:10]} has reverted it already; ", Do("undo", commit=by.commit[:10]), " restores it")
