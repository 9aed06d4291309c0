"""This file is where prompts are: what a person picks in their client to set an agent on kgd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

_LONGEST = 4_000
"""Characters of an argument; of a workspace's id there are 63."""


@dataclass(frozen=True, slots=True)
class _Text:
    """`text` has `{here}` for the workspace, and the name of each argument where its words go.

    Hosts list either the title or the description.
    """

    title: str
    description: str
    text: str
    arguments: tuple[PromptArgument, ...] = ()


_TASK = PromptArgument(name="task", description="what is to be done: a task's URI, or words", required=True)
_PATHS = PromptArgument(name="paths", description="files or directories, with commas between them")

_TEXTS = {
    "onboard": _Text(
        "What this team already knows",
        "Look around in the team's memory, and tell what is there and what is missing; writes nothing",
        "Before we begin, learn what this team already knows{here}. Call `status`, then `search` for decisions, "
        "gotchas and patterns, and `traverse` from the directories that matter most. Tell me in a few lines what you "
        "found and what is missing. Write nothing yet.",
    ),
    "review_conflicts": _Text(
        "Settle what two people wrote differently",
        "Go through the open conflicts side by side, and settle each as you say",
        'Go through the open conflicts{here}: call `resolve_conflicts` with via="agent". For each show me both sides, '
        "who wrote them and when, and propose what to keep. Call it again with `resolutions` only after I agreed.",
    ),
    "discovery": _Text(
        "What must be known before a task",
        "Gather rules, traps, decisions and undescribed files of a task before it begins; writes nothing",
        "Find out what this team knows{here} before we begin with: {task}\n\n"
        "1. Call `context` with `task`{paths}. If the task names Context Files, they are read with it.\n"
        '2. Call `query_graph` with operation "context" for the files that it will touch: the areas\' rules, what '
        "changed there lately, and `unmatchedPaths`.\n"
        '3. `traverse` from those files with direction "in" for what depends on them.\n\n'
        "Tell me the rules and traps that apply, the decisions behind them, what is unverified or in conflict, and "
        "which files nobody has described. Say where each comes from. Write nothing yet.",
        (_TASK, _PATHS),
    ),
    "planning": _Text(
        "Plan a task with what is known",
        "Make a plan by the rules of the areas; areas and the task itself are written down once you agreed",
        "Plan this task with what the team knows{here}: {task}\n\n"
        '1. `context` with `task`{paths}, then `query_graph` with operation "search" for the areas of the work.\n'
        "2. Write the plan with their knowledge: Objective, Acceptance Criteria, Context Files (one path a line), and "
        "the steps. Keep to the rules; where the plan breaks one, say so and why.\n"
        "3. List the files that no area covers (`unmatchedPaths`) and propose areas for them: a name, path patterns, "
        "what is known.\n"
        '4. After I agreed: make those areas with `manage_graph` (operation "create", with createdByTaskId), record '
        'the decisions of the plan with `put`, and the task itself with `put` (type "task").',
        (_TASK, _PATHS),
    ),
    "execution": _Text(
        "Write back what was learned",
        "After the work: bring areas and changelogs up to date, and record decisions, traps and patterns",
        "The work on this task is done and checked: {task}\n\nWrite back what the team should know{here}:\n\n"
        '1. Which files were touched{paths}? `query_graph` with operation "context" says which areas they belong to.\n'
        '2. Where the work changed how an area works, update it: `manage_graph` with operation "update", the version '
        'you read and knowledgeMode "append"; new paths where files moved; a new atom where there was none.\n'
        '3. `manage_changelog` with operation "append" for each significant change, with the task.\n'
        "4. `put` decisions with their reasons, gotchas and patterns, one fact a node, related to the files. `search` "
        "first, so that nothing is written twice.\n"
        "5. Verify or correct what `context` marked as unverified.\n\n"
        "Tell me in a few lines what you wrote.",
        (_TASK, _PATHS),
    ),
}
_WORKSPACE = PromptArgument(name="workspace", description="which workspace; that of the directory without it")


def arguments(name: str) -> tuple[str, ...] | None:
    """The arguments of a prompt; None where there is no prompt of that name."""
    known = _TEXTS.get(name)
    return None if known is None else (*(argument.name for argument in known.arguments), _WORKSPACE.name)


async def listed(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(
        prompts=[
            Prompt(name=name, title=one.title, description=one.description, arguments=[*one.arguments, _WORKSPACE])
            for name, one in _TEXTS.items()
        ]
    )


async def get(ctx: ServerRequestContext[Any], params: GetPromptRequestParams) -> GetPromptResult:
    known = _TEXTS.get(params.name)
    if known is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt of that name; known: {', '.join(_TEXTS)}")
    given = {name: text.strip()[:_LONGEST] for name, text in (params.arguments or {}).items()}
    if missing := [one.name for one in known.arguments if one.required and not given.get(one.name)]:
        raise MCPError(INVALID_PARAMS, f"this prompt needs the argument '{missing[0]}'")
    workspace, paths = given.get("workspace", "")[:63], given.get("paths", "")
    words = {
        "here": f" in the workspace `{workspace}`" if workspace else "",
        "task": given.get("task", ""),
        "paths": f" (they are about {paths})" if paths else "",
    }
    message = PromptMessage(role="user", content=TextContent(type="text", text=known.text.format_map(words)))
    return GetPromptResult(description=known.description, messages=[message])
