"""The same with a client of another make: the old SDK, which knows no rounds, through the pump and over HTTP."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from kgd.tools.session import Session
from tests.mcp.conftest import KGD, ROOT, TOKEN, Machine, over_http

pytestmark = [pytest.mark.anyio, pytest.mark.needs("mcp1")]

CLIENT = """
import asyncio, json, os, sys
from contextlib import asynccontextmanager
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

async def model(context, params):
    text = json.dumps({"summary": {"value": "one and three"}})
    return types.CreateMessageResult(role="assistant", model="old-model",
                                     content=types.TextContent(type="text", text=text))

@asynccontextmanager
async def streams(way, *args):
    if way == "http":
        url, token = args
        async with streamablehttp_client(url, headers={"authorization": "Bearer " + token}) as (read, write, _):
            yield read, write
    else:
        parameters = StdioServerParameters(command=args[0], args=list(args[1:]), env=dict(os.environ))
        async with stdio_client(parameters) as pair:
            yield pair

async def main(*args):
    async with streams(*args) as pair, ClientSession(*pair, sampling_callback=model) as session:
        await session.initialize()
        async def call(name, **arguments):
            result = await session.call_tool(name, {"workspace": "shop", **arguments})
            assert not result.isError, result
            return result.structuredContent
        uri, commits = "concept://shop/old-client", []
        for summary in ("one", "two", "three"):
            change = {"op": "upsert", "uri": uri, "summary": summary}
            commits.append((await call("put", changes=[change]))["commit"])
        await call("put", changes=[{"op": "revert", "commit": commits[1]}], conflicts="show")
        answer = await call("resolve_conflicts", ids=[uri])
        found = await call("get", uris=[uri])
        print(json.dumps([answer, found["nodes"][0]]))

asyncio.run(main(*sys.argv[1:]))
"""


def run(machine_environment: dict[str, str] | None, cwd: Path, *arguments: str) -> None:
    python = ROOT / ".venv-mcp1/bin/python"
    done = subprocess.run(
        [python, "-c", CLIENT, *arguments],
        cwd=cwd,
        env=machine_environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer, found = json.loads(done.stdout)
    assert [(one["by"], one["model"]) for one in answer["resolved"]] == [("sampling", "old-model")]
    assert found["summary"] == "one and three"
    assert "conflicts" not in found


@pytest.mark.slow
def test_an_old_clients_model_settles_through_the_pump(machine: Machine) -> None:
    run(machine.environment, machine.code, "stdio", *KGD, "mcp")


@pytest.mark.slow
async def test_an_old_clients_model_settles_over_http(session: Session, code: Path) -> None:
    async with over_http(session) as place:
        await anyio.to_thread.run_sync(run, None, code, "http", f"{place.url}/mcp", TOKEN)
