"""This room is where the three tools of specs/knowledge-areas.md are: areas of a codebase, what to know there, and why.

`context_of` is the answer of `query_graph context` for whoever needs it inside another one.
"""

from __future__ import annotations

from kgd.tools.areas.coverage import COVERAGE
from kgd.tools.areas.history import MANAGE_CHANGELOG
from kgd.tools.areas.managing import MANAGE_GRAPH
from kgd.tools.areas.querying import QUERY_GRAPH, context_of

AREA_TOOLS = (QUERY_GRAPH, MANAGE_GRAPH, MANAGE_CHANGELOG)

__all__ = ["AREA_TOOLS", "COVERAGE", "MANAGE_CHANGELOG", "MANAGE_GRAPH", "QUERY_GRAPH", "context_of"]
