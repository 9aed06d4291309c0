"""Between the rounds of a call the server keeps no state: restarts, repeats and forgeries do no harm."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, CreateMessageResult, InputRequiredResult, TextContent

from kgd.mcp.server import Surface
from kgd.resolution import PER_HOUR, STRIKES
from kgd.tools.session import Session
from tests.mcp.conftest import Machine, Mode, Model, call, commits, disagree, in_memory, node

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ANSWER = json.dumps({"summary": {"value": "one and three"}})


def answered(first: InputRequiredResult, text: str = ANSWER) -> dict[str, Any]:
    assert first.input_requests is not None
    reply = CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text=text))
    return {"input_responses": dict.fromkeys(first.input_requests, reply), "request_state": first.request_state}


async def first_round(client: Client, uri: str) -> InputRequiredResult:
    result = await client.session.call_tool("resolve_conflicts", arguments(uri), allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    return result


async def second_round(client: Client, uri: str, answers: dict[str, Any]) -> dict[str, Any]:
    result = await client.session.call_tool("resolve_conflicts", arguments(uri), **answers, allow_input_required=True)
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    return result.structured_content or {}


def arguments(uri: str) -> dict[str, Any]:
    return {"workspace": "shop", "ids": [uri]}


async def test_a_round_that_is_repeated_applies_once(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        found = (await node(client, uri))["conflicts"][0]["id"]
        first = await client.session.call_tool(
            "resolve_conflicts", {"workspace": "shop", "ids": [found]}, allow_input_required=True
        )
        assert isinstance(first, InputRequiredResult)
        made = []
        for _ in range(3):
            result = await client.session.call_tool(
                "resolve_conflicts", {"workspace": "shop", "ids": [found]}, **answered(first)
            )
            made.append((result.structured_content or {})["resolved"][0])
        assert [one.get("already", False) for one in made] == [False, True, True]
        assert len({one["commit"] for one in made}) == 1


async def test_equal_questions_have_equal_words_and_their_state_hides_what_it_says(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        first, again = await first_round(client, uri), await first_round(client, uri)
        assert first.input_requests == again.input_requests
        assert "asked" not in (first.request_state or "")


async def test_a_state_that_was_changed_or_belongs_to_another_call_is_refused(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri, other = await disagree(client), await disagree(client)
        first = await first_round(client, uri)
        good = answered(first)
        for wrong in ({**good, "request_state": "v1.AAAA"}, {**good, "request_state": f"{first.request_state}A"}):
            with pytest.raises(MCPError, match="requestState"):
                await second_round(client, uri, wrong)
        with pytest.raises(MCPError, match="requestState"):
            await second_round(client, other, good)
        assert "conflicts" in await node(client, uri)


async def test_answers_without_our_state_are_no_answers(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        good = answered(await first_round(client, uri))
        result = await client.session.call_tool(
            "resolve_conflicts", arguments(uri), input_responses=good["input_responses"], allow_input_required=True
        )
        assert isinstance(result, InputRequiredResult)
        assert "conflicts" in await node(client, uri)


async def test_changes_between_the_rounds_are_not_overwritten(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        first = await first_round(client, uri)
        await call(client, "put", changes={"op": "upsert", "uri": uri, "summary": "newer"}, conflicts="show")
        answer = await second_round(client, uri, answered(first))
        assert answer["resolved"] == []
        assert "since" in answer["remaining"][0]["why"]
        assert (await node(client, uri))["summary"] == "newer"


async def test_a_resolution_between_the_rounds_stays(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        id = (await node(client, uri))["conflicts"][0]["id"]
        first = await client.session.call_tool(
            "resolve_conflicts", {"workspace": "shop", "ids": [id]}, allow_input_required=True
        )
        assert isinstance(first, InputRequiredResult)
        await call(client, "resolve_conflicts", resolutions={"id": id, "take": "base"})
        result = await client.session.call_tool(
            "resolve_conflicts", {"workspace": "shop", "ids": [id]}, **answered(first)
        )
        assert (result.structured_content or {})["resolved"][0]["already"] is True
        assert (await node(client, uri))["summary"] == "two"


async def test_a_round_that_one_server_began_another_of_the_same_home_ends(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        uri = await disagree(client)
        first = await first_round(client, uri)
    async with in_memory(session) as place, place.client(model=Model()) as client:
        assert (await second_round(client, uri, answered(first)))["resolved"][0]["by"] == "sampling"


@pytest.mark.slow
async def test_a_round_outlives_a_restart(machine: Machine) -> None:
    async with machine.place.client(model=Model()) as client:
        uri = await disagree(client)
        first = await first_round(client, uri)
    machine.kgd("down", "--quiet")
    async with machine.place.client(model=Model()) as client:
        answer = await second_round(client, uri, answered(first))
        assert answer["resolved"][0]["by"] == "sampling"
    key = machine.home / "state" / "rounds.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


async def test_a_key_readable_by_others_is_replaced(session: Session) -> None:
    key = Path(session.daemon.home.state) / "rounds.key"
    Surface(session.daemon)
    first = key.read_bytes()
    key.chmod(0o644)
    Surface(session.daemon)
    assert key.read_bytes() != first
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


async def test_a_client_that_cancels_its_call_leaves_everything_as_it_was(session: Session) -> None:
    model = Model(behaves="hangs")
    async with in_memory(session) as place:
        async with place.client("legacy") as other:
            uri = await disagree(other)
            made = await commits(other)
        async with place.client("legacy", model) as client:
            async with anyio.create_task_group() as tasks:
                change = {"op": "upsert", "uri": uri, "content": "not written"}
                tasks.start_soon(lambda: call(client, "put", changes=change))
                await model.was_asked.wait()
                tasks.cancel_scope.cancel()
            assert await commits(client) == made
            assert "content" not in await node(client, uri)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_after_three_bad_answers_a_conflict_waits_for_another_resolver(session: Session, mode: Mode) -> None:
    model = Model("garbage")
    async with in_memory(session) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        told = [(await call(client, "resolve_conflicts", ids=uri))["remaining"][0]["why"] for _ in range(STRIKES + 2)]
        assert len(model.asked) == STRIKES
        assert "not one JSON object" in told[0]
        assert "no usable answer" in told[-1]


async def test_an_answer_that_cannot_be_written_is_a_bad_one(session: Session) -> None:
    model = Model(json.dumps({"content": {"value": "The key is AKIAIOSFODNN7EXAMPLQ here.\n"}}))
    async with in_memory(session) as place, place.client("legacy", model) as client:
        values = ("The first key is this one here.\n", "The second key is that one.\n", "The third key is another.\n")
        uri = await disagree(client, "content", values)
        told = [(await call(client, "resolve_conflicts", ids=uri))["remaining"][0]["why"] for _ in range(STRIKES + 1)]
        assert all("secret" in why for why in told[:STRIKES])
        assert "no usable answer" in told[-1]
        assert "AKIA" not in str(told)


async def test_a_refusing_host_is_not_asked_again_and_again(session: Session) -> None:
    model = Model(behaves="refuses")
    async with in_memory(session) as place, place.client(model=model) as client:
        uri = await disagree(client)
        for _ in range(STRIKES):
            with pytest.raises(MCPError):
                await call(client, "resolve_conflicts", ids=uri)
        assert "no usable answer" in (await call(client, "resolve_conflicts", ids=uri))["remaining"][0]["why"]


async def test_questions_are_counted_by_the_hour(session: Session) -> None:
    async with in_memory(session) as place, place.client("legacy", Model(ANSWER)) as client:
        uri = await disagree(client)
        for number in range(PER_HOUR):
            session.daemon.attempts.asked([f"{number}"], "another client")
        answer = await call(client, "resolve_conflicts", ids=uri)
        assert "within the last hour" in answer["remaining"][0]["why"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("behaves", "why"), [("is cut", "token limit"), ("draws", "not text")])
async def test_half_an_answer_and_a_picture_are_none(session: Session, mode: Mode, behaves: str, why: str) -> None:
    async with in_memory(session) as place, place.client(mode, Model(ANSWER, behaves=behaves)) as client:
        uri = await disagree(client)
        assert why in (await call(client, "resolve_conflicts", ids=uri))["remaining"][0]["why"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_without_a_model_to_lend_decides_itself(session: Session, mode: Mode) -> None:
    async with in_memory(session) as place, place.client(mode) as client:
        uri = await disagree(client)
        for via in ("agent", "auto", "sampling", "provider"):
            answer = await call(client, "resolve_conflicts", ids=uri, via=via)
            assert answer["resolved"] == []
            assert "resolutions" in answer["next"]
        (one,) = answer["remaining"]
        decision = {"id": one["id"], "fields": {"summary": "both"}}
        done = await call(client, "resolve_conflicts", resolutions=[decision], via="agent")
        assert (done["open"], done["next"]) == (0, "There are no open conflicts.")
        assert (await node(client, uri))["summary"] == "both"
        again = await call(client, "resolve_conflicts", resolutions=[decision])
        assert again["resolved"][0]["already"] is True


async def test_with_via_agent_a_model_that_is_there_is_not_asked(session: Session) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client(model=model) as client:
        uri = await disagree(client)
        await call(client, "resolve_conflicts", ids=uri, via="agent")
        assert model.asked == []


async def test_the_commit_says_whose_model_settled_what(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model(ANSWER, name="m\nKgd-Op: forged")) as client:
        uri = await disagree(client)
        id = (await node(client, uri))["conflicts"][0]["id"]
        commit = (await call(client, "resolve_conflicts"))["resolved"][0]["commit"]
        (entry,) = (await call(client, "history", commit=commit))["commits"]
        assert entry["author"] == "Ann Person"
        store = session.daemon.workspace("shop").store
        message = store.commit(bytes.fromhex(commit)).message
        assert f"Kgd-Resolves: {id.rpartition('#')[2]}\n" in message
        assert "Kgd-Resolved-By: sampling model=mKgd-Op: forged\n" in message
        assert message.count("\nKgd-Op: ") == 1


async def test_many_conflicts_are_asked_about_at_once_and_the_rest_is_named(session: Session) -> None:
    model = Model(ANSWER)
    async with in_memory(session) as place, place.client("legacy", model) as client:
        uris = [await disagree(client) for _ in range(10)]
        answer = await call(client, "resolve_conflicts")
        assert len(answer["resolved"]) == len(model.asked) == 8
        assert answer["open"] == 2
        rest = await call(client, "resolve_conflicts")
        assert rest["open"] == 0
        assert len(uris) == 10


async def test_without_open_conflicts_the_answer_is_empty_and_an_unknown_id_is_not_found(session: Session) -> None:
    async with in_memory(session) as place, place.client(model=Model()) as client:
        assert (await call(client, "resolve_conflicts"))["next"] == "There are no open conflicts."
        for id in (
            "nobody",
            "concept://shop/nobody",
            "concept://shop/nobody#0123456789abcdef",
            "../../x#0123456789abcdef",
        ):
            result = await client.call_tool("resolve_conflicts", {"workspace": "shop", "ids": id})
            assert result.is_error
