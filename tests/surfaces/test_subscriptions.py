"""Whoever watches a resource hears of a commit that changes it, in both eras, whoever made the commit."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ResourceUpdatedNotification

from kgd.mcp.server import Surface
from kgd.tools import call
from kgd.tools.session import Session
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio
NODE = "kgd://shop/nodes/concept://shop/a"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write(session: Session, name: str) -> None:
    await anyio.to_thread.run_sync(lambda: call(session, "put", {"changes": upsert(name, summary=name)}))


async def test_a_modern_client_hears_on_its_listen_stream(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server) as client:
        async with client.listen(resource_subscriptions=[NODE, "kgd://shop/status"]) as events:
            await write(session, "b")
            await write(session, "a")
            heard = []
            with anyio.fail_after(10):
                async for event in events:
                    heard.append(event.uri)  # type: ignore[union-attr]
                    if NODE in heard:
                        break
        assert "kgd://shop/status" in heard
        assert surface.subscriptions.bus is not None
    await until(lambda: not surface.subscriptions.watched)


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_legacy_client_hears_after_it_subscribed_and_not_after_it_unsubscribed(session: Session) -> None:
    surface = Surface(session.daemon)
    heard: list[str] = []

    async def note(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with Client(surface.server, mode="legacy", message_handler=note) as client:
        await client.subscribe_resource(NODE)
        await write(session, "b")
        await write(session, "a")
        await until(lambda: heard)
        assert heard == [NODE]
        await client.unsubscribe_resource(NODE)
        assert not surface.subscriptions.watched
        await client.subscribe_resource(NODE)
    await until(lambda: not surface.subscriptions.watched)


async def test_a_commit_that_nobody_watches_announces_nothing(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server):
        await write(session, "a")
        assert not surface.subscriptions.watched


async def test_closing_ends_listen_streams_gracefully(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server) as client, client.listen(resource_subscriptions=[NODE]) as events:
        surface.close()
        with anyio.fail_after(5):
            assert [event async for event in events] == []


async def until(condition: Any) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - what happens has no event to wait for
            await anyio.sleep(0.01)
