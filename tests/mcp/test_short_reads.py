"""Short reads past the SDK: the same bytes in both protocol eras, and the same behaviour."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kgd.mcp.server import Surface
from kgd.mcp.short_reads import ShortReads
from kgd.tools import TOOLS
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio
PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "host", "version": "1.0"}
A, B = "concept://shop/a", "concept://shop/b"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
ENVELOPE: dict[str, Any] = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": CLIENT,
    f"{PREFIX}clientCapabilities": {},
}
READS: list[tuple[str, Any]] = [
    ("get", {"uris": [A]}),
    ("get", {"uris": [A, B, "concept://shop/absent"], "include": ["content", "incoming", "relations"]}),
    ("get", {"uris": A, "include": ["history"]}),
    ("get", {"uris": ["a", "./src"]}),
    ("get", {"uris": [A], "workspace": "other"}),
    ("get", {"uri": A}),
    ("get", {"uris": []}),
    ("get", {"uris": [A], "cursor": "nonsense"}),
    ("get", {"uris": [A], "conflicts": "resolve"}),
    ("get", {"uris": [A], "as_of": "HEAD"}),
    ("get", {}),
    ("traverse", {"start": [A]}),
    ("traverse", {"start": A, "include": ["edges", "path"], "direction": "both", "max_nodes": 1}),
    ("traverse", {"start": ["concept://shop/absent"]}),
    ("traverse", {"start": [A], "max_cost": -1}),
    ("traverse", {"start": [A], "to": B}),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["handshake", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(session: Session) -> Session:
    """A workspace of two linked nodes."""
    changes = [upsert(B, summary="“ü”"), upsert(A, content="text\n", relations=[{"type": "uses", "target": B}])]
    TOOLS["put"].call(session, {"workspace": "shop", "changes": changes})
    return session


class Wire:
    """A client that writes and reads lines; `seen` are the tools that the SDK was asked to call."""

    def __init__(self, era: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[str]) -> None:
        self.era, self.reader, self.writer, self.seen = era, reader, writer, seen
        self.numbers = iter(range(1000, 2000))

    def send(self, method: str, params: dict[str, Any] | None = None, **fields: Any) -> None:
        message = {"jsonrpc": "2.0", **fields, "method": method, "params": params or {}}
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def line(self) -> bytes:
        return await self.reader.readline()

    async def ask(self, method: str, params: Mapping[str, Any], **fields: Any) -> bytes:
        self.send(method, dict(params), **{"id": next(self.numbers), **fields})
        return await self.line()

    def with_envelope(self, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        known = {**(ENVELOPE if self.era == "modern" else {}), **(meta or {})}
        return {**params, **({"_meta": known} if known else {})}

    async def call(self, name: str, arguments: Any, meta: Mapping[str, Any] | None = None, **fields: Any) -> bytes:
        return await self.ask("tools/call", self.with_envelope({"name": name, "arguments": arguments}, meta), **fields)

    async def greet(self) -> None:
        if self.era == "modern":
            answer = await self.ask("server/discover", self.with_envelope({}))
        else:
            answer = await self.ask("initialize", INITIALIZE)
            self.send("notifications/initialized")
        assert b'"result"' in answer


@asynccontextmanager
async def connected(
    session: Session, era: str, *, tools: Mapping[str, Operation] = TOOLS, short: bool = True, **known: Any
) -> AsyncIterator[Wire]:
    """A connection whose short reads pass the SDK by, unless `short` is False."""
    surface, seen = Surface(session.daemon, tools), list[str]()

    async def note(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            seen.append(ctx.params["name"])
        return await call_next(ctx)

    surface.server.middleware.insert(0, note)
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here, limit=2**23)
    far = await asyncio.open_connection(sock=there, limit=2**23)
    own = Session(session.daemon, cwd=session.cwd, by_agent=True, **known)
    reads = ShortReads(own, tools if short else {}, *far)
    serving = asyncio.create_task(surface.serve(reads))
    try:
        yield Wire(era, reader, writer, seen)
    finally:
        writer.close()
        await asyncio.wait_for(serving, 60)
        far[1].close()


async def test_an_answer_has_the_bytes_that_the_sdk_would_send(shop: Session, era: str) -> None:
    unusual: list[dict[str, Any]] = [
        {"id": "text"},
        {"id": 7, "meta": {"progressToken": 7, "host/toolUseId": "x"}},
        {"id": 8, "meta": {"progressToken": True}},
        {"id": 9, "meta": {"progressToken": None}},
        {"id": 10, "meta": {f"{PREFIX}logLevel": "debug"}},
        {"id": 11, "meta": {f"{PREFIX}protocolVersion": "1999-01-01"}},
        {"id": 12, "beside": 1},
        {"id": 2**60},
    ]
    answers = []
    for short in (True, False):
        conversation = f"conversation-{short:d}"
        async with connected(shop, era, short=short, context_id=conversation) as wire:
            await wire.greet()
            found = [await wire.call(name, arguments) for name, arguments in READS]
            found += [await wire.call("get", {"uris": [A]}, **more) for more in unusual]
            found.append(await wire.ask("tools/call", wire.with_envelope({"name": "get", "arguments": [A]}), id=20))
            found.append(await wire.ask("tools/call", wire.with_envelope({"name": "get", "more": 1}), id=21))
            answers.append([line.replace(conversation.encode(), b"conversation") for line in found])
            assert (len(wire.seen) > len(READS)) is not short
    assert answers[0] == answers[1]


async def test_the_sdk_receives_no_short_read_of_a_client_that_it_accepted(shop: Session, era: str) -> None:
    async with connected(shop, era) as wire:
        await wire.greet()
        for name, arguments in READS:
            await wire.call(name, arguments)
        assert not wire.seen
        await wire.call("search", {"query": "text"})
    assert wire.seen == ["search"]


async def test_a_client_that_the_sdk_has_not_accepted_gets_its_refusal(shop: Session) -> None:
    async with connected(shop, "modern") as wire:
        await wire.ask("tools/list", wire.with_envelope({}, {f"{PREFIX}protocolVersion": "1999-01-01"}))
        refused = await wire.call("get", {"uris": [A]}, {f"{PREFIX}protocolVersion": "1999-01-01"})
        assert b"-32022" in refused
    async with connected(shop, "handshake") as wire:
        assert b'"error"' in await wire.call("get", {"uris": [A]})
        await wire.greet()
        wire.era = "modern"
        assert b'"error"' in await wire.call("get", {"uris": [A]})


async def test_a_change_after_a_short_read_names_the_client(shop: Session, era: str) -> None:
    async with connected(shop, era, client="kgd-mcp") as wire:
        await wire.greet()
        await wire.call("get", {"uris": [A]})
        await wire.call("put", {"changes": [upsert(A, summary="new")], "workspace": "shop"})
        assert b"host 1.0" in await wire.call("history", {"workspace": "shop", "limit": 1})


def waits_for(released: threading.Event, started: threading.Event) -> dict[str, Operation]:
    """The usual tools and a short read that waits."""

    def run(session: Session, params: Params) -> dict[str, Any]:
        started.set()
        assert released.wait(20)
        return {"done": True}

    made = Operation("work", "Work", "Works.", Hints(), run, from_memory=lambda s, p: False)
    return {**TOOLS, "work": made}


async def test_a_read_that_waits_delays_no_other(shop: Session, era: str) -> None:
    released, started = threading.Event(), threading.Event()
    async with connected(shop, era, tools=waits_for(released, started)) as wire:
        await wire.greet()
        wire.send("tools/call", wire.with_envelope({"name": "work", "arguments": {}}), id=1)
        assert json.loads(await wire.call("get", {"uris": [A]}, id=2))["id"] == 2
        released.set()
        assert json.loads(await wire.line())["id"] == 1


async def test_a_cancelled_read_is_not_answered(shop: Session, era: str) -> None:
    released, started = threading.Event(), threading.Event()
    async with connected(shop, era, tools=waits_for(released, started)) as wire:
        await wire.greet()
        wire.send("tools/call", wire.with_envelope({"name": "work", "arguments": {}}), id=0)
        await asyncio.to_thread(started.wait, 20)
        wire.send("notifications/cancelled", {"requestId": 0})
        await wire.call("get", {"uris": [A]}, id=1)
        released.set()
        for number in range(2, 5):
            assert json.loads(await wire.call("get", {"uris": [A], "as_of": "HEAD"}, id=number))["id"] == number


async def test_a_read_while_versions_are_counted_delays_no_other(shop: Session, era: str) -> None:
    versions = shop.daemon.workspace("shop")._derived.versions
    async with connected(shop, era) as wire:
        await wire.greet()
        versions.begin()
        try:
            wire.send("tools/call", wire.with_envelope({"name": "get", "arguments": {"uris": [A]}}), id=1)
            assert json.loads(await wire.call("traverse", {"start": [A]}, id=2))["id"] == 2
        finally:
            versions.end()
        assert json.loads(await wire.line())["id"] == 1


async def test_a_client_that_leaves_needs_no_sdk(shop: Session) -> None:
    here, there = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=here)
    far = await asyncio.open_connection(sock=there)
    reads = ShortReads(Session(shop.daemon, by_agent=True), TOOLS, *far)
    wire = Wire("handshake", far[0], writer, [])
    wire.send("initialize", INITIALIZE, id="kgd-replay-first-0")
    writer.close()

    def load() -> asyncio.Future[Any]:
        raise AssertionError

    left = await reads.read_ahead(load, lambda version, method, params: True)
    assert left is None
    far[1].close()


async def test_reads_are_answered_while_the_sdk_is_loaded_and_the_rest_in_order_afterwards(
    shop: Session, era: str
) -> None:
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    far = await asyncio.open_connection(sock=there)
    wire = Wire(era, reader, writer, [])
    reads = ShortReads(Session(shop.daemon, cwd=shop.cwd, by_agent=True), TOOLS, *far)
    loaded: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    asked: list[str] = []

    def known(version: str, method: str, params: Any) -> bool:
        asked.append(method)
        return method in ("initialize", "server/discover")

    begun = asyncio.Event()

    def load() -> asyncio.Future[str | None]:
        begun.set()
        return loaded

    ahead: asyncio.Task[str | None] = asyncio.create_task(reads.read_ahead(load, known))
    if era == "modern":
        wire.send("server/discover", wire.with_envelope({}), id="kgd-replay-first-0")
    else:
        wire.send("initialize", INITIALIZE, id="kgd-replay-first-0")
    answer = json.loads(await wire.call("get", {"uris": [A]}, id=5))
    assert answer["id"] == 5
    assert answer["result"]["structuredContent"]["nodes"][0]["uri"] == A
    wire.send("ping", wire.with_envelope({}), id=6)
    await begun.wait()  # `ping` needs the SDK
    assert json.loads(await wire.call("traverse", {"start": [A]}, id=7))["id"] == 7
    loaded.set_result("loaded")
    assert await ahead == "loaded"
    assert [json.loads(await reads.readline())["id"] for _ in range(2)] == ["kgd-replay-first-0", 6]
    assert len(asked) == 1
    writer.close()
    assert await reads.readline() == b""
    far[1].close()
