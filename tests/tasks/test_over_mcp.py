"""The toolset `tasks` through a real MCP client: the examples of its specification, request and answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.mcp.server import Surface
from kgd.tools import EVERY, chosen
from kgd.tools.session import Session

pytestmark = pytest.mark.anyio

CONTEXT_FILES = "src/payments/webhook-handler.ts, src/payments/stripe-gateway.ts\n- `src/shared/retry-utils.ts`\n\
Some prose about them.\n* src/payments/new-handler.ts - does not exist yet"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def connected(session: Session, tools: str) -> AsyncIterator[Client]:
    surface = Surface(session.daemon, chosen(tools))
    async with Client(surface.server) as client:
        yield client


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured answer, after a check that the text is the same and `isError` agrees with `success`."""
    result = await client.call_tool(tool, {"workspace": "shop", **arguments})
    assert isinstance(result, CallToolResult)
    answer = result.structured_content
    assert answer is not None
    text = json.dumps(answer, separators=(",", ":")) if result.is_error else EVERY[tool].text(answer)
    assert result.content[0].text == text  # type: ignore[union-attr]
    assert answer.get("success", True) is not result.is_error
    return dict(answer)


async def created(client: Client, kind: str, name: str, knowledge: str, **fields: Any) -> dict[str, Any]:
    answer = await call(
        client,
        "manage_graph",
        operation="create",
        entityType=kind,
        projectId="shop",
        createdByTaskId="001",
        name=name,
        knowledge=knowledge,
        **fields,
    )
    return dict(answer["data"][kind])


@pytest.mark.requirement("A15", "A16", "M5")
async def test_a_task_goes_through_the_specified_calls(session: Session) -> None:
    async with connected(session, "tasks") as client:
        task = {
            "op": "upsert",
            "type": "task",
            "name": "001",
            "data": {
                "sections": [
                    {"title": "Objective", "content": "Idempotent webhooks"},
                    {"title": "Context Files", "content": CONTEXT_FILES},
                ]
            },
        }
        await call(client, "put", changes=[task])
        molecule = await created(client, "molecule", "Payment Domain", "Communicates with Stripe, idempotent webhooks")
        gateway = await created(
            client, "atom", "Stripe Integration", "the gateway", paths='["src/payments/gateway/**"]'
        )
        related = json.dumps([{"atomId": gateway["id"], "reason": "webhooks call gateway for processing"}])
        handlers = await created(
            client,
            "atom",
            "Webhook Handlers",
            "8 handlers, all extend BaseWebhookHandler",
            paths='["src/payments/webhook-*.ts", "src/payments/stripe-*.ts"]',
            moleculeId=molecule["id"],
            relatedAtoms=related,
        )
        retries = await created(
            client, "atom", "Retry Utilities", "Generic exponential backoff", paths='["src/shared/retry-utils.ts"]'
        )

        answer = await call(
            client, "query_container", operation="get", containerType="task", id="001", includeGraphContext=True
        )
        assert answer["data"]["task"]["status"] == "pending"
        assert [one["title"] for one in answer["data"]["sections"]] == ["Objective", "Context Files"]
        assert answer["data"]["graphContext"] == {
            "molecules": [
                {
                    "id": molecule["id"],
                    "name": "Payment Domain",
                    "changelog": [],
                    "knowledge": "Communicates with Stripe, idempotent webhooks",
                    "atoms": [
                        {
                            "id": handlers["id"],
                            "name": "Webhook Handlers",
                            "changelog": [],
                            "knowledge": "8 handlers, all extend BaseWebhookHandler",
                            "matchedPaths": ["src/payments/webhook-handler.ts", "src/payments/stripe-gateway.ts"],
                            "relatedAtoms": [
                                {
                                    "atomId": gateway["id"],
                                    "name": "Stripe Integration",
                                    "reason": "webhooks call gateway for processing",
                                }
                            ],
                        }
                    ],
                }
            ],
            "orphanAtoms": [
                {
                    "id": retries["id"],
                    "name": "Retry Utilities",
                    "knowledge": "Generic exponential backoff",
                    "matchedPaths": ["src/shared/retry-utils.ts"],
                    "relatedAtoms": [],
                    "changelog": [],
                }
            ],
            "unmatchedPaths": ["src/payments/new-handler.ts"],
        }

        started = await call(client, "advance", containerType="task", id="001", version=1)
        assert started["data"]["task"]["status"] == "in-progress"
        assert "graphHints" not in started["data"]
        done = await call(
            client,
            "advance",
            containerType="task",
            id="001",
            version=2,
            to="completed",
            summary="Done",
            sections=json.dumps(
                [
                    {"title": "Gotchas", "content": "The rate limit is 100/min, not 1000/min"},
                    {"title": "Patterns", "content": "API errors use ErrorResponse"},
                ]
            ),
        )
        assert done["data"]["graphHints"] == {
            "message": "Task completed. Consider updating the knowledge graph.",
            "suggestedActions": [
                "Update atom knowledge for areas affected by this task",
                "Update atom paths if files were moved or new directories created",
                "Append changelog entries for significant changes",
            ],
        }
        found = await call(client, "search", tags=["rate-limit"])
        assert [hit["uri"] for hit in found["hits"]] == [done["data"]["recorded"][1]["id"]]
        near = await call(client, "traverse", start=["task:001"], direction="in", edge_types=["connected_to"])
        assert {node["uri"] for node in near["nodes"]} == {"task://shop/001"} | {
            one["id"] for one in done["data"]["recorded"]
        }


async def test_refusals_have_the_envelope_too(session: Session) -> None:
    async with connected(session, "tasks") as client:
        await call(client, "put", changes=[{"op": "upsert", "type": "task", "name": "one"}])
        for tool, arguments, code in (
            ("query_container", {"operation": "get", "id": "two"}, "NOT_FOUND"),
            ("query_container", {"operation": "delete", "id": "one"}, "VALIDATION_ERROR"),
            ("query_container", {"operation": "get", "id": "one", "nonsense": 1}, "VALIDATION_ERROR"),
            ("advance", {"id": "one"}, "VALIDATION_ERROR"),
            ("advance", {"id": "one", "version": 1, "to": "finished"}, "VALIDATION_ERROR"),
        ):
            answer = await call(client, tool, **arguments)
            assert (answer["success"], answer["error"]["code"]) == (False, code)
            assert answer["error"]["message"]
        stale = (await call(client, "advance", id="one", version=7))["error"]
        assert (stale["code"], stale["currentVersion"]) == ("CONFLICT", 1)


async def test_the_toolset_is_offered_on_request(session: Session) -> None:
    async with connected(session, "") as client:
        assert not {"query_container", "advance"} & {tool.name for tool in (await client.list_tools()).tools}
    async with connected(session, "only:tasks") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"query_container", "advance"}
        for tool in tools.values():
            assert "$ref" not in json.dumps(tool.input_schema) + json.dumps(tool.output_schema)
            assert len(tool.description or "") < 600
