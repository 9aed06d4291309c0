"""A minimal MCP client: `kgd mcp` in a process, and JSON-RPC lines on its pipes.

Standard library only, without imports from kgd, so that a hundred clients cost little and none depends on kgd's own
code. As a program it is a writer; see `tests/e2e/test_many_clients.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any


class Refused(Exception):
    """A refusal by a tool, with its code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')} {error.get('next', '')}")
        self.code, self.error = str(error.get("code", "")), error


class LeanClient:
    """A host's connection after the handshake. Sends one request at a time."""

    def __init__(self, command: list[str], directory: Path | str, name: str = "lean") -> None:
        self._process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._last = 0
        who = {"name": name, "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._last:
                if "error" in message:
                    raise Refused(message["error"])
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError("kgd mcp has ended")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The tool's structured answer."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        answer: dict[str, Any] = result["structuredContent"]
        if result.get("isError"):
            raise Refused(answer["error"])
        return answer

    def close(self) -> int:
        """Close the pipe, as a host does; returns the exit code of `kgd mcp`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait(60)
        self._process.stdout.close()
        return code

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def __enter__(self) -> LeanClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def main() -> None:
    """A writer: prints `ready`, waits for a line, carries out its plan, prints the acknowledgements as a JSON line."""
    plan = json.loads(sys.argv[1])
    with LeanClient(plan["command"], plan["directory"], plan["name"]) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        writer = Writer(client, plan["name"])
        for number in range(max(plan["own"], plan["shared"])):
            if number < plan["own"]:
                writer.write_own(number)
            if number < plan["shared"]:
                writer.write_shared(number)
        print(json.dumps({"promised": writer.promised, "conflicts": writer.conflicts, "seconds": writer.seconds}))


class Writer:
    """Write own nodes, and increment a counter in shared nodes without overwriting others."""

    def __init__(self, client: LeanClient, name: str) -> None:
        self._client, self._name = client, name
        self.promised: list[dict[str, Any]] = []
        self.conflicts = 0
        self.seconds: list[float] = []

    def write_own(self, number: int) -> None:
        self._put(f"own/{self._name}/{number}", 0, {"by": self._name})

    def write_shared(self, number: int) -> None:
        """Read, add our mark, and write with the version read; start again after a concurrent write."""
        uri = f"shared/{number}"
        while True:
            nodes = self._timed("get", uris=[uri])["nodes"]
            version, data = (nodes[0]["version"], nodes[0]["data"]) if nodes else (0, {"count": 0})
            try:
                self._put(uri, version, {"count": data["count"] + 1, self._name: True})
            except Refused as refused:
                if refused.code != "CONFLICT":
                    raise
                self.conflicts += 1
            else:
                return

    def _put(self, uri: str, version: int, data: dict[str, Any]) -> None:
        change = {"op": "upsert", "uri": uri, "data": data, "expect_version": version}
        answer = self._timed("put", changes=[change])
        self.promised.append({"commit": answer["commit"], **answer["nodes"][0]})

    def _timed(self, tool: str, **arguments: Any) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            return self._client.call(tool, **arguments)
        finally:
            self.seconds.append(time.perf_counter() - began)


if __name__ == "__main__":
    main()
