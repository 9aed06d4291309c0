"""`kgd mcp`: a host sees one server, even if the daemon behind it is replaced or dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.client import start
from kgd.client.connection import Connection
from tests.daemon.conftest import ROOT
from tests.daemon.rehearsal import RehearsalHome
from tests.waiting import until


class Host:
    """An MCP host with one server: `kgd mcp`."""

    def __init__(self, home: RehearsalHome, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.client.pump_program", home.config],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._key = 0

    def send(self, method: str, **params: Any) -> int:
        self._key += 1
        self.write({"jsonrpc": "2.0", "id": self._key, "method": method, "params": params})
        return self._key

    def notify(self, method: str) -> None:
        self.write({"jsonrpc": "2.0", "method": method})

    def write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        key = self.send(method, **params)
        answer = self.read()
        assert answer["id"] == key
        return answer

    def begin(self) -> None:
        """The legacy handshake."""
        self.ask("initialize")
        self.notify("notifications/initialized")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def host(home: RehearsalHome) -> Iterator[Host]:
    made = Host(home)
    yield made
    made.close()


def current_pid(home: RehearsalHome) -> int:
    with Connection(home) as connection:
        return int(connection.call("ping", {})["pid"])


def kill_daemon(home: RehearsalHome) -> None:
    os.kill(current_pid(home), signal.SIGKILL)
    until(lambda: not start.running(home))


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_the_daemon_is_started_when_a_host_comes_and_only_the_protocol_is_printed(host: Host) -> None:
    answer = host.ask("tools/list")
    assert answer["result"]["method"] == "tools/list"
    assert answer["result"]["cwd"] == str(ROOT)
    assert host.process.stdin
    host.process.stdin.close()
    assert host.process.wait(60) == 0
    assert host.process.stdout
    assert host.process.stderr
    assert (host.process.stdout.read(), host.process.stderr.read()) == (b"", b"")


@pytest.mark.slow
def test_an_answer_that_is_due_is_written_after_the_host_closed_its_side(host: Host, tmp_path: Path) -> None:
    host.send("wait", started=str(tmp_path / "s"), until=str(tmp_path / "go"))
    until((tmp_path / "s").exists)
    assert host.process.stdin
    host.process.stdin.close()
    assert host.process.poll() is None
    (tmp_path / "go").touch()
    assert host.read()["result"]["method"] == "wait"
    assert host.process.wait(60) == 0


@pytest.mark.slow
def test_an_open_subscription_does_not_keep_it_from_ending(host: Host) -> None:
    host.send("subscriptions/listen")
    assert host.ask("ping")
    assert host.process.stdin
    host.process.stdin.close()
    assert host.process.wait(60) == 0


@pytest.mark.slow
def test_large_messages_pass_both_ways(host: Host) -> None:
    answer = host.ask("echo", bytes=3_000_000, padding="y" * 3_000_000)
    assert len(answer["result"]["payload"]) == 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize("size", [8 * 2**20, 9_000_000])
def test_a_message_beyond_the_limit_is_refused_under_its_own_id_and_the_next_one_passes(host: Host, size: int) -> None:
    key = host.send("echo", padding="y" * size)
    refused = host.read()
    assert (refused["id"], refused["error"]["code"]) == (key, -32600)
    assert "8 MiB. Send it in several calls" in refused["error"]["message"]
    assert host.ask("ping")["result"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [8 * 2**20, 9_000_000])
def test_the_id_of_such_a_message_is_found_at_its_end_too(host: Host, size: int) -> None:
    host.write({"method": "echo", "params": {"padding": "y" * size}, "jsonrpc": "2.0", "id": "last"})
    assert host.read()["id"] == "last"
    assert host.ask("ping")["result"]


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_a_daemon_that_retires_is_followed_and_no_request_is_lost(
    host: Host, home: RehearsalHome, tmp_path: Path
) -> None:
    """One request is under way at the old daemon and is answered by it; the host never sees a second handshake."""
    host.begin()
    old = host.ask("tools/list")["result"]["pid"]
    waiting = host.send("wait", started=str(tmp_path / "s"), until=str(tmp_path / "go"))
    until((tmp_path / "s").exists)
    leaving = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from kgd.client import start; from kgd.config import Home; start.retire(Home.at(sys.argv[1]))",
            home.config,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until(lambda: not os.path.exists(home.socket))
    late = host.send("tools/call")  # not read: the old daemon accepts no more requests
    (tmp_path / "go").touch()
    first, second = host.read(), host.read()
    assert (first["id"], first["result"]["pid"]) == (waiting, old)
    assert second["id"] == late
    assert second["result"]["pid"] != old
    assert second["result"]["ready"]
    assert leaving.wait(60) == 0
    assert host.ask("tools/list")["result"]["pid"] == second["result"]["pid"]


@pytest.mark.slow
@pytest.mark.requirement("B1")
def test_a_daemon_that_is_killed_leaves_an_error_that_says_ask_again_and_the_next_request_works(
    host: Host, home: RehearsalHome, tmp_path: Path
) -> None:
    host.begin()
    old = host.ask("tools/list")["result"]["pid"]
    key = host.send("wait", started=str(tmp_path / "s"), until=str(tmp_path / "never"))
    until((tmp_path / "s").exists)
    kill_daemon(home)
    lost = host.read()
    assert lost["id"] == key
    assert "Repeat the call" in lost["error"]["message"]
    answer = host.ask("tools/list")["result"]
    assert answer["pid"] != old
    assert answer["ready"]


@pytest.mark.slow
def test_subscriptions_are_made_again_at_the_next_daemon_and_their_answers_are_swallowed(
    host: Host, home: RehearsalHome
) -> None:
    host.begin()
    host.ask("resources/subscribe", uri="kgd://a/status")
    kill_daemon(home)
    answer = host.ask("tools/list")
    if "Repeat the call" in answer.get("error", {}).get("message", ""):  # it went out before the end was noticed
        answer = host.ask("tools/list")
    assert answer["result"]["ready"]


@pytest.mark.slow
def test_the_log_level_is_set_again_at_the_next_daemon(host: Host, home: RehearsalHome) -> None:
    host.begin()
    host.ask("logging/setLevel", level="warning")
    kill_daemon(home)
    answer = host.ask("tools/list")
    if "Repeat the call" in answer.get("error", {}).get("message", ""):  # it went out before the end was noticed
        answer = host.ask("tools/list")
    assert answer["result"]["level"] == "warning"


@pytest.mark.slow
def test_if_no_daemon_starts_the_host_gets_the_reason_and_later_requests_try_again(
    home: RehearsalHome, tmp_path: Path
) -> None:
    home.prepare()
    os.mkdir(home.socket)  # a socket cannot be put in its place
    host = Host(home)
    try:
        assert "error" in host.ask("initialize")
        os.rmdir(home.socket)
        assert "result" in host.ask("initialize")
    finally:
        host.close()


@pytest.mark.slow
def test_it_ends_when_the_host_stops_reading(host: Host) -> None:
    host.ask("ping")
    assert host.process.stdout
    host.process.stdout.close()
    assert host.process.wait(60) == 0


@pytest.mark.slow
def test_nothing_dear_is_imported_before_the_first_message_is_sent(home: RehearsalHome) -> None:
    """Each of these would add between a fifth and twice of what Python itself takes to start."""
    current_pid(home)
    program = (
        "import sys; from kgd.client import pump, start; from kgd.config import Home; home = Home.at(sys.argv[1]); "
        "before = set(sys.modules); pump.Pump(home, start.hello('mcp', 't'))._connect(); "
        "print(*sorted({'json', 're', 'typing', 'dataclasses', 'pathlib', 'argparse', 'threading', 'subprocess', "
        "'logging', 'inspect', 'kgd.errors'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, home.config],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
