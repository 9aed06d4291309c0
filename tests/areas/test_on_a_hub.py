"""Areas of a workspace that a hub has: asked from another machine, and over the hub's own MCP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, NotFound
from tests.areas.conftest import Ask
from tests.hub.conftest import Hub, new_hub
from tests.hub.test_mcp import called, connected
from tests.surfaces.test_submitting_to_a_hub import join

TASK = "https://tracker.example/1"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = new_hub(tmp_path_factory.mktemp("hub")).start()
    found.put("atom://infra/infra/bus", name="Bus", content="Known\u202e there.", data={"paths": ["bus/**"]})
    found.put("atom://infra/secret/bus", name="Other", data={"paths": ["**"]})
    yield found
    found.stop()


@pytest.mark.slow
def test_a_hubs_areas_are_read_here_and_written_there(ask: Ask, hub: Hub, tmp_path: Path) -> None:
    join(ask.session, hub, tmp_path, "read,write")
    found = ask.query_graph(operation="context", projectId="infra", paths="bus/a.py,other.py")
    assert found["success"]
    (atom,) = found["data"]["orphanAtoms"]
    assert (atom["id"], atom["knowledge"]) == ("atom://infra/infra/bus", "Known\\u202e there.")
    assert found["data"]["unmatchedPaths"] == ["other.py"]
    got = ask.query_graph(operation="get", entityType="atom", id="atom://infra/infra/bus")["data"]["atom"]
    assert got["version"] == 1
    entries = ask.manage_changelog(operation="search", parentType="atom", parentId="atom://infra/infra/bus")
    assert entries["data"] == {"entries": [], "total": 0}
    with pytest.raises(NotFound):
        ask.query_graph(operation="get", entityType="atom", id="atom://infra/infra/nothing")
    with pytest.raises(Forbidden, match="submit_subgraph"):
        ask.manage_graph(
            operation="create", entityType="atom", name="x", paths=["a"], createdByTaskId=TASK, projectId="infra"
        )


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_hubs_own_clients_get_the_envelope_and_their_part(hub: Hub) -> None:
    token = hub.mint("read,write", "/infra/**", name="areas")
    update: dict[str, Any] = {"operation": "update", "entityType": "atom", "lastTaskId": TASK, "version": 9}
    async with connected(hub, token, "auto") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names >= {"query_graph", "manage_graph", "manage_changelog"}
        failed, answer = await called(client, "query_graph", operation="search", entityType="atom")
        assert (failed, answer["data"]["total"]) == (False, 1)
        for id, code in (("secret/bus", "FORBIDDEN"), ("secret/nothing", "FORBIDDEN"), ("infra/nothing", "NOT_FOUND")):
            failed, answer = await called(client, "manage_graph", **update, id=id)
            assert (failed, answer["success"], answer["error"]["code"]) == (True, False, code)
            assert set(answer["error"]) <= {"code", "message", "at", "next"}
