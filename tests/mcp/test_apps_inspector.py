"""The MCP Inspector, a host's tool of others, finds the page of the graph and its tool without a complaint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.test_clients import KGD, environment, found, shop, with_node

__all__ = ["shop"]


def inspect(code: Path, *arguments: str) -> Any:
    named = [part for name in ("KGD_HOME", "PYTHONPATH") for part in ("-e", f"{name}={environment()[name]}")]
    command = [
        "mcp-inspector",
        "--cli",
        *arguments,
        *named,
        "--format",
        "json",
        "--quiet",
        *KGD,
        "mcp",
        "--tools=apps",
    ]
    done = subprocess.run(command, cwd=code, env=with_node(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.needs("node22")
def test_the_inspector_finds_the_page_of_the_graph(shop: Path) -> None:
    told = inspect(shop, "--method", "tools/list", "--strict")
    tools = {tool["name"]: tool for tool in found(told, "tools")}
    assert tools["graph_view"]["_meta"]["ui"]["resourceUri"] == "ui://kgd/graph.html"
    app = inspect(shop, "--app-info", "--tool-name", "graph_view", "--method", "tools/call")
    assert found(app, "hasApp") is True
    assert found(app, "resourceMimeType") == "text/html;profile=mcp-app"
