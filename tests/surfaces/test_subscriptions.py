"""Subscriptions: a client that watches a resource gets an event for each commit that changes it, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.types import ResourceUpdatedNotification

from kgd.mcp.resources import may_watch
from kgd.mcp.server import Surface
from kgd.model.access import Principal, Scope, Verb
from kgd.model.globs import Glob
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests import waiting
from tests.mcp import lines
from tests.surfaces.conftest import Ask, upsert
from tests.surfaces.test_conflicts import disagree

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]
NODE = "kgd://shop/nodes/concept://shop/a"
CODE = "kgd://shop/nodes/"

Era = Literal["auto", "legacy"]
eras = pytest.mark.parametrize("era", ["auto", "legacy"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def write(session: Session, name: str) -> None:
    await anyio.to_thread.run_sync(lambda: call(session, "put", {"changes": upsert(name, summary=name)}))


async def test_a_modern_client_gets_events_on_its_listen_stream(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server) as client:
        async with client.listen(resource_subscriptions=[NODE, "kgd://shop/status"]) as events:
            await write(session, "b")
            await write(session, "a")
            heard = []
            async for event in events:
                heard.append(event.uri)  # type: ignore[union-attr]
                if NODE in heard:
                    break
        assert "kgd://shop/status" in heard
        assert surface.subscriptions.bus is not None
    await until(lambda: not surface.subscriptions.watched)


async def test_a_legacy_client_gets_events_between_subscribe_and_unsubscribe(session: Session) -> None:
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


async def test_a_commit_without_watchers_announces_nothing(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server):
        await write(session, "a")
        assert not surface.subscriptions.watched


async def test_closing_ends_listen_streams_gracefully(session: Session) -> None:
    surface = Surface(session.daemon)
    async with Client(surface.server) as client, client.listen(resource_subscriptions=[NODE]) as events:
        surface.close()
        assert [event async for event in events] == []


@asynccontextmanager
async def watching(session: Session, era: Era, *resources: str) -> AsyncIterator[list[str]]:
    """The events of a client about these resources, in one of the two protocol eras."""
    heard: list[str] = []

    async def note(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with lines.client(Surface(session.daemon), era, session.cwd, message_handler=note) as client:
        if era == "legacy":
            for resource in resources:
                await client.subscribe_resource(resource)
            yield heard
            return
        async with client.listen(resource_subscriptions=list(resources)) as events, anyio.create_task_group() as tasks:

            async def follow() -> None:
                async for event in events:
                    heard.append(event.uri)  # type: ignore[union-attr]

            tasks.start_soon(follow)
            yield heard
            tasks.cancel_scope.cancel()


@eras
async def test_a_conflict_that_leaves_its_node_unchanged_is_announced(session: Session, ask: Ask, era: Era) -> None:
    disagree(ask, "a", "summary")
    (conflict,) = ask.conflicts()["conflicts"]
    shown = {"id": conflict["id"], "take": conflict["fields"]["summary"]["shown"]}
    async with watching(session, era, NODE, "kgd://shop/conflicts") as heard:
        await anyio.to_thread.run_sync(lambda: ask.resolve(resolutions=shown))
        await until(lambda: {NODE, "kgd://shop/conflicts"} <= set(heard))


@eras
async def test_a_saved_file_of_the_code_tree_is_announced(session: Session, code: Path, era: Era) -> None:
    file, directory = f"{CODE}file://shop/src/auth/keys.py", f"{CODE}dir://shop/src/auth"
    async with watching(session, era, file, directory, "kgd://shop/status", "kgd://shop/conflicts") as heard:
        (code / "src/auth/keys.py").write_text("KEYS = {1: 2}\n")
        await until(lambda: {file, directory, "kgd://shop/status"} <= set(heard))
        assert "kgd://shop/conflicts" not in heard


@pytest.mark.slow
@eras
async def test_symbols_that_a_save_adds_or_removes_are_announced(
    session: Session, ws: Workspace, code: Path, era: Era
) -> None:
    gone, new = (f"{CODE}symbol://shop/src/auth/session.py/{name}" for name in ("sign", "verify"))
    await until(lambda: ws.in_overlay(Uri("symbol://shop/src/auth/session.py/sign")))
    async with watching(session, era, gone, new) as heard:
        (code / "src/auth/session.py").write_text("def verify(token):\n    return token\n")
        await until(lambda: {gone, new} <= set(heard))


@eras
async def test_a_note_on_changed_code_is_announced(session: Session, ask: Ask, code: Path, era: Era) -> None:
    ask.put(changes=upsert("a", data={"cites": ["src/auth/keys.py"]}))
    async with watching(session, era, NODE) as heard:
        (code / "src/auth/keys.py").write_text("KEYS = {1: 2}\n")
        await until(lambda: heard)
    assert "unverified" in ask.get(uris=["a"])["nodes"][0]


async def until(condition: Callable[[], object]) -> None:
    await anyio.to_thread.run_sync(waiting.until, condition)


def test_a_token_may_watch_nodes_and_states_of_its_workspace() -> None:
    reader = Principal("r1", "reader", "agent", (Scope(frozenset({Verb.READ}), "shop", (Glob("/**"),)),))
    places = ("nodes/concept://shop/a", "status", "conflicts", "nodes", "nodes/", "status/x", "jobs/1", "")
    assert [place for place in places if may_watch(reader, f"kgd://shop/{place}")] == list(places[:3])
    assert not may_watch(reader, "kgd://other/status")
    assert not may_watch(reader, "http://shop/status")
