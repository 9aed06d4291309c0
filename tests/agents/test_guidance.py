"""Texts for agents: prompts, instructions and the skill name only existing tools, and when to call them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import get_args, get_origin

import pytest
from mcp import Client

from kgd.agents.install import BLOCK, skill
from kgd.cli.commands import VERBS
from kgd.mcp.prompts import INSTRUCTIONS
from kgd.mcp.server import Surface
from kgd.tools import LOCAL, TOOLS, TOOLSETS
from kgd.tools.context.prime import AFTER
from kgd.tools.parameters import input_schema, read
from kgd.tools.session import Session
from kgd.tools.write.put import PutParams
from tests.surfaces.conftest import code, daemon, session

__all__ = ["code", "daemon", "session"]

TEXTS = Path(__file__).parents[2] / "kgd" / "mcp" / "prompts.py"
Connect = Callable[[], AbstractAsyncContextManager[Client]]
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def connect(session: Session) -> Connect:
    surface = Surface(session.daemon)

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        async with Client(surface.server) as client:
            yield client

    return connected


def words_there_are() -> set[str]:
    """Tools, their parameters, the operations they take, and what they answer."""
    every = {**TOOLS, **{name: tool for kit in TOOLSETS.values() for name, tool in kit.items()}, **LOCAL}
    found = set(every) | {"kgd", "unmatchedPaths", "unmatched_paths", "superseded_by"}
    for tool in TOOLS.values():
        schema = input_schema(tool.Params)
        found |= set(schema["properties"])
        found |= {word for field in schema["properties"].values() for word in re.findall(r"\w+", str(field))}
        for part in (get_origin(tool.Result) or tool.Result, *get_args(tool.Result)):
            found |= set(re.findall(r"\w+", str(part.__annotations__)))
    return found


def quoted(text: str) -> set[str]:
    """Single words in backticks."""
    return set(re.findall(r"`([a-z_A-Z]+)`", text))


KINDS = {
    "decision",
    "gotcha",
    "pattern",
    "insight",
    "about",
    "tasks",
    "unverified",
    "code",
    "next",
    "origin",
    "hint",
    "message",
    "at",
    "cut",
    "similar",
    "remaining",
    "broken_links",
}


@pytest.mark.requirement("A18")
def test_the_skill_is_valid_and_names_only_existing_tools() -> None:
    text = skill()
    front = re.match(r"---\nname: kgd\ndescription: >-\n((?:  .*\n)+)---\n", text)
    assert front is not None
    assert len(" ".join(front[1].split())) <= 1_024
    assert quoted(text) - words_there_are() - KINDS == set()
    verbs = {verb.name for verb in VERBS}
    assert {line.split()[0] for line in re.findall(r"`kgd ([^`]+)`", text + BLOCK)} <= verbs
    assert len(text.splitlines()) < 100
    for heading in ("## Discovery", "## Planning", "## Execution"):
        assert heading in text


def test_instructions_and_block_name_only_existing_tools() -> None:
    for text in (INSTRUCTIONS, BLOCK, TEXTS.read_text()):
        assert quoted(text) - words_there_are() - KINDS == set()
    for tool in (
        "context",
        "search",
        "traverse",
        "get",
        "put",
        "history",
        "status",
        "query_graph",
        "manage_graph",
        "manage_changelog",
        "resolve_conflicts",
    ):
        assert f"`{tool}`" in INSTRUCTIONS


def test_the_examples_of_put_can_be_sent_as_they_are() -> None:
    for text in (INSTRUCTIONS, AFTER):
        [example] = re.findall(r'{"changes".*}', text)
        params = read(PutParams, json.loads(example))
        assert isinstance(params, PutParams)
        assert [one.op for one in params.changes] == ["upsert"]


@pytest.mark.requirement("A18")
async def test_there_is_a_prompt_for_each_part_of_the_work(connect: Connect) -> None:
    async with connect() as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert {"discovery", "planning", "execution"} <= prompts.keys()
        for name, calls in {
            "discovery": ("context", "query_graph", "traverse"),
            "planning": ("context", "query_graph", "manage_graph", "put"),
            "execution": ("query_graph", "manage_graph", "manage_changelog", "put"),
        }.items():
            arguments = {one.name: one.required for one in prompts[name].arguments or ()}
            assert arguments == {"task": True, "paths": None, "workspace": None}
            got = await client.get_prompt(
                name, {"task": "Idempotent {webhooks}", "paths": "src/a.py", "workspace": "shop"}
            )
            text = got.messages[0].content.text  # type: ignore[union-attr]
            assert "Idempotent {webhooks}" in text
            assert "src/a.py" in text
            assert "`shop`" in text
            for tool in calls:
                assert f"`{tool}`" in text


async def test_a_prompt_without_its_task_is_refused(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(Exception, match="needs the argument 'task'"):
            await client.get_prompt("planning", {"paths": "src"})
