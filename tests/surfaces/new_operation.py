"""An operation that only one new file declares, on every surface. `tests/test_extending.py` adds the file to a copy of
the code and runs this file there."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client

from kgd.cli import commands
from kgd.config import Home
from kgd.hub import openapi
from kgd.mcp.server import Surface
from kgd.tools import SERVED, TOOLSETS
from tests.cli.conftest import Kgd
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.surfaces.conftest import Ask, upsert


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_programs_call_it(ask: Ask) -> None:
    ask.put(changes=[upsert("a"), upsert("b"), upsert("task:c", type="task")])
    assert ask.count_types()["types"] == {"concept": 2, "task": 1}


@pytest.mark.anyio
async def test_agents_that_have_its_toolset_call_it(ask: Ask) -> None:
    ask.put(changes=upsert("a"))
    async with Client(Surface(ask.session.daemon, TOOLSETS["tasks"]).server) as client:
        assert "count_types" in [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("count_types", {"workspace": "shop"})
    assert answer.structured_content == {"workspace": "shop", "types": {"concept": 1}}


def test_holders_of_tokens_call_it_over_http() -> None:
    assert "/v1/{workspace}/count_types" in openapi.document(SERVED)["paths"]


def test_the_manual_and_the_help_have_it() -> None:
    assert "### `count_types`: Count types" in (ROOT / "docs/mcp.md").read_text()
    assert "count_types" in [verb.name for verb in commands.VERBS]


def test_the_command_line_prints_its_answer(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = Kgd(code, Home.find())
    program("up", "--quiet")
    program("put", "a", "--summary", "s")
    assert "1 concept" in program("count_types")
    end_daemon(program.home)
