"""`kgd mcp` without a daemon: known answers come from a file, and the daemon gets the whole conversation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kgd.client import first_answers, start
from kgd.client.first_answers import FirstAnswers
from tests.client.test_pump import Host, current_pid
from tests.daemon.conftest import ROOT
from tests.daemon.rehearsal import RehearsalHome
from tests.waiting import until

VERSION = "2025-06-18"
GREETING = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
HELLO = {"protocolVersion": VERSION, "from": "file"}
ENVELOPE = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def kept() -> FirstAnswers:
    """Answers to one client of each era."""
    found = FirstAnswers()
    for version, method, params, result in (
        ("", "initialize", GREETING, HELLO),
        (VERSION, "tools/list", {}, {"tools": ["from file"]}),
        ("2026-07-28", "tools/list", ENVELOPE, {"tools": ["modern"]}),
    ):
        key = first_answers.key_of("", version, method, params)
        assert key
        found.answers[key] = json.dumps(result)
    return found


@pytest.fixture
def file(home: RehearsalHome) -> Path:
    """The home's file, written by an earlier daemon of this installation."""
    home.prepare()
    first_answers.write(home, first_answers.installation(), kept())
    return Path(first_answers.path_of(home))


@pytest.fixture
def blocked(home: RehearsalHome) -> Callable[[], None]:
    """No daemon can start in this home until the function is called."""
    home.prepare()
    os.mkdir(home.socket)
    return lambda: os.rmdir(home.socket)


def answer(host: Host, method: str, **params: Any) -> dict[str, Any]:
    """The next answer; notifications before it are skipped."""
    key = host.send(method, **params)
    while "id" not in (found := host.read()):
        assert found
    assert found["id"] == key
    return found


def served(home: RehearsalHome, *asked: tuple[str, dict[str, Any]]) -> list[str]:
    """The origin of each answer: "file", "daemon" or "error"."""
    host = Host(home)
    try:
        found = []
        for method, params in asked:
            told = answer(host, method, **params)
            origin = "daemon" if "pid" in told.get("result", {}) else "file"
            found.append("error" if "error" in told else origin)
        return found
    finally:
        host.close()


@pytest.mark.usefixtures("file", "blocked")
@pytest.mark.parametrize(
    "asked", [[("initialize", GREETING), ("tools/list", {})], [("tools/list", ENVELOPE)]], ids=["legacy", "modern"]
)
def test_known_requests_are_answered_although_no_daemon_can_start(
    home: RehearsalHome, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    assert served(home, *asked) == ["file"] * len(asked)


@pytest.mark.usefixtures("file")
def test_the_daemon_receives_the_handshake_and_the_host_gets_each_answer_once(home: RehearsalHome) -> None:
    host = Host(home)
    try:
        assert host.ask("initialize", **GREETING)["result"] == HELLO
        host.notify("notifications/initialized")
        assert answer(host, "resources/list")["result"]["ready"], "the daemon got no initialize"
        assert answer(host, "ping")["result"]["pid"] == current_pid(home)
    finally:
        host.close()


@pytest.mark.usefixtures("file")
def test_the_host_learns_of_another_list_of_tools(home: RehearsalHome) -> None:
    """The rehearsal daemon's list differs from that in the file."""
    host = Host(home)
    try:
        host.ask("initialize", **GREETING)
        assert host.ask("tools/list")["result"] == {"tools": ["from file"]}
        told = [host.read(), host.read()]
        assert told == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}] * 2
        assert host.ask("tools/list")["result"]["pid"]
    finally:
        host.close()


def _of_another_installation(home: RehearsalHome, path: Path) -> None:
    first_answers.write(home, "0.0.1", kept())


def _truncated(home: RehearsalHome, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _one_character_changed(home: RehearsalHome, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"from file", b"from fire"))


def _empty(home: RehearsalHome, path: Path) -> None:
    path.write_bytes(b"")


def _of_another_form(home: RehearsalHome, path: Path) -> None:
    path.write_bytes(b"%d\n[]" % crc32(b"[]"))


def _older_than_the_settings(home: RehearsalHome, path: Path) -> None:
    Path(home.registry).write_text("settings:\n  tools: tasks\n")


@pytest.mark.slow
@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize(
    "damage",
    [
        _of_another_installation,
        _truncated,
        _one_character_changed,
        _empty,
        _of_another_form,
        _older_than_the_settings,
    ],
)
def test_a_file_that_is_damaged_or_stale_is_ignored(
    home: RehearsalHome, file: Path, damage: Callable[[RehearsalHome, Path], None]
) -> None:
    damage(home, file)
    assert served(home, ("initialize", GREETING)) == ["error"]


