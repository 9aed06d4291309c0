"""The tools over MCP, in both protocol eras, through the official SDK's own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd import tools
from kgd.mcp.server import Surface
from kgd.tools import LOCAL, TOOLS, TOOLSETS
from kgd.tools.parameters import full_schema
from kgd.tools.session import Session
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio
Mode = Literal["auto", "legacy"]
WRITING = {"put", "manage_graph", "manage_changelog", "ingest", "sync", "resolve_conflicts", "submit_subgraph"}
DESTROYING = {"put", "manage_graph", "resolve_conflicts", "submit_subgraph"}
Connect = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def surface(session: Session) -> Surface:
    return Surface(session.daemon)


@pytest.fixture(params=["auto", "legacy"])
def connect(surface: Surface, request: pytest.FixtureRequest) -> Connect:
    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        async with Client(surface.server, mode=request.param) as client:
            yield client

    return connected


async def call(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, {"workspace": "shop", **arguments})
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.structured_content
    assert result.structured_content is not None
    assert result.content[0].text == TOOLS[name].text(result.structured_content)  # type: ignore[union-attr]
    return dict(result.structured_content)


async def refused(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert result.structured_content is not None
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    error: dict[str, Any] = result.structured_content["error"]
    return error


async def test_a_missing_tool_names_another_way_to_the_operation(connect: Connect) -> None:
    async with connect() as client:
        undo, task, unknown = [await refused(client, name, {}) for name in ("undo", "advance", "nonsense")]
    assert undo["next"].startswith("Run `kgd undo`. Known: search, ")
    assert task["next"].startswith("Start the server with `kgd mcp --tools tasks`. Known: ")
    assert unknown["next"].startswith("Known: search, ")


@pytest.mark.requirement("B1")
async def test_the_tools_are_listed_with_schemas_and_annotations(connect: Connect) -> None:
    async with connect() as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == list(TOOLS)
    assert not set(LOCAL) & {tool.name for tool in listed}
    for tool in listed:
        assert tool.annotations is not None
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.annotations.read_only_hint is (tool.name not in WRITING)
        assert tool.annotations.destructive_hint is (tool.name in DESTROYING)


async def test_the_whole_list_of_tools_fits_sixteen_thousand_characters(connect: Connect) -> None:
    async with connect() as client:
        result = (await client.list_tools()).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert len(json.dumps(result, separators=(",", ":"))) <= 16_000
    assert [tool["name"] for tool in result["tools"] if len(tool["description"]) > 350] == []


async def test_instructions_and_name_are_given_at_the_start(connect: Connect) -> None:
    async with connect() as client:
        assert "search" in (client.instructions or "")
        assert client.server_info is not None
        assert client.server_info.name == "kgd"


async def test_a_client_is_an_agent_and_ingests_no_hidden_file(
    connect: Connect, session: Session, tmp_path: Path
) -> None:
    hidden = tmp_path / ".secrets" / "notes.md"
    hidden.parent.mkdir()
    hidden.write_text("# Notes\n\nThe key is below the third stone.\n")
    async with connect() as client:
        for source in (hidden, hidden.parent, session.daemon.home.registry, session.daemon.home.state):
            arguments = {"source": str(source), "workspace": "shop"}
            assert (await refused(client, "ingest", arguments))["code"] == "FORBIDDEN"
    assert tools.call(session, "ingest", {"source": str(hidden), "workspace": "shop"})["nodes"], "a person may"


@pytest.mark.slow
@pytest.mark.requirement("U3")
async def test_every_tool_answers_completely_in_structured_content(connect: Connect) -> None:
    async with connect() as client:
        put = await call(
            client,
            "put",
            changes=[
                upsert(
                    "concept://shop/auth",
                    summary="tokens",
                    content="c\n",
                    relations=[{"type": "in", "target": "./src/auth", "weight": 0.5}],
                ),
            ],
            message="first",
        )
        answers = {
            "put": put,
            "get": await call(client, "get", uris=["concept://shop/auth", "nothing"], include=["content", "history"]),
            "traverse": await call(client, "traverse", start="concept://shop/auth"),
            "search": await call(client, "search", query="tokens"),
            "history": await call(client, "history", diff=True),
            "status": await call(client, "status"),
            "ingest": await call(client, "ingest"),
            "resolve_conflicts": await call(client, "resolve_conflicts"),
            "context": await call(client, "context", paths=["src/auth/session.py", "src/none.py"]),
            "manage_graph": await call(
                client,
                "manage_graph",
                operation="create",
                entityType="atom",
                name="Auth",
                paths='["src/auth/**"]',
                createdByTaskId="https://tracker.example.org/1",
            ),
            "manage_changelog": await call(
                client,
                "manage_changelog",
                operation="append",
                parentType="atom",
                parentId="atom://shop/Auth",
                taskId="https://tracker.example.org/1",
                summary="made",
            ),
            "query_graph": await call(client, "query_graph", operation="context", paths="src/auth/session.py"),
        }
    import jsonschema

    assert set(answers) == set(TOOLS) - {"sync", "submit_subgraph"}  # which have remotes, and tests with remotes
    for name, answer in answers.items():
        schema = closed(full_schema(TOOLS[name].Result))
        jsonschema.validate(answer, schema)
    assert answers["get"]["nodes"][0]["content"] == "c\n"
    assert answers["history"]["commits"][0]["client"].startswith("mcp")


def closed(schema: Any) -> Any:
    """The schema with no room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if "properties" in inner and isinstance(inner["properties"], dict) and inner.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


