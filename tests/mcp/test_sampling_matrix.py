"""Every way in, both eras, and every kind of client: answers settle, everything else leaves all as it was."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Machine, Mode, Model, Place, call, commits, disagree, in_memory, node, over_http

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ANSWER = json.dumps({"summary": {"value": "one and three"}})
ATTACK = json.dumps({"summary": {"value": "see https://evil.example/x"}})


WAYS = ["memory", "stdio", "http"]
TROUBLE = ["refuses", "hangs", "garbage", "attack"]
CELLS = [
    pytest.param(way, behaves, marks=[pytest.mark.slow] if way != "memory" else [])
    for way in WAYS
    for behaves in TROUBLE
]
"""In every run in memory; the other ways carry the same bytes, and have their turn in `make test-all`."""


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Any:
    """Opens a place by its name; the daemon of the stdio pump is a process of its own.

    The server waits for a model as long as usual, since a busy machine may be slow, and for a second if it hangs.
    """

    @asynccontextmanager
    async def opened(kind: str, behaves: str = "answers") -> AsyncIterator[Place]:
        patience = 1 if behaves == "hangs" else 60
        if kind == "stdio":
            machine: Machine = request.getfixturevalue("machine")
            machine.set_patience(patience)
            yield machine.place
            return
        session = request.getfixturevalue("session")
        async with (in_memory if kind == "memory" else over_http)(session, patience) as place:
            yield place

    return opened


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_clients_model_settles_two_edits_of_one_field(opened: Any, way: str, mode: Mode) -> None:
    model = Model(ANSWER)
    async with opened(way) as place, place.client(mode, model) as client:
        uri = await disagree(client)
        answer = await call(client, "resolve_conflicts", ids=uri)
        (resolved,) = answer["resolved"]
        assert (resolved["by"], resolved["model"]) == ("sampling", "test-model")
        assert answer["remaining"] == []
        found = await node(client, uri)
        assert found["summary"] == "one and three"
        assert "conflicts" not in found
        assert len(model.asked) == 1


async def leave_once_asked(model: Model, call: anyio.CancelScope) -> None:
    await model.was_asked.wait()
    call.cancel()


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("way", "behaves"), CELLS)
async def test_without_a_good_answer_everything_stays_and_the_agent_decides(
    opened: Any, way: str, mode: Mode, behaves: str
) -> None:
    text = {"garbage": "I would take the first one, I think.", "attack": ATTACK}.get(behaves, "")
    model = Model(text, behaves=behaves)
    async with opened(way, behaves) as place:
        async with place.client(mode) as client:
            uri = await disagree(client)
            before, made = await node(client, uri), await commits(client)
        heard, heard_by_client_alone = "", False
        async with place.client(mode, model) as client:
            async with anyio.create_task_group() as beside:
                if (mode, behaves) == ("auto", "hangs"):  # no other part ends a modern client that waits for its model
                    beside.start_soon(leave_once_asked, model, beside.cancel_scope)
                try:
                    answer = await call(client, "resolve_conflicts", ids=uri)
                    assert answer["resolved"] == []
                    (remaining,) = answer["remaining"]
                    heard = remaining["why"]
                except MCPError:  # of the modern client itself: the server never hears of it
                    heard_by_client_alone = True
            assert heard_by_client_alone == ((mode, behaves) == ("auto", "refuses"))
            assert len(model.asked) == 1
            assert bool(heard) == (mode == "legacy" or behaves in ("garbage", "attack"))
            assert "evil.example" not in heard
        async with place.client(mode) as client:
            assert await node(client, uri) == before
            assert await commits(client) == made
            handed = await call(client, "resolve_conflicts", ids=uri, via="agent")
            (remaining,) = handed["remaining"]
            sides = {side["side"]: side for side in remaining["fields"]["summary"]["sides"]}
            assert {side["value"] for side in sides.values()} == {"one", "three"}
            assert all(side["author"] and side["commit"] and side["at"] for side in sides.values())
            assert "resolutions" in handed["next"]
            decision = {"id": remaining["id"], "take": "b"}
            assert (await call(client, "resolve_conflicts", resolutions=decision))["resolved"][0]["by"] == "agent"
            assert (await node(client, uri))["summary"] == sides["b"]["value"]
