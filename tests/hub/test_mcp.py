"""MCP over the hub: SDK clients of both eras, each request under its own token."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types import ResourceTemplateReference

from tests.hub.conftest import Hub
from tests.mcp.conftest import Model

pytestmark = pytest.mark.anyio
ERAS = ["auto", "legacy"]
AUTH, CHECKOUT = "concept://infra/services/auth", "concept://infra/app/checkout"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def connected(hub: Hub, token: str, mode: str, model: Model | None = None) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as web:
        transport = streamable_http_client(f"{hub.url}/mcp", http_client=web)
        async with Client(transport, mode=mode, sampling_callback=model) as client:
            yield client


async def called(client: Client, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    result = await client.call_tool(name, arguments)
    return bool(result.is_error), result.structured_content or {}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_a_holder_works_within_its_scope(hub: Hub, mode: str) -> None:
    async with connected(hub, hub.mint("read,write", "/services/**", name=f"mcp {mode}"), mode) as client:
        failed, answer = await called(client, "get", uris=[AUTH])
        assert not failed
        assert answer["nodes"][0]["uri"] == AUTH
        uri = f"concept://infra/services/by-{mode}"
        failed, answer = await called(client, "put", changes=[{"op": "upsert", "uri": uri, "summary": "x"}])
        assert not failed, answer
        failed, answer = await called(client, "put", changes=[{"op": "append", "uri": CHECKOUT, "text": "x"}])
        assert failed
        assert answer["error"]["code"] == "FORBIDDEN"
        assert CHECKOUT in str(answer)
        failed, answer = await called(client, "get", uris=[CHECKOUT])
        assert failed or not answer["nodes"]
    author = hub.call("history", workspace="infra", uri=uri)["commits"][0]["author"]
    assert author.startswith(f"mcp {mode}")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_holder_sees_the_tools_and_resources_that_are_for_it(hub: Hub, mode: str) -> None:
    async with connected(hub, hub.mint(), mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"search", "get", "traverse", "put"} <= names
        assert not names & {"sync", "doctor", "token_mint"}
        shown = {str(one.uri) for one in (await client.list_resources()).resources}
        assert shown == {"kgd://infra/status", "kgd://infra/conflicts"}
        for tool in ("doctor", "token_list"):
            failed, answer = await called(client, tool)
            assert (failed, answer["error"]["code"]) == (True, "NOT_FOUND")


async def test_refused_resources_are_in_the_audit_log(hub: Hub) -> None:
    token = hub.mint("read", "/services/**")
    async with connected(hub, token, "legacy") as client:
        for uri in (f"kgd://infra/nodes/{CHECKOUT}", "kgd://private/status"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        with pytest.raises(MCPError), pytest.warns(MCPDeprecationWarning):
            await client.session.subscribe_resource("kgd://private/conflicts")
    entries = hub.call("token_log", id=token.split("_")[2])["entries"]
    found = {(one["action"], one.get("workspace")) for one in entries}
    assert {
        ("resource refused", "infra"),
        ("resource refused", "private"),
        ("subscribe refused", "private"),
    } <= found


@pytest.mark.parametrize("mode", ERAS)
async def test_each_call_of_a_session_has_the_id_of_its_own_request(hub: Hub, mode: str) -> None:
    token = hub.mint("read,write", name=f"ids {mode}")
    headers = {"authorization": f"Bearer {token}", "x-request-id": "begin"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
        transport = streamable_http_client(f"{hub.url}/mcp", http_client=web)
        async with Client(transport, mode=mode) as client:
            for turn in ("first", "second"):
                web.headers["x-request-id"] = turn
                change = {"op": "upsert", "uri": f"concept://infra/ids/{mode}-{turn}", "summary": "x"}
                failed, answer = await called(client, "put", changes=[change])
                assert not failed, answer
    entries = hub.call("token_log", id=token.split("_")[2])["entries"]
    written = [one["detail"].partition(" [")[2] for one in entries if one["action"] == "put"]
    assert written == ["request second]", "request first]"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_revoked_token_ends_at_the_next_request(hub: Hub, mode: str) -> None:
    token = hub.mint()
    with pytest.RaisesGroup(pytest.RaisesExc(Exception), allow_unwrapped=True, flatten_subgroups=True):
        async with connected(hub, token, mode) as client:
            assert not (await called(client, "status"))[0]
            hub.call("token_revoke", id=token.split("_")[2])
            failed, answer = await called(client, "status")
            raise AssertionError(f"it was answered: {failed} {answer}")


def disputed(hub: Hub, uri: str) -> None:
    """A node whose summary two people wrote differently: a change is taken back after another went over it."""
    commits = [
        hub.call("put", workspace="infra", changes=[{"op": "upsert", "uri": uri, "summary": summary}])["commit"]
        for summary in ("one", "two", "three")
    ]
    hub.call("put", workspace="infra", changes=[{"op": "revert", "commit": commits[1]}])


@pytest.mark.slow
@pytest.mark.requirement("B6")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_model_of_a_holders_client_settles_within_the_tokens_scope(hub: Hub, mode: str) -> None:
    mine, other = f"concept://infra/services/two-{mode}", f"concept://infra/app/two-{mode}"
    for uri in (mine, other):
        disputed(hub, uri)
    attack, good = (Model(json.dumps({"summary": {"value": text}})) for text in ("see https://evil.example", "both"))
    token = hub.mint("read,write,resolve", "/services/**", name=f"model {mode}")
    async with connected(hub, token, mode, attack) as client:
        failed, answer = await called(client, "resolve_conflicts", ids=[mine], workspace="infra")
        assert (failed, answer["resolved"], len(attack.asked)) == (False, [], 1)
        assert "evil.example" not in str(answer)
    async with connected(hub, token, mode, good) as client:
        assert (await called(client, "resolve_conflicts", ids=[other], workspace="infra"))[0]
        assert good.asked == []
        failed, answer = await called(client, "resolve_conflicts", workspace="infra")
        assert [one["by"] for one in answer["resolved"]] == ["sampling"], answer
        assert (answer["remaining"], len(good.asked)) == ([], 1)
    (commit, *_) = hub.call("history", workspace="infra", uri=mine)["commits"]
    assert commit["author"].startswith(f"model {mode}")
    assert hub.call("get", uris=[mine])["nodes"][0]["summary"] == "both"
    assert hub.call("conflicts", uri=other)["total"] == 1
    without = Model(json.dumps({"summary": {"value": "mine"}}))
    async with connected(hub, hub.mint("read,write", "/**"), mode, without) as client:
        failed, answer = await called(client, "resolve_conflicts", ids=[other], workspace="infra")
        assert failed or answer["resolved"] == []
        assert without.asked == []
    hub.call("resolve", resolutions=[{"id": other, "take": "a"}], workspace="infra")


async def test_a_session_belongs_to_its_token(hub: Hub) -> None:
    one, two, wide = hub.mint(), hub.mint(), hub.mint("read,write")
    async with httpx2.AsyncClient(timeout=60) as web:
        opened = await web.post(
            f"{hub.url}/mcp", json=INITIALIZE, headers={**HEADERS, "authorization": f"Bearer {one}"}
        )
        assert opened.status_code == 200
        session = {**HEADERS, "mcp-session-id": opened.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        for token, status in ((one, 200), (two, 404), (wide, 404), ("none", 401)):
            answer = await web.post(
                f"{hub.url}/mcp", json=listing, headers={**session, "authorization": f"Bearer {token}"}
            )
            assert answer.status_code == status


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"}])
async def test_without_a_token_there_is_no_mcp_and_no_authorization_server_is_promised(
    hub: Hub, headers: dict[str, str]
) -> None:
    async with httpx2.AsyncClient(timeout=60) as web:
        answer = await web.post(f"{hub.url}/mcp", json=INITIALIZE, headers={**HEADERS, **headers})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "resource_metadata" not in answer.headers["www-authenticate"]


async def test_a_listener_hears_only_of_readable_nodes(hub: Hub) -> None:
    def resource(uri: str) -> str:
        return f"kgd://infra/nodes/{uri}"

    token = hub.mint(paths="/services/**")
    wanted = [resource(AUTH), resource(CHECKOUT), "kgd://shop/status"]
    async with connected(hub, token, "auto") as client, client.listen(resource_subscriptions=wanted) as events:
        heard: list[str] = []
        hub.put(CHECKOUT, tags=["changed"])
        hub.put("concept://shop/cart", tags=["changed"])
        hub.put(AUTH, tags=["changed"])
        async for event in events:
            heard.append(str(getattr(event, "uri", event)))
            if resource(AUTH) in heard[-1]:
                break
        assert all(resource(AUTH) in one for one in heard), heard


@pytest.mark.slow
async def test_a_stream_of_a_revoked_token_ends(hub: Hub) -> None:
    token = hub.mint()
    async with httpx2.AsyncClient(timeout=20) as web:
        headers = {**HEADERS, "authorization": f"Bearer {token}"}
        opened = await web.post(f"{hub.url}/mcp", json=INITIALIZE, headers=headers)
        headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        subscribe = {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "resources/subscribe",
            "params": {"uri": "kgd://infra/status"},
        }
        assert (await web.post(f"{hub.url}/mcp", json=subscribe, headers=headers)).status_code == 200
        async with web.stream("GET", f"{hub.url}/mcp", headers=headers) as stream:
            hub.call("token_revoke", id=token.split("_")[2])
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_writing, hub)
                said = b"".join([part async for part in stream.aiter_bytes()])
                tasks.cancel_scope.cancel()
        assert said.count(b"resources/updated") <= 30


async def _keep_writing(hub: Hub) -> None:
    while True:
        await anyio.to_thread.run_sync(lambda: hub.put(AUTH, data={"turn": anyio.current_time.__name__}))
        await anyio.to_thread.run_sync(lambda: hub.put(AUTH, unset=["data"]))
        await anyio.sleep(0.2)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_holder_is_offered_readable_nodes_as_completion(hub: Hub, mode: str) -> None:
    async with connected(hub, hub.mint("read", "/services/**", name=f"completing {mode}"), mode) as client:
        template = ResourceTemplateReference(uri="kgd://{workspace}/nodes/{+uri}")
        found = await client.complete(template, {"name": "uri", "value": "concept://infra/"}, {"workspace": "infra"})
        assert AUTH in found.completion.values
        assert CHECKOUT not in found.completion.values
        assert found.completion.total == len(found.completion.values)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_every_body_counts_as_bytes_of_its_token(hub: Hub, is_chunked: bool) -> None:
    token = hub.mint(name="counted", bytes_per_day=5_000)
    headers = {**HEADERS, "authorization": f"Bearer {token}"}
    body = json.dumps({**INITIALIZE, "more": "x" * 3_000}).encode()

    async def parts() -> AsyncIterator[bytes]:
        yield body

    async with httpx2.AsyncClient(headers=headers, timeout=60) as web:
        first = await web.post(f"{hub.url}/mcp", content=parts() if is_chunked else body)
        second = await web.post(f"{hub.url}/mcp", content=parts() if is_chunked else body)
    assert (first.status_code == 429, second.status_code) == (False, 429)
    assert "bytes per day" in second.text


@pytest.mark.slow
def test_a_hub_loads_the_sdk_of_mcp_at_the_first_request(own_hub: Callable[..., Hub]) -> None:
    hub = own_hub()
    hub.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    hub.start()
    imported = {line.rpartition("|")[2].strip() for line in hub.printed}
    assert "kgd.serve.hub" in imported
    assert "mcp" not in imported
    del hub.environment["PYTHONPROFILEIMPORTTIME"]
    hub.stop()
    hub.start()
    assert hub.ask("POST", "/mcp", hub.mint("read"), json.dumps(INITIALIZE).encode(), HEADERS).status == 200
    assert hub.stop() < 3, "the sessions end with the hub"