async def test_null_survives_the_wire(connect: Connect) -> None:
    async with connect() as client:
        await call(client, "put", changes=upsert("concept://shop/a", data={"k": [None, {"l": None}]}))
        assert (await call(client, "get", uris="concept://shop/a"))["nodes"][0]["data"] == {"k": [None, {"l": None}]}
        dry = await call(client, "put", changes=upsert("concept://shop/b", summary="s"), dry_run=True)
        assert dry["commit"] is None


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("get", {"uris": "a", "unknown": 1}, "VALIDATION_ERROR"),
    ("get", {}, "VALIDATION_ERROR"),
    ("nothing", {}, "NOT_FOUND"),
    ("up", {}, "NOT_FOUND"),
    ("traverse", {"start": "concept://shop/none"}, "NOT_FOUND"),
    ("get", {"uris": "concept://shpo/a"}, "NOT_FOUND"),
    ("put", {"changes": upsert("concept://shop/a", summary="x" * 101)}, "LIMIT"),
    (
        "put",
        {
            "workspace": "shop",
            "changes": [upsert("a"), {"op": "relate", "source": "a", "target": "b", "type": "t", "weight": 3}],
        },
        "VALIDATION_ERROR",
    ),
    ("put", {"workspace": "shop", "changes": upsert("a", content="AKIAIOSFODNN7EXAMPLQ")}, "REFUSED_CONTENT"),
]


async def test_every_refusal_is_a_tool_error_that_says_what_to_do(connect: Connect) -> None:
    async with connect() as client:
        for name, arguments, code in REFUSED:
            error = await refused(client, name, arguments)
            assert error["code"] == code
            assert error["message"]
            assert error.get("at") or error.get("next")
        assert (await call(client, "status"))["daemon"]


async def test_a_stale_version_carries_the_current_one(connect: Connect) -> None:
    async with connect() as client:
        uri = "concept://shop/a"
        await call(client, "put", changes=upsert(uri, content="one\n"))
        await call(client, "put", changes=upsert(uri, content="two\n", expect_version=1))
        error = await refused(client, "put", {"changes": upsert(uri, content="three\n", expect_version=1)})
        assert (error["code"], error["current_version"]) == ("CONFLICT", 2)


@pytest.mark.requirement("E6")
async def test_each_connection_is_a_separate_conversation(connect: Connect) -> None:
    async with connect() as one, connect() as two:
        await call(one, "put", changes=upsert("concept://shop/a", summary="s"))
        first = await call(one, "traverse", start="concept://shop/a")
        again = await call(one, "traverse", start="concept://shop/a")
        other = await call(two, "traverse", start="concept://shop/a")
    assert first["context_id"] == again["context_id"] != other["context_id"]
    assert "hint" in first
    assert "hint" not in again
    assert "hint" in other


async def test_the_working_set_of_a_conversation_is_a_resource(connect: Connect) -> None:
    async with connect() as client:
        await call(client, "put", changes=upsert("concept://shop/a", summary="s"))
        await call(client, "get", uris="concept://shop/a", context_id="one")
        for id, nodes in (("one", ["concept://shop/a"]), ("two", [])):
            (content,) = (await client.read_resource(f"kgd://shop/contexts/{id}")).contents
            assert json.loads(content.text) == {"context_id": id, "nodes": nodes}  # type: ignore[union-attr]


async def test_resources_are_status_conflicts_and_nodes(connect: Connect) -> None:
    async with connect() as client:
        await call(client, "put", changes=upsert("concept://shop/a/b", summary="s"))
        assert [str(r.uri) for r in (await client.list_resources()).resources] == [
            "kgd://shop/status",
            "kgd://shop/conflicts",
        ]
        templates = (await client.list_resource_templates()).resource_templates
        assert "kgd://{workspace}/nodes/{+uri}" in [template.uri_template for template in templates]
        for uri in ("kgd://shop/nodes/concept://shop/a/b", "kgd://shop/nodes/concept%3A%2F%2Fshop%2Fa%2Fb"):
            (content,) = (await client.read_resource(uri)).contents
            assert json.loads(content.text)["summary"] == "s"  # type: ignore[union-attr]
        (status,) = (await client.read_resource("kgd://shop/status")).contents
        assert json.loads(status.text)["workspace"]["id"] == "shop"  # type: ignore[union-attr]
        for missing in ("kgd://shop/nodes/concept://shop/none", "kgd://shop/other", "kgd://nowhere/status"):
            with pytest.raises(Exception, match=r"no such|no workspace"):
                await client.read_resource(missing)


async def test_prompts_are_about_the_named_workspace(connect: Connect) -> None:
    async with connect() as client:
        listed = (await client.list_prompts()).prompts
        assert {"onboard", "review_conflicts"} < {prompt.name for prompt in listed}
        assert all(prompt.title and prompt.description for prompt in listed)
        for name in ("onboard", "review_conflicts"):
            got = await client.get_prompt(name, {"workspace": "shop"})
            assert "`shop`" in got.messages[0].content.text  # type: ignore[union-attr]
        with pytest.raises(Exception, match="no prompt"):
            await client.get_prompt("other")


async def test_a_stand_in_for_another_server_offers_no_prompts_about_missing_tools(
    session: Session,
) -> None:
    async with Client(Surface(session.daemon, TOOLSETS["server-memory"]).server) as client:
        assert client.server_capabilities.prompts is None
        assert (await client.list_tools()).tools


async def test_many_calls_at_once_on_one_connection_all_answer(connect: Connect) -> None:
    async with connect() as client:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(lambda n=number: call(client, "put", changes=upsert(f"concept://shop/n{n}", name="n")))  # type: ignore[misc]
        found = await call(client, "get", uris=[f"concept://shop/n{n}" for n in range(20)])
        assert len(found["nodes"]) == 20
