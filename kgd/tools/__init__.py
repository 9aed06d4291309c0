"""This room is where every operation is defined once, for all surfaces: parameters, answer, and what it does.

`TOOLS` is what MCP clients see, and `TOOLSETS` what they may be given beside it; `SERVED` is what a hub answers over
HTTP; `LOCAL` is for this machine's own command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.errors import Invalid, NotFound
from kgd.tools.areas import AREA_TOOLS, COVERAGE
from kgd.tools.blaming import BLAME
from kgd.tools.broken import BROKEN
from kgd.tools.checking import DOCTOR, FSCK, REINDEX
from kgd.tools.compressing.compressing import COMPRESS
from kgd.tools.disputes import CONFLICTS
from kgd.tools.exchange.exporting import EXPORT
from kgd.tools.exchange.importing import IMPORT
from kgd.tools.graph import GRAPH_TOOLS
from kgd.tools.house import STATUS
from kgd.tools.ingesting.ingesting import INGEST
from kgd.tools.ingesting.jobs import JOB
from kgd.tools.ingesting.tree import BOOTSTRAP
from kgd.tools.joining import JOIN, LEAVE, WHOAMI
from kgd.tools.knowing.context import CONTEXT
from kgd.tools.knowing.prime import PRIME
from kgd.tools.knowing.stale import STALE
from kgd.tools.noticing import NOTICE
from kgd.tools.opening import BROWSERS, OPEN_PAGES
from kgd.tools.past import DIFF, HISTORY, REVERT, UNDO
from kgd.tools.proposing import ACCEPT, PROPOSALS, REJECT
from kgd.tools.reading import GET
from kgd.tools.reviewing import REVIEW
from kgd.tools.searching import SEARCH
from kgd.tools.server_memory import SERVER_MEMORY
from kgd.tools.session import Session
from kgd.tools.settling import RESOLVE, RESOLVE_CONFLICTS
from kgd.tools.setup import UNINSTALL, UP, WORKSPACES
from kgd.tools.submitting import SUBMIT
from kgd.tools.syncing import REMOTE, SHARE, SYNC
from kgd.tools.tasks import ADD_TASK, ADVANCE, QUERY_CONTAINER
from kgd.tools.tokens import TOKEN_TOOLS
from kgd.tools.tool import Answer, Tool
from kgd.tools.viewing import GRAPH_VIEW
from kgd.tools.walking import TRAVERSE
from kgd.tools.writing import PUT, REMEMBER

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        SEARCH, GET, TRAVERSE, CONTEXT, *AREA_TOOLS, PUT, HISTORY, STATUS, INGEST, SYNC, RESOLVE_CONFLICTS, SUBMIT,
    )
}  # fmt: skip

TOOLSETS: Mapping[str, Mapping[str, Tool]] = {
    "tasks": {tool.name: tool for tool in (QUERY_CONTAINER, ADVANCE)},
    "server-memory": SERVER_MEMORY,
    "apps": {GRAPH_VIEW.name: GRAPH_VIEW},
}

SERVED: Mapping[str, Tool] = {
    **TOOLS, **{tool.name: tool for tool in (CONFLICTS, RESOLVE, PROPOSALS, ACCEPT, REJECT, BLAME, GRAPH_VIEW)},
}  # fmt: skip

LOCAL: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        UP, UNINSTALL, WORKSPACES, DOCTOR, FSCK, REINDEX, BOOTSTRAP, CONFLICTS, RESOLVE, DIFF, BLAME, REVERT, UNDO,
        REMEMBER, REMOTE, SHARE, PROPOSALS, ACCEPT, REJECT, REVIEW, STALE,
        PRIME, NOTICE, *TOKEN_TOOLS, JOB, JOIN, LEAVE, WHOAMI, ADD_TASK, OPEN_PAGES, BROWSERS, IMPORT, EXPORT, COMPRESS,
        *GRAPH_TOOLS, COVERAGE, BROKEN,
    )
}  # fmt: skip


EVERY: Mapping[str, Tool] = {**TOOLS, **{k: v for kit in TOOLSETS.values() for k, v in kit.items()}, **LOCAL}
"""What the command line may call."""

ONLY = "only:"


def chosen(toolsets: str) -> Mapping[str, Tool]:
    """The tools of a client that asked for ``tasks,server-memory``; after ``only:`` without the usual ones.

    Raises:
        Invalid: There is no toolset of that name.
    """
    names = [name.strip() for name in toolsets.removeprefix(ONLY).split(",") if name.strip()]
    unknown = [name for name in names if name not in TOOLSETS]
    if unknown:
        raise Invalid(f"there is no toolset '{unknown[0][:60]}'", at="tools", next=f"Known: {', '.join(TOOLSETS)}.")
    added = {name: tool for kit in TOOLSETS if kit in names for name, tool in TOOLSETS[kit].items()}
    return added if toolsets.startswith(ONLY) and names else {**TOOLS, **added}


def call(session: Session, name: str, arguments: Mapping[str, Any] | None = None) -> Answer:
    """The answer of one tool, as plain data.

    Raises:
        NotFound: There is no tool of that name for this caller.
        KgdError: What the tool refused; nothing was written.
    """
    known = EVERY if session.trusted and session.principal is None else TOOLS
    tool = known.get(name)
    if tool is None:
        raise NotFound(f"there is no tool '{name[:60]}'", next=f"Known: {', '.join(TOOLS)}.")
    return tool.call(session, arguments)


__all__ = ["EVERY", "LOCAL", "SERVED", "TOOLS", "TOOLSETS", "Answer", "Session", "Tool", "call", "chosen"]
