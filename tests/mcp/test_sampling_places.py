"""Where a conflict is met: by a put on its node or by a put that comes late, by a get, by a traverse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import CallToolResult

from kgd.tools.session import Session
from tests.mcp.conftest import Mode, Model, call, commits, disagree, in_memory, node

LEGACY = pytest.param("legacy", marks=pytest.mark.slow)
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", LEGACY]), pytest.mark.slow]
ANSWER = json.dumps({"summary": {"value": "one and three"}})
TEXT = "Keys rotate {}.\nThey live in the vault.\n"


@pytest.mark.requirement("E13")
async def test_a_put_on_a_node_in_conflict_has_it_settled_in_a_commit_of_its_own(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        made = await commits(client)
        change = {"op": "upsert", "uri": uri, "content": "more\n", "expect_version": 3}
        answer = await call(client, "put", changes=change)
        assert [one["by"] for one in answer["resolved"]] == ["sampling"]
        assert answer["resolved"][0]["commit"] != answer["commit"]
        found = await node(client, uri)
        assert answer["nodes"] == [{"uri": uri, "version": found["version"]}]
        assert (found["summary"], found["content"]) == ("one and three", "more\n")
        assert "conflicts" not in found
        assert await commits(client) == made + 2


async def test_a_put_that_decides_the_conflict_itself_does_not_ask(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        answer = await call(client, "put", changes={"op": "upsert", "uri": uri, "summary": "mine"})
        assert model.asked == []
        assert any("open conflict" in warning for warning in answer["warnings"])
        handed = await call(client, "resolve_conflicts", ids=uri)
        assert model.asked == []
        assert "since" in handed["remaining"][0]["why"]
        assert (await node(client, uri))["summary"] == "mine"


async def test_a_put_that_shows_conflicts_and_a_dry_run_do_not_ask(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        change = {"op": "upsert", "uri": uri, "content": "more\n"}
        await call(client, "put", changes=change, dry_run=True)
        await call(client, "put", changes=change, conflicts="show")
        assert model.asked == []


@pytest.mark.parametrize("text", ["garbage", json.dumps({"summary": {"value": "https://evil.example"}})])
async def test_a_put_is_executed_although_no_model_settled_its_conflict(
    session: Session, mode: Mode, text: str
) -> None:
    async with in_memory(session) as place, place.client(mode, Model(text)) as client:
        uri = await disagree(client)
        answer = await call(client, "put", changes={"op": "upsert", "uri": uri, "content": "more\n"})
        assert "resolved" not in answer
        found = await node(client, uri)
        assert found["content"] == "more\n"
        assert len(found["conflicts"]) == 1


async def late(client: Any, *, mine: str = TEXT.format("daily")) -> tuple[str, dict[str, Any]]:
    """A node that was rewritten after it was read, and the reader's change."""
    uri = "concept://shop/late"
    first = {"op": "upsert", "uri": uri, "content": TEXT.format("never"), "tags": ["keys"]}
    await call(client, "put", changes=first)
    assert (await node(client, uri))["version"] == 1
    theirs = {"op": "upsert", "uri": uri, "content": TEXT.format("weekly"), "expect_version": 1, "tags": ["weekly"]}
    await call(client, "put", changes=theirs)
    return uri, {"op": "upsert", "uri": uri, "content": mine, "expect_version": 1, "tags": ["daily"]}


async def test_a_put_that_comes_late_and_clashes_is_brought_together_by_the_model(session: Session, mode: Mode) -> None:
    joined = TEXT.format("daily or weekly")
    model = Model(json.dumps({"content": {"value": joined}}))
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri, change = await late(client)
        answer = await call(client, "put", changes=change)
        assert answer["resolved"][0]["fields"] == {"content": joined}
        assert answer["nodes"] == [{"uri": uri, "version": 3}]
        found = await node(client, uri)
        assert (found["content"], found["tags"]) == (joined, ["daily", "keys", "weekly"])
        message = session.daemon.workspace("shop").store.commit(bytes.fromhex(answer["commit"])).message
        assert "Kgd-Resolved-By: sampling model=test-model" in message
        assert len(model.asked) == 1


