"""Completion of prompt arguments and of addresses in resource templates, in both protocol eras."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from kgd.mcp.server import Surface
from kgd.tools import call
from kgd.tools.session import Session
from tests.mcp import lines
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio
NODES = ResourceTemplateReference(uri="kgd://{workspace}/nodes/{+uri}")
PLANNING = PromptReference(name="planning")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
async def client(session: Session, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    changes = [upsert("services/auth"), upsert("services/audit"), upsert("task:rotate keys"), upsert("other")]
    call(session, "put", {"changes": [{**change, "summary": "s"} for change in changes]})
    call(session, "ingest", {})
    async with lines.client(Surface(session.daemon), request.param, session.cwd) as client:
        assert client.server_capabilities.completions is not None
        yield client


async def completed(
    client: Client, ref: ResourceTemplateReference | PromptReference, name: str, typed: str
) -> list[str]:
    return (await client.complete(ref, {"name": name, "value": typed})).completion.values


async def test_an_address_is_completed_by_its_beginning_its_path_or_its_short_form(client: Client) -> None:
    both = ["concept://shop/services/audit", "concept://shop/services/auth"]
    assert await completed(client, NODES, "uri", "concept://shop/services/au") == both
    assert await completed(client, NODES, "uri", "services/au") == both
    assert await completed(client, NODES, "uri", "concept:services/aud") == both[:1]
    assert await completed(client, NODES, "uri", "src/auth/k") == ["file://shop/src/auth/keys.py"]
    assert await completed(client, NODES, "uri", "nothing") == []


async def test_workspaces_tasks_and_paths_are_completed_in_prompts(client: Client) -> None:
    assert await completed(client, PLANNING, "workspace", "sh") == ["shop"]
    assert await completed(client, PLANNING, "task", "") == ["task://shop/rotate%20keys"]
    assert await completed(client, PLANNING, "paths", "src/auth/s") == ["src/auth/session.py"]
    assert await completed(client, PLANNING, "paths", "docs, src/ch") == ["docs, src/checkout.py"]


@pytest.mark.slow
async def test_at_most_a_hundred_are_offered_with_the_total(client: Client, session: Session) -> None:
    call(session, "put", {"changes": [upsert(f"many/n{number:03}", summary="s") for number in range(150)]})
    found = (await client.complete(NODES, {"name": "uri", "value": "many/"}, {"workspace": "shop"})).completion
    assert (len(found.values), found.total, found.has_more) == (100, 150, True)


async def test_an_unknown_argument_cannot_be_completed(client: Client) -> None:
    for ref, name in ((PromptReference(name="none"), "task"), (PLANNING, "none"), (NODES, "id")):
        with pytest.raises(MCPError, match="to complete here"):
            await client.complete(ref, {"name": name, "value": ""})
    elsewhere = await client.complete(NODES, {"name": "uri", "value": ""}, {"workspace": "nowhere"})
    assert elsewhere.completion.values == []
