"""An MCP server as a host runs it: a process that speaks JSON lines over its pipes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

CLOSING = 30.0
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Host:
    """The steps of a host: start the server, use it over pipes, close it.

    Args:
        errors: A file for the server's standard error; the caller's own by default.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, errors: IO[bytes] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=cwd
        )
        self._last = 0
        try:
            self.request("initialize", INITIALIZE)
        except BaseException:
            self._process.kill()
            self.close()
            raise
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer.

        Raises:
            ValueError, OSError: The server ended.
        """
        self.send(method, params)
        assert self._process.stdout
        while True:
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._last:
                return answer

    def send(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Write a request without waiting for its answer."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})

    def close(self) -> None:
        """End the server's input, and wait until the server has ended; kill it if it does not."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.close()
            self._process.wait(CLOSING)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
        self._process.wait(CLOSING)
        self._process.stdout.close()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
