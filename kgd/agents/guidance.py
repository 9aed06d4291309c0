"""This file is where the texts are that kgd leaves with hosts: the block for `AGENTS.md`, and the skill."""

from __future__ import annotations

from pathlib import Path

BLOCK = """\
## Shared memory (kgd)

The MCP server `kgd` keeps what this team knows and the code cannot say. Where it has a workspace for this project:

- Before you touch files, call `context` with their `paths`; before a task, with `task`. `search` finds by words.
- When you learned something (a decision and why, a trap, a rule, what was tried and failed), `put` it, related to the
  files it is about. When it concerns a whole area, write it there with `manage_graph`.
- `kgd prime` in a shell says what to start with.
"""


def skill() -> str:
    """The skill file, as it is part of the program."""
    return (Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8")
