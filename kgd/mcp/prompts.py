"""This file is where prompts are: what a person picks in their client to set an agent on kgd."""

from __future__ import annotations

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

_TEXTS = {
    "onboard": (
        "What this team already knows",
        "Before we begin, learn what this team already knows{here}. Call `status`, then `search` for decisions, "
        "gotchas and patterns, and `traverse` from the directories that matter most. Tell me in a few lines what you "
        "found and what is missing. Write nothing yet.",
    ),
    "review_conflicts": (
        "Settle what two people wrote differently",
        'Go through the open conflicts{here}: call `resolve_conflicts` with via="agent". For each show me both sides, '
        "who wrote them and when, and propose what to keep. Call it again with `resolutions` only after I agreed.",
    ),
}
_WORKSPACE = PromptArgument(name="workspace", description="which workspace; that of the directory without it")


async def listed(ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(
        prompts=[Prompt(name=name, title=title, arguments=[_WORKSPACE]) for name, (title, _) in _TEXTS.items()]
    )


async def get(ctx: ServerRequestContext[Any], params: GetPromptRequestParams) -> GetPromptResult:
    known = _TEXTS.get(params.name)
    if known is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt of that name; known: {', '.join(_TEXTS)}")
    title, text = known
    workspace = (params.arguments or {}).get("workspace", "")[:63]
    here = f" in the workspace `{workspace}`" if workspace else ""
    message = PromptMessage(role="user", content=TextContent(type="text", text=text.format(here=here)))
    return GetPromptResult(description=title, messages=[message])
