"""Sign-in links for browsers, and the list of signed-in browsers."""

from __future__ import annotations

import contextlib
import re
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import KgdError, NotFound, Unavailable
from kgd.model.browser_state import Browser, Pages
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import Command, Hints, Operation, flag
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session


class OpenResult(TypedDict):
    """`hub` is the address of the hub, if the workspace is on one."""

    url: str
    minutes: int
    workspace: NotRequired[str]
    hub: NotRequired[str]


class BrowsersParams(WorkspaceParams):
    action: Literal["list", "end"] = "list"
    id: Annotated[str | None, Field(description="the browser to sign out; all if empty")] = None


class BrowserAnswer(TypedDict):
    """One signed-in browser; `holder` and `token` are set if it signed in with a token."""

    id: str
    program: str
    since: str
    seen: str
    token: NotRequired[str]
    holder: NotRequired[str]


class BrowsersResult(TypedDict):
    """`url` is the address of the pages; absent until they are first opened."""

    browsers: list[BrowserAnswer]
    ended: int
    url: NotRequired[str]


LINK_MINUTES = 10
"""Lifetime of a sign-in link in minutes; equals the value in `kgd.ui.sessions`."""
_PATH = re.compile(r"/ui/in/[A-Za-z0-9_-]{1,100}").fullmatch


def open_pages(session: Session, params: WorkspaceParams) -> OpenResult:
    """Create a single-use sign-in link for the user of this machine.

    For a workspace on a hub the link leads to that hub. Without a workspace it leads to the start page.

    Raises:
        NotFound: `params.workspace` does not name a known workspace.
        Unavailable: This daemon or the hub serves no pages.
    """
    pages = _pages(session)
    if far := addressing.far(session, params.workspace):
        return _on_hub(session, far)
    try:
        workspace = addressing.choose(session, params.workspace).id
    except NotFound:
        if params.workspace:
            raise
        return {"url": pages.link(), "minutes": LINK_MINUTES}
    return {"url": pages.link(workspace), "minutes": LINK_MINUTES, "workspace": workspace}


def _on_hub(session: Session, workspace: str) -> OpenResult:
    """Ask the hub for a link that signs a browser in as the holder of the stored token."""
    client = session.daemon.elsewhere.client(workspace)
    try:
        said = client.link(workspace)
    except NotFound as error:
        raise Unavailable(
            "this hub does not serve pages", at=client.url, next="Its administrator can update kgd."
        ) from error
    path = said.get("path")
    if not isinstance(path, str) or not _PATH(path):
        raise Unavailable("this server is not a hub", at=client.url, next="Check the address in workspaces.yaml.")
    url = f"{client.url.rstrip('/')}{path}"
    return {"url": url, "minutes": LINK_MINUTES, "workspace": workspace, "hub": client.url}


def browsers(session: Session, params: BrowsersParams) -> BrowsersResult:
    """List the signed-in browsers with their tokens. `action: end` first signs out browser `id`, or all."""
    pages = _pages(session)
    ended = pages.end(params.id) if params.action == "end" else 0
    answer: BrowsersResult = {"browsers": [_browser(session, one) for one in pages.browsers()], "ended": ended}
    answer |= present(url=pages.url)
    return answer


def _browser(session: Session, one: Browser) -> BrowserAnswer:
    answer: BrowserAnswer = {
        "id": one.id,
        "program": one.program,
        "since": moment(int(one.since)),
        "seen": moment(int(one.seen)),
    }
    if one.token:
        answer["token"], answer["holder"] = one.token, ""
        with contextlib.suppress(KgdError):
            answer["holder"] = session.daemon.tokens.record(one.token).holder.name
    return answer


def _pages(session: Session) -> Pages:
    if session.daemon.pages is None:
        raise Unavailable("this process does not serve pages", next="`kgd up` starts a daemon that serves them.")
    return session.daemon.pages


UI = Operation(
    name="ui",
    title="Open the pages",
    description="A single-use link that signs in one browser to the user's workspaces.",
    hints=Hints(open_world=True),
    run=open_pages,
    commands=(
        Command(
            "Running",
            "open the workspace in your browser",
            (
                flag("--print", "print the link without opening it"),
                flag("--browsers", "list the signed-in browsers"),
                flag("--end", "sign out all browsers"),
            ),
            place=40,
            own="local.ui",
        ),
    ),
)
BROWSERS = Operation(
    name="browsers",
    title="Browsers",
    description="Lists signed-in browsers, or signs them out.",
    hints=Hints(destructive=True, idempotent=True),
    run=browsers,
)
