"""The picture of the graph in hosts of agents: answers for hosts with and without pages."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from kgd.graph.cross_workspace import walk_across
from kgd.index.text import TextIndex
from kgd.mcp.server import Surface
from kgd.model.access import Principal, Scope, Verb
from kgd.model.uri import Uri
from kgd.tools import TOOLS, call, chosen
from kgd.tools.read import traverse
from kgd.tools.read.graph_view import APP, GRAPH_VIEW
from kgd.tools.session import Session
from tests.surfaces.conftest import upsert

SHOWS_APPS = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]
Mode = Literal["auto", "legacy"]


@pytest.fixture
def known(session: Session) -> Session:
    relation = {"type": "uses", "target": "keys", "weight": 0.5}
    call(session, "put", {"changes": [upsert("auth", summary="signs", relations=relation), upsert("keys")]})
    return session


async def view(client: Client, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the model reads, and what the host is given."""
    result = await client.call_tool("graph_view", arguments)
    assert not result.is_error, result.structured_content
    assert result.structured_content is not None
    return json.loads(result.content[0].text), result.structured_content  # type: ignore[union-attr]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_host_that_shows_apps_is_given_a_page_and_a_picture(known: Session, mode: Mode) -> None:
    surface = Surface(known.daemon, chosen("apps"))
    async with Client(surface.server, mode=mode, extensions=SHOWS_APPS) as client:
        # The older protocol has no place for it; there the tool's description alone says that it has a page.
        assert mode == "legacy" or EXTENSION_ID in (client.server_capabilities.extensions or {})
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["graph_view"].meta == {"ui": {"resourceUri": APP}}
        assert not any(tool.meta for name, tool in tools.items() if name != "graph_view")
        page = (await client.read_resource(APP)).contents[0]
        assert page.mime_type == APP_MIME_TYPE
        assert "ui/initialize" in page.text  # type: ignore[union-attr]
        assert "://" not in page.text.replace("http://www.w3.org/2000/svg", "").replace('"://"', "")  # type: ignore[union-attr]
        assert APP in [resource.uri for resource in (await client.list_resources()).resources]
        text, data = await view(client, workspace="shop", start="auth")
        assert data["drawing"].startswith("<svg ")
        assert "drawing" not in text
        assert text == {name: value for name, value in data.items() if name != "drawing"}


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_all_other_hosts_are_given_the_same_in_words(known: Session, mode: Mode) -> None:
    async with Client(Surface(known.daemon, chosen("apps")).server, mode=mode) as client:
        text, data = await view(client, workspace="shop", start="auth")
        assert text == data
        assert [(node["name"], node["cost"]) for node in data["nodes"]] == [("auth", 0), ("keys", 0.5)]


@pytest.mark.anyio
async def test_without_the_toolset_apps_are_not_announced(known: Session) -> None:
    async with Client(Surface(known.daemon, TOOLS).server, extensions=SHOWS_APPS) as client:
        assert EXTENSION_ID not in (client.server_capabilities.extensions or {})
        assert APP not in [resource.uri for resource in (await client.list_resources()).resources]
        with pytest.raises(Exception, match="no such resource"):
            await client.read_resource(APP)


def test_without_a_start_the_whole_graph_is_summed_up_in_groups(known: Session) -> None:
    area = {
        "operation": "create",
        "entityType": "atom",
        "name": "Auth",
        "knowledge": "-",
        "paths": ["src/auth/**"],
        "createdByTaskId": "https://example.org/1",
        "workspace": "shop",
    }
    assert call(known, "manage_graph", area)["success"]
    call(known, "put", {"changes": upsert("more", relations={"type": "in", "target": "atom:Auth"})})
    answer = call(known, "graph_view", {"workspace": "shop"})
    assert [(one["name"], one["count"]) for one in answer["groups"]] == [("Auth", 1), ("Outside areas", 3)]
    assert answer["groups"][0]["types"] == {"concept": 1}
    assert "Outside areas 3" in answer["drawing"]
    newest = call(known, "graph_view", {"workspace": "shop", "types": ["concept"], "max_cost": 0})
    assert {node["name"] for node in newest["nodes"]} == {"auth", "keys", "more"}


def test_a_type_of_which_there_is_nothing_says_so(known: Session) -> None:
    answer = call(known, "graph_view", {"workspace": "shop", "types": ["insight"]})
    assert answer["nodes"] == []
    assert "insight" in answer["next"]


@pytest.mark.slow
def test_a_picture_shows_more_than_an_answer_has_room_for(known: Session) -> None:
    relations = [{"type": "see", "target": f"wide/{number}"} for number in range(200)]
    wide = [upsert(f"wide/{number}", summary="a summary of some length " * 4) for number in range(200)]
    call(known, "put", {"changes": [*wide, upsert("wide", relations=relations)]})
    answer = call(known, "graph_view", {"workspace": "shop", "start": "wide", "max_nodes": 201, "budget": 100_000})
    assert len(answer["nodes"]) < 150
    assert answer["drawing"].count("data-uri=") == 201


def test_a_picture_takes_one_more_walk_however_small_the_answer(known: Session, monkeypatch: Any) -> None:
    """Whoever may read could else have thousands of nodes walked to a thousand times with one call."""
    relations = [{"type": "see", "target": f"broad/{number}"} for number in range(60)]
    broad = [upsert(f"broad/{number}") for number in range(60)]
    call(known, "put", {"changes": [*broad, upsert("broad", relations=relations)]})
    walks: list[int] = []
    walk = walk_across

    def counted(*args: Any, **more: Any) -> Any:
        walks.append(1)
        return walk(*args, **more)

    monkeypatch.setattr(traverse, "walk_across", counted)
    answer = call(known, "graph_view", {"workspace": "shop", "start": "broad", "max_nodes": 61, "budget": 1})
    assert len(answer["nodes"]) < 10
    assert answer["drawing"].count("data-uri=") == 61
    assert len(walks) == 2


def test_the_newest_of_a_type_are_shown(known: Session) -> None:
    call(known, "put", {"changes": [upsert("seen/old", type="fact")]})
    call(known, "put", {"changes": [upsert(f"hidden/{number}", type="fact") for number in range(15)]})
    scope = Scope.of("shop", [Verb.READ], ["/seen/**"])
    known.principal = Principal("tok1", "agent", "agent", (scope,))
    answer = GRAPH_VIEW.call(known, {"workspace": "shop", "types": ["fact"]})
    assert [node["name"] for node in answer["nodes"]] == ["old"]


def test_a_type_that_is_named_a_thousand_times_is_looked_for_once(known: Session, monkeypatch: Any) -> None:
    looked: list[str] = []
    newest = TextIndex.newest

    def counted(self: TextIndex, type: str, limit: int) -> list[Uri]:
        looked.append(type)
        return newest(self, type, limit)

    monkeypatch.setattr(TextIndex, "newest", counted)
    types = ["insight"] * 1_000 + [f"type-{number}" for number in range(1_000)]
    call(known, "graph_view", {"workspace": "shop", "types": types})
    assert len(looked) == len(set(looked)) <= 20
