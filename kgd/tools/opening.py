"""This file is where a link is made that lets a browser see the pages."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from kgd.errors import Forbidden, NotFound, Unavailable
from kgd.tools import addressing
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool


class OpenParams(Params):
    workspace: str | None = None


class OpenResult(TypedDict):
    url: str
    minutes: int
    workspace: NotRequired[str]


LINK_MINUTES = 10
"""As `kgd.ui.sessions` has it."""


def open_pages(session: Session, params: OpenParams) -> OpenResult:
    """A link that works once, for the person of this machine."""
    if not session.trusted or session.principal is not None:
        raise Forbidden("only the person of this machine gets a link", next="Sign in with your token instead.")
    if session.daemon.pages is None:
        raise Unavailable("this daemon serves no pages", next="`kgd up` starts one that does.")
    answer: OpenResult = {"url": session.daemon.pages(), "minutes": LINK_MINUTES}
    try:
        answer["workspace"] = addressing.choose(session, params.workspace).id
    except NotFound:
        if params.workspace:
            raise
    return answer


OPEN_PAGES = Tool(
    name="ui", title="Open the pages", description="A link that lets one browser see this person's workspaces, once.",
    Params=OpenParams, Result=OpenResult, hints=Hints(), run=open_pages,
)  # fmt: skip
