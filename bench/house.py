"""A separate daemon for a measurement, and MCP clients for it and a peer over stdio."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from bench import machine
from bench.corpus import Made
from kgd.client.connection import Absent, Connection, Gone
from kgd.config import Home
from kgd.errors import Unavailable

PATIENCE = 120.0
SETTLED_WITHIN = 200.0
LOOK = 0.2
_EMBEDDED = re.compile(r"([\d,]+) of ([\d,]+) texts").search
KGD = (sys.executable, "-P", "-m", "kgd.cli")
"""The command of the installed script; works without an installation."""


class House:
    """A home with one daemon, stopped at the end of the block.

    Raises:
        TimeoutError: The daemon does not listen in time.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.home = folder, Home.at(str(folder))
        self.home.prepare()
        self.environment = {**os.environ, "KGD_HOME": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        return self.home.daemon_command()

    def start(self) -> None:
        with open(self.folder / "out", "ab") as out:
            self._process = subprocess.Popen(self.command(), stdout=out, stderr=out, env=self.environment)
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise TimeoutError("the daemon does not start")
            time.sleep(0.002)

    def _listens(self) -> bool:
        """Whether a daemon answers; the file of a killed daemon stays, so its existence proves nothing."""
        with socket.socket(socket.AF_UNIX) as sock:
            return sock.connect_ex(self.home.socket) == 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def call(self, name: str, /, **args: Any) -> dict[str, Any]:
        """One call, as the command line makes it."""
        with Connection(self.home, start=False) as connection:
            return connection.call(name, args)

    def up(self, made: Made) -> None:
        """Have the daemon open a workspace, and wait until its index has caught up."""
        deadline = time.monotonic() + max(SETTLED_WITHIN, made.nodes / 500)
        while True:  # indexing a large workspace takes longer than a call waits
            try:
                self.call("up", directory=str(made.layout.work_tree), standalone=True)
                self.call("search", workspace="bench", query="lease")
            except Unavailable as error:
                if isinstance(error, Absent | Gone) or time.monotonic() > deadline:
                    raise
                continue
            return

    def settle(self, nodes: int = 0) -> None:
        """See `settle`."""
        settle(self.call, max(SETTLED_WITHIN, nodes / 500))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class Caller:
    """A connected MCP client that times its calls."""

    def __init__(self, client: Client, pids: set[int]) -> None:
        self.client, self.pids = client, pids

    async def call(self, name: str, **arguments: Any) -> tuple[float, CallToolResult]:
        """Seconds and answer.

        Raises:
            RuntimeError: The tool refused.
        """
        begun = time.perf_counter()
        answer = await self.client.call_tool(name, arguments)
        took = time.perf_counter() - begun
        assert isinstance(answer, CallToolResult)
        if answer.is_error:
            raise RuntimeError(f"{name}: {answer.content}")
        return took, answer

    async def ping(self) -> float:
        begun = time.perf_counter()
        await self.client.send_ping()
        return time.perf_counter() - begun


@asynccontextmanager
async def connected(command: Iterable[str], environment: dict[str, str], cwd: Path) -> AsyncIterator[Caller]:
    """The official SDK's client, over stdio, with its own server process."""
    before = machine.children(os.getpid())
    program, *arguments = command
    parameters = StdioServerParameters(command=program, args=arguments, env=environment, cwd=str(cwd))
    async with Client(parameters, mode="legacy", read_timeout_seconds=300) as client:
        await client.list_tools()
        yield Caller(client, machine.children(os.getpid()) - before)


def through_kgd(house: House, made: Made) -> Any:
    return connected([*KGD, "mcp"], house.environment, made.layout.work_tree)


def through_memory_server(program: Path, file: Path) -> Any:
    node = shutil.which("node") or "node"
    return connected([node, str(program)], {**os.environ, "MEMORY_FILE_PATH": str(file)}, file.parent)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def settle(call: Callable[..., dict[str, Any]], within: float = SETTLED_WITHIN) -> None:
    """Wait until the daemon is idle: all texts embedded and scanned for names, all published.

    Args:
        call: Asks the daemon: ``call("status", workspace="bench")``.

    Raises:
        TimeoutError: It is not in time.
    """
    deadline = time.monotonic() + within
    while waits := _under_way(call("status", workspace="bench")["stages"]):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not settled after {within:g} s: {', '.join(waits)}")
        time.sleep(LOOK)


def _under_way(stages: Iterable[dict[str, Any]]) -> list[str]:
    waits = [stage["name"] for stage in stages if stage["state"] == "waiting"]
    for stage in stages:
        if stage["name"] == "embedding" and stage["state"] == "ok":
            counts = _EMBEDDED(stage.get("about", ""))
            waits += [] if counts and counts[1] == counts[2] else ["embedding"]
    return waits
