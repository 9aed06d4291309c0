"""The `notice` operation: a git hook reports that a branch moved, and the daemon checks at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Forbidden
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session


class NoticeParams(Params):
    git_dir: Annotated[str, Field(description="the repository's git directory")]


class NoticeResult(TypedDict):
    noticed: bool


def notice(session: Session, params: NoticeParams) -> NoticeResult:
    """Wake publication in the open workspace of a git directory. Opens no workspace.

    Raises:
        Forbidden: The caller is not one of this machine's own git hooks.
    """
    if not session.trusted:
        raise Forbidden("only this machine's own git hooks may report commits")
    place = Path(params.git_dir)
    concerned = [one for one in session.daemon.opened() if one.layout.git_dir == place]
    for workspace in concerned:
        workspace.hint(())
    return {"noticed": bool(concerned)}


NOTICE = Operation(
    name="notice",
    title="A branch moved",
    description="A git hook reports a moved branch; the daemon checks at once.",
    Params=NoticeParams,
    Result=NoticeResult,
    hints=Hints(idempotent=True),
    run=notice,
)
