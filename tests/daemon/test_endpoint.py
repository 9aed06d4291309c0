"""The socket: slow, rude or short-lived clients do not disturb other clients or running calls."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.client import start
from kgd.client.connection import Connection
from kgd.daemon.endpoint import CONNECTIONS_LIMIT, LINE_LIMIT
from tests.daemon.rehearsal import RehearsalHome
from tests.waiting import until

HELLO = b'{"kgd":"call","version":"0.1.0","cwd":"/","client":"test"}\n'


class Wire:
    """A raw connection: lines out, objects in."""

    def __init__(self, home: RehearsalHome, hello: bytes = HELLO) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(home.socket)
        self.sock.settimeout(60)
        self.file = self.sock.makefile("rb")
        self.sock.sendall(hello)

    def call(self, key: int, name: str, **args: Any) -> None:
        self.sock.sendall(json.dumps({"id": key, "call": name, "args": args}).encode() + b"\n")

    def line(self) -> dict[str, Any]:
        line = self.file.readline()
        return json.loads(line) if line else {}

    def close(self) -> None:
        self.file.close()
        self.sock.close()


@pytest.fixture
def wire(home: RehearsalHome) -> Iterator[Callable[..., Wire]]:
    with Connection(home) as connection:
        connection.call("ping", {})
    made: list[Wire] = []

    def connect(hello: bytes = HELLO) -> Wire:
        made.append(Wire(home, hello))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def test_calls_of_one_connection_run_beside_each_other_and_say_how_far_they_are(
    wire: Callable[..., Wire], tmp_path: Path
) -> None:
    client = wire()
    assert client.line()["kgd"]
    client.call(1, "wait", started=str(tmp_path / "s"), until=str(tmp_path / "go"))
    assert client.line() == {"id": 1, "progress": {"done": 2, "total": 2, "message": "waiting"}}
    client.call(2, "echo", word="grün")
    assert client.line() == {"id": 2, "result": {"word": "grün"}}
    (tmp_path / "go").touch()
    assert client.line()["id"] == 1


def test_an_exception_is_reported_as_a_defect_and_the_connection_continues(wire: Callable[..., Wire]) -> None:
    client = wire()
    client.line()
    client.call(1, "no-such-thing")
    assert client.line()["error"]["code"] == "INTERNAL"
    client.call(2, "echo")
    assert client.line() == {"id": 2, "result": {}}


@pytest.mark.requirement("B1")
def test_a_client_that_vanishes_in_a_call_does_not_stop_it(
    wire: Callable[..., Wire], tmp_path: Path, home: RehearsalHome
) -> None:
    client, record = wire(), tmp_path / "record"
    client.call(1, "wait", started=str(tmp_path / "s"), until=str(tmp_path / "go"), record=str(record), line="done")
    until((tmp_path / "s").exists)
    client.close()
    (tmp_path / "go").touch()
    until(record.exists)
    assert record.read_text() == "done\n"
    with Connection(home) as connection:
        assert connection.call("echo", {"a": 1}) == {"a": 1}


def _call_often(wire: Wire) -> None:
    for key in range(1_000):
        wire.call(key, "echo", text="x" * 20_000)


def test_a_client_that_does_not_read_blocks_no_other(wire: Callable[..., Wire]) -> None:
    deaf, other = wire(), wire()
    deaf.sock.settimeout(1)
    with pytest.raises(TimeoutError):  # nothing more is read from it: its own answers are in its way
        _call_often(deaf)
    other.line()
    began = time.monotonic()
    other.call(1, "echo", a=1)
    assert other.line() == {"id": 1, "result": {"a": 1}}
    assert time.monotonic() - began < 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'"text"\n',
        b'{"id":1}\n',
        b'{"id":1,"call":7,"args":{}}\n',
        b'{"id":1,"call":"echo","args":[]}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"x" * (LINE_LIMIT + 10) + b"\n",
    ],
    ids=range(9),
)
def test_a_malformed_call_is_refused_and_the_daemon_survives(
    wire: Callable[..., Wire], home: RehearsalHome, line: bytes
) -> None:
    client = wire()
    client.line()
    try:
        client.sock.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before it was all sent
    else:
        assert client.line()["error"]["code"] in ("VALIDATION_ERROR", "LIMIT")
    with Connection(home) as connection:
        assert connection.call("echo", {"a": 1}) == {"a": 1}


def test_a_connection_that_begins_otherwise_is_refused(wire: Callable[..., Wire]) -> None:
    assert wire(b"GET / HTTP/1.1\r\n\r\n").line()["error"]["code"] == "VALIDATION_ERROR"
    assert wire(b'{"kgd":"root"}\n').line()["error"]["code"] == "VALIDATION_ERROR"


def test_more_clients_than_the_limit_are_refused_and_the_others_served(wire: Callable[..., Wire]) -> None:
    first = wire()
    first.line()
    crowd = [wire() for _ in range(CONNECTIONS_LIMIT)]
    assert crowd[-1].line()["error"]["code"] == "LIMIT"
    first.call(1, "echo", a=1)
    assert first.line() == {"id": 1, "result": {"a": 1}}


@pytest.mark.requirement("B1")
def test_sigterm_with_clients_attached_is_a_clean_stop_within_two_seconds(
    wire: Callable[..., Wire], home: RehearsalHome, tmp_path: Path
) -> None:
    idle = [wire() for _ in range(8)]
    talking = wire(b'{"kgd":"mcp","version":"0.1.0"}\n')
    listening = b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}\n'
    talking.sock.sendall(listening)
    busy = wire()
    pid = busy.line()["pid"]
    busy.call(1, "wait", started=str(tmp_path / "s"), until=str(tmp_path / "go"))
    until((tmp_path / "s").exists)
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    until(lambda: not os.path.exists(home.socket))
    (tmp_path / "go").touch()
    until(lambda: not start.running(home))
    assert time.monotonic() - began < 8
    assert [busy.line().get("id"), busy.line().get("id"), busy.line()] == [1, 1, {}]
    assert all(one.line()["kgd"] and one.line() == {} for one in idle)
    assert "stopped" in Path(home.log).read_text().splitlines()[-1]


@pytest.mark.slow
def test_a_call_that_never_ends_does_not_keep_a_daemon_from_stopping(
    wire: Callable[..., Wire], home: RehearsalHome, tmp_path: Path
) -> None:
    busy = wire()
    pid = busy.line()["pid"]
    busy.call(1, "wait", started=str(tmp_path / "s"), until=str(tmp_path / "never"))
    until((tmp_path / "s").exists)
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    until(lambda: not start.running(home))
    assert time.monotonic() - began < 8


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_even_where_the_folder_lets_them_in(
    wire: Callable[..., Wire], home: RehearsalHome
) -> None:
    os.chmod(home.state, 0o711)
    os.chmod(home.socket, 0o666)
    intruder = (
        "import os, socket; os.chdir(os.environ['AT']); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        f"s.connect('kgd.sock'); s.sendall({HELLO!r}); print(s.recv(4096).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", intruder],
        env={**os.environ, "AT": home.state},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "FORBIDDEN"
