"""Real clients in real processes: the official SDK in both modes, an old one, Inspector and the conformance tool."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests import forked
from tests.ports import free_port
from tests.surfaces.conftest import git, make_code, upsert
from tests.waiting import until

ROOT = Path(__file__).parents[2]
KGD = [sys.executable, "-m", "kgd.cli"]
TOOLS = [
    "search",
    "get",
    "traverse",
    "context",
    "query_graph",
    "manage_graph",
    "manage_changelog",
    "put",
    "history",
    "status",
    "ingest",
    "sync",
    "resolve_conflicts",
    "submit_subgraph",
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def kgd(directory: Path, *arguments: str) -> str:
    done = forked.run(arguments, directory, environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """A code repository with a workspace, and a daemon that ends with the test."""
    code = make_code(tmp_path / "shop")
    kgd(code, "up", "--quiet")
    yield code
    kgd(code, "down", "--quiet")


def through_pump(code: Path, mode: Literal["auto", "legacy"] = "auto") -> Client:
    parameters = StdioServerParameters(command=KGD[0], args=[*KGD[1:], "mcp"], cwd=code, env=environment())
    return Client(stdio_client(parameters), mode=mode)


async def ask(client: Client, name: str, **arguments: Any) -> Any:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.structured_content
    return answer.structured_content


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.requirement("B1")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_answers_through_kgd_mcp(shop: Path, mode: Literal["auto", "legacy"]) -> None:
    async with through_pump(shop, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        relation = {"type": "in", "target": "./src/auth", "weight": 0}
        put = await ask(client, "put", changes=upsert("auth", summary="zebra", relations=relation), message="why")
        assert (await ask(client, "get", uris="auth"))["nodes"][0]["version"] == 1
        walk = await ask(client, "traverse", start="auth")
        assert "file://shop/src/auth/keys.py" in [node["uri"] for node in walk["nodes"]]
        assert (await ask(client, "search", query="zebra"))["hits"][0]["uri"] == "concept://shop/auth"
        assert (await ask(client, "history", uri="auth"))["commits"][0]["commit"] == put["commit"]
        assert (await ask(client, "ingest"))["counts"]["files"] == 6
        assert (await ask(client, "status"))["workspace"]["id"] == "shop"


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.requirement("B2")
async def test_what_one_client_remembered_another_recalls_after_the_daemon_was_killed(shop: Path) -> None:
    async with through_pump(shop) as client:
        put = await ask(client, "put", changes=upsert("auth", summary="survives"))
        cursor = (await ask(client, "traverse", start=".", max_cost=None, max_nodes=2))["cursor"]
        pid = (await ask(client, "status"))["daemon"]["pid"]
    os.kill(pid, 9)
    async with through_pump(shop, "legacy") as client:
        answer = await ask(client, "get", uris="auth")
        assert (answer["nodes"][0]["summary"], answer["nodes"][0]["version"]) == ("survives", 1)
        more = await ask(client, "traverse", start=".", max_cost=None, max_nodes=2, cursor=cursor)
        assert len(more["nodes"]) == 2
        assert (await ask(client, "status"))["daemon"]["pid"] != pid
    log = git(shop / ".kgd", "log", "--format=%H", "refs/kgd/head")
    assert put["commit"] in log.split()


@pytest.mark.slow
@pytest.mark.anyio
async def test_two_clients_at_a_time_in_two_eras_share_one_daemon(shop: Path) -> None:
    async with through_pump(shop) as one, through_pump(shop, "legacy") as two:
        async with one.listen(resource_subscriptions=["kgd://shop/nodes/concept://shop/a"]) as events:
            await ask(two, "put", changes=upsert("a", summary="from two"))
            async for event in events:
                assert event.uri == "kgd://shop/nodes/concept://shop/a"  # type: ignore[union-attr]
                break
        assert (await ask(one, "get", uris="a"))["nodes"][0]["summary"] == "from two"
        pids = [(await ask(client, "status"))["daemon"]["pid"] for client in (one, two)]
        assert pids[0] == pids[1]


OLD_CLIENT = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main(command, *args):
    async with stdio_client(StdioServerParameters(command=command, args=list(args), env=dict(os.environ))) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            change = {"op": "upsert", "uri": "old", "summary": "by an old client"}
            answers = {}
            for name, arguments in [("put", {"changes": [change]}), ("get", {"uris": ["old"]}),
                                    ("traverse", {"start": ["old"]}), ("search", {"query": "client"}),
                                    ("history", {"uri": "old"})]:
                result = await session.call_tool(name, arguments)
                assert not result.isError, result
                assert result.structuredContent
                if name not in ("get", "traverse", "search"):  # those answer models in Markdown
                    assert json.loads(result.content[0].text) == result.structuredContent
                answers[name] = result.structuredContent
            refused = await session.call_tool("get", {"uris": ["old"], "surprise": 1})
            print(json.dumps([names, answers, refused.isError]))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.needs("mcp1")
def test_an_old_client_does_the_same(shop: Path) -> None:
    python = ROOT / ".venv-mcp1/bin/python"
    done = subprocess.run(
        [python, "-c", OLD_CLIENT, *KGD, "mcp"], cwd=shop, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    names, answers, was_refused = json.loads(done.stdout)
    assert names == TOOLS
    assert answers["get"]["nodes"][0]["summary"] == "by an old client"
    assert was_refused


def with_node() -> dict[str, str]:
    """The Node that `make test-deps` installs; the system's may be too old for these programs."""
    bin = ROOT / "node_modules/.bin"
    return {**environment(), "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}


def inspect(code: Path, *arguments: str) -> Any:
    # It passes on only the variables that -e names; --tool-arg takes everything up to the next option.
    named = [part for name in ("KGD_HOME", "PYTHONPATH") for part in ("-e", f"{name}={environment()[name]}")]
    command = ["mcp-inspector", "--cli", *arguments, *named, "--format", "json", "--quiet", *KGD, "mcp"]
    done = subprocess.run(command, cwd=code, env=with_node(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.needs("node22")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_lists_the_tools_without_errors_and_calls_them(shop: Path, era: str) -> None:
    listed = inspect(shop, "--protocol-era", era, "--strict", "--method", "tools/list")
    assert [tool["name"] for tool in found(listed, "tools")] == TOOLS
    calls = {
        "put": ["changes=" + json.dumps([upsert("a", summary="inspected")])],
        "get": ['uris=["a"]'],
        "traverse": ['start=["a"]'],
        "search": ["query=inspected"],
        "history": ["uri=a"],
    }
    for name, arguments in calls.items():
        passed = [part for argument in arguments for part in ("--tool-arg", argument)]
        answer = inspect(shop, "--protocol-era", era, "--method", "tools/call", "--tool-name", name, *passed)
        assert "inspected" in json.dumps(answer) or name in ("put", "history"), answer


def found(answer: Any, key: str) -> Any:
    """The value under `key`, which Inspector versions put at different places."""
    if isinstance(answer, dict):
        return answer[key] if key in answer else next((v for v in (found(a, key) for a in answer.values()) if v), None)
    return None


ASKS_PEOPLE = "elicits from a person; kgd asks models only, with sampling"
NOT_APPLICABLE = {
    "2025-11-25": {
        "tools-call-elicitation": ASKS_PEOPLE,
        "elicitation-sep1034-defaults": ASKS_PEOPLE,
        "elicitation-sep1330-enums": ASKS_PEOPLE,
        "server-sse-polling": "a tool closes its own stream; kgd's answer in the stream they were asked in",
    },
    "2026-07-28": {
        "http-custom-header-server-validation": "needs a tool with x-mcp-header; kgd's take no header",
        "input-required-result-basic-elicitation": ASKS_PEOPLE,
        "input-required-result-request-state": ASKS_PEOPLE,
        "input-required-result-result-type": ASKS_PEOPLE,
        "input-required-result-multi-round": f"{ASKS_PEOPLE}, in one round",
        "input-required-result-multiple-input-requests": ASKS_PEOPLE,
        "input-required-result-basic-list-roots": "roots are asked for on local connections only, and this one is HTTP",
        "input-required-result-non-tool-request": "a prompt asks back; kgd's tools alone do",
    },
}
"""The failing server scenarios of each protocol version, with the reason why they do not apply."""


@pytest.mark.slow
@pytest.mark.needs("node22")
@pytest.mark.parametrize("version", NOT_APPLICABLE)
def test_every_scenario_of_the_conformance_tool_that_applies_passes(tmp_path: Path, version: str) -> None:
    port = free_port()
    program = [sys.executable, "-m", "tests.surfaces.open_server", str(tmp_path), str(port)]
    server = subprocess.Popen(program, env=environment())
    try:
        until(lambda: listens(port))
        command = [
            "conformance",
            "server",
            "--url",
            f"http://127.0.0.1:{port}/mcp",
            "--suite",
            "all",
            "--spec-version",
            version,
        ]
        done = subprocess.run(command, cwd=tmp_path, env=with_node(), capture_output=True, text=True, timeout=110)
    finally:
        server.terminate()
        server.wait(10)
    _, summary, lines = done.stdout.partition("=== SUMMARY ===")
    assert summary, done.stdout + done.stderr
    outcomes = re.findall(r"^(✓|✗) ([\w-]+):", lines, re.MULTILINE)
    assert len(outcomes) > 30, lines
    assert {name for mark, name in outcomes if mark == "✗"} == set(NOT_APPLICABLE[version]), done.stdout


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
