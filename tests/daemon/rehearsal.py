"""A daemon process with the real lock, endpoint, start and stop, and a stage instead of workspaces behind them.

Started like the real one (`python rehearsal.py --detach --config ...`). REHEARSAL_VERSION makes it an older one,
REHEARSAL_STAMP one from another installation, and REHEARSAL_HUB a hub.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import kgd
import kgd.config
from kgd.config import Home

kgd.__version__ = os.environ.get("REHEARSAL_VERSION") or kgd.__version__

if replaced := os.environ.get("REHEARSAL_STAMP"):
    kgd.config.program_stamp = partial(str, replaced)


class RehearsalHome(Home):
    """A home whose daemon is this program."""

    def daemon_command(self) -> list[str]:
        return [sys.executable, __file__, *super().daemon_command()[4:]]


class Stage:
    """Answers a few calls; `wait` blocks until a file is there, `record` appends a line to one, once."""

    def __init__(self, home: Home, since: str) -> None:
        if reason := os.environ.get("REHEARSAL_FAILS"):
            raise RuntimeError(reason)
        with open(os.path.join(home.state, "starts"), "a") as file:
            file.write(f"{os.getpid()}\n")

    def start(self) -> None: ...

    async def drain(self) -> None: ...

    async def close(self) -> None: ...

    def dispatch(self, call: Any, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name == "status" and os.environ.get("REHEARSAL_HUB"):
            return {"daemon": {"listening": "http://127.0.0.1:8423"}}
        if name == "echo":
            return args
        if name == "wait":
            call.progress(2, 2, "waiting")
            _wait(args)
            if record := args.get("record"):
                with open(record, "a") as file:
                    file.write(f"{args.get('line', '')}\n")
            return {"pid": os.getpid(), "cancelled": call.cancelled.is_set()}
        raise RuntimeError("a defect, on purpose")

    def check(self, peer: Any) -> None:
        pass

    async def serve_mcp(self, peer: Any, reader: Any, writer: Any) -> None:
        """Answers each request with its method, this process and earlier settings; `wait` as above."""
        told: dict[str, Any] = {"ready": False, "level": ""}
        running: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("method") == "initialize":
                told["ready"] = True
            if message.get("method") == "logging/setLevel":
                told["level"] = message["params"]["level"]
            if "id" in message and "method" in message:
                task = asyncio.create_task(self._respond(message, dict(told), peer, writer))
                running.add(task)
                task.add_done_callback(running.discard)

    async def _respond(self, message: dict[str, Any], told: dict[str, Any], peer: Any, writer: Any) -> None:
        params = message.get("params", {})
        if message["method"] == "wait":
            await asyncio.to_thread(_wait, params)
        if message["method"] == "subscriptions/listen":
            return
        result = {
            "method": message["method"],
            "pid": os.getpid(),
            **told,
            "cwd": peer.cwd,
            "payload": "x" * params.get("bytes", 0),
        }
        writer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        await writer.drain()


def _wait(args: dict[str, Any]) -> None:
    Path(args["started"]).touch()
    deadline = time.monotonic() + 20
    while not Path(args["until"]).exists() and time.monotonic() < deadline:
        time.sleep(0.005)


if __name__ == "__main__":
    from kgd.serve.__main__ import main

    sys.exit(main(make_parts=Stage))
