"""The entries in the hosts' files work: each server answers, and each start hook prints knowledge."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kgd.agents import jsonc
from kgd.agents.entries import hook
from tests.cli.conftest import Kgd, code, kgd, module_home
from tests.daemon.conftest import ROOT
from tests.e2e.lean import LeanClient

__all__ = ["code", "kgd", "module_home"]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `kgd` that is this very code, as an installed one would be."""
    program = tmp_path / "bin" / "kgd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m kgd.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def load(path: Path) -> Any:
    return tomllib.loads(path.read_text()) if path.suffix == ".toml" else jsonc.parse(path.read_text()).data


SERVERS = {
    ".mcp.json": "mcpServers",
    ".cursor/mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers",
    ".codex/config.toml": "mcp_servers",
}


@pytest.mark.slow
@pytest.mark.requirement("A18")
def test_every_entry_that_is_written_works(kgd: Kgd, on_path: None) -> None:
    kgd("remember", "Never retry a charge", "--type", "gotcha")
    root = kgd.directory
    for clients in ("claude,cursor,codex", "vscode"):
        kgd("agents", "install", "--client", clients)
    commands = []
    for name, key in SERVERS.items():
        server = load(root / name)[key]["kgd"]
        with LeanClient([server["command"], *server["args"]], root) as client:
            assert client.call("status")["workspace"]["id"] == "shop"
            assert client.call("context", question="charge")["items"]
    for name in (".claude/settings.json", ".codex/hooks.json"):
        commands += [one["command"] for group in load(root / name)["hooks"]["SessionStart"] for one in group["hooks"]]
    commands += [one["command"] for one in load(root / ".github/hooks/kgd.json")["hooks"]["SessionStart"]]
    for command in commands:
        said = json.loads(run(command, root))["hookSpecificOutput"]
        assert said["hookEventName"] == "SessionStart"
        assert "Never retry a charge" in said["additionalContext"]
    (cursor,) = load(root / ".cursor/hooks.json")["hooks"]["sessionStart"]
    assert "Never retry a charge" in json.loads(run(cursor["command"], root))["additional_context"]
    for clients in ("claude,cursor,codex", "vscode"):
        kgd("agents", "uninstall", "--client", clients)
    assert sorted(path.name for path in root.iterdir()) == [".git", ".kgd", "src"]


def test_the_start_hook_of_a_colleague_without_kgd_stops_nothing(tmp_path: Path) -> None:
    assert run(hook("kgd-that-is-not-there"), tmp_path) == ""


def run(command: str, directory: Path) -> str:
    """As a host does: through a shell, with something on standard input."""
    done = subprocess.run(["sh", "-c", command], cwd=directory, input="{}", capture_output=True, text=True, check=True)
    return done.stdout
