"""A running daemon as an attacker on the same machine reaches it: its socket, files and git.

Everything goes through the public interface. The cost of an attack to the daemon is read from /proc.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import BY_CODE
from tests import forked
from tests.daemon.conftest import ROOT
from tests.ports import free_port
from tests.waiting import at_rest, until

SECONDS = 1.0
"""Seconds of the daemon's CPU time for the refusals and the answer to the next normal call."""
PATIENCE = 10.0
"""Wall-clock seconds; generous, since a busy machine is no defect."""
MEMORY = 64 << 20
"""Bytes that the daemon may grow by while it refuses."""
MESSAGE_LIMIT = 512
CODES = {error.code for error in BY_CODE.values()} - {"INTERNAL"} | {"CONFLICT"}
"""Every code that a refusal may have. INTERNAL is a defect in kgd, and never an answer to an attack."""

Answer = dict[str, Any]


class Target:
    """One home with one daemon and the workspace `shop` over a small code repository."""

    def __init__(self, place: Path) -> None:
        self.home = Home.at(str(place / "home"))
        self.code = place / "shop"
        self.code.mkdir(parents=True)
        (self.code / "main.py").write_text("print(1)\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "code"]):
            git(self.code, *words)
        self.port = free_port()
        self.home.prepare()
        Path(self.home.registry).write_text(f"settings:\n  http_port: {self.port}\n")
        made = self.call("up", {"environment": {}})
        self.work_tree, self.git_dir = Path(made["path"]), Path(made["git_dir"])
        self.branch = made["branch"]
        self.put("concept://shop/good", summary="what an honest person wrote")
        with self.mcp() as warm:  # so that the attack is measured, not the first use of something
            warm.tool(1, "search", {"query": "honest"})
        until(self.in_step, say=self.status)
        until(lambda: at_rest(self.status()), say=self.status)  # the embedding model is loaded then

    # ---- asking as an honest client

    def call(self, name: str, args: Answer) -> Answer:
        """Make one call as the command line does; starts the daemon if none runs."""
        forked.daemon(self.home)
        before = os.getcwd()
        os.chdir(self.code)
        try:
            with Connection(self.home, "honest 1") as connection:
                return connection.call(name, args)
        finally:
            os.chdir(before)

    def put(self, uri: str, **fields: Any) -> Answer:
        return self.call("put", {"changes": [{"op": "upsert", "uri": uri, **fields}]})

    def node(self, uri: str) -> Answer:
        """The node as `get` returns it; empty if there is none."""
        found: list[Answer] = self.call("get", {"uris": [uri], "budget": 20000})["nodes"]
        return found[0] if found else {}

    def status(self) -> Answer:
        return self.call("status", {})

    def in_step(self) -> bool:
        """Whether branch and daemon have the same tip."""
        head, branch = (git(self.git_dir, "rev-parse", ref) for ref in ("refs/kgd/head", self.branch))
        return head == branch and self.status()["health"] == "ok"

    def blocker(self) -> str:
        """The reason why publication is blocked, as text."""
        return next((stage.get("blocker", "") for stage in self.status()["stages"] if stage["name"] == "publish"), "")

    def invalid(self) -> dict[str, str]:
        """The files that are named as unreadable, with the reasons."""
        return {one["path"]: one["reason"] for one in self.status()["invalid_files"]}

    def answers(self) -> None:
        """A normal call is answered, in time, by the same daemon."""
        with self.memory().in_time("a normal call"):
            assert self.node("concept://shop/good")["summary"] == "what an honest person wrote"

    # ---- other connections

    def wire(self, hello: bytes | None = None) -> Wire:
        return Wire(self.home.socket, hello if hello is not None else self.hello("call"))

    def mcp(self) -> Wire:
        """A connection that speaks MCP, initialized."""
        wire = self.wire(self.hello("mcp"))
        wire.line()
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        wire.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
        assert wire.line()["result"]["serverInfo"]["name"] == "kgd"
        wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return wire

    def hello(self, kind: str) -> bytes:
        return json.dumps({"kgd": kind, "version": "0.1.0", "cwd": str(self.code), "client": "attacker 1"}).encode()

    def kgd(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The program, as a person runs it."""
        environment = {**os.environ, "KGD_HOME": self.home.config, "PYTHONPATH": str(ROOT)}
        return forked.run(words, self.code, environment, stdin)

    # ---- what it costs

    @property
    def pid(self) -> int:
        return int(self.status()["daemon"]["pid"])

    def memory(self) -> Memory:
        return Memory(self.pid)

    def end(self) -> None:
        wire = self.wire()
        wire.line()
        wire.send(b'{"id":1,"call":"down"}')
        wire.read_to_end()


class Memory:
    """Check that the daemon's peak memory rises by at most `MEMORY` during the block."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def __enter__(self) -> Memory:
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")  # resets the peak
        self._before = self._field("VmRSS")
        return self

    def __exit__(self, *failed: object) -> None:
        self.rose = self._field("VmHWM") - self._before
        if failed == (None, None, None):
            assert self.rose <= MEMORY, f"{self.rose >> 20} MiB"

    @contextlib.contextmanager
    def in_time(self, what: str, seconds: float = SECONDS) -> Iterator[None]:
        """Check that the block costs the daemon limited CPU time and ends in limited wall-clock time."""
        cost, began = self._processor(), time.monotonic()
        yield
        assert self._processor() - cost < seconds, what
        assert time.monotonic() - began < PATIENCE * seconds, what

    def _processor(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _field(self, name: str) -> int:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


class Wire:
    """A raw connection: bytes out, objects in."""

    def __init__(self, path: str, hello: bytes) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(10)
        self._file = self.sock.makefile("rb")
        if hello:
            self.send(hello)

    def send(self, line: bytes, end: bytes = b"\n") -> None:
        """Send all of it, or as much as the daemon accepts."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(line + end)

    def ask(self, key: int | str, name: str, args: Any) -> Answer:
        self.send(json.dumps({"id": key, "call": name, "args": args}).encode("utf-8", "surrogatepass"))
        return self.line()

    def tool(self, key: int | str, name: str, arguments: Any) -> Answer:
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params}
        self.send(json.dumps(message).encode("utf-8", "surrogatepass"))
        return self.line()

    def line(self) -> Answer:
        """The next message; empty if the connection has ended."""
        try:
            line = self._file.readline()
        except ConnectionResetError:
            return {}
        return json.loads(line) if line else {}

    def read_to_end(self) -> bytes:
        try:
            return self._file.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._file.close()
        self.sock.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *failed: object) -> None:
        self.close()


def git(where: Path, *words: str, stdin: bytes = b"") -> str:
    who = ["-c", "user.name=Eve", "-c", "user.email=eve@example.org"]
    done = subprocess.run(["git", "-C", where, *who, *words], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def refusal(answer: Answer) -> Answer:
    """The typed error in an answer of either protocol, checked for what every refusal promises."""
    error: Answer = answer.get("error") or answer["result"]["structuredContent"]["error"]
    assert error["code"] in CODES, error
    told = "".join(str(error.get(part, "")) for part in ("message", "at", "next"))
    assert len(told) <= MESSAGE_LIMIT, told
    assert told.isprintable(), told
    assert error["message"]
    return error