def test_a_changed_source_file_is_another_installation(tmp_path: Path) -> None:
    """A copy of the modules, which is stamped, changed, and stamped again."""
    subprocess.run(
        ["cp", "-r", str(ROOT / "kgd" / "client"), str(ROOT / "kgd" / "__init__.py"), str(tmp_path)], check=True
    )
    package = tmp_path / "kgd"
    package.mkdir()
    (tmp_path / "client").rename(package / "client")
    (tmp_path / "__init__.py").rename(package / "__init__.py")
    program = "from kgd.client.first_answers import installation; print(installation())"

    def stamp() -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = stamp()
    assert first == stamp()
    with open(package / "client" / "pump.py", "a") as source:
        source.write("# one line more\n")
    assert stamp() != first


@pytest.mark.slow
@pytest.mark.usefixtures("file", "blocked")
@pytest.mark.parametrize(
    "asked",
    [
        ("initialize", {**GREETING, "protocolVersion": "2024-11-05"}),
        ("initialize", {**GREETING, "_meta": {"traceparent": "00-1"}}),
        ("tools/list", {}),
        ("tools/call", {}),
    ],
)
def test_any_other_first_request_waits_for_the_daemon(home: RehearsalHome, asked: tuple[str, dict[str, Any]]) -> None:
    assert served(home, asked) == ["error"]


@pytest.mark.slow
@pytest.mark.usefixtures("file", "blocked")
def test_requests_of_the_other_era_wait_for_the_daemon_which_refuses_them(home: RehearsalHome) -> None:
    assert served(home, ("tools/list", ENVELOPE), ("initialize", GREETING)) == ["file", "error"]
    assert served(home, ("initialize", GREETING), ("tools/list", ENVELOPE)) == ["file", "error"]


@pytest.mark.slow
@pytest.mark.usefixtures("file")
def test_if_no_daemon_starts_the_host_gets_the_reason_and_later_requests_try_again(
    home: RehearsalHome, blocked: Callable[[], None]
) -> None:
    host = Host(home)
    try:
        assert host.ask("initialize", **GREETING)["result"] == HELLO
        lost = host.ask("tools/call")["error"]["message"]
        assert "the kgd daemon ended during startup" in lost
        blocked()
        assert host.ask("tools/call")["result"]["ready"]
    finally:
        host.close()


@pytest.mark.slow
@pytest.mark.usefixtures("file")
def test_a_daemon_that_is_killed_after_the_first_answers_is_replaced_and_gets_the_handshake(
    home: RehearsalHome,
) -> None:
    host = Host(home)
    try:
        assert host.ask("initialize", **GREETING)["result"] == HELLO
        until(lambda: os.path.exists(home.socket))
        os.kill(current_pid(home), signal.SIGKILL)
        until(lambda: not start.running(home))
        found = answer(host, "resources/list")
        if "error" in found:  # it went out before the end was noticed
            found = answer(host, "resources/list")
        assert found["result"]["ready"]
    finally:
        host.close()


@pytest.mark.usefixtures("file")
def test_a_host_that_asks_only_when_the_daemon_listens_gets_the_same_answers(home: RehearsalHome) -> None:
    """The daemon listens before it has loaded what its first MCP answer needs."""
    host = Host(home)
    try:
        until(lambda: os.path.exists(home.socket))
        assert host.ask("initialize", **GREETING)["result"] == HELLO
        assert answer(host, "ping")["result"]["ready"]
    finally:
        host.close()


def test_requests_that_a_host_wrote_before_it_closed_are_answered_by_the_starting_daemon(home: RehearsalHome) -> None:
    host = Host(home)
    try:
        host.send("initialize", **GREETING)
        host.notify("notifications/initialized")
        host.send("resources/list")
        assert host.process.stdin
        host.process.stdin.close()
        assert [host.read()["id"], host.read()["result"]["ready"]] == [1, True]
        assert host.process.wait(60) == 0
    finally:
        host.close()


@pytest.mark.slow
@pytest.mark.usefixtures("file", "blocked")
def test_the_first_answer_needs_no_large_import(home: RehearsalHome) -> None:
    program = (
        "import sys; from kgd.client import first_answers; from kgd.config import Home; home = Home.at(sys.argv[1]); "
        "answers, _ = first_answers.FirstContact(home, '').split(sys.argv[2].encode() + b'\\n'); assert answers; "
        "print(*sorted({'typing', 'dataclasses', 'pathlib', 'argparse', 'threading', 'subprocess', 'logging', "
        "'inspect', 'asyncio', 'mcp', 'pydantic', 'pygit2', 'networkx', 'numpy', 'orjson', 'kgd.errors', "
        "'kgd.config.registry'} & set(sys.modules)))"
    )
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING})
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, home.config, line],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *_packages()])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def _packages() -> list[str]:
    """The folders of installed packages, which are part of an installation's stamp."""
    return [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
