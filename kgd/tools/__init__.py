"""This room is where every operation is defined once, for all surfaces: parameters, answer, and what it does.

`TOOLS` is what MCP clients see, and `TOOLSETS` what they may be given beside it; `SERVED` is what a hub answers over
HTTP; `LOCAL` is for this machine's own command line. Each says in which file of this room a tool is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from kgd.errors import Invalid, NotFound
from kgd.tools.catalogue import Catalogue
from kgd.tools.session import Session
from kgd.tools.tool import Answer, Tool

TOOLS = Catalogue(
    {
        "search": "searching", "get": "reading", "traverse": "walking", "context": "knowing.context",
        "query_graph": "areas.querying", "manage_graph": "areas.managing", "manage_changelog": "areas.history",
        "put": "writing", "history": "past", "status": "house", "ingest": "ingesting.ingesting", "sync": "syncing",
        "resolve_conflicts": "settling", "submit_subgraph": "submitting",
    }
)  # fmt: skip

TOOLSETS: Mapping[str, Catalogue] = {
    "tasks": Catalogue({"query_container": "tasks.querying", "advance": "tasks.advancing"}),
    "server-memory": Catalogue(
        dict.fromkeys(
            (
                "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
                "delete_relations", "read_graph", "search_nodes", "open_nodes",
            ),
            "server_memory",
        )
    ),
    "apps": Catalogue({"graph_view": "viewing"}),
}  # fmt: skip

SERVED = TOOLS | Catalogue(
    {
        "conflicts": "disputes", "resolve": "settling", "proposals": "proposing", "accept": "proposing",
        "reject": "proposing", "blame": "blaming", "graph_view": "viewing", "recall": "searching",
    }
)  # fmt: skip

LOCAL = Catalogue(
    {
        "up": "setup", "uninstall": "setup", "workspaces": "setup", "doctor": "checking", "fsck": "checking",
        "reindex": "checking", "bootstrap": "ingesting.tree", "conflicts": "disputes", "resolve": "settling",
        "diff": "past", "blame": "blaming", "revert": "past", "undo": "past", "remember": "writing",
        "remote": "syncing", "share": "syncing", "proposals": "proposing", "accept": "proposing",
        "reject": "proposing", "review": "reviewing", "stale": "knowing.stale", "prime": "knowing.prime",
        "notice": "noticing", "token_mint": "tokens", "token_child": "tokens", "token_list": "tokens",
        "token_revoke": "tokens", "token_rotate": "tokens", "token_log": "tokens", "job": "ingesting.jobs",
        "token_audit": "tokens", "join": "joining", "leave": "joining", "whoami": "joining",
        "add_task": "tasks.adding", "ui": "opening", "browsers": "opening",
        "import": "exchange.importing", "export": "exchange.exporting",
        "compress": "compressing.compressing", "nodes": "graph.nodes", "create_nodes": "graph.making",
        "update_node": "graph.making", "delete_nodes": "graph.making", "edges": "graph.edges",
        "create_edges": "graph.edges", "delete_edges": "graph.edges", "retrieve": "graph.retrieving",
        "coverage": "areas.coverage", "broken": "broken", "recall": "searching",
        "would_submit": "rehearsing", "clone": "cloning",
    }
)  # fmt: skip

EVERY = reduce(or_, (*TOOLSETS.values(), LOCAL), TOOLS)
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
    begun = Catalogue({}) if toolsets.startswith(ONLY) and names else TOOLS
    return reduce(or_, (TOOLSETS[kit] for kit in TOOLSETS if kit in names), begun)


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
