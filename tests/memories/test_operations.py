"""The operations of the specification: memories are found by their tags, exactly, and by what they connect."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.codec import documents
from kgd.errors import Limit, Stale
from kgd.graph.traverse import traverse
from kgd.mcp.server import Surface
from kgd.model.change import Delete, Edit, Move, Untag
from kgd.tools import TOOLS
from kgd.tools.session import Session
from kgd.workspace.check import check
from kgd.workspace.publishing.adoption import merge
from kgd.workspace.workspace import Workspace
from tests.builders import change, to, upsert, uri
from tests.surfaces.conftest import Ask

TYPES = ("task", "decision", "pattern", "gotcha", "insight")

EXAMPLE: list[dict[str, Any]] = [
    {
        "op": "upsert",
        "uri": "task://shop/task-001",
        "tags": ["auth", "api", "jwt"],
        "summary": "Implemented JWT authentication flow",
        "relations": [{"type": "connected_to", "target": "decision://shop/decision-001"}],
    },
    {"op": "upsert", "uri": "task://shop/task-003", "summary": "Payments"},
    {
        "op": "upsert",
        "uri": "decision://shop/decision-001",
        "tags": ["database", "architecture", "postgresql"],
        "summary": "Chose PostgreSQL over SQLite for concurrent write support",
        "data": {"created": "2024-12-10", "file": "memories/2024-12-10-database-choice.md"},
        "detail": "# Decision: Database Selection\n\n## Decision\nChose PostgreSQL.\n",
        "relations": [{"type": "connected_to", "target": "task://shop/task-001"}],
    },
    {
        "op": "upsert",
        "uri": "pattern://shop/pattern-001",
        "tags": ["error-handling", "api", "convention"],
        "summary": "All API errors use ErrorResponse class with code, message, details",
    },
    {
        "op": "upsert",
        "uri": "gotcha://shop/gotcha-001",
        "tags": ["rate-limit", "api", "external"],
        "summary": "External payment API rate limit is 100/min, not 1000/min as documented",
        "detail": "Measured on 2024-12-09.\n",
        "relations": [{"type": "connected_to", "target": "task://shop/task-003"}],
    },
]
"""The knowledge graph of the specification."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def connected(session: Session) -> AsyncIterator[Any]:
    async with Client(Surface(session.daemon, TOOLS).server) as client:

        async def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, {"workspace": "shop", **arguments})
            assert isinstance(result, CallToolResult)
            assert not result.is_error, result
            return dict(result.structured_content or {})

        yield call


@pytest.mark.anyio
@pytest.mark.requirement("M1", "M2", "M4", "M6", "M10")
async def test_the_example_of_the_specification_is_recorded_found_and_read(session: Session) -> None:
    async with connected(session) as call:
        await call("put", changes=EXAMPLE)
        found = await call("search", tags=["api", "rate-limit", "jwt"])
        assert [hit["uri"].rpartition("/")[2] for hit in found["hits"]] == ["gotcha-001", "task-001", "pattern-001"]
        assert all("content" not in hit and "detail" not in hit for hit in found["hits"])
        walk = await call(
            "traverse", start="task://shop/task-001", max_cost=None, max_depth=1, edge_types=["connected_to"]
        )
        assert [node["uri"] for node in walk["nodes"]] == ["task://shop/task-001", "decision://shop/decision-001"]
        (plain,) = (await call("get", uris=["decision://shop/decision-001"], include=["relations"]))["nodes"]
        assert "detail" not in plain
        (full,) = (await call("get", uris=["decision://shop/decision-001"]))["nodes"]
        assert full["detail"] == {
            "file": "memories/2024-12-10-database-choice.md",
            "text": "# Decision: Database Selection\n\n## Decision\nChose PostgreSQL.",
        }
        assert full["tags"] == ["architecture", "database", "postgresql"]
        assert full["created"]["at"].startswith("20")


@pytest.mark.requirement("M10")
def test_a_long_detail_is_read_in_pages(ask: Ask) -> None:
    text = "\n\n".join(f"{number}. " + "word " * 60 for number in range(200))
    uris = ["decision://shop/long", "decision://shop/short"]
    ask.put(
        changes=[
            {"op": "upsert", "uri": uris[0], "content": "c" * 9_000, "detail": text},
            {
                "op": "upsert",
                "uri": uris[1],
                "detail": "brief",
                "relations": [{"type": "connected_to", "target": uris[0]}],
            },
        ]
    )
    read: dict[str, dict[str, str]] = {one: {"content": "", "detail": ""} for one in uris}
    cursor, pages = None, 0
    while True:
        page = ask.get(uris=uris, cursor=cursor, budget=2_000)
        for node in page["nodes"]:
            read[node["uri"]]["content"] += node.get("content", "")
            read[node["uri"]]["detail"] += node.get("detail", {}).get("text", "")
        cursor, pages = page.get("cursor"), pages + 1
        if not cursor:
            break
    assert read == {
        uris[0]: {"content": "c" * 9_000, "detail": text.strip("\n")},
        uris[1]: {"content": "", "detail": "brief"},
    }
    assert 5 < pages < 50


@pytest.mark.requirement("M1")
def test_tags_of_memories_are_lowercase_and_their_summary_is_one_sentence(ws: Workspace) -> None:
    for kind in TYPES:
        ws.submit(change(upsert(f"{kind}://ws/a", tags=("API", "api", "JWT"), summary="x" * 100)))
        node = ws.node(uri(f"{kind}://ws/a"))
        assert node is not None
        assert node.tags == ("api", "jwt")
        with pytest.raises(Limit, match="100"):
            ws.submit(change(upsert(f"{kind}://ws/b", summary="x" * 101)))
    ws.submit(change(upsert("a", tags=("API",))))
    node = ws.node(uri("a"))
    assert node is not None
    assert node.tags == ("API",)