async def refused(client: Any, change: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool("put", {"workspace": "shop", "changes": change})
    assert isinstance(result, CallToolResult)
    assert result.is_error
    error: dict[str, Any] = (result.structured_content or {})["error"]
    return error


@pytest.mark.parametrize("text", ["garbage", json.dumps({"content": {"value": "See https://evil.example"}})])
async def test_a_put_that_no_model_merges_is_a_conflict_and_writes_nothing(
    session: Session, mode: Mode, text: str
) -> None:
    async with in_memory(session) as place, place.client(mode, Model(text)) as client:
        uri, change = await late(client)
        error = await refused(client, change)
        assert (error["code"], error["current_version"]) == ("CONFLICT", 2)
        assert "evil" not in str(error)
        assert (await node(client, uri))["content"] == TEXT.format("weekly")


async def test_a_late_put_that_does_not_clash_is_carried_out_without_a_question(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri, _ = await late(client)
        await call(client, "put", changes={"op": "upsert", "uri": uri, "summary": "no clash", "expect_version": 1})
        found = await node(client, uri)
        assert (found["summary"], found["content"]) == ("no clash", TEXT.format("weekly"))
        assert model.asked == []


async def test_a_late_put_without_a_model_is_refused_as_ever(session: Session, mode: Mode) -> None:
    async with in_memory(session) as place, place.client(mode) as client:
        _, change = await late(client)
        error = await refused(client, change)
        assert (error["code"], error["current_version"]) == ("CONFLICT", 2)


async def test_a_put_that_was_applied_is_answered_again_without_a_question(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri, _ = await late(client)
        change = {"op": "upsert", "uri": uri, "content": TEXT.format("hourly"), "expect_version": 2}
        first = await call(client, "put", changes=change, request_id="r1")
        again = await call(client, "put", changes=change, request_id="r1")
        assert again["repeated"]
        assert again["commit"] == first["commit"]
        assert model.asked == []


async def test_get_settles_only_when_it_is_asked_to(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        assert len((await node(client, uri))["conflicts"]) == 1
        assert model.asked == []
        answer = await call(client, "get", uris=uri, conflicts="resolve")
        assert [one["by"] for one in answer["resolved"]] == ["sampling"]
        assert answer["nodes"][0]["summary"] == "one and three"
        assert "conflicts" not in answer["nodes"][0]


@pytest.mark.requirement("E13")
async def test_traverse_settles_what_is_on_its_way_only_when_it_is_asked_to(session: Session, mode: Mode) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri, elsewhere = await disagree(client), await disagree(client)
        start = {"op": "upsert", "uri": "start", "relations": [{"type": "to", "target": uri}]}
        await call(client, "put", changes=start)
        shown = await call(client, "traverse", start="start")
        assert [one["uri"] for one in shown["conflicts"]] == [uri]
        assert model.asked == []
        answer = await call(client, "traverse", start="start", conflicts="resolve")
        assert [one["uri"] for one in answer["resolved"]] == [uri]
        assert answer["conflicts"] == []
        assert [one.get("summary") for one in answer["nodes"]][-1] == "one and three"
        assert len((await node(client, elsewhere))["conflicts"]) == 1


@pytest.mark.parametrize("tool", ["get", "traverse"])
async def test_a_read_that_may_settle_shows_both_sides_without_a_resolver(
    session: Session, mode: Mode, tool: str
) -> None:
    async with in_memory(session) as place, place.client(mode, Model("garbage")) as client:
        uri = await disagree(client)
        arguments = {"uris": uri} if tool == "get" else {"start": uri}
        answer = await call(client, tool, conflicts="resolve", **arguments)
        shown = answer["nodes"][0]["conflicts"] if tool == "get" else answer["conflicts"]
        assert len(shown[0]["fields"]["summary"]["sides"]) == 2
        assert "resolve_conflicts" in shown[0]["next"]
