"""Three ways to one workspace with conflicts in it, and clients whose model answers, refuses, hangs or attacks."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageRequestParams, CreateMessageResult, ErrorData, ImageContent, TextContent

from kgd.mcp.http import HttpServer
from kgd.mcp.server import Surface
from kgd.tools import TOOLS
from kgd.tools.session import Session
from tests import forked
from tests.ports import free_port
from tests.surfaces.conftest import code, daemon, make_code, session, upsert

__all__ = ["code", "daemon", "session"]

ROOT = Path(__file__).parents[2]
KGD = [sys.executable, "-m", "kgd.cli"]
TOKEN = "t" * 40
Mode = Literal["auto", "legacy"]
numbers = itertools.count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Model:
    """Replaces a client's language model, and records its questions."""

    def __init__(self, text: str = "{}", *, behaves: str = "answers", name: str = "test-model") -> None:
        self.text, self.behaves, self.name = text, behaves, name
        self.asked: list[CreateMessageRequestParams] = []
        self.was_asked = anyio.Event()

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        self.asked.append(params)
        self.was_asked.set()
        if self.behaves == "hangs":
            await anyio.sleep_forever()
        if self.behaves == "refuses":
            return ErrorData(code=-1, message="User rejected sampling request")
        if self.behaves == "draws":
            picture = ImageContent(type="image", data="aGk=", mime_type="image/png")
            return CreateMessageResult(role="assistant", model=self.name, content=picture)
        stop = "maxTokens" if self.behaves == "is cut" else "endTurn"
        content = TextContent(type="text", text=self.text)
        return CreateMessageResult(role="assistant", model=self.name, content=content, stop_reason=stop)


class Place:
    """One way to a workspace `shop`; `client` connects anew."""

    def __init__(self, connect: Any, url: str = "") -> None:
        self._connect, self.url = connect, url

    def client(self, mode: Mode = "auto", model: Model | None = None) -> Any:
        return self._connect(mode, model)


@asynccontextmanager
async def in_memory(session: Session, patience: float | None = None) -> AsyncIterator[Place]:
    surface = Surface(session.daemon, patience=patience)
    yield Place(lambda mode, model: Client(surface.server, mode=mode, sampling_callback=model))


@asynccontextmanager
async def over_http(session: Session, patience: float | None = None) -> AsyncIterator[Place]:
    server = HttpServer(Surface(session.daemon, patience=patience), TOKEN, port := free_port())
    serving = asyncio.create_task(server.serve())
    with anyio.fail_after(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
            await anyio.sleep(0.01)

    @asynccontextmanager
    async def connect(mode: Mode, model: Model | None) -> AsyncIterator[Client]:
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as web:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=web)
            async with Client(transport, mode=mode, sampling_callback=model) as client:
                yield client

    try:
        yield Place(connect, f"http://127.0.0.1:{port}")
    finally:
        server.stop()
        await asyncio.wait_for(serving, 60)


class Machine:
    """A code repository with a workspace `shop`, and a home whose daemon is a process of its own."""

    def __init__(self, root: Path) -> None:
        self.code, self.home = make_code(root / "shop"), root / "home"
        self.home.mkdir()
        (self.home / "workspaces.yaml").write_text("settings:\n  resolver_seconds: 60\n")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "KGD_HOME": str(self.home)}

    def kgd(self, *words: str) -> str:
        done = forked.run(words, self.code, self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def set_patience(self, seconds: int) -> None:
        settings = self.home / "workspaces.yaml"
        settings.write_text(re.sub(r"(?<=resolver_seconds: )\d+", str(seconds), settings.read_text()))

    @property
    def place(self) -> Place:
        parameters = StdioServerParameters(command=KGD[0], args=[*KGD[1:], "mcp"], cwd=self.code, env=self.environment)
        return Place(lambda mode, model: Client(stdio_client(parameters), mode=mode, sampling_callback=model))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One daemon for all tests of a file; each has nodes of its own."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    made.kgd("up", "--quiet")
    yield made
    made.kgd("down", "--quiet")


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, {"workspace": "shop", **arguments})
    assert not result.is_error, result.structured_content
    assert result.structured_content is not None
    assert result.content[0].text == TOOLS[name].text(result.structured_content)  # type: ignore[union-attr]
    return dict(result.structured_content)


async def disagree(client: Client, field: str = "summary", values: tuple[Any, ...] = ("one", "two", "three")) -> str:
    """The URI of a node with an open conflict over one field: a change is reverted after a later one."""
    uri, commits = f"concept://shop/n{next(numbers)}", []
    for expected, value in enumerate(values):
        change = upsert(uri, **{field: value}, **({"expect_version": expected} if expected else {}))
        commits.append((await call(client, "put", changes=change, conflicts="show"))["commit"])
    await call(client, "put", changes={"op": "revert", "commit": commits[1]}, conflicts="show")
    assert len((await node(client, uri))["conflicts"]) == 1
    return uri


async def node(client: Client, uri: str) -> dict[str, Any]:
    found: dict[str, Any] = (await call(client, "get", uris=uri))["nodes"][0]
    return found


async def commits(client: Client) -> int:
    return len((await call(client, "history", limit=200))["commits"])
