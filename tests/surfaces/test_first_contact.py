"""The first answers of `kgd mcp` without a daemon: the same bytes as the daemon's, in both protocol eras."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.client import first_answers
from kgd.config import Home
from tests.surfaces.test_clients import KGD, environment, kgd

CLIENT = {"name": "host", "version": "1.0"}
LISTS = ["tools/list", "prompts/list", "resources/templates/list"]
Conversation = list[dict[str, Any]]


def legacy(version: str) -> Conversation:
    """The handshake, and the lists of which hosts ask all."""
    greeting = {"protocolVersion": version, "capabilities": {"roots": {}, "sampling": {}}, "clientInfo": CLIENT}
    return [
        {"id": 0, "method": "initialize", "params": greeting},
        {"method": "notifications/initialized"},
        *({"id": f"list-{number}", "method": method} for number, method in enumerate(LISTS)),
        {"id": 9, "method": "tools/list", "params": {}},
    ]


def modern() -> Conversation:
    """The same in the protocol without a handshake."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientInfo": CLIENT,
        f"{prefix}clientCapabilities": {},
    }
    return [
        {"id": number, "method": method, "params": {"_meta": meta}}
        for number, method in enumerate(["server/discover", *LISTS])
    ]


ERAS = {
    "2024-11-05": legacy("2024-11-05"),
    "2025-06-18": legacy("2025-06-18"),
    "2025-11-25": legacy("2025-11-25"),
    "2026-07-28": modern(),
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """The home of a machine on which no daemon has run. It stays without workspaces."""
    yield Home.find()
    kgd(tmp_path, "down", "--quiet")


class Host:
    """One `kgd mcp`, whose answers are kept as bytes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*KGD, "mcp", *arguments], cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, message: dict[str, Any]) -> bytes:
        """The line of the answer; empty for a notification."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() if "id" in message else b""

    def close(self) -> None:
        self.process.communicate(timeout=30)


def answers(folder: Path, conversation: Conversation, *arguments: str) -> list[bytes]:
    host = Host(folder, *arguments)
    try:
        return [host.ask(message) for message in conversation]
    finally:
        host.close()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--tools", "tasks,server-memory"]], ids=["usual", "toolsets"])
def test_the_file_has_the_same_bytes_as_the_daemon_in_both_eras(
    tmp_path: Path, home: Home, arguments: list[str]
) -> None:
    """Answers come from a running daemon first. Later no daemon can start, so they come from the file."""
    by_daemon = {era: answers(tmp_path, asked, *arguments) for era, asked in ERAS.items()}
    for lines in by_daemon.values():
        assert all(b'"result":' in line for line in lines if line)
    kgd(tmp_path, "down", "--quiet")
    os.mkdir(home.socket)
    try:
        by_file = {era: answers(tmp_path, asked, *arguments) for era, asked in ERAS.items()}
        refused = answers(tmp_path, [*ERAS["2025-06-18"], {"id": 10, "method": "resources/list"}], *arguments)
    finally:
        os.rmdir(home.socket)
    assert by_file == by_daemon
    assert b"the kgd daemon ended during startup" in refused[-1]
    told = answers(tmp_path, [*ERAS["2025-06-18"], {"id": 10, "method": "resources/list"}], *arguments)
    assert told[:-1] == by_daemon["2025-06-18"]
    assert b'"id":10,"result"' in told[-1], "the daemon that started meanwhile changed nothing for the host"


@pytest.mark.slow
def test_a_setting_that_changed_without_a_daemon_is_not_overlooked(tmp_path: Path, home: Home) -> None:
    before = answers(tmp_path, ERAS["2025-06-18"])
    kgd(tmp_path, "down", "--quiet")
    Path(home.registry).write_text("settings:\n  tools: tasks\n")
    after = answers(tmp_path, ERAS["2025-06-18"])
    assert after[-1] != before[-1]
    kept = first_answers.read(home, first_answers.installation())
    assert kept
    assert (kept.usual, kept.registry) == ("tasks", first_answers.registry_stamp(home))


@pytest.mark.slow
def test_a_workspace_that_was_made_since_keeps_the_file_in_use(tmp_path: Path, home: Home) -> None:
    """`kgd up` writes the registry file, which has the settings. The daemon then confirms them."""
    answers(tmp_path, ERAS["2025-06-18"])
    (tmp_path / "notes").mkdir()
    kgd(tmp_path / "notes", "up", "--quiet")
    kgd(tmp_path, "down", "--quiet")
    kept = first_answers.read(home, first_answers.installation())
    assert kept
    assert kept.registry == first_answers.registry_stamp(home) is not None


@pytest.mark.slow
def test_the_daemon_listens_before_it_imports_the_library_the_sdk_and_the_pages() -> None:
    late = {"kgd.api", "mcp", "kgd.hub", "jinja2", "markdown_it", "networkx", "numpy", "httpx"}
    program = f"import sys, kgd.serve.parts; print(*sorted({late} & set(sys.modules)))"
    done = subprocess.run([KGD[0], "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
