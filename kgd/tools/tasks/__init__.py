"""This room is where the toolset `tasks` is: tasks with sections, and what is learned from them when they are done."""

from __future__ import annotations

from kgd.tools.tasks.adding import ADD_TASK
from kgd.tools.tasks.advancing import ADVANCE
from kgd.tools.tasks.querying import QUERY_CONTAINER

__all__ = ["ADD_TASK", "ADVANCE", "QUERY_CONTAINER"]