@pytest.mark.requirement("M2")
def test_tags_rank_by_matches_then_the_newest_then_the_uri_and_ten_are_answered(ws: Workspace) -> None:
    names = [f"insight://ws/n{number:02}" for number in range(12)]
    for name in names:
        ws.submit(change(upsert(name, tags=("common", "other"))))
    ws.submit(change(upsert("gotcha://ws/both", tags=("common", "rare"))))
    ws.submit(change(upsert("insight://ws/none", tags=("elsewhere",))))
    found = [hit.uri for hit in ws.text().by_tags(["Common", "rare"], limit=10)]
    assert len(found) == 10
    assert found[0] == "gotcha://ws/both"
    assert len(ws.text().by_tags(["common", "rare"], limit=100)) == 13
    stamps = {name: ws.node_version(uri(name)).updated_at for name in names}  # type: ignore[union-attr]
    assert [str(one) for one in found[1:]] == sorted(names, key=lambda name: (-stamps[name], name))[:9]


@pytest.mark.requirement("M4")
def test_connected_nodes_are_those_to_a_depth_each_once_and_without_the_start(ws: Workspace) -> None:
    ring = [f"task://ws/t{number}" for number in range(5)]
    ws.submit(
        change(
            *(
                upsert(one, to(after, "connected_to", weight), to(one, "connected_to"), to("decision://ws/d", "other"))
                for one, after, weight in zip(ring, [*ring[1:], ring[0]], [0.0, 1.0, 1.0, 0.5, 1.0], strict=True)
            )
        )
    )
    for depth, reached in ((0, 1), (1, 2), (3, 4), (99, 5)):
        walk = traverse([ws.graph], uri(ring[0]), max_cost=None, max_depth=depth, edge_types=["connected_to"])
        assert {node.uri for node in walk.nodes} == set(ring[:reached])
        assert len(walk.nodes) == reached


@pytest.mark.requirement("M3")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_the_tag_index_is_exact_after_any_updates_moves_deletions_and_merges(ws: Workspace, seed: int) -> None:
    chance = random.Random(seed)
    words = [f"tag{number}" for number in range(6)]
    names = [f"{kind}://ws/{number}" for kind in TYPES for number in range(3)]
    old = ws.tip
    for step in range(40):
        there = [str(one) for one in ws.graph.uris()]
        one = chance.choice(there or names)
        edits: list[Edit] = [upsert(chance.choice(names), tags=tuple(chance.sample(words, 2)))]
        kind = chance.random()
        if kind < 0.15 and there:
            edits = [Delete(uri(one))]
        elif kind < 0.35 and there:
            edits = [Untag(uri(one), (chance.choice(words).upper(), chance.choice(words)))]
        elif kind < 0.45 and there and (free := [name for name in names if name not in there]):
            edits = [Move(uri(one), uri(chance.choice(free)))]
        elif kind < 0.6:
            edits = [
                upsert(chance.choice(names), tags=(chance.choice(words),), detail=f"prose {step}", unset=("tags",))
            ]
        with contextlib.suppress(Stale):  # there is a detail already
            ws.submit(change(*edits))
        if step % 13 == 12:
            ws.run(merge(ws, elsewhere(ws, old, f"insight://ws/m{step}", chance.choice(words))))
            old = ws.tip
    model = {
        tag: {one for one in ws.graph.uris() if tag in (ws.node(one).tags if ws.node(one) else ())}  # type: ignore[union-attr]
        for tag in words
    }
    for tag in words:
        assert {hit.uri for hit in ws.text().by_tags([tag], limit=1_000)} == model[tag]
    assert any(model.values())
    assert [one for one in check(ws) if one.level != "warning"] == []


def elsewhere(ws: Workspace, base: str, name: str, tag: str) -> bytes:
    """A commit on an older tip: another memory with a tag."""
    data = documents.encode(documents.decode(f"uri: {name}\ntags:\n- {tag}\n".encode()))
    where = ws.layout.git_dir
    world = {**os.environ, "GIT_INDEX_FILE": str(where / "test-index"), "GIT_DIR": str(where)}

    def git(*words: str, input: bytes = b"") -> str:
        return subprocess.run(["git", *words], env=world, input=input, capture_output=True, check=True).stdout.decode()

    git("read-tree", base)
    blob = git("hash-object", "-w", "--stdin", input=data).strip()
    git("update-index", "--add", "--cacheinfo", f"100644,{blob},{ws.path(uri(name))}")
    return bytes.fromhex(git("commit-tree", git("write-tree").strip(), "-p", base, "-m", "elsewhere").strip())


@pytest.mark.requirement("M6")
def test_a_new_memory_has_keywords_as_tags_and_its_detail_in_a_file(ask: Ask) -> None:
    text = "External payment API rate limit is 100/min, not 1000/min as documented"
    done = ask.remember(text=text, type="gotcha", detail="Measured twice.\n", about=["src/checkout.py"])
    (name,) = [one["uri"] for one in done["nodes"] if one["uri"].startswith("gotcha:")]
    (node,) = ask.get(uris=[name])["nodes"]
    assert {"rate-limit", "payment", "api"} <= set(node["tags"])
    assert node["summary"] == text
    assert node["detail"]["text"] == "Measured twice."
    assert [hit["uri"] for hit in ask.search(tags=["rate-limit"])["hits"]] == [name]
    assert ask.remember(text=text, type="gotcha", detail="Measured twice.\n")["commit"] is None
    tagged = ask.remember(text="Tags that are given are the tags", tags=["Mine"])
    assert ask.get(uris=[tagged["created"][0]])["nodes"][0]["tags"] == ["mine"]
